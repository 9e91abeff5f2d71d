#include "apiserver/policy/policy_admission.h"

#include <algorithm>
#include <map>
#include <utility>

#include "apiserver/policy/policy_evaluation.h"
#include "apiserver/registry/errors.h"
#include "apiserver/webhook/webhook_admission.h"
#include "base/sort.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kGroup = "admissionregistration.k8s.io";
constexpr std::int64_t kParamsMax = 500;
constexpr std::size_t kMessageBytesMax = 5120;
constexpr std::size_t kAnnotationBytesMax = 10'240;
constexpr std::string_view kAuditKey = "validation.policy.admission.k8s.io/validation_failure";

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

std::vector<PolicyAdmission::Bound> PolicyAdmission::bound_of(std::string_view policies_plural,
                                                              std::string_view bindings_plural) const {
  std::map<std::string, std::shared_ptr<const Policy>, std::less<>> policies;
  for (const json::Value& object : stored(policies_plural)) {
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
  std::vector<Bound> list;
  for (const json::Value& object : stored(bindings_plural)) {
    auto binding = binding_of(object);
    if (!binding.ok()) {
      log_.warn("a binding of an admission policy is not in force", {{"problem", binding.error().message}});
      continue;
    }
    const auto policy = policies.find(binding->policy);
    if (policy != policies.end()) list.push_back({policy->second, std::move(*binding)});
  }
  return list;
}

void PolicyAdmission::refresh() {
  auto table = std::make_shared<Table>();
  table->validating = bound_of("validatingadmissionpolicies", "validatingadmissionpolicybindings");
  table->mutating = bound_of("mutatingadmissionpolicies", "mutatingadmissionpolicybindings");
  base::stable_sort(table->mutating, [](const Bound& a, const Bound& b) { return a.policy->name < b.policy->name; });
  const bool has_any = !table->validating.empty() || !table->mutating.empty();
  rt::MutexLock lock(mutex_);
  table_ = std::move(table);
  has_any_.store(has_any, std::memory_order_release);
}

bool PolicyAdmission::handles(const AdmissionRequest& request) const {
  if (!has_any_.load(std::memory_order_acquire) || request.type.group == kGroup) return false;
  const auto table = this->table();
  const auto concerns = [&](const Bound& bound) {
    return bound.policy->scope.concerns(request) && bound.binding.scope.concerns(request);
  };
  return std::ranges::any_of(table->validating, concerns) || std::ranges::any_of(table->mutating, concerns);
}

bool PolicyAdmission::matches(const Bound& bound, const AdmissionRequest& request, const json::Value* object) const {
  const auto selects = [&](const PolicyScope& scope) {
    return scope.concerns(request) && scope.included.selects(object, request.old_object) &&
           selects_namespace(scope.included.namespaces, server_, request, object);
  };
  return selects(bound.policy->scope) && selects(bound.binding.scope);
}

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

void PolicyAdmission::judge_with(const Bound& bound, AdmissionValues& values, Judgement& judgement) {
  const Policy& policy = *bound.policy;
  std::uint64_t left = kBindingCostMax;
  cel::Cost conditions_cost;
  const auto holds = policy.conditions.hold(values, conditions_cost);
  if (!holds.ok()) {
    judgement.verdicts.push_back({holds.error().message, "", true, 0});
    return;
  }
  if (!*holds) return;
  const auto variables = PolicyVariables::set_in(values, policy, left);
  for (std::size_t i = 0; i < policy.validations.size(); ++i) {
    const Policy::Validation& validation = policy.validations[i];
    const auto result = evaluate(validation.expression, values, left);
    const bool* is_valid = result.ok() ? result->get<bool>() : nullptr;
    if (is_valid != nullptr && *is_valid) continue;
    if (is_valid != nullptr) {
      judgement.verdicts.push_back({message_of(validation, values, left), validation.reason, false, i});
      continue;
    }
    judgement.verdicts.push_back(
        {"expression '" + std::string(base::trim(validation.expression.text())) +
             "' resulted in error: " + (result.ok() ? "it does not evaluate to a bool" : result.error().message),
         "", true, i});
  }
  for (const Policy::AuditAnnotation& annotation : policy.audit_annotations) {
    const auto result = evaluate(annotation.expression, values, left);
    if (result.ok() && result->is_null()) continue;
    const auto* text = result.ok() ? result->get<cel::Text>() : nullptr;
    if (text == nullptr) {
      judgement.verdicts.push_back({"auditAnnotation " + base::quote(annotation.key) + " resulted in error: " +
                                        (result.ok() ? "it is neither a string nor null" : result.error().message),
                                    "", true, 0});
      continue;
    }
    const std::string_view value = base::trim(text->view).substr(0, kAnnotationBytesMax);
    if (value.empty()) continue;
    // Several parameters may say something each.
    std::string& known = judgement.annotations[policy.name + "/" + annotation.key];
    known.append(known.empty() ? "" : ", ").append(value);
  }
  variables->clear();
}

PolicyAdmission::Judgement PolicyAdmission::judge(const Bound& bound, const AdmissionRequest& request,
                                                  const json::Value* object) {
  Judgement judgement;
  AdmissionValues values(server_, request, object);
  if (bound.policy->param_kind.empty() || !bound.binding.has_param) {
    judge_with(bound, values, judgement);
    return judgement;
  }
  const auto params = params_of(bound, request);
  if (!params.ok()) {
    judgement.verdicts.push_back({"failed to configure binding: " + params.error().message, "", true, 0});
    return judgement;
  }
  for (const json::Value& param : *params) {
    values.set_params(&param);
    judge_with(bound, values, judgement);
  }
  return judgement;
}

json::Value PolicyAdmission::audit_entry(const Bound& bound, const Verdict& verdict) {
  json::Array actions;
  if (bound.binding.denies) actions.emplace_back("Deny");
  if (bound.binding.warns) actions.emplace_back("Warn");
  actions.emplace_back("Audit");
  return json::Object{{"message", verdict.message},
                      {"policy", bound.policy->name},
                      {"binding", bound.binding.name},
                      {"expressionIndex", static_cast<std::int64_t>(verdict.expression)},
                      {"validationActions", std::move(actions)}};
}

Done PolicyAdmission::validate(AdmissionRequest& request, const json::Value* object) {
  const auto table = this->table();
  std::optional<Error> denial;
  json::Array audited;
  for (const Bound& bound : table->validating) {
    if (!matches(bound, request, object)) continue;
    const Judgement judgement = judge(bound, request, object);
    if (request.audit != nullptr) request.audit->insert(judgement.annotations.begin(), judgement.annotations.end());
    for (const Verdict& verdict : judgement.verdicts) {
      if (verdict.is_failure && bound.policy->ignores_failure) continue;
      const std::string who =
          "ValidatingAdmissionPolicy '" + bound.policy->name + "' with binding '" + bound.binding.name + "'";
      if (bound.binding.audits) audited.push_back(audit_entry(bound, verdict));
      if (bound.binding.warns) request.warnings.push_back("Validation failed for " + who + ": " + verdict.message);
      if (!bound.binding.denies || denial) continue;
      const std::string message = who + " denied request: " + verdict.message;
      denial = forbidden(request.type, request.name, message);
      denial->reason = reason_of(verdict.reason);
      denial->code = http_code_of(denial->reason);
      denial->causes.push_back({"", message, ""});
    }
  }
  if (request.audit != nullptr && !audited.empty()) {
    request.audit->insert_or_assign(std::string(kAuditKey), json::Value(std::move(audited)).to_text());
  }
  if (denial) return std::move(*denial);
  return Ok{};
}

}  // namespace basalt::apiserver
