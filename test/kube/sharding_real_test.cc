#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "controllers/manager/controller_manager.h"
#include "controllers/sharding/testing/sharding_fixture.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"

// The sharding controller on a real API server, with the rights of deploy/controllers.yaml. The numbers in the names
// are the rows of the scenario table.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;
using Names = std::set<std::string>;
using controllers::sharding::testing::ExclusivityWatch;

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
  static void SetUpTestSuite() {
    if (!RealKube::why_skip().empty()) return;
    auto started = RealKube::start();
    error() = started.error;
    cluster() = std::move(started.kube);
    if (!cluster()) return;
    for (const char* what : {"deploy/namespace.yaml", "deploy/crds", "deploy/controllers.yaml"}) {
      const CommandResult done =
          cluster()->kubectl({"apply", "--server-side", "--filename=" BASALT_SOURCE_DIR "/" + std::string(what)});
      if (done.exit != 0) error() = done.err;
    }
    const CommandResult ready =
        cluster()->kubectl({"wait", "--for=condition=Established", "--timeout=30s", "crds", "--all"});
    if (ready.exit != 0) error() = ready.err;
  }
  static void TearDownTestSuite() { cluster().reset(); }
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(cluster() && error().empty()) << error();
    admin_ = connect(false);
    own_ = connect(true);
    api_ = std::make_unique<sim::Driver>(*runtime_, *admin_);
  }
  void TearDown() override {
    if (!api_) return;
    stop();
    for (const json::Value& pod : api_->list(resources::kPods, "default"))
      api_->remove(resources::kPods, "default", pod.string_at({"metadata", "name"}), 0);
    for (const kube::Resource& resource : {resources::kNodes, resources::kNodeShards}) {
      for (const json::Value& object : api_->list(resource))
        api_->remove(resource, "", object.string_at({"metadata", "name"}));
    }
    api_->remove(resources::kConfigMaps, "volcano-system", "volcano-sharding-configmap");
  }
  static std::unique_ptr<RealKube>& cluster() {
    static std::unique_ptr<RealKube> instance;
    return instance;
  }
  static std::string& error() {
    static std::string text;
    return text;
  }
  std::unique_ptr<kube::RestClient> connect(bool as_controllers) {
    auto config = kube::load_client_config({.kubeconfig = cluster()->kubeconfig().string()},
                                           kube::ConfigEnvironment::of_process());
    EXPECT_TRUE(config.ok());
    if (as_controllers) {
      config->impersonation.user = "system:serviceaccount:volcano-system:volcano-controllers";
      config->impersonation.groups = {"system:serviceaccounts", "system:serviceaccounts:volcano-system",
                                      "system:authenticated"};
    }
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }

  // The test's own connections, after the server was away.
  void reconnect() {
    api_.reset();
    admin_ = connect(false);
    api_ = std::make_unique<sim::Driver>(*runtime_, *admin_);
  }
  void start() {
    controllers::ManagerOptions options;
    options.controllers = {"sharding-controller"};
    metrics_ = std::make_unique<kube::Metrics>();
    manager_ = std::make_unique<controllers::ControllerManager>(*runtime_, *own_, Logger(), *metrics_, options);
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

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<kube::RestClient> admin_;
  std::unique_ptr<kube::RestClient> own_;
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
  const CommandResult shown = cluster()->kubectl({"get", "nsh"});
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

TEST_F(ShardingReal, Rows59And61_ARestartWritesNothingAndADeletedShardComesBack) {
  configure(kDocument);
  for (const char* name : {"a", "b"}) node(name);
  start();
  EXPECT_TRUE(becomes("volcano", {"a", "b"}));
  EXPECT_TRUE(api_->wait_until([&] { return names("volcano", {"status", "nodesToAdd"}).size() == 2; }, 10s));
  stop();
  const auto version = [&] {
    return std::string(api_->get(resources::kNodeShards, "", "volcano")->string_at({"metadata", "resourceVersion"}));
  };
  const std::string before = version();
  start();
  runtime_->sleep_for(3s);
  EXPECT_EQ(version(), before);
  api_->remove(resources::kNodeShards, "", "volcano");
  EXPECT_TRUE(becomes("volcano", {"a", "b"}));
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

std::string limited(std::string_view arguments) {
  return "schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.5}}, {name: "
         "node-limit, arguments: {" +
         std::string(arguments) + "}}]}]\n";
}

// Limits are kept and follow the ConfigMap; a minimum that is missed is said; the older spellings work.
TEST_F(ShardingReal, Rows32And37And47_LimitsFollowTheConfiguration) {
  for (int i = 0; i < 8; ++i) node("n" + std::to_string(i));
  configure(limited("maxNodes: 5"));
  start();
  EXPECT_TRUE(api_->wait_until([&] { return desired("s").size() == 5; }, 30s));
  const Names five = desired("s");
  configure(limited("maxNodes: 2"));
  EXPECT_TRUE(api_->wait_until([&] { return desired("s").size() == 2; }, 30s));
  for (const std::string& name : desired("s")) EXPECT_TRUE(five.contains(name)) << name;
  configure(limited("minNodes: 10"));
  EXPECT_TRUE(api_->wait_until([&] { return desired("s").size() == 8; }, 30s));
  EXPECT_TRUE(api_->wait_until(
      [&] {
        for (const json::Value& event : api_->list(resources::kEvents)) {
          if (event.string_at({"reason"}) == "TooFewNodes" && event.string_at({"involvedObject", "name"}) == "s")
            return true;
        }
        return false;
      },
      30s));
  configure(
      "scheduler-configs:\n- {name: third, cpu-utilization-min: 0.0, cpu-utilization-max: 1.0, min-nodes: 1, "
      "max-nodes: "
      "3}\n- {name: s, cpu-utilization-min: 0.0, cpu-utilization-max: 1.0}\n");
  EXPECT_TRUE(api_->wait_until([&] { return desired("third").size() == 3 && desired("s").size() == 5; }, 30s));
}

TEST_F(ShardingReal, APartitionedShardIsSeveralObjectsAndNoNodeIsInTwo) {
  ExclusivityWatch watch(*runtime_, *admin_, Logger());
  watch.start();
  const auto document = [](int parts) {
    return "schedulerConfigs: [{name: s, partitions: " + std::to_string(parts) +
           ", policies: [{name: allocation-rate, arguments: {maxCPUUtil: 1}}]}]\n";
  };
  for (int i = 0; i < 30; ++i) node("n" + std::to_string(i));
  const auto all_in = [&](const std::vector<std::string>& objects) {
    std::size_t count = 0;
    for (const std::string& object : objects) count += desired(object).size();
    return count == 30 && api_->list(resources::kNodeShards).size() == objects.size();
  };
  configure(document(3));
  start();
  EXPECT_TRUE(api_->wait_until([&] { return all_in({"s-0", "s-1", "s-2"}); }, 30s));
  for (const int parts : {4, 2, 3}) {
    std::vector<std::string> objects;
    for (int part = 0; part < parts; ++part) objects.push_back("s-" + std::to_string(part));
    configure(document(parts));
    EXPECT_TRUE(api_->wait_until([&] { return all_in(objects); }, 30s)) << parts;
  }
  watch.stop();
  EXPECT_GT(watch.versions(), 8u);
  EXPECT_EQ(watch.violations(), std::vector<std::string>());
}

TEST_F(ShardingReal, Row60_NodesThatSwapAreNeverInTwoStoredLists) {
  ExclusivityWatch watch(*runtime_, *admin_, Logger());
  watch.start();
  configure(kDocument);
  for (int i = 0; i < 20; ++i) node("n" + std::to_string(i));
  for (int i = 0; i < 10; ++i) pod("p" + std::to_string(i), "n" + std::to_string(i), "7");
  start();
  EXPECT_TRUE(api_->wait_until([&] { return desired("agent-scheduler").size() == 10; }, 30s));
  Names busy;
  for (int i = 0; i < 5; ++i) {
    api_->remove(resources::kPods, "default", "p" + std::to_string(i), 0);
    pod("q" + std::to_string(i), "n" + std::to_string(i + 10), "7");
  }
  for (int i = 5; i < 15; ++i) busy.insert("n" + std::to_string(i));
  EXPECT_TRUE(becomes("agent-scheduler", busy));
  EXPECT_TRUE(api_->wait_until([&] { return desired("volcano").size() == 10; }, 30s));
  watch.stop();
  EXPECT_EQ(watch.violations(), std::vector<std::string>());
}

// While it was away nodes went and came, pods ended, and a shard was deleted.
TEST_F(ShardingReal, Row63_ARestartFindsWhatChangedMeanwhile) {
  configure(kDocument);
  for (int i = 0; i < 10; ++i) node("old" + std::to_string(i));
  for (int i = 0; i < 5; ++i) pod("p" + std::to_string(i), "old" + std::to_string(i), "7");
  start();
  EXPECT_TRUE(api_->wait_until([&] { return desired("agent-scheduler").size() == 5; }, 30s));
  stop();
  api_->remove(resources::kNodes, "", "old0");
  api_->remove(resources::kPods, "default", "p0", 0);
  api_->remove(resources::kPods, "default", "p1", 0);
  api_->set_pod_phase("default", "p2", "Succeeded");
  node("new");
  pod("q", "new", "6");
  api_->remove(resources::kNodeShards, "", "volcano");
  start();
  EXPECT_TRUE(becomes("agent-scheduler", {"new", "old3", "old4"}));
  EXPECT_TRUE(becomes("volcano", {"old1", "old2", "old5", "old6", "old7", "old8", "old9"}));
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
    runtime_->sleep_for(50ms);
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
  ASSERT_EQ(cluster()->kill_apiserver(), "");
  runtime_->sleep_for(3s);
  ASSERT_EQ(cluster()->start_apiserver(), "");
  reconnect();
  EXPECT_EQ(version(), before);  // an outage moves nobody
  pod("p", "a", "7");
  EXPECT_TRUE(becomes("agent-scheduler", {"a"}));
  EXPECT_TRUE(becomes("volcano", {"b", "c"}));
  api_->remove(resources::kNodes, "", "c");
  ASSERT_EQ(cluster()->compact_etcd(), "");
  ASSERT_EQ(cluster()->restart_apiserver(), "");
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
  const rt::Instant begin = runtime_->now();
  start();
  EXPECT_TRUE(becomes("volcano", all));
  std::printf(
      "100 nodes, from the start of the controller to the stored NodeShards: %.0f ms (design document: 200 ms)\n",
      std::chrono::duration<double, std::milli>(runtime_->now() - begin).count());
}

}  // namespace
}  // namespace basalt::test
