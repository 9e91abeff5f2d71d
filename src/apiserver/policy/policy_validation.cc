// Defaults and complaints of admission policies and their bindings.

#include <algorithm>

#include "apiserver/builtin/fields.h"
#include "apiserver/policy/policy_table.h"
#include "apiserver/registry/errors.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kAuditAnnotationsMax = 20;  // of one policy, as Kubernetes
constexpr std::string_view kReasons[] = {"Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"};

void default_scope(json::Object& spec, std::string_view name) {
  json::Value* scope = spec.find(name);
  if (scope == nullptr || !scope->is_object()) return;
  set_default(scope->as_object(), "matchPolicy", "Equivalent");
  set_default(scope->as_object(), "namespaceSelector", json::Object());
  set_default(scope->as_object(), "objectSelector", json::Object());
  for (const std::string_view list : {"resourceRules", "excludeResourceRules"}) {
    json::Array* rules = mutable_list(*scope, list);
    for (std::size_t i = 0; rules != nullptr && i < rules->size(); ++i) {
      if ((*rules)[i].is_object()) set_default((*rules)[i].as_object(), "scope", "*");
    }
  }
}

void check_scope(const json::Value& scope, const FieldPath& path, Causes& causes) {
  for (const std::string_view list : {"resourceRules", "excludeResourceRules"}) {
    const FieldPath list_path = path.child(list);
    const json::Array& rules = list_at(scope, list);
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const FieldPath at = list_path.index(i);
      for (const std::string_view name : {"operations", "apiGroups", "apiVersions", "resources"}) {
        if (list_at(rules[i], name).empty()) causes.push_back(required(at.text(name)));
      }
    }
  }
  for (const std::string_view selector : {"namespaceSelector", "objectSelector"}) {
    if (const json::Value* value = member(scope, selector)) check_label_selector(*value, path.child(selector), causes);
  }
}

// Compiles an expression and complains at `path` if it cannot be what it has to be.
void check_expression(std::string_view text, std::string_view type, std::span<const std::string> variables,
                      const std::string& path, Causes& causes, AdmissionNames names = AdmissionNames::Policy) {
  const auto compiled = compile_admission(text, names, variables);
  const bool fits =
      compiled.ok() && (type.empty() || compiled->result_type() == type || compiled->result_type() == "dyn");
  if (fits) return;
  causes.push_back(invalid_value(
      path, base::quote(base::ellipsize(text, 500)),
      compiled.ok() ? "must evaluate to " + std::string(type) : "compilation failed: " + compiled.error().message));
}

std::vector<std::string> check_variables(const json::Value& spec, const FieldPath& path, Causes& causes) {
  std::vector<std::string> names;
  const FieldPath list_path = path.child("variables");
  const json::Array& variables = list_at(spec, "variables");
  if (variables.size() > kPolicyExpressionsMax) {
    causes.push_back(too_many(list_path.text(), variables.size(), kPolicyExpressionsMax));
    return names;
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const FieldPath at = list_path.index(i);
    const std::string name(text_at(variables[i], "name"));
    if (name.empty()) causes.push_back(required(at.text("name"), "name is not specified"));
    if (std::ranges::find(names, name) != names.end()) {
      causes.push_back(duplicate_value(at.text("name"), base::quote(name)));
    }
    check_expression(text_at(variables[i], "expression"), "", names, at.text("expression"), causes);
    names.push_back(name);
  }
  return names;
}

