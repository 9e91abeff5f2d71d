#include "apiserver/builtin/access_types.h"

#include <algorithm>

#include "api/names.h"
#include "apiserver/builtin/client_config.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/policy/policy_table.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kRbac = "rbac.authorization.k8s.io";
constexpr std::int64_t kWebhookSeconds = 10;
constexpr std::int64_t kWebhookSecondsMax = 30;

void check_rules(const json::Value& role, bool is_namespaced, Causes& causes) {
  const FieldPath path("rules");
  const json::Array& rules = list_at(role, "rules");
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const FieldPath at = path.index(i);
    if (list_at(rules[i], "verbs").empty()) {
      causes.push_back(required(at.text("verbs"), "verbs must contain at least one value"));
    }
    const json::Array& urls = list_at(rules[i], "nonResourceURLs");
    if (!urls.empty()) {
      if (is_namespaced) {
        causes.push_back(invalid_value(at.text("nonResourceURLs"), shown(json::Value(urls)),
                                       "namespaced rules cannot apply to non-resource URLs"));
      }
      if (!list_at(rules[i], "apiGroups").empty() || !list_at(rules[i], "resources").empty()) {
        causes.push_back(invalid_value(at.text("nonResourceURLs"), shown(json::Value(urls)),
                                       "rules cannot apply to both regular resources and non-resource URLs"));
      }
      continue;
    }
    if (list_at(rules[i], "apiGroups").empty()) {
      causes.push_back(required(at.text("apiGroups"), "resource rules must supply at least one api group"));
    }
    if (list_at(rules[i], "resources").empty()) {
      causes.push_back(required(at.text("resources"), "resource rules must supply at least one resource"));
    }
  }
}

void validate_role(const json::Value& role, Causes& causes) { check_rules(role, true, causes); }
void validate_cluster_role(const json::Value& role, Causes& causes) { check_rules(role, false, causes); }

json::Array role_cells(const json::Value& role, api::Time) {
  return {metadata_text(role, "name"), metadata_text(role, "creationTimestamp")};
}

void default_binding(json::Value& binding) {
  if (json::Object* role = mutable_map(binding, "roleRef")) set_default_text(*role, "apiGroup", kRbac);
  json::Array* subjects = mutable_list(binding, "subjects");
  if (subjects == nullptr) return;
  for (json::Value& subject : *subjects) {
    const std::string_view kind = text_at(subject, "kind");
    if (kind == "User" || kind == "Group") set_default_text(subject.as_object(), "apiGroup", kRbac);
  }
}

void check_subject(const json::Value& subject, bool is_namespaced, const FieldPath& path, Causes& causes) {
  const std::string_view kind = text_at(subject, "kind");
  const std::string_view name = text_at(subject, "name");
  if (name.empty()) causes.push_back(required(path.text("name")));
  constexpr std::string_view kKinds[] = {"ServiceAccount", "User", "Group"};
  if (kind == "ServiceAccount") {
    if (!name.empty()) check_dns_subdomain(name, path.child("name"), causes);
    if (!is_namespaced && text_at(subject, "namespace").empty()) causes.push_back(required(path.text("namespace")));
  } else if (kind != "User" && kind != "Group") {
    causes.push_back(not_supported(path.text("kind"), base::quote(kind), kKinds));
  }
}

void check_binding(const json::Value& binding, bool is_namespaced, Causes& causes) {
  constexpr std::string_view kAll[] = {"Role", "ClusterRole"};
  const std::span<const std::string_view> kinds = is_namespaced ? std::span(kAll) : std::span(kAll).subspan(1);
  const std::string_view group = binding.string_at({"roleRef", "apiGroup"});
  if (group != kRbac) {
    constexpr std::string_view kGroups[] = {kRbac};
    causes.push_back(not_supported("roleRef.apiGroup", base::quote(group), kGroups));
  }
  const std::string_view kind = binding.string_at({"roleRef", "kind"});
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    causes.push_back(not_supported("roleRef.kind", base::quote(kind), kinds));
  }
  if (binding.string_at({"roleRef", "name"}).empty()) causes.push_back(required("roleRef.name"));
  const FieldPath path("subjects");
  const json::Array& subjects = list_at(binding, "subjects");
  for (std::size_t i = 0; i < subjects.size(); ++i) check_subject(subjects[i], is_namespaced, path.index(i), causes);
}

