#include "cli/shard/shard_commands.h"

#include <gtest/gtest.h>

#include "cli/client/host_test_support.h"
#include "controllers/manager/controller_manager.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

using std::chrono::seconds;

class Setting {
 public:
  explicit Setting(rt::SimRuntime& runtime) : cluster(runtime), host(cluster) {
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}");
  }
  ~Setting() {
    if (manager) manager->stop();
    cluster.stop();
  }
  void start() {
    controllers::ManagerOptions options;
    options.controllers = {"sharding-controller"};
    manager = std::make_unique<controllers::ControllerManager>(cluster.runtime(), cluster.client(), Logger(), metrics,
                                                               options);
    ASSERT_TRUE(manager->start({}).ok());
  }
  void configure(std::string_view document) {
    const json::Value map = json::Object{
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", json::Object{{"name", "volcano-sharding-configmap"}, {"namespace", "volcano-system"}}},
        {"data", json::Object{{"sharding.yaml", document}}}};
    cluster.apply(map.to_text());
  }
  void node(const std::string& name, const std::string& cpu) {
    cluster.apply("{apiVersion: v1, kind: Node, metadata: {name: " + name +
                  "}, status: {capacity: {cpu: \"8\", memory: 32Gi}}}");
    cluster.apply("{apiVersion: v1, kind: Pod, metadata: {name: on-" + name + "}, spec: {nodeName: " + name +
                  ", containers: [{name: c, image: i, resources: {requests: {cpu: \"" + cpu + "\"}}}]}}");
  }
  Ran shard(std::vector<std::string> arguments) {
    return run_line(host, shard_group(), "basalt shard", std::move(arguments));
  }

  sim::Cluster cluster;
  TestHost host;
  kube::Metrics metrics;
  std::unique_ptr<controllers::ControllerManager> manager;
};

void in_setting(const std::function<void(Setting&)>& body) {
  rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
    Setting setting(runtime);
    body(setting);
  });
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(ShardCommands, ListViewExplainStatus) {
  in_setting([](Setting& s) {
    s.configure(R"(schedulerConfigs:
- name: agent-scheduler
  policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1.0}}, {name: node-limit, arguments: {minNodes: 2}}]
- name: volcano
  policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.6}}, {name: node-limit, arguments: {maxNodes: 1}}]
)");
    s.node("busy", "7");
    s.node("half", "4");
    s.node("less", "1");
    s.node("between", "5200m");
    s.start();
    s.cluster.runtime().sleep_for(seconds(10));

    Ran ran = s.shard({"list"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_HAS(ran.out, "agent-scheduler   1         0        1        0");
    ran = s.shard({"view", "volcano"});
    EXPECT_HAS(ran.out, "Desired (1)\n  half\n");
    ran = s.shard({"view", "volcan"});
    EXPECT_NE(ran.exit, 0);
    EXPECT_HAS(ran.err, "volcano");

    ran = s.shard({"explain", "half"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_HAS(ran.out, "Owner:          volcano");
    EXPECT_HAS(ran.out, "cpu 50.0%, memory 0.0%, 1 pods");
    EXPECT_HAS(ran.out, "agent-scheduler refuses the node\n  allocation-rate: cpu 50% is outside 70..100%");
    EXPECT_HAS(ran.out, "volcano has the node, score 0.833\n  allocation-rate: cpu 50% is within 0..60%");
    ran = s.shard({"explain", "less"});
    EXPECT_HAS(ran.out, "Owner:          nobody");
    EXPECT_HAS(ran.out, "volcano would take it (score 0.217), but has better nodes up to its limit: 1 now");
    ran = s.shard({"explain", "between"});
    EXPECT_HAS(ran.out, "volcano refuses the node\n  allocation-rate: cpu 65% is outside 0..60%");
    ran = s.shard({"explain", "nothere"});
    EXPECT_NE(ran.exit, 0);

    ran = s.shard({"status"});
    EXPECT_EQ(ran.exit, 0) << ran.out;
    EXPECT_HAS(ran.out, "Configuration:  ConfigMap volcano-system/volcano-sharding-configmap");
    EXPECT_HAS(ran.out, "Writes:         pass");
    EXPECT_HAS(ran.out, "4, 2 of them nobody's");
    EXPECT_HAS(ran.out, "1 missing to the minimum");
  });
}

TEST(ShardCommands, ABrokenConfigurationIsVisible) {
  in_setting([](Setting& s) {
    s.configure("schedulerConfigs: [{name: one, policies: [{name: warmup}]}]");
    s.node("a", "1");
    s.start();
    s.cluster.runtime().sleep_for(seconds(10));
    EXPECT_EQ(s.shard({"status"}).exit, 0);
    s.configure("schedulerConfigs: [{name: one, policies: [{name: warmp}]}]");
    s.cluster.runtime().sleep_for(seconds(20));
    const Ran ran = s.shard({"status"});
    EXPECT_NE(ran.exit, 0);
    EXPECT_HAS(ran.out,
               "PROBLEM: ConfigMap volcano-system/volcano-sharding-configmap: schedulerConfigs[0].policies[0].name");
    EXPECT_HAS(ran.out, "did you mean");
    // What is explained is what is in force.
    EXPECT_HAS(s.shard({"explain", "a"}).out, "one has the node");
  });
}

TEST(ShardCommands, WithoutTheController) {
  in_setting([](Setting& s) {
    Ran ran = s.shard({"list"});
    EXPECT_EQ(ran.out, "No resources found\n");
    ran = s.shard({"status"});
    EXPECT_NE(ran.exit, 0);
    EXPECT_HAS(ran.out, "--controllers=*");
    s.node("a", "1");
    ran = s.shard({"explain", "a"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_HAS(ran.out, "built-in defaults");
    EXPECT_NE(s.shard({"explain"}).exit, 0);
  });
}

}  // namespace
}  // namespace basalt::cli
