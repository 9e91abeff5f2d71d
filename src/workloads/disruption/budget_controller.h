#pragma once

#include <vector>

#include "workloads/common/keyed_controller.h"
#include "workloads/disruption/budget_plan.h"

namespace basalt::workloads {

// Counts what PodDisruptionBudgets allow; the API server spends it when pods are evicted. See README.md.
class BudgetController final : public KeyedController {
 public:
  explicit BudgetController(Context& context);

 private:
  rt::Outcome reconcile(const Object& budget, const rt::StopToken& stop) override;
  [[nodiscard]] BudgetScale scale_of(const std::vector<PodPtr>& pods) const;
  void add_all_of(const Object& workload);
};

}  // namespace basalt::workloads