void validate_role_binding(const json::Value& binding, Causes& causes) { check_binding(binding, true, causes); }
void validate_cluster_role_binding(const json::Value& binding, Causes& causes) {
  check_binding(binding, false, causes);
}

void validate_binding_update(const json::Value& binding, const json::Value& old, Causes& causes) {
  if (!differs(binding, old, {"roleRef"})) return;
  const json::Value* role = binding.find("roleRef");
  causes.push_back(invalid_value("roleRef", role != nullptr ? shown(*role) : "null", "cannot change roleRef"));
}

std::string subjects_cell(const json::Value& binding, std::string_view kind) {
  std::vector<std::string> names;
  for (const json::Value& subject : list_at(binding, "subjects")) {
    if (text_at(subject, "kind") != kind) continue;
    std::string name(text_at(subject, "name"));
    if (kind == "ServiceAccount") name = std::string(text_at(subject, "namespace")) + "/" + name;
    names.push_back(std::move(name));
  }
  return base::join(names, ", ");
}

json::Array binding_cells(const json::Value& binding, api::Time now) {
  return {
      metadata_text(binding, "name"),
      std::string(binding.string_at({"roleRef", "kind"})) + "/" + std::string(binding.string_at({"roleRef", "name"})),
      age_of(binding, now),
      subjects_cell(binding, "User"),
      subjects_cell(binding, "Group"),
      subjects_cell(binding, "ServiceAccount")};
}

std::shared_ptr<const ResourceType> rbac_type(std::string plural, std::string kind, bool namespaced, KindRules rules,
                                              std::vector<PrinterColumn> columns) {
  ResourceType type = basic_type(std::string(kRbac), "v1", std::move(plural), std::move(kind), namespaced);
  type.name_rule = NameRule::PathSegment;
  type.strategy = make_strategy(std::move(rules));
  type.columns = std::move(columns);
  return std::make_shared<const ResourceType>(std::move(type));
}

TypeList rbac_types() {
  const std::vector<PrinterColumn> role_columns = {name_column(),
                                                   column("Created At", "date", "When the object was created.")};
  const std::vector<PrinterColumn> binding_columns = {name_column(),
                                                      column("Role", "string", "The role that is given."),
                                                      age_column(),
                                                      column("Users", "string", "Users who have it.", 1),
                                                      column("Groups", "string", "Groups that have it.", 1),
                                                      column("ServiceAccounts", "string", "Accounts that have it.", 1)};
  KindRules roles;
  roles.validate = validate_role;
  roles.cells = role_cells;
  KindRules cluster_roles = roles;
  cluster_roles.validate = validate_cluster_role;
  KindRules bindings;
  bindings.defaults = default_binding;
  bindings.validate = validate_role_binding;
  bindings.validate_update = validate_binding_update;
  bindings.cells = binding_cells;
  KindRules cluster_bindings = bindings;
  cluster_bindings.validate = validate_cluster_role_binding;
  return {rbac_type("clusterroles", "ClusterRole", false, cluster_roles, role_columns),
          rbac_type("clusterrolebindings", "ClusterRoleBinding", false, cluster_bindings, binding_columns),
          rbac_type("roles", "Role", true, roles, role_columns),
          rbac_type("rolebindings", "RoleBinding", true, bindings, binding_columns)};
}

