#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controllers/manager/controller_manager.h"
#include "controllers/sharding/testing/sharding_fixture.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"
#include "test/kube/sharding_place.h"

// The manager with the sharding controller on a real API server: what the scenarios beside the code cannot show on the
// simulated cluster. The numbers in the names are the rows of the scenario table.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;
using Names = std::set<std::string>;

constexpr std::string_view kDocument = R"(schedulerConfigs:
- name: agent-scheduler
  type: agent
  policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1.0}}]
- name: volcano
  type: volcano
  policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.0, maxCPUUtil: 0.6}}]
)";

class ShardingReal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_NE(ShardingPlace::current(), nullptr);
    api_ = ShardingPlace::current()->open({});
  }
  void TearDown() override {
    if (api_) stop();
  }
  static RealKube& cluster() { return ShardingPlace::current()->kube(); }

  // The test's own connections, after the server was away.
  void reconnect() {
    api_.reset();
    admin_ = ShardingPlace::current()->connect(false);
    api_ = std::make_unique<sim::Driver>(runtime_, *admin_);
  }
  void start(std::vector<std::string> controllers = {"sharding-controller"}) {
    controllers::ManagerOptions options;
    options.controllers = std::move(controllers);
    metrics_ = std::make_unique<kube::Metrics>();
    manager_ = std::make_unique<controllers::ControllerManager>(
        runtime_, *controllers::sharding::testing::client_of_the_controller(), Logger(), *metrics_, options);
    ASSERT_TRUE(manager_->start({}).ok());
  }
  void stop() {
    if (manager_) manager_->stop();
    manager_.reset();
  }
  void configure(std::string_view document) {
    const json::Value map = json::Object{
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", json::Object{{"name", "volcano-sharding-configmap"}, {"namespace", "volcano-system"}}},
        {"data", json::Object{{"sharding.yaml", document}}}};
    api_->apply(map.to_text());
  }
  void node(const std::string& name) {
    api_->apply("{apiVersion: v1, kind: Node, metadata: {name: " + name +
                "}, status: {capacity: {cpu: \"8\", memory: 32Gi, pods: \"110\"}}}");
  }
  void pod(const std::string& name, const std::string& node, const std::string& cpu) {
    api_->apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {nodeName: " + node +
        ", automountServiceAccountToken: false, containers: [{name: c, image: i, resources: {requests: {cpu: \"" + cpu +
        "\"}}}]}}");
  }
  Names names(std::string_view shard, std::initializer_list<std::string_view> path) {
    Names all;
    const auto object = api_->get(resources::kNodeShards, "", shard);
    if (!object) return {"<no such shard>"};
    if (const json::Value* list = object->find_path(path); list != nullptr && list->is_array()) {
      for (const json::Value& name : list->as_array()) all.insert(name.as_string());
    }
    return all;
  }
  Names desired(std::string_view shard) { return names(shard, {"spec", "nodesDesired"}); }
  bool becomes(std::string_view shard, const Names& nodes) {
    return api_->wait_until([&] { return desired(shard) == nodes; }, 30s);
  }

  rt::Runtime& runtime_ = ShardingPlace::current()->runtime();
  std::unique_ptr<kube::Client> admin_;
  std::unique_ptr<sim::Driver> api_;
  std::unique_ptr<kube::Metrics> metrics_;
  std::unique_ptr<controllers::ControllerManager> manager_;
};

TEST_F(ShardingReal, Rows01And03And06_NodesFollowTheirLoadAndInUseIsTheSchedulers) {
  configure(kDocument);
  for (const char* name : {"a", "b", "c"}) node(name);
  pod("p", "a", "7");
  start();
  EXPECT_TRUE(becomes("agent-scheduler", {"a"}));
  EXPECT_TRUE(becomes("volcano", {"b", "c"}));
  EXPECT_TRUE(api_->wait_until([&] { return names("volcano", {"status", "nodesToAdd"}) == Names{"b", "c"}; }, 10s));
  api_->patch(resources::kNodeShards, "", "volcano", R"({"status":{"nodesInUse":["b","c"],"lastUpdateTime":null}})",
              "status");
  pod("q", "b", "6");
  EXPECT_TRUE(becomes("agent-scheduler", {"a", "b"}));
  EXPECT_EQ(names("volcano", {"status", "nodesInUse"}), (Names{"b", "c"}));
  EXPECT_TRUE(api_->wait_until([&] { return names("volcano", {"status", "nodesToRemove"}) == Names{"b"}; }, 10s));
  api_->remove(resources::kNodes, "", "c");
  EXPECT_TRUE(becomes("volcano", {}));  // an empty list, not none: the schema wants it
  const CommandResult shown = cluster().kubectl({"get", "nsh"});
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_NE(shown.out.find("agent-scheduler"), std::string::npos) << shown.out;
}

