#include "apiserver/access/bootstrap_roles.h"

#include <initializer_list>
#include <string_view>

namespace basalt::apiserver {
namespace {

using Words = std::initializer_list<std::string_view>;

json::Array list(Words words) {
  json::Array array;
  for (const std::string_view word : words) array.emplace_back(word);
  return array;
}

json::Value rule(Words groups, Words resources, Words verbs) {
  return json::Object{{"apiGroups", list(groups)}, {"resources", list(resources)}, {"verbs", list(verbs)}};
}

json::Value url_rule(Words urls, Words verbs) {
  return json::Object{{"nonResourceURLs", list(urls)}, {"verbs", list(verbs)}};
}

json::Value metadata(std::string_view name, std::string_view aggregates_to = {}) {
  json::Object labels{{"kubernetes.io/bootstrapping", "rbac-defaults"}};
  if (!aggregates_to.empty())
    labels.set("rbac.authorization.k8s.io/aggregate-to-" + std::string(aggregates_to), "true");
  return json::Object{{"name", name}, {"labels", std::move(labels)}};
}

json::Value role(std::string_view name, json::Array rules, std::string_view aggregates_to = {}) {
  return json::Object{{"metadata", metadata(name, aggregates_to)}, {"rules", std::move(rules)}};
}

json::Value aggregated(std::string_view name, std::string_view level, std::string_view aggregates_to = {}) {
  const json::Value selector = json::Object{
      {"matchLabels", json::Object{{"rbac.authorization.k8s.io/aggregate-to-" + std::string(level), "true"}}}};
  return json::Object{{"metadata", metadata(name, aggregates_to)},
                      {"aggregationRule", json::Object{{"clusterRoleSelectors", json::Array{selector}}}},
                      {"rules", json::Array()}};
}

json::Value binding(std::string_view role_name, Words user_groups) {
  json::Array subjects;
  for (const std::string_view group : user_groups) {
    subjects.emplace_back(json::Object{{"kind", "Group"}, {"apiGroup", "rbac.authorization.k8s.io"}, {"name", group}});
  }
  return json::Object{
      {"metadata", metadata(role_name)},
      {"roleRef",
       json::Object{{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", role_name}}},
      {"subjects", std::move(subjects)}};
}

const Words kReadVerbs = {"get", "list", "watch"};
const Words kWriteVerbs = {"create", "delete", "deletecollection", "patch", "update"};
const Words kWorkloads = {"deployments", "deployments/scale", "replicasets",       "replicasets/scale",
                          "daemonsets",  "statefulsets",      "statefulsets/scale"};
const Words kCore = {"configmaps", "endpoints",      "persistentvolumeclaims", "pods", "replicationcontrollers",
                     "services",   "serviceaccounts"};
const Words kVolcano = {"*"};
const Words kDiscovery = {"/api",     "/api/*",     "/apis",   "/apis/*",  "/healthz", "/livez",
                          "/openapi", "/openapi/*", "/readyz", "/version", "/version/"};

json::Array view_rules() {
  return {rule({""}, kCore, kReadVerbs),
          rule({""},
               {"events", "limitranges", "namespaces", "namespaces/status", "pods/log", "pods/status", "resourcequotas",
                "resourcequotas/status"},
               kReadVerbs),
          rule({"apps"}, kWorkloads, kReadVerbs), rule({"batch"}, {"cronjobs", "jobs", "jobs/status"}, kReadVerbs),
          rule({"batch.volcano.sh", "scheduling.volcano.sh", "flow.volcano.sh"}, kVolcano, kReadVerbs)};
}

json::Array edit_rules() {
  return {
      rule({""}, kCore, kWriteVerbs),
      rule({""}, {"secrets"}, {"create", "delete", "deletecollection", "patch", "update", "get", "list", "watch"}),
      rule({""}, {"pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"},
           {"create", "get", "delete", "patch", "update"}),
      rule({""}, {"pods/eviction", "serviceaccounts/token", "events"}, {"create"}),
      rule({""}, {"serviceaccounts"}, {"impersonate"}),
      rule({"apps"}, kWorkloads, kWriteVerbs),
      rule({"batch"}, {"cronjobs", "jobs"}, kWriteVerbs),
      rule({"batch.volcano.sh", "scheduling.volcano.sh", "flow.volcano.sh", "bus.volcano.sh"}, kVolcano, kWriteVerbs)};
}

json::Array admin_rules() {
  return {rule({"rbac.authorization.k8s.io"}, {"roles", "rolebindings"},
               {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}),
          rule({"authorization.k8s.io"}, {"localsubjectaccessreviews"}, {"create"})};
}

}  // namespace

std::vector<std::pair<std::string, json::Value>> bootstrap_roles() {
  const std::string roles = "clusterroles";
  const std::string bindings = "clusterrolebindings";
  return {
      {roles, role("cluster-admin", {rule({"*"}, {"*"}, {"*"}), url_rule({"*"}, {"*"})})},
      {roles, aggregated("admin", "admin")},
      {roles, aggregated("edit", "edit", "admin")},
      {roles, aggregated("view", "view", "edit")},
      {roles, role("system:aggregate-to-admin", admin_rules(), "admin")},
      {roles, role("system:aggregate-to-edit", edit_rules(), "edit")},
      {roles, role("system:aggregate-to-view", view_rules(), "view")},
      {roles, role("system:basic-user",
                   {rule({"authorization.k8s.io"}, {"selfsubjectaccessreviews", "selfsubjectrulesreviews"}, {"create"}),
                    rule({"authentication.k8s.io"}, {"selfsubjectreviews"}, {"create"})})},
      {roles, role("system:discovery", {url_rule(kDiscovery, {"get"})})},
      {roles, role("system:public-info-viewer",
                   {url_rule({"/healthz", "/livez", "/readyz", "/version", "/version/"}, {"get"})})},
      {bindings, binding("cluster-admin", {"system:masters"})},
      {bindings, binding("system:basic-user", {"system:authenticated"})},
      {bindings, binding("system:discovery", {"system:authenticated"})},
      {bindings, binding("system:public-info-viewer", {"system:authenticated", "system:unauthenticated"})},
  };
}

}  // namespace basalt::apiserver
