#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/registry/access.h"
#include "apiserver/registry/api_server.h"
#include "base/log.h"
#include "json/value.h"
#include "rt/mutex.h"

namespace basalt::apiserver {

struct PolicyRule {
  std::vector<std::string> verbs;
  std::vector<std::string> groups;
  std::vector<std::string> resources;  // "pods", "pods/log", "*/scale", "*"
  std::vector<std::string> names;      // empty: all
  std::vector<std::string> urls;       // "/healthz", "/metrics/*"

  [[nodiscard]] static PolicyRule of(const json::Value& rule);
  [[nodiscard]] bool allows(const AccessRequest& request) const;
};

// What the stored roles and bindings allow. Thread-safe.
class RbacAuthorizer {
 public:
  RbacAuthorizer(Logger log, ApiServer& server);

  // Reads the stored roles and bindings anew; called after each write of one.
  void refresh();
  [[nodiscard]] AccessDecision decide(const AccessRequest& request) const;
  // All rules that count for the user in the namespace.
  [[nodiscard]] std::vector<PolicyRule> rules_for(const UserInfo& user, const std::string& ns) const;

 private:
  struct Subject {
    std::string kind;  // User, Group, ServiceAccount
    std::string name;
    std::string ns;
    [[nodiscard]] bool is(const UserInfo& user) const;
  };
  struct Binding {
    std::string name;
    std::string ns;  // "" for the cluster
    std::vector<Subject> subjects;
    std::shared_ptr<const std::vector<PolicyRule>> rules;
    std::string role;  // for reasons: `ClusterRole "view"`
  };
  using Roles = std::map<std::string, std::shared_ptr<const std::vector<PolicyRule>>>;

  [[nodiscard]] std::vector<json::Value> stored(const std::string& plural) const;
  [[nodiscard]] Roles read_roles() const;
  void read_bindings(const Roles& roles, const std::string& plural, std::vector<Binding>& bindings) const;
  [[nodiscard]] std::shared_ptr<const std::vector<Binding>> bindings() const;

  const Logger log_;
  ApiServer& server_;
  mutable rt::Mutex mutex_;
  std::shared_ptr<const std::vector<Binding>> bindings_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::apiserver