void default_webhooks(json::Value& configuration) {
  json::Array* webhooks = mutable_list(configuration, "webhooks");
  if (webhooks == nullptr) return;
  const bool mutates = text_at(configuration, "kind") == "MutatingWebhookConfiguration";
  for (json::Value& webhook : *webhooks) {
    if (!webhook.is_object()) continue;
    json::Object& members = webhook.as_object();
    set_default(members, "failurePolicy", "Fail");
    set_default(members, "matchPolicy", "Equivalent");
    set_default(members, "namespaceSelector", json::Object());
    set_default(members, "objectSelector", json::Object());
    set_default(members, "timeoutSeconds", kWebhookSeconds);
    if (mutates) set_default(members, "reinvocationPolicy", "Never");
    default_client_config(webhook);
    json::Array* rules = mutable_list(webhook, "rules");
    for (std::size_t i = 0; rules != nullptr && i < rules->size(); ++i) {
      if ((*rules)[i].is_object()) set_default((*rules)[i].as_object(), "scope", "*");
    }
  }
}

void check_webhook(const json::Value& webhook, const FieldPath& path, Causes& causes) {
  const std::string_view name = text_at(webhook, "name");
  if (name.empty()) {
    causes.push_back(required(path.text("name")));
  } else {
    check_dns_subdomain(name, path.child("name"), causes);
    if (std::count(name.begin(), name.end(), '.') < 2) {
      causes.push_back(invalid_value(path.text("name"), base::quote(name),
                                     "should be a domain with at least three segments separated by dots"));
    }
  }
  if (list_at(webhook, "admissionReviewVersions").empty()) {
    causes.push_back(required(path.text("admissionReviewVersions"), "must specify one of v1, v1beta1"));
  }
  constexpr std::string_view kEffects[] = {"None", "NoneOnDryRun"};
  const std::string_view effects = text_at(webhook, "sideEffects");
  if (effects.empty()) {
    causes.push_back(required(path.text("sideEffects"), "must specify one of None, NoneOnDryRun"));
  } else {
    check_one_of(effects, path.child("sideEffects"), kEffects, causes);
  }
  constexpr std::string_view kFailurePolicies[] = {"Fail", "Ignore"};
  check_one_of(text_at(webhook, "failurePolicy"), path.child("failurePolicy"), kFailurePolicies, causes);
  constexpr std::string_view kMatchPolicies[] = {"Equivalent", "Exact"};
  check_one_of(text_at(webhook, "matchPolicy"), path.child("matchPolicy"), kMatchPolicies, causes);
  const std::int64_t seconds = int_at(webhook, "timeoutSeconds").value_or(kWebhookSeconds);
  if (seconds < 1 || seconds > kWebhookSecondsMax) {
    causes.push_back(invalid_value(path.text("timeoutSeconds"), std::to_string(seconds),
                                   "the timeout value must be between 1 and 30 seconds"));
  }
  for (const std::string_view selector : {"namespaceSelector", "objectSelector"}) {
    if (const json::Value* value = member(webhook, selector))
      check_label_selector(*value, path.child(selector), causes);
  }
  check_client_config(webhook, path, causes);
  check_match_conditions(webhook, path.text("matchConditions"), AdmissionNames::Webhook, causes);
}

void check_webhook_rules(const json::Value& webhook, const FieldPath& path, Causes& causes) {
  const FieldPath rules_path = path.child("rules");
  const json::Array& rules = list_at(webhook, "rules");
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const FieldPath at = rules_path.index(i);
    for (const std::string_view name : {"operations", "apiGroups", "apiVersions", "resources"}) {
      if (list_at(rules[i], name).empty()) causes.push_back(required(at.text(name)));
    }
  }
}

void validate_webhooks(const json::Value& configuration, Causes& causes) {
  const FieldPath path("webhooks");
  const json::Array& webhooks = list_at(configuration, "webhooks");
  for (std::size_t i = 0; i < webhooks.size(); ++i) {
    const FieldPath at = path.index(i);
    check_webhook(webhooks[i], at, causes);
    check_webhook_rules(webhooks[i], at, causes);
    const std::string_view name = text_at(webhooks[i], "name");
    for (std::size_t j = 0; j < i && !name.empty(); ++j) {
      if (text_at(webhooks[j], "name") != name) continue;
      causes.push_back(duplicate_value(at.text("name"), base::quote(name)));
      break;
    }
  }
}

