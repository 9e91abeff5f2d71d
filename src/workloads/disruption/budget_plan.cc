#include "workloads/disruption/budget_plan.h"

#include <algorithm>
#include <set>

#include "api/int_or_string.h"
#include "json/reader.h"

namespace basalt::workloads {
namespace {

constexpr std::string_view kAllowed = "DisruptionAllowed";
using Rounding = api::IntOrString::Rounding;

struct Need {
  std::int64_t expected = 0;
  std::int64_t healthy = 0;
};

std::optional<api::IntOrString> amount_at(const json::Value& spec, std::string_view name) {
  const json::Value* value = spec.find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const auto parsed = json::from_text<api::IntOrString>(value->to_text());
  return parsed.ok() ? std::optional(*parsed) : std::nullopt;
}

Result<Need> need_of(const json::Value& spec, std::int64_t pods, const BudgetScale& scale) {
  const auto least = amount_at(spec, "minAvailable");
  if (least && least->is_int()) return Need{pods, least->int_value()};
  const auto most = amount_at(spec, "maxUnavailable");
  if (!least && !most) return Need{pods, pods};
  if (scale.unknown_scale) {
    return Error::make(Reason::Invalid, *scale.unknown_scale +
                                            " has no number of replicas: such a budget needs minAvailable as a number");
  }
  if (least) {
    BASALT_TRY(const std::int64_t healthy, least->resolve(scale.replicas, Rounding::Up));
    return Need{scale.replicas, healthy};
  }
  BASALT_TRY(const std::int64_t away, most->resolve(scale.replicas, Rounding::Up));
  return Need{scale.replicas, std::max<std::int64_t>(0, scale.replicas - away)};
}

// Pods whose eviction was allowed and which are still there: they count as gone for a while.
std::set<std::string> pending_evictions(json::Value& status, const std::vector<PodPtr>& pods, rt::WallTime now,
                                        std::optional<rt::Duration>& look_again) {
  std::set<std::string> pending;
  json::Object kept;
  for (const json::Member& entry : map_at(status, {"disruptedPods"})) {
    const auto pod = std::find_if(pods.begin(), pods.end(),
                                  [&](const PodPtr& p) { return p->metadata.name == std::string_view(entry.key); });
    if (pod == pods.end() || (*pod)->is_being_deleted() || !entry.value.is_string()) continue;
    const auto since = api::Time::parse(entry.value.as_string());
    if (!since.ok()) continue;
    const rt::Duration left = rt::WallTime(since->to_time_point()) + kEvictionPending - now;
    if (left <= rt::Duration::zero()) continue;
    if (!look_again || left < *look_again) look_again = left;
    pending.insert(entry.key);
    kept.set(entry.key, entry.value);
  }
  if (kept.empty()) {
    status.as_object().erase("disruptedPods");
  } else {
    status.as_object().set("disruptedPods", std::move(kept));
  }
  return pending;
}

void set_allowed(json::Value& status, const Condition& condition, std::int64_t generation, rt::WallTime now) {
  set_condition(status, condition, api::Time::from(std::chrono::floor<std::chrono::seconds>(now)));
  for (json::Value& item : status.ensure_path({"conditions"}).as_array()) {
    if (item.string_at({"type"}) == kAllowed && generation > 0) item.ensure_path({"observedGeneration"}) = generation;
  }
}

}  // namespace

BudgetPlan plan_budget(const Object& budget, const std::vector<PodPtr>& pods, const BudgetScale& scale,
                       rt::WallTime now) {
  BudgetPlan plan;
  plan.status = object_at(budget.json, {"status"});
  json::Object& status = plan.status.as_object();
  const auto need = need_of(object_at(budget.json, {"spec"}), std::ssize(pods), scale);
  if (!need.ok()) {
    // Nothing is allowed while nobody knows how many there should be.
    plan.failure = need.error().message;
    status.set("disruptionsAllowed", 0);
    set_allowed(plan.status, {kAllowed, "False", "SyncFailed", *plan.failure}, budget.metadata.generation, now);
    return plan;
  }
  const std::set<std::string> pending = pending_evictions(plan.status, pods, now, plan.look_again);
  const auto healthy = std::count_if(pods.begin(), pods.end(), [&](const PodPtr& pod) {
    return pod->is_ready && !pod->is_being_deleted() && !pod->is_finished() &&
           !pending.contains(pod->metadata.name.str());
  });
  const std::int64_t allowed =
      need->expected > 0 ? std::max<std::int64_t>(0, static_cast<std::int64_t>(healthy) - need->healthy) : 0;
  status.set("currentHealthy", static_cast<std::int64_t>(healthy));
  status.set("desiredHealthy", need->healthy);
  status.set("expectedPods", need->expected);
  status.set("disruptionsAllowed", allowed);
  if (budget.metadata.generation > 0) status.set("observedGeneration", budget.metadata.generation);
  set_allowed(plan.status,
              {kAllowed, allowed > 0 ? "True" : "False", allowed > 0 ? "SufficientPods" : "InsufficientPods", ""},
              budget.metadata.generation, now);
  return plan;
}

}  // namespace basalt::workloads
