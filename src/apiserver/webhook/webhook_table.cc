#include "apiserver/webhook/webhook_table.h"

#include <algorithm>
#include <utility>

#include "api/gen/admission_registration.h"
#include "apiserver/policy/admission_values.h"
#include "base/encoding.h"

namespace basalt::apiserver {
namespace {

constexpr std::int32_t kTimeoutSecondsMax = 30;

bool has(const std::vector<std::string>& list, std::string_view wanted) {
  return std::ranges::any_of(list, [&](const std::string& one) { return one == "*" || one == wanted; });
}

bool names_resource(const std::vector<std::string>& list, std::string_view plural, std::string_view subresource) {
  return std::ranges::any_of(list, [&](const std::string& one) {
    const std::size_t slash = one.find('/');
    const std::string_view resource = std::string_view(one).substr(0, slash);
    if (resource != "*" && resource != plural) return false;
    if (slash == std::string::npos) return subresource.empty();
    const std::string_view sub = std::string_view(one).substr(slash + 1);
    return sub == "*" || sub == subresource;
  });
}

Result<api::Selector> selector_of(const std::optional<api::meta::LabelSelector>& selector) {
  if (!selector) return api::Selector::everything();
  return api::Selector::from(*selector);
}

template <class Hook>
Result<Webhook> webhook_of(const std::string& configuration, const Hook& hook) {
  Webhook made;
  made.configuration = configuration;
  made.name = hook.name;
  made.url = hook.client_config.url.value_or("");
  if (const auto& service = hook.client_config.service) {
    made.service = {service->namespace_, service->name, service->path.value_or(""), service->port.value_or(443)};
  }
  made.ca_pem = base::base64_decode(hook.client_config.ca_bundle).value_or("");
  for (const auto& rule : hook.rules) {
    made.rules.push_back(
        {rule.operations, rule.api_groups, rule.api_versions, rule.resources, rule.scope.value_or("*")});
  }
  made.ignores_failure = hook.failure_policy.value_or("Fail") == "Ignore";
  if constexpr (requires { hook.reinvocation_policy; })
    made.asked_again = hook.reinvocation_policy.value_or("Never") == "IfNeeded";
  const std::string effects = hook.side_effects.value_or("None");
  made.has_side_effects = effects != "None" && effects != "NoneOnDryRun";
  BASALT_TRY(made.namespaces, selector_of(hook.namespace_selector));
  BASALT_TRY(made.objects, selector_of(hook.object_selector));
  made.timeout = std::chrono::seconds(std::clamp(hook.timeout_seconds.value_or(10), 1, kTimeoutSecondsMax));
  if (!hook.match_conditions.empty()) {
    auto conditions = std::make_shared<MatchConditions>();
    for (const auto& condition : hook.match_conditions) {
      BASALT_TRY_DONE(conditions->add(condition.name, condition.expression, AdmissionNames::Webhook));
    }
    made.conditions = std::move(conditions);
  }
  return made;
}

template <class Configuration>
Done add(std::vector<Webhook>& list, std::string_view text) {
  BASALT_TRY(const Configuration configuration, json::from_text<Configuration>(text));
  for (const auto& hook : configuration.webhooks) {
    if (list.size() >= WebhookTable::kWebhooksMax)
      return Error::invalid_input("more than " + std::to_string(WebhookTable::kWebhooksMax) +
                                  " admission webhooks: " + hook.name + " and those behind it are not called");
    BASALT_TRY(Webhook made, webhook_of(configuration.metadata.name, hook));
    list.push_back(std::move(made));
  }
  return Ok{};
}

}  // namespace

std::string_view admission_name(Operation operation) {
  switch (operation) {
    case Operation::Create:
      return "CREATE";
    case Operation::Update:
      return "UPDATE";
    case Operation::Delete:
      return "DELETE";
    case Operation::Connect:
      return "CONNECT";
  }
  return "";
}

api::StringMap labels_of(const json::Value& object) {
  std::vector<api::StringMap::value_type> entries;
  const json::Value* labels = object.find_path({"metadata", "labels"});
  if (labels != nullptr && labels->is_object()) {
    for (const json::Member& member : labels->as_object()) {
      if (member.value.is_string()) entries.emplace_back(member.key, member.value.as_string());
    }
  }
  return api::StringMap::of(std::move(entries));
}

bool Webhook::concerns(const AdmissionRequest& request) const {
  const ResourceType& type = request.type;
  return std::ranges::any_of(rules, [&](const Rule& rule) {
    if (rule.scope == "Namespaced" && !type.namespaced) return false;
    if (rule.scope == "Cluster" && type.namespaced) return false;
    return has(rule.operations, admission_name(request.operation)) && has(rule.groups, type.group) &&
           has(rule.versions, type.version) && names_resource(rule.resources, type.plural, request.subresource);
  });
}

bool Webhook::selects(const json::Value* object, const json::Value* old_object) const {
  if (objects.is_everything()) return true;
  return (object != nullptr && objects.matches(labels_of(*object))) ||
         (old_object != nullptr && objects.matches(labels_of(*old_object)));
}

Done add_configuration(WebhookTable& table, std::string_view text, bool is_mutating) {
  if (is_mutating) return add<api::admission::MutatingWebhookConfiguration>(table.mutating, text);
  return add<api::admission::ValidatingWebhookConfiguration>(table.validating, text);
}

}  // namespace basalt::apiserver