void check_validations(const json::Value& spec, const FieldPath& path, std::span<const std::string> variables,
                       Causes& causes) {
  const FieldPath list_path = path.child("validations");
  const json::Array& validations = list_at(spec, "validations");
  if (validations.empty() && list_at(spec, "auditAnnotations").empty()) {
    causes.push_back(required(list_path.text(), "validations or auditAnnotations must be specified"));
  }
  if (validations.size() > kPolicyExpressionsMax) {
    causes.push_back(too_many(list_path.text(), validations.size(), kPolicyExpressionsMax));
    return;
  }
  for (std::size_t i = 0; i < validations.size(); ++i) {
    const FieldPath at = list_path.index(i);
    const std::string_view text = text_at(validations[i], "expression");
    if (base::trim(text).empty()) {
      causes.push_back(required(at.text("expression"), "expression is not specified"));
    } else {
      check_expression(text, "bool", variables, at.text("expression"), causes);
    }
    if (const std::string_view message = text_at(validations[i], "messageExpression"); !message.empty()) {
      check_expression(message, "string", variables, at.text("messageExpression"), causes);
    }
    if (const std::string_view reason = text_at(validations[i], "reason"); !reason.empty()) {
      check_one_of(reason, at.child("reason"), kReasons, causes);
    }
  }
}

void check_audit_annotations(const json::Value& spec, const FieldPath& path, std::span<const std::string> variables,
                             Causes& causes) {
  const FieldPath list_path = path.child("auditAnnotations");
  const json::Array& annotations = list_at(spec, "auditAnnotations");
  if (annotations.size() > kAuditAnnotationsMax) {
    causes.push_back(too_many(list_path.text(), annotations.size(), kAuditAnnotationsMax));
    return;
  }
  for (std::size_t i = 0; i < annotations.size(); ++i) {
    const FieldPath at = list_path.index(i);
    if (text_at(annotations[i], "key").empty()) causes.push_back(required(at.text("key")));
    const std::string_view text = text_at(annotations[i], "valueExpression");
    if (base::trim(text).empty()) {
      causes.push_back(required(at.text("valueExpression"), "valueExpression is not specified"));
    } else {
      check_expression(text, "", variables, at.text("valueExpression"), causes);
    }
  }
}

void check_mutations(const json::Value& spec, const FieldPath& path, std::span<const std::string> variables,
                     Causes& causes) {
  const FieldPath list_path = path.child("mutations");
  const json::Array& mutations = list_at(spec, "mutations");
  if (mutations.empty()) causes.push_back(required(list_path.text(), "mutations must contain at least one item"));
  if (mutations.size() > kPolicyExpressionsMax) {
    causes.push_back(too_many(list_path.text(), mutations.size(), kPolicyExpressionsMax));
    return;
  }
  constexpr std::string_view kTypes[] = {"ApplyConfiguration", "JSONPatch"};
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    const FieldPath at = list_path.index(i);
    const std::string_view type = text_at(mutations[i], "patchType");
    check_one_of(type, at.child("patchType"), kTypes, causes);
    const bool is_configuration = type == "ApplyConfiguration";
    const std::string_view holder = is_configuration ? "applyConfiguration" : "jsonPatch";
    const FieldPath holder_path = at.child(holder);
    const std::string_view text = mutations[i].string_at({holder, "expression"});
    if (base::trim(text).empty()) {
      causes.push_back(required(holder_path.text("expression"), "expression is not specified"));
    } else {
      check_expression(text, is_configuration ? "map" : "list", variables, holder_path.text("expression"), causes,
                       AdmissionNames::Mutation);
    }
  }
}

// What policies of both sorts have.
void check_common(const json::Value& spec, const FieldPath& path, Causes& causes) {
  constexpr std::string_view kFailurePolicies[] = {"Fail", "Ignore"};
  check_one_of(text_at(spec, "failurePolicy"), path.child("failurePolicy"), kFailurePolicies, causes);
  const json::Value* constraints = member(spec, "matchConstraints");
  const FieldPath constraints_path = path.child("matchConstraints");
  if (constraints == nullptr) {
    causes.push_back(required(constraints_path.text()));
  } else {
    if (list_at(*constraints, "resourceRules").empty()) {
      causes.push_back(required(constraints_path.text("resourceRules")));
    }
    check_scope(*constraints, constraints_path, causes);
  }
  if (const json::Value* param = member(spec, "paramKind")) {
    const FieldPath at = path.child("paramKind");
    for (const std::string_view name : {"apiVersion", "kind"}) {
      if (text_at(*param, name).empty()) causes.push_back(required(at.text(name)));
    }
  }
  check_match_conditions(spec, path.text("matchConditions"), AdmissionNames::Policy, causes);
}

