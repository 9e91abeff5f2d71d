#include "apiserver/policy/policy_admission.h"

#include <algorithm>
#include <map>
#include <utility>

#include "apiserver/registry/errors.h"
#include "apiserver/webhook/webhook_admission.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kGroup = "admissionregistration.k8s.io";
constexpr std::uint64_t kBindingCostMax = 10'000'000;
constexpr std::int64_t kParamsMax = 500;
constexpr std::size_t kMessageBytesMax = 5120;

// The values behind "variables.", computed in their order; an error shows where the variable is used.
class Variables final : public cel::Extension {
 public:
  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.variables"; }
  [[nodiscard]] Result<cel::Value> member(std::string_view name) const override {
    for (const auto& [known, value] : values_) {
      if (known == name) return value;
    }
    return Error::invalid_input("no such key: " + std::string(name));
  }
  void add(std::string name, Result<cel::Value> value) { values_.emplace_back(std::move(name), std::move(value)); }
  // One of them may be the whole, which would keep itself alive.
  void clear() { values_.clear(); }

 private:
  std::vector<std::pair<std::string, Result<cel::Value>>> values_;
};

// Evaluates one expression on account of a binding.
Result<cel::Value> evaluate(const cel::Expression& expression, const AdmissionValues& values, std::uint64_t& left) {
  cel::Cost cost(std::min(left, cel::Cost::kExpressionMax));
  auto result = expression.evaluate(values.values(), cost);
  left -= cost.spent();
  return result;
}

std::string message_of(const Policy::Validation& validation, const AdmissionValues& values, std::uint64_t& left) {
  if (validation.message_expression) {
    const auto result = evaluate(*validation.message_expression, values, left);
    const auto* text = result.ok() ? result->get<cel::Text>() : nullptr;
    const std::string_view trimmed = text == nullptr ? std::string_view() : base::trim(text->view);
    const bool is_usable =
        !trimmed.empty() && trimmed.size() <= kMessageBytesMax && trimmed.find('\n') == std::string_view::npos;
    if (is_usable) return std::string(trimmed);
  }
  const std::string_view message = base::trim(validation.message);
  return message.empty() ? "failed expression: " + std::string(base::trim(validation.expression.text()))
                         : std::string(message);
}

Reason reason_of(std::string_view text) { return text.empty() ? Reason::Invalid : reason_from_string(text); }

}  // namespace

PolicyAdmission::PolicyAdmission(Logger log, ApiServer& server)
    : log_(std::move(log)), server_(server), table_(std::make_shared<const Table>()) {}

std::shared_ptr<const PolicyAdmission::Table> PolicyAdmission::table() const {
  rt::MutexLock lock(mutex_);
  return table_;
}

std::vector<json::Value> PolicyAdmission::stored(std::string_view plural) const {
  kube::ListRequest list;
  list.resource = {std::string(kGroup), "v1", std::string(plural)};
  std::vector<json::Value> objects;
  const auto page = server_.list(list, RequestContext{{"system:apiserver", "", {"system:masters"}}, "", false});
  if (!page.ok()) return objects;
  for (const kube::Bytes& text : page->items) {
    if (auto parsed = json::Value::parse(*text); parsed.ok()) objects.push_back(std::move(*parsed));
  }
  return objects;
}

void PolicyAdmission::refresh() {
  std::map<std::string, std::shared_ptr<const Policy>, std::less<>> policies;
  for (const json::Value& object : stored("validatingadmissionpolicies")) {
    auto policy = policy_of(object);
    if (!policy.ok() || policies.size() >= kPoliciesMax) {
      log_.warn("an admission policy is not in force",
                {{"policy", object.string_at({"metadata", "name"})},
                 {"problem", policy.ok() ? "there are more than 500 policies" : policy.error().message}});
      continue;
    }
    std::string name = policy->name;
    policies.emplace(std::move(name), std::make_shared<const Policy>(std::move(*policy)));
  }
  auto table = std::make_shared<Table>();
  for (const json::Value& object : stored("validatingadmissionpolicybindings")) {
    auto binding = binding_of(object);
    if (!binding.ok()) {
      log_.warn("a binding of an admission policy is not in force", {{"problem", binding.error().message}});
      continue;
    }
    const auto policy = policies.find(binding->policy);
    if (policy != policies.end()) table->push_back({policy->second, std::move(*binding)});
  }
  const bool has_any = !table->empty();
  rt::MutexLock lock(mutex_);
  table_ = std::move(table);
  has_any_.store(has_any, std::memory_order_release);
}

bool PolicyAdmission::handles(const AdmissionRequest& request) const {
  if (!has_any_.load(std::memory_order_acquire) || request.type.group == kGroup) return false;
  const auto table = this->table();
  return std::ranges::any_of(*table, [&](const Bound& bound) {
    return bound.policy->scope.concerns(request) && bound.binding.scope.concerns(request);
  });
}

Done PolicyAdmission::mutate(AdmissionRequest&, json::Value&) { return Ok{}; }

