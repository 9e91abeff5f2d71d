#include "apiserver/registry/disruption_budgets.h"

#include <optional>
#include <string>
#include <utility>

#include "api/gen/meta.h"
#include "api/labels.h"
#include "api/string_map.h"
#include "apiserver/registry/metadata.h"
#include "json/reader.h"

namespace basalt::apiserver {
namespace {

constexpr int kTriesMax = 5;
constexpr std::size_t kDisruptedPodsMax = 2'000;
constexpr std::chrono::seconds kTryAgain{10};

const kube::Resource& budgets_resource() {
  static const kube::Resource resource{"policy", "v1", "poddisruptionbudgets"};
  return resource;
}

std::int64_t number_at(const json::Value& object, std::initializer_list<std::string_view> path) {
  const json::Value* value = object.find_path(path);
  return value != nullptr && value->is_int() ? value->as_int() : 0;
}

// Pods that serve nobody are not counted, so nobody misses them.
bool is_beyond_budgets(const json::Value& pod) {
  const std::string_view phase = pod.string_at({"status", "phase"});
  return phase == "Succeeded" || phase == "Failed" || phase == "Pending" || is_being_deleted(pod);
}

bool is_ready(const json::Value& pod) {
  const json::Value* conditions = pod.find_path({"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return false;
  for (const json::Value& condition : conditions->as_array()) {
    if (condition.string_at({"type"}) == "Ready") return condition.string_at({"status"}) == "True";
  }
  return false;
}

bool selects(const json::Value& budget, const json::Value& pod) {
  const json::Value* text = budget.find_path({"spec", "selector"});
  if (text == nullptr || !text->is_object()) return false;
  const auto selector = json::from_text<api::meta::LabelSelector>(text->to_text());
  if (!selector.ok()) return false;
  const auto compiled = api::Selector::from(*selector);
  std::vector<api::StringMap::value_type> labels;
  const json::Value* map = pod.find_path({"metadata", "labels"});
  if (map != nullptr && map->is_object()) {
    for (const json::Member& label : map->as_object()) {
      if (label.value.is_string()) labels.emplace_back(label.key, label.value.as_string());
    }
  }
  return compiled.ok() && compiled->matches(api::StringMap::of(std::move(labels)));
}

Result<std::optional<json::Value>> budget_of(ApiServer& server, const json::Value& pod, const RequestContext& context) {
  kube::ListRequest request;
  request.resource = budgets_resource();
  request.ns = metadata_text(pod, "namespace");
  BASALT_TRY(const kube::ListPage page, server.list(request, context));
  std::optional<json::Value> found;
  for (const kube::Bytes& text : page.items) {
    BASALT_TRY(json::Value budget, json::Value::parse(*text));
    if (!selects(budget, pod)) continue;
    if (found) {
      return Error::make(Reason::InternalError,
                         "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
                         "support.");
    }
    found = std::move(budget);
  }
  return found;
}

Error not_now(std::string cause) {
  Error error =
      Error::make(Reason::TooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.");
  error.causes.push_back({"DisruptionBudget", std::move(cause), ""});
  return error;
}

// A pod that is not ready adds nothing to what the budget protects.
bool may_go_unhealthy(const json::Value& budget, const json::Value& pod) {
  if (is_ready(pod)) return false;
  if (budget.string_at({"spec", "unhealthyPodEvictionPolicy"}) == "AlwaysAllow") return true;
  const std::int64_t desired = number_at(budget, {"status", "desiredHealthy"});
  return desired > 0 && number_at(budget, {"status", "currentHealthy"}) >= desired;
}

Done check_budget(const json::Value& budget) {
  const std::string name(metadata_text(budget, "name"));
  if (number_at(budget, {"status", "observedGeneration"}) < number_at(budget, {"metadata", "generation"})) {
    Error error = not_now("The disruption budget " + name + " is still being processed by the server.");
    error.retry_after = kTryAgain;
    return error;
  }
  const std::int64_t allowed = number_at(budget, {"status", "disruptionsAllowed"});
  if (allowed < 0) return Error::make(Reason::Forbidden, "pdb disruptions allowed is negative");
  const json::Value* disrupted = budget.find_path({"status", "disruptedPods"});
  if (disrupted != nullptr && disrupted->is_object() && disrupted->as_object().size() > kDisruptedPodsMax) {
    return Error::make(Reason::Forbidden, "the budget " + name + " has allowed " + std::to_string(kDisruptedPodsMax) +
                                              " evictions whose pods are still there; wait until they have gone");
  }
  if (allowed > 0) return Ok{};
  return not_now("The disruption budget " + name + " needs " +
                 std::to_string(number_at(budget, {"status", "desiredHealthy"})) + " healthy pods and has " +
                 std::to_string(number_at(budget, {"status", "currentHealthy"})) + " currently");
}

// The controller of budgets counts the pod as gone from now on, though it may take a while to go.
std::string spent(const json::Value& budget, const json::Value& pod, api::Time now) {
  const std::int64_t left = number_at(budget, {"status", "disruptionsAllowed"}) - 1;
  json::Value patch;
  patch.ensure_path({"metadata", "resourceVersion"}) = metadata_text(budget, "resourceVersion");
  patch.ensure_path({"status", "disruptionsAllowed"}) = left;
  patch.ensure_path({"status", "disruptedPods", metadata_text(pod, "name")}) = now.to_string();
  return patch.to_text();
}

}  // namespace

Done spend_disruption(ApiServer& server, const json::Value& pod, bool is_dry_run, const RequestContext& context,
                      api::Time now) {
  if (is_beyond_budgets(pod)) return Ok{};
  for (int attempt = 1;; ++attempt) {
    BASALT_TRY(const auto budget, budget_of(server, pod, context));
    if (!budget || may_go_unhealthy(*budget, pod)) return Ok{};
    BASALT_TRY_DONE(check_budget(*budget));
    if (is_dry_run) return Ok{};
    kube::Request write;
    write.verb = kube::Verb::Patch;
    write.resource = budgets_resource();
    write.ns = metadata_text(*budget, "namespace");
    write.name = metadata_text(*budget, "name");
    write.subresource = "status";
    write.body = spent(*budget, pod, now);
    const auto written = server.call(write, context);
    if (written.ok()) return Ok{};
    const bool has_changed = written.error().is(Reason::Conflict) || written.error().is(Reason::NotFound);
    if (!has_changed || attempt >= kTriesMax) return written.error();
  }
}

}  // namespace basalt::apiserver
