#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rt/time.h"
#include "workloads/common/object.h"
#include "workloads/common/pod.h"

namespace basalt::workloads {

// What the pods of a budget belong to.
struct BudgetScale {
  std::int64_t replicas = 0;                 // of all their controllers together
  std::vector<std::string> unmanaged;        // pods without a controller
  std::optional<std::string> unknown_scale;  // a controller that has no number of replicas
};

struct BudgetPlan {
  json::Value status;
  std::optional<std::string> failure;  // the number of pods that are expected is not known
  std::optional<rt::Duration> look_again;
};

// An eviction that was allowed takes its pod away by then, or did not happen.
inline constexpr std::chrono::minutes kEvictionPending{2};

// Pure. `pods` are those that the selector of the budget selects.
[[nodiscard]] BudgetPlan plan_budget(const Object& budget, const std::vector<PodPtr>& pods, const BudgetScale& scale,
                                     rt::WallTime now);

}  // namespace basalt::workloads
