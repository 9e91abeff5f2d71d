#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "json/value.h"
#include "yaml/reader.h"

// The manifests of deploy/ fit together and fit the program.

namespace basalt::test {
namespace {

namespace fs = std::filesystem;
const fs::path kDeploy = fs::path(BASALT_SOURCE_DIR) / "deploy";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// All objects of the manifests, by "Kind name".
std::map<std::string, json::Value> objects() {
  std::map<std::string, json::Value> all;
  std::vector<fs::path> manifests = {kDeploy / "scheduler/scheduler.yaml"};
  for (const fs::directory_entry& entry : fs::directory_iterator(kDeploy)) {
    if (entry.path().extension() == ".yaml") manifests.push_back(entry.path());
  }
  for (const fs::path& manifest : manifests) {
    const auto documents = yaml::read_all(text_of(manifest));
    EXPECT_TRUE(documents.ok()) << manifest;
    if (!documents.ok()) continue;
    for (const yaml::Document& document : *documents) {
      const std::string key = std::string(document.value.string_at({"kind"})) + " " +
                              std::string(document.value.string_at({"metadata", "name"}));
      EXPECT_TRUE(all.emplace(key, document.value).second) << key << " is there twice";
    }
  }
  return all;
}

std::vector<json::Value> of_kind(const std::map<std::string, json::Value>& all, std::string_view kind) {
  std::vector<json::Value> found;
  for (const auto& [key, object] : all) {
    if (object.string_at({"kind"}) == kind) found.push_back(object);
  }
  return found;
}

const json::Value& container_of(const json::Value& deployment) {
  return deployment.find_path({"spec", "template", "spec", "containers"})->as_array().at(0);
}

TEST(Deploy, EverythingIsThere) {
  const auto all = objects();
  for (const char* key : {"Namespace volcano-system", "ServiceAccount volcano-controllers",
                          "ClusterRole volcano-controllers", "ClusterRoleBinding volcano-controllers",
                          "Deployment volcano-controllers", "Service volcano-controllers-service",
                          "PodDisruptionBudget volcano-controllers", "Deployment volcano-scheduler"})
    EXPECT_TRUE(all.contains(key)) << key;
  for (const char* crd : {"batch.volcano.sh_jobs", "bus.volcano.sh_commands", "scheduling.volcano.sh_queues",
                          "scheduling.volcano.sh_podgroups"})
    EXPECT_TRUE(fs::exists(kDeploy / "crds" / (std::string(crd) + ".yaml"))) << crd;
  EXPECT_EQ(fs::canonical(kDeploy / "chart/crds"), fs::canonical(kDeploy / "crds"));
  for (const char* part : {"controllers", "webhooks", "scheduler"})
    EXPECT_TRUE(fs::exists(kDeploy / "chart/templates" / (std::string(part) + ".yaml"))) << part;
}

TEST(Deploy, NamesFitTogether) {
  const auto all = objects();
  for (const json::Value& object : of_kind(all, "Deployment")) {
    const std::string name(object.string_at({"metadata", "name"}));
    SCOPED_TRACE(name);
    EXPECT_TRUE(all.contains("ServiceAccount " +
                             std::string(object.string_at({"spec", "template", "spec", "serviceAccountName"}))));
    EXPECT_EQ(object.find_path({"spec", "selector", "matchLabels"})->to_text(),
              object.find_path({"spec", "template", "metadata", "labels"})->to_text());
    EXPECT_TRUE(object.find_path({"spec", "template", "spec", "securityContext", "runAsNonRoot"})->as_bool());
    std::set<std::string> ports;
    for (const json::Value& port : container_of(object).find("ports")->as_array())
      ports.insert(std::string(port.string_at({"name"})));
    for (const char* probe : {"livenessProbe", "readinessProbe"})
      EXPECT_TRUE(ports.contains(std::string(container_of(object).string_at({probe, "httpGet", "port"})))) << probe;
  }
  for (const char* kind : {"ClusterRoleBinding", "RoleBinding"}) {
    for (const json::Value& object : of_kind(all, kind)) {
      EXPECT_TRUE(all.contains(std::string(object.string_at({"roleRef", "kind"})) + " " +
                               std::string(object.string_at({"roleRef", "name"}))));
      for (const json::Value& subject : object.find("subjects")->as_array())
        EXPECT_TRUE(all.contains("ServiceAccount " + std::string(subject.string_at({"name"}))));
    }
  }
  for (const char* kind : {"Service", "PodDisruptionBudget"}) {
    for (const json::Value& object : of_kind(all, kind)) {
      const json::Value* labels = object.find_path({"spec", "selector", "matchLabels"});
      if (labels == nullptr) labels = object.find_path({"spec", "selector"});
      bool matches = false;
      for (const json::Value& deployment : of_kind(all, "Deployment"))
        matches |= deployment.find_path({"spec", "selector", "matchLabels"})->to_text() == labels->to_text();
      EXPECT_TRUE(matches) << kind << " " << object.string_at({"metadata", "name"}) << " selects nothing";
    }
  }
}

// The program takes the arguments of the manifest: --version after them ends it with 0 before it does anything.
TEST(Deploy, TheProgramTakesTheArguments) {
  for (const json::Value& object : of_kind(objects(), "Deployment")) {
    std::vector<std::string> arguments = {"basalt"};
    for (const json::Value& argument : container_of(object).find("args")->as_array())
      arguments.emplace_back(argument.as_string());
    arguments.emplace_back("--version");
    std::ostringstream out;
    std::ostringstream err;
    EXPECT_EQ(cli::run(arguments, out, err), 0) << object.string_at({"metadata", "name"}) << ": " << err.str();
    EXPECT_NE(out.str().find("API Version"), std::string::npos) << out.str();
  }
}

}  // namespace
}  // namespace basalt::test
