#include "apiserver/policy/policy_table.h"

#include <algorithm>
#include <utility>

#include "api/gen/meta.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

const json::Array& list_of(const json::Value& object, std::string_view name) {
  static const json::Array kNone;
  const json::Value* list = object.find(name);
  return list != nullptr && list->is_array() ? list->as_array() : kNone;
}

std::vector<std::string> texts_of(const json::Value& object, std::string_view name) {
  std::vector<std::string> texts;
  for (const json::Value& item : list_of(object, name)) {
    if (item.is_string()) texts.push_back(item.as_string());
  }
  return texts;
}

Webhook::Rule rule_of(const json::Value& source) {
  const std::string_view scope = source.string_at({"scope"});
  return {texts_of(source, "operations"), texts_of(source, "apiGroups"), texts_of(source, "apiVersions"),
          texts_of(source, "resources"), scope.empty() ? "*" : std::string(scope)};
}

Result<api::Selector> selector_of(const json::Value& owner, std::string_view name) {
  const json::Value* source = owner.find(name);
  if (source == nullptr || source->is_null()) return api::Selector::everything();
  BASALT_TRY(const auto selector, json::from_text<api::meta::LabelSelector>(source->to_text()));
  return api::Selector::from(selector);
}

Result<PolicyScope> scope_of(const json::Value& source) {
  PolicyScope scope;
  for (const json::Value& rule : list_of(source, "resourceRules")) {
    scope.included.rules.push_back(rule_of(rule));
    scope.names.push_back(texts_of(rule, "resourceNames"));
  }
  scope.has_rules = !scope.included.rules.empty();
  for (const json::Value& rule : list_of(source, "excludeResourceRules")) scope.excluded.rules.push_back(rule_of(rule));
  BASALT_TRY(scope.included.namespaces, selector_of(source, "namespaceSelector"));
  BASALT_TRY(scope.included.objects, selector_of(source, "objectSelector"));
  return scope;
}

Result<Policy::Validation> validation_of(const json::Value& source, std::span<const std::string> variables) {
  BASALT_TRY(cel::Expression expression,
             compile_admission(source.string_at({"expression"}), AdmissionNames::Policy, variables));
  Policy::Validation made{.expression = std::move(expression),
                          .message = std::string(source.string_at({"message"})),
                          .message_expression = std::nullopt,
                          .reason = std::string(source.string_at({"reason"}))};
  if (const std::string_view text = source.string_at({"messageExpression"}); !text.empty()) {
    BASALT_TRY(cel::Expression message, compile_admission(text, AdmissionNames::Policy, variables));
    made.message_expression = std::move(message);
  }
  return made;
}

}  // namespace

bool PolicyScope::concerns(const AdmissionRequest& request) const {
  if (excluded.concerns(request)) return false;
  if (!has_rules) return true;
  for (std::size_t i = 0; i < included.rules.size(); ++i) {
    const bool is_named = names[i].empty() || std::ranges::find(names[i], request.name) != names[i].end();
    if (!is_named) continue;
    Webhook one;
    one.rules = {included.rules[i]};
    if (one.concerns(request)) return true;
  }
  return false;
}

Result<Policy> policy_of(const json::Value& object) {
  Policy policy;
  policy.name = std::string(object.string_at({"metadata", "name"}));
  const json::Value* spec = object.find("spec");
  if (spec == nullptr) return Error::invalid_input("a policy without a spec");
  policy.ignores_failure = spec->string_at({"failurePolicy"}) == "Ignore";
  policy.param_api_version = std::string(spec->string_at({"paramKind", "apiVersion"}));
  policy.param_kind = std::string(spec->string_at({"paramKind", "kind"}));
  if (const json::Value* constraints = spec->find("matchConstraints")) {
    BASALT_TRY(policy.scope, scope_of(*constraints));
  }
  for (const json::Value& condition : list_of(*spec, "matchConditions")) {
    BASALT_TRY_DONE(policy.conditions.add(std::string(condition.string_at({"name"})),
                                          condition.string_at({"expression"}), AdmissionNames::Policy));
  }
  std::vector<std::string> names;
  for (const json::Value& variable : list_of(*spec, "variables")) {
    BASALT_TRY(cel::Expression expression,
               compile_admission(variable.string_at({"expression"}), AdmissionNames::Policy, names));
    names.emplace_back(variable.string_at({"name"}));
    policy.variables.push_back({names.back(), std::move(expression)});
  }
  for (const json::Value& validation : list_of(*spec, "validations")) {
    BASALT_TRY(Policy::Validation made, validation_of(validation, names));
    policy.validations.push_back(std::move(made));
  }
  for (const json::Value& annotation : list_of(*spec, "auditAnnotations")) {
    BASALT_TRY(cel::Expression expression,
               compile_admission(annotation.string_at({"valueExpression"}), AdmissionNames::Policy, names));
    policy.audit_annotations.push_back({std::string(annotation.string_at({"key"})), std::move(expression)});
  }
  for (const json::Value& mutation : list_of(*spec, "mutations")) {
    const bool is_configuration = mutation.string_at({"patchType"}) == "ApplyConfiguration";
    const std::string_view text =
        mutation.string_at({is_configuration ? "applyConfiguration" : "jsonPatch", "expression"});
    BASALT_TRY(cel::Expression expression, compile_admission(text, AdmissionNames::Mutation, names));
    policy.mutations.push_back({is_configuration, std::move(expression)});
  }
  policy.is_reinvoked = spec->string_at({"reinvocationPolicy"}) == "IfNeeded";
  return policy;
}

Result<PolicyBinding> binding_of(const json::Value& object) {
  PolicyBinding binding;
  binding.name = std::string(object.string_at({"metadata", "name"}));
  binding.policy = std::string(object.string_at({"spec", "policyName"}));
  const json::Value* spec = object.find("spec");
  if (spec == nullptr) return Error::invalid_input("a binding without a spec");
  if (const json::Value* resources = spec->find("matchResources")) {
    BASALT_TRY(binding.scope, scope_of(*resources));
  }
  if (const json::Value* param = spec->find("paramRef"); param != nullptr && param->is_object()) {
    binding.has_param = true;
    binding.param_name = std::string(param->string_at({"name"}));
    binding.param_namespace = std::string(param->string_at({"namespace"}));
    binding.missing_param_is_fine = param->string_at({"parameterNotFoundAction"}) == "Allow";
    BASALT_TRY(const api::Selector selector, selector_of(*param, "selector"));
    binding.param_selector = selector.to_string();
  }
  for (const std::string& action : texts_of(*spec, "validationActions")) {
    binding.denies = binding.denies || action == "Deny";
    binding.warns = binding.warns || action == "Warn";
    binding.audits = binding.audits || action == "Audit";
  }
  return binding;
}

}  // namespace basalt::apiserver
