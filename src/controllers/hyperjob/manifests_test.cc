#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "controllers/hyperjob/children.h"
#include "json/value.h"
#include "yaml/reader.h"

// What is shipped for a real Karmada, against what Karmada's API takes and what the controller calls.
namespace basalt::controllers::hyperjob {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(std::string(BASALT_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

std::vector<json::Value> documents(const std::string& path) {
  std::vector<json::Value> found;
  std::istringstream text(read_file(path));
  std::string line;
  std::string document;
  const auto take = [&] {
    auto value = yaml::read(document);
    EXPECT_TRUE(value.ok()) << path << ": " << (value.ok() ? "" : value.error().message);
    if (value.ok() && value->is_object()) found.push_back(std::move(*value));
    document.clear();
  };
  while (std::getline(text, line)) {
    if (line == "---") {
      take();
    } else {
      document += line + "\n";
    }
  }
  take();
  return found;
}

void expect_only(const json::Value& object, const std::set<std::string>& allowed, const std::string& where) {
  for (const auto& [key, value] : object.as_object())
    EXPECT_TRUE(allowed.contains(key)) << where << " has the field " << key << ", which Karmada does not know";
}

// Words that open a block need an end each.
int open_blocks(const std::string& script) {
  int depth = 0;
  std::string word;
  for (const char c : script + " ") {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') {
      word += c;
      continue;
    }
    if (word == "function" || word == "if" || word == "do") ++depth;
    if (word == "end") --depth;
    word.clear();
    if (depth < 0) return depth;
  }
  return depth;
}

void check_customization(const json::Value& object, const std::map<std::string, std::string>& functions) {
  EXPECT_EQ(object.string_at({"apiVersion"}), "config.karmada.io/v1alpha1");
  EXPECT_EQ(object.string_at({"kind"}), "ResourceInterpreterCustomization");
  expect_only(*object.find("spec"), {"target", "customizations"}, "spec");
  expect_only(*object.find_path({"spec", "target"}), {"apiVersion", "kind"}, "spec.target");
  std::set<std::string> found;
  for (const auto& [name, customization] : object.find_path({"spec", "customizations"})->as_object()) {
    found.insert(name);
    ASSERT_TRUE(functions.contains(name)) << name;
    expect_only(customization, {"luaScript"}, name);
    const std::string script(customization.string_at({"luaScript"}));
    EXPECT_NE(script.find("function " + functions.at(name) + "("), std::string::npos) << name;
    EXPECT_EQ(open_blocks(script), 0) << name;
  }
  for (const auto& [name, function] : functions) EXPECT_TRUE(found.contains(name)) << name << " is missing";
}

TEST(KarmadaManifests, TheJobInterpreterHasEveryOperation) {
  const auto found = documents("deploy/karmada/job-interpreter.yaml");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].string_at({"spec", "target", "apiVersion"}), "batch.volcano.sh/v1alpha1");
  EXPECT_EQ(found[0].string_at({"spec", "target", "kind"}), "Job");
  check_customization(found[0], {{"replicaResource", "GetReplicas"},
                                 {"replicaRevision", "ReviseReplica"},
                                 {"retention", "Retain"},
                                 {"healthInterpretation", "InterpretHealth"},
                                 {"statusReflection", "ReflectStatus"},
                                 {"statusAggregation", "AggregateStatus"},
                                 {"dependencyInterpretation", "GetDependencies"}});
  // Every counter that a hyper job sums up comes back.
  const std::string reflection(found[0].string_at({"spec", "customizations", "statusReflection", "luaScript"}));
  for (const char* key :
       {"state", "pending", "running", "succeeded", "failed", "terminating", "unknown", "taskStatusCount",
        "minAvailable", "conditions", "version", "retryCount", "runningDuration", "controlledResources"})
    EXPECT_NE(reflection.find("\"" + std::string(key) + "\""), std::string::npos) << key;
}

TEST(KarmadaManifests, TheQueueInterpreterCarriesStates) {
  const auto found = documents("deploy/karmada/queue-interpreter.yaml");
  ASSERT_EQ(found.size(), 1u);
  check_customization(found[0], {{"statusReflection", "ReflectStatus"}, {"statusAggregation", "AggregateStatus"}});
}

