#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "json/value.h"
#include "yaml/reader.h"

// What users suffered from when they installed and upgraded; the number is that of the issue.

namespace basalt::test {
namespace {

namespace fs = std::filesystem;
const fs::path kDeploy = fs::path(BASALT_SOURCE_DIR) / "deploy";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> files_under(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".yaml") found.push_back(entry.path());
  }
  return found;
}

std::vector<json::Value> documents_of(const fs::path& path) {
  const auto documents = yaml::read_all(text_of(path));
  EXPECT_TRUE(documents.ok()) << path;
  std::vector<json::Value> values;
  if (!documents.ok()) return values;
  for (const yaml::Document& document : *documents) values.push_back(document.value);
  return values;
}

// An upgrade replaces every object in place: there is no Job, whose template may not change.
TEST(DeployUsers, UsersJ_3496_NothingThatCannotBeUpgraded) {
  for (const char* file : {"controllers.yaml", "webhooks.yaml", "webhook-configurations.yaml"}) {
    for (const json::Value& object : documents_of(kDeploy / file)) EXPECT_NE(object.string_at({"kind"}), "Job") << file;
  }
  for (const fs::path& path : files_under(kDeploy / "chart/templates"))
    EXPECT_EQ(text_of(path).find("kind: Job\n"), std::string::npos) << path;
}

// The chart makes no certificates: the admission server makes its own and keeps them over an upgrade.
TEST(DeployUsers, UsersJ_4396_UpgradesMakeNoCertificates) {
  for (const fs::path& path : files_under(kDeploy / "chart/templates")) {
    for (const char* word : {"genCA", "genSignedCert", "genSelfSignedCert", "kind: Secret"})
      EXPECT_EQ(text_of(path).find(word), std::string::npos) << path << " has " << word;
  }
}

// The chart leaves the namespace to helm, so that one that exists is as good as a new one.
TEST(DeployUsers, UsersJ_3337_TheNamespaceMayExist) {
  for (const fs::path& path : files_under(kDeploy / "chart/templates"))
    EXPECT_EQ(text_of(path).find("kind: Namespace"), std::string::npos) << path;
}

// No job of a user displaces the control plane.
TEST(DeployUsers, UsersJ_312_ComponentsOutrankJobs) {
  int deployments = 0;
  for (const char* file : {"controllers.yaml", "webhooks.yaml", "scheduler/scheduler.yaml"}) {
    for (const json::Value& object : documents_of(kDeploy / file)) {
      if (object.string_at({"kind"}) != "Deployment") continue;
      ++deployments;
      EXPECT_EQ(object.string_at({"spec", "template", "spec", "priorityClassName"}), "system-cluster-critical") << file;
    }
  }
  EXPECT_EQ(deployments, 3);
}

// The limits that are shipped leave room: what the controllers need for 500 jobs is in `bench`, a third of Volcano's.
TEST(DeployUsers, UsersI_1661_LimitsLeaveRoom) {
  for (const json::Value& object : documents_of(kDeploy / "controllers.yaml")) {
    if (object.string_at({"kind"}) != "Deployment") continue;
    const json::Value& container = object.find_path({"spec", "template", "spec", "containers"})->as_array().at(0);
    const std::string_view limit = container.string_at({"resources", "limits", "memory"});
    EXPECT_TRUE(limit.empty() || limit.ends_with("Gi")) << limit;
  }
}

}  // namespace
}  // namespace basalt::test
