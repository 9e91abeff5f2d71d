#include "workloads/deployment/deployment_plan.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "workloads/common/pod_template.h"

namespace basalt::workloads {
namespace {

using namespace deployment_keys;

constexpr std::array<std::string_view, 7> kOwnAnnotations = {"kubectl.kubernetes.io/last-applied-configuration",
                                                             kRevision,
                                                             kRevisionHistory,
                                                             kDesired,
                                                             kMax,
                                                             "deprecated.deployment.rollback.revision",
                                                             "deprecated.daemonset.template.generation"};

bool is_own(std::string_view annotation) {
  return std::find(kOwnAnnotations.begin(), kOwnAnnotations.end(), annotation) != kOwnAnnotations.end();
}

std::int64_t newest_revision(const std::vector<SetView>& sets) {
  std::int64_t newest = 0;
  for (const SetView& set : sets) newest = std::max(newest, set.revision);
  return newest;
}

void note_size(json::Value& annotations, const DeploymentView& view) {
  annotations.ensure_path({kDesired}) = std::to_string(view.replicas);
  annotations.ensure_path({kMax}) = std::to_string(view.max_total());
}

// The set that a template is rolled out with, under the name that its hash gives.
json::Value new_set(const DeploymentView& view) {
  const Object& deployment = view.object;
  json::Value pod_template = plain_template(deployment.json);
  const std::string hash = template_hash(pod_template, int_at(deployment.json, {"status", "collisionCount"}));
  pod_template.ensure_path({"metadata", "labels", kHash}) = hash;
  json::Value selector = object_at(deployment.json, {"spec", "selector"});
  selector.ensure_path({"matchLabels", kHash}) = hash;
  json::Value set = json::Object{{"apiVersion", "apps/v1"}, {"kind", "ReplicaSet"}};
  set.ensure_path({"metadata", "name"}) = deployment.metadata.name + "-" + hash;
  set.ensure_path({"metadata", "namespace"}) = deployment.metadata.namespace_;
  set.ensure_path({"metadata", "labels"}) = *pod_template.find_path({"metadata", "labels"});
  set.ensure_path({"metadata", "ownerReferences"}) = json::Array{controller_reference(kDeploymentKind, deployment)};
  json::Value annotations{json::Object()};
  for (const json::Member& member : map_at(deployment.json, {"metadata", "annotations"})) {
    if (!is_own(member.key)) annotations.as_object().set(member.key, member.value);
  }
  annotations.ensure_path({kRevision}) = std::to_string(newest_revision(view.old) + 1);
  note_size(annotations, view);
  set.ensure_path({"metadata", "annotations"}) = std::move(annotations);
  set.ensure_path({"spec", "replicas"}) = view.recreates ? view.replicas : next_size_of_new(view, 0);
  set.ensure_path({"spec", "selector"}) = std::move(selector);
  set.ensure_path({"spec", "template"}) = std::move(pod_template);
  if (view.min_ready > 0) set.ensure_path({"spec", "minReadySeconds"}) = view.min_ready;
  return set;
}

DeploymentPlan::Scale scale_to(const DeploymentView& view, const SetSize& size) {
  const Object& set = *size.set->object;
  DeploymentPlan::Scale scale;
  scale.patch.target = {set.metadata.name, set.metadata.uid};
  json::Value& body = scale.patch.body;
  body.ensure_path({"metadata", "resourceVersion"}) = set.metadata.resource_version;
  note_size(body.ensure_path({"metadata", "annotations"}), view);
  const std::int64_t before = size.set->replicas;
  if (size.replicas == before) return scale;
  body.ensure_path({"spec", "replicas"}) = size.replicas;
  scale.event = std::string("Scaled ") + (size.replicas > before ? "up" : "down") + " replica set " +
                set.metadata.name + " from " + std::to_string(before) + " to " + std::to_string(size.replicas);
  return scale;
}

bool is_noted(const DeploymentView& view, const SetView& set) {
  return set.desired == view.replicas && set.max == view.max_total();
}

// Revision, annotations and times that the set takes over from its deployment. Null if it has them all.
json::Value taken_over(const DeploymentView& view) {
  const SetView& set = *view.current;
  json::Value body;
  const std::int64_t revision = newest_revision(view.old) + 1;
  if (set.revision < revision) {
    body.ensure_path({"metadata", "annotations", kRevision}) = std::to_string(revision);
    if (set.revision > 0) {
      std::string history(annotation_of(set.object->json, kRevisionHistory));
      history += (history.empty() ? "" : ",") + std::to_string(set.revision);
      body.ensure_path({"metadata", "annotations", kRevisionHistory}) = history;
    }
  }
  for (const json::Member& member : map_at(view.object.json, {"metadata", "annotations"})) {
    if (is_own(member.key) || set.object->json.find_path({"metadata", "annotations", member.key}) != nullptr) continue;
    body.ensure_path({"metadata", "annotations", member.key}) = member.value;
  }
  if (int_at(set.object->json, {"spec", "minReadySeconds"}) != view.min_ready)
    body.ensure_path({"spec", "minReadySeconds"}) = view.min_ready;
  return body;
}

std::vector<Writer::Target> beyond_history(const DeploymentView& view) {
  std::vector<const SetView*> unused;
  for (const SetView& set : view.old) {
    const bool is_settled =
        int_at(set.object->json, {"status", "observedGeneration"}) >= set.object->metadata.generation;
    if (set.replicas == 0 && set.actual == 0 && is_settled && !set.object->metadata.is_being_deleted)
      unused.push_back(&set);
  }
  const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(0, view.history_limit));
  if (unused.size() <= limit) return {};
  std::sort(unused.begin(), unused.end(), [](const SetView* a, const SetView* b) {
    return std::tie(a->revision, a->object->metadata.name) < std::tie(b->revision, b->object->metadata.name);
  });
  unused.resize(unused.size() - limit);
  std::vector<Writer::Target> targets;
  for (const SetView* set : unused) targets.push_back({set->object->metadata.name, set->object->metadata.uid});
  return targets;
}

void add_scales(const DeploymentView& view, const std::vector<SetSize>& sizes, DeploymentPlan& plan) {
  for (const SetSize& size : sizes) {
    if (size.replicas != size.set->replicas || !is_noted(view, *size.set)) plan.scales.push_back(scale_to(view, size));
  }
}

void plan_recreate(const DeploymentView& view, DeploymentPlan& plan) {
  std::vector<SetSize> sizes;
  // Its pods may be gone while the set still counts them, and so would the deployment's status, beside the new ones.
  bool is_counted = false;
  for (const SetView& set : view.old) {
    if (set.replicas > 0) sizes.push_back({&set, 0});
    is_counted |= set.actual > 0;
  }
  add_scales(view, sizes, plan);
  if (!sizes.empty() || view.has_old_pods || is_counted) return;
  if (!view.current) {
    plan.create = new_set(view);
  } else {
    add_scales(view, {{&*view.current, view.replicas}}, plan);
  }
}

void plan_rolling(const DeploymentView& view, DeploymentPlan& plan) {
  if (!view.current) {
    plan.create = new_set(view);
    return;
  }
  add_scales(view, {{&*view.current, next_size_of_new(view, view.current->replicas)}}, plan);
  if (plan.scales.empty()) add_scales(view, next_sizes_of_old(view), plan);
}

void plan_sets(const DeploymentView& view, DeploymentPlan& plan) {
  if (view.is_paused || was_scaled(view)) {
    add_scales(view, scaled_sizes(view), plan);
    // Sets that share in nothing still learn what is wanted, or they would be scaled again and again.
    for (const SetView& set : view.old) {
      const bool is_planned = std::any_of(plan.scales.begin(), plan.scales.end(), [&](const auto& scale) {
        return scale.patch.target.uid == set.object->metadata.uid;
      });
      if (set.replicas > 0 && !is_planned && !is_noted(view, set)) add_scales(view, {{&set, set.replicas}}, plan);
    }
    if (!plan.scales.empty() || view.is_paused) return;
  }
  if (view.current) {
    if (json::Value body = taken_over(view); body.is_object()) {
      body.ensure_path({"metadata", "resourceVersion"}) = view.current->object->metadata.resource_version;
      const auto& metadata = view.current->object->metadata;
      plan.scales.push_back({{{metadata.name, metadata.uid}, std::move(body)}, ""});
      return;
    }
  }
  if (view.recreates) {
    plan_recreate(view, plan);
  } else {
    plan_rolling(view, plan);
  }
}

}  // namespace

DeploymentPlan plan_deployment(const DeploymentView& view, rt::WallTime now) {
  DeploymentPlan plan;
  if (!view.object.metadata.is_being_deleted) {
    plan_sets(view, plan);
    if (view.current) plan.revision = std::max(view.current->revision, newest_revision(view.old) + 1);
  }
  plan.status = deployment_status(view, !plan.create.is_null(), api::Time::from(now));
  const bool is_quiet = plan.create.is_null() && plan.scales.empty() && !view.object.metadata.is_being_deleted;
  if (is_quiet && (view.is_paused || is_complete(view, plan.status))) plan.deletes = beyond_history(view);
  plan.look_again = deadline_in(view, plan.status, now);
  return plan;
}

}  // namespace basalt::workloads
