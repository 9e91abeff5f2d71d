#include "apiserver/policy/policy_evaluation.h"

#include <algorithm>

#include "base/strings.h"

namespace basalt::apiserver {

std::shared_ptr<PolicyVariables> PolicyVariables::set_in(AdmissionValues& values, const Policy& policy,
                                                         std::uint64_t& left) {
  auto variables = std::make_shared<PolicyVariables>();
  values.set_variables(cel::Value(cel::Value::Data(cel::Value::ExtensionRef(variables))));
  for (const Policy::Variable& variable : policy.variables) {
    auto value = evaluate(variable.expression, values, left);
    if (!value.ok()) {
      value = Error::invalid_input("composited variable " + base::quote(variable.name) +
                                   " fails to evaluate: " + value.error().message);
    }
    variables->values_.emplace_back(variable.name, std::move(value));
  }
  return variables;
}

Result<cel::Value> PolicyVariables::member(std::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return value;
  }
  return Error::invalid_input("no such key: " + std::string(name));
}

Result<cel::Value> evaluate(const cel::Expression& expression, const AdmissionValues& values, std::uint64_t& left) {
  cel::Cost cost(std::min(left, cel::Cost::kExpressionMax));
  auto result = expression.evaluate(values.values(), cost);
  left -= cost.spent();
  return result;
}

}  // namespace basalt::apiserver
