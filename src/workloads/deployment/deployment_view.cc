#include "workloads/deployment/deployment_view.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/int_or_string.h"
#include "base/strings.h"

namespace basalt::workloads {
namespace {

constexpr std::int64_t kNoDeadline = 2'147'483'647;

Result<std::int64_t> share(const Object& deployment, std::string_view name, std::int64_t replicas,
                           api::IntOrString::Rounding rounding) {
  const json::Value* value = deployment.json.find_path({"spec", "strategy", "rollingUpdate", name});
  if (value == nullptr) return std::int64_t{0};
  if (value->is_int()) return value->as_int();
  if (!value->is_string()) return std::int64_t{0};
  auto resolved = api::IntOrString(value->as_string()).resolve(replicas, rounding);
  if (!resolved.ok())
    return std::move(resolved).error().with_context("spec.strategy.rollingUpdate." + std::string(name));
  return resolved;
}

std::optional<std::int64_t> number_in(const json::Value& object, std::string_view annotation) {
  return base::parse_int64(annotation_of(object, annotation));
}

}  // namespace

SetView view_of(std::shared_ptr<const Object> set) {
  SetView view;
  const json::Value& json = set->json;
  view.replicas = int_at(json, {"spec", "replicas"}, 1);
  view.actual = int_at(json, {"status", "replicas"});
  view.ready = int_at(json, {"status", "readyReplicas"});
  view.available = std::min(int_at(json, {"status", "availableReplicas"}), view.replicas);
  view.revision = number_in(json, deployment_keys::kRevision).value_or(0);
  view.desired = number_in(json, deployment_keys::kDesired);
  view.max = number_in(json, deployment_keys::kMax);
  view.object = std::move(set);
  return view;
}

json::Value plain_template(const json::Value& workload) {
  json::Value copy = object_at(workload, {"spec", "template"});
  json::Value* metadata = copy.find("metadata");
  if (metadata == nullptr || !metadata->is_object()) return copy;
  if (json::Value* labels = metadata->find("labels"); labels != nullptr && labels->is_object())
    labels->as_object().erase(deployment_keys::kHash);
  metadata->as_object().erase_if([](const json::Member& member) {
    return member.value.is_null() || (member.value.is_object() && member.value.as_object().empty());
  });
  return copy;
}

std::int64_t DeploymentView::all_replicas() const {
  std::int64_t sum = current ? current->replicas : 0;
  for (const SetView& set : old) sum += set.replicas;
  return sum;
}

std::int64_t DeploymentView::all_available() const {
  std::int64_t sum = current ? current->available : 0;
  for (const SetView& set : old) sum += set.available;
  return sum;
}

Result<DeploymentView> view_of(const Object& deployment, const std::vector<std::shared_ptr<const Object>>& sets) {
  using Rounding = api::IntOrString::Rounding;
  const json::Value& spec = object_at(deployment.json, {"spec"});
  DeploymentView view{.object = deployment};
  view.replicas = int_at(spec, {"replicas"}, 1);
  view.min_ready = int_at(spec, {"minReadySeconds"});
  view.history_limit = int_at(spec, {"revisionHistoryLimit"}, 10);
  view.is_paused = flag_at(spec, {"paused"});
  view.recreates = spec.string_at({"strategy", "type"}) == "Recreate";
  const std::int64_t deadline = int_at(spec, {"progressDeadlineSeconds"}, kNoDeadline);
  if (deadline < kNoDeadline) view.deadline = deadline;
  if (!view.recreates) {
    BASALT_TRY(view.surge, share(deployment, "maxSurge", view.replicas, Rounding::Up));
    BASALT_TRY(view.unavailable, share(deployment, "maxUnavailable", view.replicas, Rounding::Down));
    if (view.surge == 0 && view.unavailable == 0) view.unavailable = 1;
    view.unavailable = std::min(view.unavailable, view.replicas);
  }
  std::vector<std::shared_ptr<const Object>> by_age = sets;
  std::sort(by_age.begin(), by_age.end(), [](const auto& a, const auto& b) {
    return std::tie(a->metadata.creation, a->metadata.name) < std::tie(b->metadata.creation, b->metadata.name);
  });
  const json::Value wanted = plain_template(deployment.json);
  for (auto& set : by_age) {
    if (!view.current && plain_template(set->json) == wanted && !set->metadata.is_being_deleted) {
      view.current = view_of(set);
    } else {
      view.old.push_back(view_of(set));
    }
  }
  return view;
}

}  // namespace basalt::workloads