Result<std::vector<json::Value>> PolicyAdmission::params_of(const Bound& bound, const AdmissionRequest& request) {
  const auto missing = [&]() -> Result<std::vector<json::Value>> {
    if (bound.binding.missing_param_is_fine) return std::vector<json::Value>();
    return Error::invalid_input("no params found for policy binding with `Deny` parameterNotFoundAction");
  };
  const auto parts = base::split_once(bound.policy->param_api_version, '/');
  const std::string_view group = parts ? parts->first : std::string_view();
  const std::string_view version = parts ? parts->second : std::string_view(bound.policy->param_api_version);
  const auto type = server_.types()->find_kind(group, version, bound.policy->param_kind);
  if (!type) {
    return Error::invalid_input("failed to find resource referenced by paramKind: '" + bound.policy->param_api_version +
                                ", Kind=" + bound.policy->param_kind + "'");
  }
  std::string ns = type->namespaced ? bound.binding.param_namespace : std::string();
  if (type->namespaced && ns.empty()) ns = request.ns;
  if (type->namespaced && ns.empty()) {
    return Error::invalid_input(
        "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources");
  }
  kube::ListRequest list;
  list.resource = {type->group, type->version, type->plural};
  list.ns = ns;
  list.limit = kParamsMax;
  if (bound.binding.param_name.empty()) {
    list.label_selector = bound.binding.param_selector;
  } else {
    list.field_selector = "metadata.name=" + bound.binding.param_name;
  }
  BASALT_TRY(const auto page,
             server_.list(list, RequestContext{{"system:apiserver", "", {"system:masters"}}, "", false}));
  std::vector<json::Value> params;
  for (const kube::Bytes& text : page.items) {
    BASALT_TRY(json::Value param, json::Value::parse(*text));
    params.push_back(std::move(param));
  }
  if (params.empty()) return missing();
  return params;
}

void PolicyAdmission::judge_with(const Bound& bound, AdmissionValues& values, std::vector<Verdict>& verdicts) {
  const Policy& policy = *bound.policy;
  std::uint64_t left = kBindingCostMax;
  cel::Cost conditions_cost;
  const auto holds = policy.conditions.hold(values, conditions_cost);
  if (!holds.ok()) {
    verdicts.push_back({holds.error().message, "", true});
    return;
  }
  if (!*holds) return;
  auto variables = std::make_shared<Variables>();
  values.set_variables(cel::Value(cel::Value::Data(cel::Value::ExtensionRef(variables))));
  for (const Policy::Variable& variable : policy.variables) {
    auto value = evaluate(variable.expression, values, left);
    if (!value.ok()) {
      value = Error::invalid_input("composited variable " + base::quote(variable.name) +
                                   " fails to evaluate: " + value.error().message);
    }
    variables->add(variable.name, std::move(value));
  }
  for (const Policy::Validation& validation : policy.validations) {
    const auto result = evaluate(validation.expression, values, left);
    const bool* is_valid = result.ok() ? result->get<bool>() : nullptr;
    if (is_valid != nullptr && *is_valid) continue;
    if (is_valid != nullptr) {
      verdicts.push_back({message_of(validation, values, left), validation.reason, false});
      continue;
    }
    verdicts.push_back(
        {"expression '" + std::string(base::trim(validation.expression.text())) +
             "' resulted in error: " + (result.ok() ? "it does not evaluate to a bool" : result.error().message),
         "", true});
  }
  variables->clear();
}

std::vector<PolicyAdmission::Verdict> PolicyAdmission::judge(const Bound& bound, const AdmissionRequest& request,
                                                             const json::Value* object) {
  std::vector<Verdict> verdicts;
  AdmissionValues values(server_, request, object);
  if (bound.policy->param_kind.empty() || !bound.binding.has_param) {
    judge_with(bound, values, verdicts);
    return verdicts;
  }
  const auto params = params_of(bound, request);
  if (!params.ok()) {
    verdicts.push_back({"failed to configure binding: " + params.error().message, "", true});
    return verdicts;
  }
  for (const json::Value& param : *params) {
    values.set_params(&param);
    judge_with(bound, values, verdicts);
  }
  return verdicts;
}

Done PolicyAdmission::validate(AdmissionRequest& request, const json::Value* object) {
  const auto table = this->table();
  std::optional<Error> denial;
  for (const Bound& bound : *table) {
    const auto matches = [&](const PolicyScope& scope) {
      return scope.concerns(request) && scope.included.selects(object, request.old_object) &&
             selects_namespace(scope.included.namespaces, server_, request, object);
    };
    if (!matches(bound.policy->scope) || !matches(bound.binding.scope)) continue;
    for (const Verdict& verdict : judge(bound, request, object)) {
      if (verdict.is_failure && bound.policy->ignores_failure) continue;
      const std::string who =
          "ValidatingAdmissionPolicy '" + bound.policy->name + "' with binding '" + bound.binding.name + "'";
      if (bound.binding.warns) request.warnings.push_back("Validation failed for " + who + ": " + verdict.message);
      if (!bound.binding.denies || denial) continue;
      const std::string message = who + " denied request: " + verdict.message;
      denial = forbidden(request.type, request.name, message);
      denial->reason = reason_of(verdict.reason);
      denial->code = http_code_of(denial->reason);
      denial->causes.push_back({"", message, ""});
    }
  }
  if (denial) return std::move(*denial);
  return Ok{};
}

}  // namespace basalt::apiserver
