#include "apiserver/access/rbac.h"

#include <algorithm>
#include <utility>

#include "api/gen/meta.h"
#include "api/labels.h"
#include "apiserver/webhook/webhook_table.h"
#include "base/strings.h"
#include "json/reader.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kGroup = "rbac.authorization.k8s.io";
constexpr int kAggregationLevels = 3;  // view -> edit -> admin

std::vector<std::string> texts(const json::Value& object, std::string_view key) {
  std::vector<std::string> out;
  const json::Value* list = object.find(key);
  if (list == nullptr || !list->is_array()) return out;
  for (const json::Value& item : list->as_array()) {
    if (item.is_string()) out.push_back(item.as_string());
  }
  return out;
}

bool has(const std::vector<std::string>& list, std::string_view wanted) {
  return std::ranges::any_of(list, [&](const std::string& one) { return one == "*" || one == wanted; });
}

bool names_resource(const PolicyRule& rule, const AccessRequest& request) {
  const std::string whole =
      request.subresource.empty() ? request.resource : request.resource + "/" + request.subresource;
  return std::ranges::any_of(rule.resources, [&](const std::string& one) {
    if (one == "*" || one == whole) return true;
    return !request.subresource.empty() && one == "*/" + request.subresource;
  });
}

bool names_path(const PolicyRule& rule, std::string_view path) {
  return std::ranges::any_of(rule.urls, [&](const std::string& one) {
    if (one == "*" || one == path) return true;
    return one.ends_with("*") && path.starts_with(std::string_view(one).substr(0, one.size() - 1));
  });
}

std::vector<PolicyRule> rules_of(const json::Value& role) {
  std::vector<PolicyRule> rules;
  const json::Value* list = role.find("rules");
  if (list == nullptr || !list->is_array()) return rules;
  for (const json::Value& rule : list->as_array()) rules.push_back(PolicyRule::of(rule));
  return rules;
}

// Empty if the role is not aggregated.
std::vector<api::Selector> aggregation_of(const json::Value& role) {
  std::vector<api::Selector> selectors;
  const json::Value* list = role.find_path({"aggregationRule", "clusterRoleSelectors"});
  if (list == nullptr || !list->is_array()) return selectors;
  for (const json::Value& text : list->as_array()) {
    const auto decoded = json::from_text<api::meta::LabelSelector>(text.to_text());
    if (!decoded.ok()) continue;
    if (auto selector = api::Selector::from(*decoded); selector.ok()) selectors.push_back(std::move(*selector));
  }
  return selectors;
}

std::string role_key(std::string_view kind, std::string_view ns, std::string_view name) {
  return std::string(kind) + "/" + std::string(ns) + "/" + std::string(name);
}

}  // namespace

std::string AccessRequest::refusal() const {
  if (!path.empty()) return "User " + base::quote(user.name) + " cannot " + verb + " path " + base::quote(path);
  const std::string whole = subresource.empty() ? resource : resource + "/" + subresource;
  return "User " + base::quote(user.name) + " cannot " + verb + " resource " + base::quote(whole) + " in API group " +
         base::quote(group) + (ns.empty() ? " at the cluster scope" : " in the namespace " + base::quote(ns));
}

PolicyRule PolicyRule::of(const json::Value& rule) {
  return {texts(rule, "verbs"), texts(rule, "apiGroups"), texts(rule, "resources"), texts(rule, "resourceNames"),
          texts(rule, "nonResourceURLs")};
}

bool PolicyRule::allows(const AccessRequest& request) const {
  if (!has(verbs, request.verb)) return false;
  if (!request.path.empty()) return names_path(*this, request.path);
  if (!has(groups, request.group) || !names_resource(*this, request)) return false;
  return names.empty() || (!request.name.empty() && std::ranges::find(names, request.name) != names.end());
}

RbacAuthorizer::RbacAuthorizer(Logger log, ApiServer& server)
    : log_(std::move(log)), server_(server), bindings_(std::make_shared<const std::vector<Binding>>()) {}

bool RbacAuthorizer::Subject::is(const UserInfo& user) const {
  if (kind == "User") return name == user.name;
  if (kind == "Group") return std::ranges::find(user.groups, name) != user.groups.end();
  return kind == "ServiceAccount" && user.name == "system:serviceaccount:" + ns + ":" + name;
}

std::vector<json::Value> RbacAuthorizer::stored(const std::string& plural) const {
  kube::ListRequest list;
  list.resource = {std::string(kGroup), "v1", plural};
  std::vector<json::Value> objects;
  const auto page = server_.list(list, RequestContext{{"system:apiserver", "", {"system:masters"}}, "", false});
  if (!page.ok()) return objects;
  for (const kube::Bytes& text : page->items) {
    if (auto object = json::Value::parse(*text); object.ok()) objects.push_back(std::move(*object));
  }
  return objects;
}