TEST(KarmadaManifests, PoliciesUseFieldsThatExist) {
  std::vector<json::Value> policies = documents("deploy/karmada/propagation.yaml");
  ASSERT_EQ(policies.size(), 2u);
  policies.push_back(json::Object{{"spec", policy_spec("j", {"c1"})}});
  for (const json::Value& policy : policies) {
    expect_only(*policy.find("spec"),
                {"resourceSelectors", "propagateDeps", "placement", "priority", "preemption", "dependentOverrides",
                 "schedulerName", "failover", "conflictResolution", "suspension"},
                "spec");
    expect_only(
        *policy.find_path({"spec", "placement"}),
        {"clusterAffinity", "clusterAffinities", "clusterTolerations", "spreadConstraints", "replicaScheduling"},
        "spec.placement");
    expect_only(*policy.find_path({"spec", "placement", "replicaScheduling"}),
                {"replicaSchedulingType", "replicaDivisionPreference", "weightPreference"}, "replicaScheduling");
    for (const json::Value& selector : policy.find_path({"spec", "resourceSelectors"})->as_array()) {
      expect_only(selector, {"apiVersion", "kind", "namespace", "name", "labelSelector"}, "resourceSelectors");
      if (selector.string_at({"kind"}) != "CustomResourceDefinition") continue;
      // "jobs.batch.volcano.sh" is in deploy/crds/batch.volcano.sh_jobs.yaml.
      const std::string name(selector.string_at({"name"}));
      const auto dot = name.find('.');
      const auto crd = documents("deploy/crds/" + name.substr(dot + 1) + "_" + name.substr(0, dot) + ".yaml");
      ASSERT_EQ(crd.size(), 1u);
      EXPECT_EQ(crd[0].string_at({"metadata", "name"}), name);
    }
  }
}

TEST(KarmadaManifests, RightsAreThoseThatAreNeeded) {
  const auto found = documents("deploy/karmada/rbac.yaml");
  ASSERT_EQ(found.size(), 2u);
  std::map<std::string, std::set<std::string>> rights;
  for (const json::Value& rule : found[0].find("rules")->as_array()) {
    for (const json::Value& resource : rule.find("resources")->as_array()) {
      for (const json::Value& verb : rule.find("verbs")->as_array())
        rights[rule.find("apiGroups")->as_array()[0].as_string() + "/" + resource.as_string()].insert(verb.as_string());
    }
  }
  const std::set<std::string> read{"get", "list", "watch"};
  const std::set<std::string> all{"get", "list", "watch", "create", "update", "patch", "delete"};
  EXPECT_EQ(rights["training.volcano.sh/hyperjobs"], read);
  EXPECT_EQ(rights["training.volcano.sh/hyperjobs/status"], (std::set<std::string>{"get", "update", "patch"}));
  EXPECT_EQ(rights["training.volcano.sh/hyperjobs/finalizers"], (std::set<std::string>{"update"}));
  EXPECT_EQ(rights["batch.volcano.sh/jobs"], all);
  EXPECT_EQ(rights["policy.karmada.io/propagationpolicies"], all);
  EXPECT_EQ(rights["work.karmada.io/resourcebindings"], read);
  EXPECT_EQ(rights["cluster.karmada.io/clusters"], read);
  EXPECT_EQ(rights["/events"], (std::set<std::string>{"create", "patch"}));
  EXPECT_FALSE(rights.contains("/pods"));
}

TEST(KarmadaManifests, TheDeploymentNamesTheController) {
  const auto found = documents("deploy/karmada/controller.yaml");
  ASSERT_EQ(found.size(), 1u);
  const std::string text = found[0].to_text();
  EXPECT_NE(text.find("--controllers=hyperjob-controller,gc-controller"), std::string::npos);
  EXPECT_NE(text.find("--kubeconfig="), std::string::npos);
}

}  // namespace
}  // namespace basalt::controllers::hyperjob
