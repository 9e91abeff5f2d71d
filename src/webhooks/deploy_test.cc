#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "webhooks/server.h"
#include "webhooks/webhooks_test_support.h"

// The manifests in deploy/ and the table of hooks say the same.

namespace basalt::webhooks {
namespace {

using ::testing::HasSubstr;
using namespace testing;

std::string deploy_text(std::string_view name) {
  std::ifstream file(std::string(BASALT_SOURCE_DIR) + "/deploy/" + std::string(name), std::ios::binary);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::map<std::string, json::Value> objects_of(std::string_view name, std::string_view kind) {
  std::map<std::string, json::Value> found;
  const auto documents = yaml::read_all(deploy_text(name));
  EXPECT_TRUE(documents.ok()) << documents.error().message;
  if (!documents.ok()) return found;
  for (const auto& document : *documents) {
    if (text_at(document.value, "kind").ends_with(kind)) {
      found.emplace(document.value.string_at({"metadata", "name"}), document.value);
    }
  }
  return found;
}

// What a Karmada API server sends stands in files of its own.
bool is_of_karmada(const Hook& hook) { return hook.group.ends_with("karmada.io"); }

std::vector<Hook> hooks_of_clusters() {
  std::vector<Hook> hooks;
  for (const Hook& hook : all_hooks()) {
    if (!is_of_karmada(hook)) hooks.push_back(hook);
  }
  return hooks;
}

TEST(DeployedConfigurations, SendWhatTheHooksTake) {
  const auto configurations = objects_of("webhook-configurations.yaml", "WebhookConfiguration");
  EXPECT_EQ(hooks_of_clusters().size(), configurations.size());
  for (const Hook& hook : hooks_of_clusters()) {
    SCOPED_TRACE(hook.path);
    const auto found = configurations.find(hook.configuration_name());
    ASSERT_NE(configurations.end(), found);
    const json::Value& configuration = found->second;
    EXPECT_EQ(hook.is_mutating ? "MutatingWebhookConfiguration" : "ValidatingWebhookConfiguration",
              text_at(configuration, "kind"));
    const json::Array& entries = list_at(configuration, "webhooks");
    ASSERT_EQ(1u, entries.size());
    EXPECT_EQ(hook.webhook_name, text_at(entries[0], "name"));
    EXPECT_EQ(hook.path, entries[0].string_at({"clientConfig", "service", "path"}));
    const json::Array& rules = list_at(entries[0], "rules");
    ASSERT_EQ(1u, rules.size());
    EXPECT_EQ(hook.group, list_at(rules[0], "apiGroups")[0].as_string());
    EXPECT_EQ(hook.version, list_at(rules[0], "apiVersions")[0].as_string());
    EXPECT_EQ(hook.resource, list_at(rules[0], "resources")[0].as_string());
    std::set<std::string> operations;
    for (const json::Value& operation : list_at(rules[0], "operations")) operations.insert(operation.as_string());
    for (const Operation one : {Operation::Create, Operation::Update, Operation::Delete, Operation::Connect}) {
      EXPECT_EQ(hook.takes(one), operations.contains(std::string(to_string(one))));
    }
    // What everybody writes never waits for us: pods only if they ask for it, and nothing of the cluster's own.
    EXPECT_LE(int_at(entries[0], "timeoutSeconds").value_or(99), 5);
    if (text_at(rules[0], "scope") == "Namespaced") {
      EXPECT_THAT(entries[0].find("namespaceSelector")->to_text(), HasSubstr("kube-system"));
    }
    if (hook.resource == "pods") {
      EXPECT_EQ("Ignore", text_at(entries[0], "failurePolicy"));
      const bool asks = entries[0].find("matchConditions") != nullptr ||
                        entries[0].find("namespaceSelector")->to_text().find("resource-groups") != std::string::npos;
      EXPECT_TRUE(asks);
    }
    // An update of metadata alone, such as of finalizers, must not need us.
    if (hook.takes(Operation::Update)) {
      ASSERT_NE(nullptr, entries[0].find("matchConditions"));
      EXPECT_THAT(entries[0].find("matchConditions")->to_text(), HasSubstr("object.spec != oldObject.spec"));
    }
  }
}

// Two entries with one path: a new binding must not pass without us, a changed one may.
TEST(DeployedConfigurations, BindingsOfKarmadaAreSentWhenMadeAndWhenChanged) {
  const Hook* hook = find_hook("/resourcebindings/mutate");
  ASSERT_NE(nullptr, hook);
  const auto configurations = objects_of("karmada/data-webhook-configuration.yaml", "WebhookConfiguration");
  ASSERT_TRUE(configurations.contains(hook->configuration_name()));
  std::map<std::string, std::string> policies;
  for (const json::Value& entry : list_at(configurations.at(hook->configuration_name()), "webhooks")) {
    EXPECT_TRUE(entry.string_at({"clientConfig", "url"}).ends_with(hook->path));
    const json::Value& rule = list_at(entry, "rules")[0];
    EXPECT_EQ(hook->group, list_at(rule, "apiGroups")[0].as_string());
    EXPECT_EQ(hook->version, list_at(rule, "apiVersions")[0].as_string());
    EXPECT_EQ(hook->resource, list_at(rule, "resources")[0].as_string());
    ASSERT_EQ(1u, list_at(rule, "operations").size());
    const std::string operation = list_at(rule, "operations")[0].as_string();
    policies[operation] = text_at(entry, "failurePolicy");
    EXPECT_EQ(operation == "UPDATE", entry.find("matchConditions") != nullptr);
  }
  EXPECT_EQ((std::map<std::string, std::string>{{"CREATE", "Fail"}, {"UPDATE", "Ignore"}}), policies);
  EXPECT_THAT(objects_of("karmada/data-rbac.yaml", "ClusterRole").at("volcano-data-admission").to_text(),
              HasSubstr('"' + hook->configuration_name() + '"'));
  EXPECT_THAT(objects_of("karmada/data-controller.yaml", "Deployment").at("volcano-data-admission").to_text(),
              HasSubstr("--enabled-admission=" + std::string(hook->path)));
}

TEST(DeployedServer, ServesEveryHookAndMayRegisterIt) {
  const auto deployments = objects_of("webhooks.yaml", "Deployment");
  ASSERT_EQ(1u, deployments.size());
  std::string paths;
  const json::Value* containers = deployments.begin()->second.find_path({"spec", "template", "spec", "containers"});
  ASSERT_NE(nullptr, containers);
  for (const json::Value& argument : list_at(containers->as_array()[0], "args")) {
    if (const auto rest = base::strip_prefix(argument.as_string(), "--enabled-admission=")) paths = *rest;
  }
  const auto hooks = select_hooks(paths);
  ASSERT_TRUE(hooks.ok()) << hooks.error().message;
  EXPECT_EQ(hooks_of_clusters().size(), hooks->size());
  const std::string roles = objects_of("webhooks.yaml", "ClusterRole").begin()->second.to_text();
  for (const Hook& hook : hooks_of_clusters()) EXPECT_THAT(roles, HasSubstr('"' + hook.configuration_name() + '"'));
}

// Through both hooks, as an API server sends them; queues of the same file count as open.
TEST(Examples, AreAccepted) {
  int jobs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BASALT_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    SCOPED_TRACE(entry.path().filename());
    const auto documents = yaml::read_all(deploy_text("../examples/" + entry.path().filename().string()));
    ASSERT_TRUE(documents.ok()) << documents.error().message;
    StoredClusterView cluster;
    put_queue(cluster, "{metadata: {name: default}, status: {state: Open}}");
    for (const auto& document : *documents) {
      if (text_at(document.value, "kind") != "Queue") continue;
      json::Value queue = document.value;
      queue.ensure_path({"status", "state"}) = "Open";
      ASSERT_TRUE(cluster.put_queue(queue).ok());
    }
    const AdmissionRules rules({}, cluster);
    for (const auto& document : *documents) {
      const auto version = base::split_once(text_at(document.value, "apiVersion"), '/');
      if (!version) continue;
      ReviewRequest request;
      request.group = version->first;
      request.version = version->second;
      request.resource = base::to_lower_ascii(text_at(document.value, "kind")) + "s";
      request.ns = "default";
      request.name = document.value.string_at({"metadata", "name"});
      json::Value object = document.value;
      std::vector<std::string> warnings;
      const Done mutated = rules.mutate(request, object, warnings);
      EXPECT_TRUE(mutated.ok()) << mutated.error().message;
      request.object = &object;
      const Done valid = rules.validate(request, warnings);
      EXPECT_TRUE(valid.ok()) << valid.error().message;
      EXPECT_TRUE(warnings.empty()) << warnings.front();
      if (request.resource == "jobs") ++jobs;
    }
  }
  EXPECT_GT(jobs, 5);
}

}  // namespace
}  // namespace basalt::webhooks
