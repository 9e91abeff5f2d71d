#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "controllers/manager/controller_manager.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"

// The sharding controller on a real API server, with the rights of deploy/controllers.yaml.

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

TEST_F(ShardingReal, NodesFollowTheirLoadAndInUseIsTheSchedulers) {
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

TEST_F(ShardingReal, ABrokenConfigurationDeletesNothing) {
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

TEST_F(ShardingReal, ARestartWritesNothingAndADeletedShardComesBack) {
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

TEST_F(ShardingReal, HundredNodesFromTheStartToTheStoredShards) {
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