// What bindings of both sorts have.
void check_common_binding(const json::Value& spec, const FieldPath& path, Causes& causes) {
  if (const json::Value* resources = member(spec, "matchResources")) {
    check_scope(*resources, path.child("matchResources"), causes);
  }
  if (const json::Value* param = member(spec, "paramRef")) {
    const FieldPath at = path.child("paramRef");
    const bool has_name = !text_at(*param, "name").empty();
    if (has_name == (member(*param, "selector") != nullptr)) {
      causes.push_back(
          forbidden_field(at.text("name"), "`name` and `selector` are mutually exclusive, one is required"));
    }
    constexpr std::string_view kMissing[] = {"Allow", "Deny"};
    check_one_of(text_at(*param, "parameterNotFoundAction"), at.child("parameterNotFoundAction"), kMissing, causes);
  }
}

}  // namespace

void default_policy(json::Value& policy) {
  json::Value* spec = policy.find("spec");
  if (spec == nullptr || !spec->is_object()) return;
  set_default(spec->as_object(), "failurePolicy", "Fail");
  default_scope(spec->as_object(), "matchConstraints");
}

void default_policy_binding(json::Value& binding) {
  if (json::Value* spec = binding.find("spec"); spec != nullptr && spec->is_object()) {
    default_scope(spec->as_object(), "matchResources");
  }
}

void validate_policy(const json::Value& policy, Causes& causes) {
  const FieldPath path("spec");
  const json::Value* spec = member(policy, "spec");
  if (spec == nullptr) {
    causes.push_back(required("spec"));
    return;
  }
  check_common(*spec, path, causes);
  const std::vector<std::string> variables = check_variables(*spec, path, causes);
  check_validations(*spec, path, variables, causes);
  check_audit_annotations(*spec, path, variables, causes);
}

void validate_mutating_policy(const json::Value& policy, Causes& causes) {
  const FieldPath path("spec");
  const json::Value* spec = member(policy, "spec");
  if (spec == nullptr) {
    causes.push_back(required("spec"));
    return;
  }
  check_common(*spec, path, causes);
  constexpr std::string_view kReinvocation[] = {"IfNeeded", "Never"};
  check_one_of(text_at(*spec, "reinvocationPolicy"), path.child("reinvocationPolicy"), kReinvocation, causes);
  const std::vector<std::string> variables = check_variables(*spec, path, causes);
  check_mutations(*spec, path, variables, causes);
}

void validate_mutating_policy_binding(const json::Value& binding, Causes& causes) {
  const FieldPath path("spec");
  const json::Value* spec = member(binding, "spec");
  if (spec == nullptr || text_at(*spec, "policyName").empty()) {
    causes.push_back(required(path.text("policyName")));
    return;
  }
  check_common_binding(*spec, path, causes);
}

void validate_policy_binding(const json::Value& binding, Causes& causes) {
  const FieldPath path("spec");
  const json::Value* spec = member(binding, "spec");
  if (spec == nullptr || text_at(*spec, "policyName").empty()) {
    causes.push_back(required(path.text("policyName")));
    return;
  }
  const json::Array& actions = list_at(*spec, "validationActions");
  const FieldPath actions_path = path.child("validationActions");
  if (actions.empty()) causes.push_back(required(actions_path.text(), "at least one validation action is required"));
  constexpr std::string_view kActions[] = {"Audit", "Deny", "Warn"};
  bool denies = false;
  bool warns = false;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::string_view action = actions[i].is_string() ? std::string_view(actions[i].as_string()) : "";
    check_one_of(action, actions_path.index(i), kActions, causes);
    denies = denies || action == "Deny";
    warns = warns || action == "Warn";
  }
  if (denies && warns) {
    causes.push_back(invalid_value(actions_path.text(), base::quote("Deny,Warn"),
                                   "must not contain both Deny and Warn (repeating the same validation failure "
                                   "information in the API response and headers serves no purpose)"));
  }
  check_common_binding(*spec, path, causes);
}

}  // namespace basalt::apiserver
