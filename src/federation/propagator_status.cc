// The way back: what the members say, and what a job needs beside itself.

#include <algorithm>
#include <utility>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "federation/interpreter.h"
#include "federation/propagator.h"
#include "federation/propagator_pass.h"
#include "json/merge_patch.h"
#include "kube/typed.h"

namespace basalt::federation {
namespace {

using api::batch::Job;
using api::batch::JobStatus;
using api::karmada::AggregatedStatusItem;
using api::karmada::ResourceBinding;
using api::karmada::ResourceBindingStatus;
using api::karmada::TargetCluster;

api::meta::Condition condition_of(std::string_view type, bool holds, std::string_view reason, std::string message) {
  api::meta::Condition condition;
  condition.type = type;
  condition.status = holds ? "True" : "False";
  condition.reason = reason;
  condition.message = std::move(message);
  return condition;
}

const AggregatedStatusItem* find_item(const ResourceBindingStatus& status, const std::string& cluster) {
  for (const AggregatedStatusItem& item : status.aggregated_status) {
    if (item.cluster_name == cluster) return &item;
  }
  return nullptr;
}

kube::Resource resource_of_dependency(const std::string& kind) {
  if (kind == "ConfigMap") return {"", "v1", "configmaps"};
  if (kind == "Secret") return {"", "v1", "secrets"};
  if (kind == "ServiceAccount") return {"", "v1", "serviceaccounts"};
  return {"", "v1", "persistentvolumeclaims"};
}

// Without what belongs to the host's object alone.
json::Value for_member(json::Value object) {
  json::Object metadata{{"name", object.string_at({"metadata", "name"})},
                        {"namespace", object.string_at({"metadata", "namespace"})}};
  json::Object labels;
  if (const json::Value* given = object.find_path({"metadata", "labels"}); given != nullptr && given->is_object())
    labels = given->as_object();
  labels.set(api::keys::kKarmadaManaged, "true");
  metadata.set("labels", std::move(labels));
  object.as_object().set("metadata", std::move(metadata));
  object.as_object().erase("status");
  if (json::Value* spec = object.find("spec"); spec != nullptr && spec->is_object())
    spec->as_object().erase("volumeName");
  return object;
}

}  // namespace

// What the pods mention and the host has. What exists in the member is left as it is.
Done Propagator::send_dependencies(Pass& pass, Member& member) {
  for (const Dependency& dependency : dependencies_of(pass.job->spec)) {
    const kube::Resource resource = resource_of_dependency(dependency.kind);
    const auto found = host_.call(
        {.verb = kube::Verb::Get, .resource = resource, .ns = pass.key.ns, .name = dependency.name}, pass.stop);
    if (!found.ok()) {
      if (found.error().is(Reason::NotFound)) continue;  // the member may have it
      return found.error();
    }
    BASALT_TRY(json::Value object, json::Value::parse(*found->body));
    const kube::Request request{.verb = kube::Verb::Create,
                                .resource = resource,
                                .ns = pass.key.ns,
                                .body = for_member(std::move(object)).to_text()};
    const auto made = member.call(request, pass.stop);
    if (made.ok() || made.error().is(Reason::AlreadyExists)) continue;
    // No such namespace yet: the job's creation makes it, and the next pass comes here again.
    return made.error().with_context(dependency.kind + " " + dependency.name);
  }
  return Ok{};
}

Done Propagator::collect(Pass& pass) {
  std::vector<AggregatedStatusItem> items;
  std::vector<JobStatus> statuses;
  bool all_applied = !pass.binding->spec.clusters.empty();
  for (const TargetCluster& target : pass.binding->spec.clusters) {
    const auto member = members_.find(target.name);
    const auto found = member == members_.end() ? nullptr : member->second->jobs().get(pass.key);
    const bool is_there = found && found->metadata.annotations.get(kTemplateUid) == pass.job->metadata.uid &&
                          found->metadata.deletion_timestamp.is_zero();
    AggregatedStatusItem item;
    item.cluster_name = target.name;
    if (const auto refusal = pass.refused.find(target.name); refusal != pass.refused.end()) {
      item.applied_message = refusal->second;
    } else if (is_there) {
      item.applied = true;
      item.status = json::Raw::of(json::to_text(found->status));
      item.health = health_of(found->status);
      statuses.push_back(found->status);
    } else if (const AggregatedStatusItem* old = find_item(pass.binding->status, target.name); old != nullptr) {
      item = *old;  // it is away: the last that was heard
    } else {
      all_applied = false;
      continue;
    }
    all_applied &= item.applied;
    items.push_back(std::move(item));
  }
  // What was just sent is told together with what comes back first.
  const bool has_news = pass.unplaced || !items.empty() || !pass.is_new_binding;
  if (has_news) BASALT_TRY_DONE(write_binding_status(pass, std::move(items), all_applied));
  if (statuses.empty() || statuses.size() != pass.binding->spec.clusters.size()) return Ok{};
  const JobStatus status = aggregate(statuses);
  if (is_finished(status.state.phase)) ledger_.release(pass.key);
  if (status == pass.job->status) return Ok{};
  BASALT_TRY(const json::Value before, json::Value::parse(json::to_text(pass.job->status)));
  BASALT_TRY(const json::Value after, json::Value::parse(json::to_text(status)));
  const json::Value patch = json::Object{{"metadata", json::Object{{"uid", pass.job->metadata.uid}}},
                                         {"status", json::make_merge_patch(before, after)}};
  BASALT_TRY(const kube::Response written, host_.call({.verb = kube::Verb::Patch,
                                                       .resource = kube::resource_of<Job>(),
                                                       .ns = pass.key.ns,
                                                       .name = pass.key.name,
                                                       .subresource = "status",
                                                       .body = patch.to_text()},
                                                      pass.stop));
  expectations_.note_write(pass.key, kube::resource_of<Job>(), kube::resource_version_of(written));
  return Ok{};
}

Done Propagator::write_binding_status(Pass& pass, std::vector<AggregatedStatusItem> items, bool all_applied) {
  const ResourceBinding& binding = *pass.binding;
  ResourceBindingStatus status = binding.status;
  const api::Time now = api::Time::from(runtime_.wall_now());
  const bool is_placed = !binding.spec.clusters.empty();
  if (is_placed || pass.unplaced) {
    api::set_condition(status.conditions,
                       condition_of(api::condition_types::kScheduled, is_placed,
                                    is_placed ? std::string_view("Success") : std::string_view(pass.unplaced->reason),
                                    is_placed ? "Binding has been scheduled successfully." : pass.unplaced->message),
                       now);
  }
  if (is_placed) {
    api::set_condition(status.conditions,
                       condition_of(api::condition_types::kFullyApplied, all_applied,
                                    all_applied ? "FullyAppliedSuccess" : "FullyAppliedFailed",
                                    all_applied ? "All works have been successfully applied"
                                                : "Failed to apply all works, see status.aggregatedStatus"),
                       now);
  }
  status.scheduler_observed_generation = binding.metadata.generation;
  if (is_placed && status.last_scheduled_time.is_zero()) status.last_scheduled_time = now;
  status.aggregated_status = std::move(items);
  if (status == binding.status) return Ok{};
  BASALT_TRY(const json::Value before, json::Value::parse(json::to_text(binding.status)));
  BASALT_TRY(const json::Value after, json::Value::parse(json::to_text(status)));
  const json::Value patch = json::Object{{"metadata", json::Object{{"uid", binding.metadata.uid}}},
                                         {"status", json::make_merge_patch(before, after)}};
  const auto written = host_.call({.verb = kube::Verb::Patch,
                                   .resource = kube::resource_of<ResourceBinding>(),
                                   .ns = pass.key.ns,
                                   .name = binding.metadata.name,
                                   .subresource = "status",
                                   .body = patch.to_text()},
                                  pass.stop);
  if (!written.ok()) return written.error().is(Reason::NotFound) ? Done(Ok{}) : Done(written.error());
  expectations_.note_write(pass.key, kube::resource_of<ResourceBinding>(), kube::resource_version_of(*written));
  return Ok{};
}

}  // namespace basalt::federation
