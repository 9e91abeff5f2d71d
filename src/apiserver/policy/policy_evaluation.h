#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/policy/policy_table.h"

namespace basalt::apiserver {

// Each binding of a policy may cost this much for one request.
inline constexpr std::uint64_t kBindingCostMax = 10'000'000;

// The values behind "variables.", computed in their order; an error shows where the variable is used.
class PolicyVariables final : public cel::Extension {
 public:
  // Computes them and lets `values` refer to them until this is destroyed.
  static std::shared_ptr<PolicyVariables> set_in(AdmissionValues& values, const Policy& policy, std::uint64_t& left);

  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.variables"; }
  [[nodiscard]] Result<cel::Value> member(std::string_view name) const override;
  // One of them may be the whole, which would keep itself alive: called before the last reference goes.
  void clear() { values_.clear(); }

 private:
  std::vector<std::pair<std::string, Result<cel::Value>>> values_;
};

// Evaluates one expression on account of a binding.
[[nodiscard]] Result<cel::Value> evaluate(const cel::Expression& expression, const AdmissionValues& values,
                                          std::uint64_t& left);

}  // namespace basalt::apiserver