json::Array webhook_cells(const json::Value& configuration, api::Time now) {
  return {metadata_text(configuration, "name"), static_cast<std::int64_t>(list_at(configuration, "webhooks").size()),
          age_of(configuration, now)};
}

TypeList admission_types() {
  const std::string group = "admissionregistration.k8s.io";
  TypeList types;
  for (const auto& [plural, kind] : {std::pair("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
                                     std::pair("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")}) {
    KindRules rules;
    rules.has_generation = true;
    rules.defaults = default_webhooks;
    rules.validate = validate_webhooks;
    rules.cells = webhook_cells;
    ResourceType type = basic_type(group, "v1", plural, kind, false);
    type.has_generation = true;
    type.strategy = make_strategy(std::move(rules));
    type.columns = {name_column(), column("Webhooks", "integer", "How many webhooks it names."), age_column()};
    types.push_back(std::make_shared<const ResourceType>(std::move(type)));
  }
  KindRules policies;
  policies.has_status = true;
  policies.has_generation = true;
  policies.defaults = default_policy;
  policies.validate = validate_policy;
  ResourceType policy = basic_type(group, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false);
  policy.has_status = true;
  policy.has_generation = true;
  policy.strategy = make_strategy(std::move(policies));
  types.push_back(std::make_shared<const ResourceType>(std::move(policy)));
  KindRules bindings;
  bindings.has_generation = true;
  bindings.defaults = default_policy_binding;
  bindings.validate = validate_policy_binding;
  ResourceType binding =
      basic_type(group, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", false);
  binding.has_generation = true;
  binding.strategy = make_strategy(std::move(bindings));
  types.push_back(std::make_shared<const ResourceType>(std::move(binding)));
  KindRules mutating;
  mutating.has_generation = true;
  mutating.defaults = default_policy;
  mutating.validate = validate_mutating_policy;
  KindRules mutating_bindings;
  mutating_bindings.has_generation = true;
  mutating_bindings.defaults = default_policy_binding;
  mutating_bindings.validate = validate_mutating_policy_binding;
  const auto add = [&](std::string plural, std::string kind, KindRules rules) {
    ResourceType type = basic_type(group, "v1", std::move(plural), std::move(kind), false);
    type.has_generation = true;
    type.strategy = make_strategy(std::move(rules));
    types.push_back(std::make_shared<const ResourceType>(std::move(type)));
  };
  add("mutatingadmissionpolicies", "MutatingAdmissionPolicy", std::move(mutating));
  add("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", std::move(mutating_bindings));
  return types;
}

// Questions that are answered at once and never stored.
TypeList review_types() {
  struct Review {
    std::string_view group;
    std::string_view plural;
    std::string_view kind;
    bool namespaced;
  };
  constexpr Review kReviews[] = {
      {"", "bindings", "Binding", true},
      {"authentication.k8s.io", "tokenreviews", "TokenReview", false},
      {"authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false},
      {"authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false},
      {"authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false},
      {"authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true},
      {"authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false}};
  TypeList types;
  for (const Review& review : kReviews) {
    ResourceType type = basic_type(std::string(review.group), "v1", std::string(review.plural),
                                   std::string(review.kind), review.namespaced);
    type.verbs = {"create"};
    type.is_virtual = true;
    types.push_back(std::make_shared<const ResourceType>(std::move(type)));
  }
  return types;
}

}  // namespace

TypeList access_types() {
  TypeList types = rbac_types();
  for (auto& type : review_types()) types.push_back(std::move(type));
  for (auto& type : admission_types()) types.push_back(std::move(type));
  return types;
}

}  // namespace basalt::apiserver