TEST_F(ShardingReal, Rows38And39_ABrokenConfigurationDeletesNothing) {
  node("a");
  api_->apply(
      "{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: special}, spec: {nodesDesired: "
      "[elsewhere]}}");
  configure("");
  start();
  EXPECT_TRUE(becomes("volcano", {"a"}));
  EXPECT_EQ(desired("special"), (Names{"elsewhere"}));
  configure(kDocument);
  EXPECT_TRUE(api_->wait_until([&] { return !api_->get(resources::kNodeShards, "", "special"); }, 30s));
  configure("{bad yaml{{");
  EXPECT_TRUE(api_->wait_until(
      [&] {
        const auto status = api_->get(resources::kConfigMaps, "volcano-system", "volcano-sharding-status");
        return status && !status->string_at({"data", "configurationProblem"}).empty();
      },
      30s));
  EXPECT_EQ(desired("volcano"), (Names{"a"}));
}

// As the manager runs it: not unless it is asked for.
TEST_F(ShardingReal, Row45_OffUnlessTurnedOn) {
  node("a");
  start(controllers::ManagerOptions().controllers);
  runtime_.sleep_for(1500ms);
  EXPECT_TRUE(api_->list(resources::kNodeShards).empty());
  stop();
  start({"*"});
  EXPECT_TRUE(becomes("volcano", {"a"}));
}

TEST_F(ShardingReal, Row20_AContainerThatIsResizedInPlaceCounts) {
  configure(kDocument);
  node("a");
  pod("p", "a", "1");
  start();
  EXPECT_TRUE(becomes("volcano", {"a"}));
  const auto resized = api_->try_patch(
      resources::kPods, "default", "p",
      R"({"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"7"}}}]}})", "resize");
  ASSERT_TRUE(resized.ok()) << resized.error().message;
  EXPECT_TRUE(becomes("agent-scheduler", {"a"}));
  EXPECT_TRUE(becomes("volcano", {}));
}

// Somebody else writes the same lists, and a scheduler its status. Nothing of the status is lost, and the lists are
// right when the other one stops.
TEST_F(ShardingReal, Row66_AnotherWriterIsPutRightAndLosesNothing) {
  configure(kDocument);
  Names all;
  for (int i = 0; i < 6; ++i) {
    node("n" + std::to_string(i));
    all.insert("n" + std::to_string(i));
  }
  start();
  EXPECT_TRUE(becomes("volcano", all));
  for (int i = 0; i < 30; ++i) {
    const std::string list = "[\"n" + std::to_string(i % 6) + "\",\"stranger\"]";
    api_->patch(resources::kNodeShards, "", i % 3 == 0 ? "agent-scheduler" : "volcano",
                R"({"metadata":{"labels":{"theirs":"yes"}},"spec":{"nodesDesired":)" + list + "}}");
    api_->patch(resources::kNodeShards, "", "volcano",
                R"({"status":{"nodesInUse":["n)" + std::to_string(i % 6) + "\"]}}", "status");
    runtime_.sleep_for(50ms);
  }
  EXPECT_TRUE(becomes("volcano", all));
  EXPECT_TRUE(becomes("agent-scheduler", {}));
  EXPECT_EQ(names("volcano", {"status", "nodesInUse"}), (Names{"n5"}));
  EXPECT_EQ(api_->get(resources::kNodeShards, "", "volcano")->string_at({"metadata", "labels", "theirs"}), "yes");
}

// The API server is killed and comes back, then loses its history (410): the controller goes on by itself.
TEST_F(ShardingReal, Row68_TheApiServerGoesAndComesBack) {
  configure(kDocument);
  for (const char* name : {"a", "b", "c"}) node(name);
  start();
  EXPECT_TRUE(becomes("volcano", {"a", "b", "c"}));
  const auto version = [&] {
    return std::string(api_->get(resources::kNodeShards, "", "volcano")->string_at({"metadata", "resourceVersion"}));
  };
  EXPECT_TRUE(api_->wait_until([&] { return names("volcano", {"status", "nodesToAdd"}).size() == 3; }, 10s));
  const std::string before = version();
  ASSERT_EQ(cluster().kill_apiserver(), "");
  runtime_.sleep_for(3s);
  ASSERT_EQ(cluster().start_apiserver(), "");
  reconnect();
  EXPECT_EQ(version(), before);  // an outage moves nobody
  pod("p", "a", "7");
  EXPECT_TRUE(becomes("agent-scheduler", {"a"}));
  EXPECT_TRUE(becomes("volcano", {"b", "c"}));
  api_->remove(resources::kNodes, "", "c");
  ASSERT_EQ(cluster().compact_etcd(), "");
  ASSERT_EQ(cluster().restart_apiserver(), "");
  reconnect();
  api_->remove(resources::kPods, "default", "p", 0);
  EXPECT_TRUE(becomes("volcano", {"a", "b"}));
  EXPECT_TRUE(becomes("agent-scheduler", {}));
}

TEST_F(ShardingReal, Row85_HundredNodesFromTheStartToTheStoredShards) {
  Names all;
  for (int i = 0; i < 100; ++i) {
    node("node-" + std::to_string(i));
    all.insert("node-" + std::to_string(i));
  }
  configure(kDocument);
  const rt::Instant begin = runtime_.now();
  start();
  EXPECT_TRUE(becomes("volcano", all));
  std::printf(
      "100 nodes, from the start of the controller to the stored NodeShards: %.0f ms (design document: 200 ms)\n",
      std::chrono::duration<double, std::milli>(runtime_.now() - begin).count());
}

}  // namespace
}  // namespace basalt::test
