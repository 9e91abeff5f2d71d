#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/labels.h"
#include "apiserver/policy/admission_values.h"
#include "apiserver/webhook/webhook_table.h"
#include "cel/expression.h"

namespace basalt::apiserver {

// matchConstraints of a policy, matchResources of a binding: which requests it is about.
struct PolicyScope {
  Webhook included;  // its rules and selectors; no rules: every resource (of a binding)
  bool has_rules = false;
  Webhook excluded;
  std::vector<std::vector<std::string>> names;  // resourceNames of each rule; none: all

  [[nodiscard]] bool concerns(const AdmissionRequest& request) const;
};

// A ValidatingAdmissionPolicy or a MutatingAdmissionPolicy, compiled.
struct Policy {
  struct Variable {
    std::string name;
    cel::Expression expression;
  };
  struct Validation {
    cel::Expression expression;
    std::string message;
    std::optional<cel::Expression> message_expression;
    std::string reason;
  };
  struct Mutation {
    bool is_configuration = true;  // to be applied; else a JSON patch
    cel::Expression expression;
  };
  struct AuditAnnotation {
    std::string key;
    cel::Expression expression;
  };
  std::string name;
  bool ignores_failure = false;
  PolicyScope scope;
  MatchConditions conditions;
  std::vector<Variable> variables;
  std::vector<Validation> validations;
  std::vector<AuditAnnotation> audit_annotations;
  std::vector<Mutation> mutations;
  bool is_reinvoked = false;      // asked again if somebody behind it changed the object
  std::string param_api_version;  // "" if it takes no parameters
  std::string param_kind;
};

// A binding of either.
struct PolicyBinding {
  std::string name;
  std::string policy;
  PolicyScope scope;
  bool has_param = false;
  std::string param_name;
  std::string param_namespace;
  std::string param_selector;  // as a list takes it
  bool missing_param_is_fine = false;
  bool denies = false;
  bool warns = false;
  bool audits = false;
};

// Limits, as Kubernetes has none: behind them a policy is not loaded, which is logged.
inline constexpr std::size_t kPoliciesMax = 500;
inline constexpr std::size_t kPolicyExpressionsMax = 500;  // validations, and variables, of one policy

[[nodiscard]] Result<Policy> policy_of(const json::Value& object);
[[nodiscard]] Result<PolicyBinding> binding_of(const json::Value& object);

// What is served: defaults and complaints of the kinds.
void default_policy(json::Value& policy);
void default_policy_binding(json::Value& binding);
void validate_policy(const json::Value& policy, Causes& causes);
void validate_policy_binding(const json::Value& binding, Causes& causes);
void validate_mutating_policy(const json::Value& policy, Causes& causes);
void validate_mutating_policy_binding(const json::Value& binding, Causes& causes);

}  // namespace basalt::apiserver