RbacAuthorizer::Roles RbacAuthorizer::read_roles() const {
  const std::vector<json::Value> cluster = stored("clusterroles");
  std::vector<std::vector<PolicyRule>> rules;
  rules.reserve(cluster.size());
  for (const json::Value& role : cluster) rules.push_back(rules_of(role));
  // An aggregated role has the rules of all that its selectors choose, which may be aggregated themselves.
  for (int level = 0; level < kAggregationLevels; ++level) {
    auto next = rules;
    for (std::size_t i = 0; i < cluster.size(); ++i) {
      const std::vector<api::Selector> selectors = aggregation_of(cluster[i]);
      if (selectors.empty()) continue;
      next[i] = rules_of(cluster[i]);
      for (std::size_t other = 0; other < cluster.size(); ++other) {
        const api::StringMap labels = labels_of(cluster[other]);
        const bool is_chosen =
            other != i && std::ranges::any_of(selectors, [&](const auto& one) { return one.matches(labels); });
        if (is_chosen) next[i].insert(next[i].end(), rules[other].begin(), rules[other].end());
      }
    }
    rules = std::move(next);
  }
  Roles roles;
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    roles[role_key("ClusterRole", "", cluster[i].string_at({"metadata", "name"}))] =
        std::make_shared<const std::vector<PolicyRule>>(std::move(rules[i]));
  }
  for (const json::Value& role : stored("roles")) {
    roles[role_key("Role", role.string_at({"metadata", "namespace"}), role.string_at({"metadata", "name"}))] =
        std::make_shared<const std::vector<PolicyRule>>(rules_of(role));
  }
  return roles;
}

void RbacAuthorizer::read_bindings(const Roles& roles, const std::string& plural,
                                   std::vector<Binding>& bindings) const {
  for (const json::Value& object : stored(plural)) {
    Binding binding;
    binding.name = std::string(object.string_at({"metadata", "name"}));
    binding.ns = std::string(object.string_at({"metadata", "namespace"}));
    const std::string_view kind = object.string_at({"roleRef", "kind"});
    const std::string_view name = object.string_at({"roleRef", "name"});
    const auto role = roles.find(role_key(kind, kind == "Role" ? std::string_view(binding.ns) : "", name));
    if (role == roles.end()) continue;
    binding.rules = role->second;
    binding.role = std::string(kind) + " " + base::quote(name);
    if (const json::Value* subjects = object.find("subjects"); subjects != nullptr && subjects->is_array()) {
      for (const json::Value& one : subjects->as_array()) {
        const std::string_view ns = one.string_at({"namespace"});
        binding.subjects.push_back({std::string(one.string_at({"kind"})), std::string(one.string_at({"name"})),
                                    ns.empty() ? binding.ns : std::string(ns)});
      }
    }
    bindings.push_back(std::move(binding));
  }
}

void RbacAuthorizer::refresh() {
  const Roles roles = read_roles();
  auto bindings = std::make_shared<std::vector<Binding>>();
  read_bindings(roles, "clusterrolebindings", *bindings);
  read_bindings(roles, "rolebindings", *bindings);
  rt::MutexLock lock(mutex_);
  bindings_ = std::move(bindings);
}

std::shared_ptr<const std::vector<RbacAuthorizer::Binding>> RbacAuthorizer::bindings() const {
  rt::MutexLock lock(mutex_);
  return bindings_;
}

AccessDecision RbacAuthorizer::decide(const AccessRequest& request) const {
  if (std::ranges::find(request.user.groups, "system:masters") != request.user.groups.end()) return {true, ""};
  const auto bindings = this->bindings();
  for (const Binding& binding : *bindings) {
    if (!binding.ns.empty() && (binding.ns != request.ns || !request.path.empty())) continue;
    const auto subject =
        std::ranges::find_if(binding.subjects, [&](const Subject& one) { return one.is(request.user); });
    if (subject == binding.subjects.end()) continue;
    if (!std::ranges::any_of(*binding.rules, [&](const PolicyRule& rule) { return rule.allows(request); })) continue;
    const std::string kind = binding.ns.empty() ? "ClusterRoleBinding" : "RoleBinding";
    const std::string where = binding.ns.empty() ? binding.name : binding.name + "/" + binding.ns;
    return {true, "RBAC: allowed by " + kind + " " + base::quote(where) + " of " + binding.role + " to " +
                      subject->kind + " " + base::quote(subject->name)};
  }
  return {false, ""};
}

std::vector<PolicyRule> RbacAuthorizer::rules_for(const UserInfo& user, const std::string& ns) const {
  std::vector<PolicyRule> rules;
  if (std::ranges::find(user.groups, "system:masters") != user.groups.end()) {
    rules.push_back({{"*"}, {"*"}, {"*"}, {}, {}});
    rules.push_back({{"*"}, {}, {}, {}, {"*"}});
  }
  const auto bindings = this->bindings();
  for (const Binding& binding : *bindings) {
    if (!binding.ns.empty() && binding.ns != ns) continue;
    if (std::ranges::none_of(binding.subjects, [&](const Subject& one) { return one.is(user); })) continue;
    rules.insert(rules.end(), binding.rules->begin(), binding.rules->end());
  }
  return rules;
}

}  // namespace basalt::apiserver
