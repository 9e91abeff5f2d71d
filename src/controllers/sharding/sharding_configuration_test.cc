#include <gtest/gtest.h>

#include "controllers/sharding/testing/sharding_fixture.h"

// The numbers in the names are the rows of the scenario table.

namespace basalt::controllers::sharding::testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
constexpr std::uint64_t kSeeds = 3;

TEST(OnlineConfiguration, Rows35And36_WithoutConfigMapTheFlagsCount) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.nodes("n", 3);
    f.pod("p", "n0", "6");
    f.start();
    f.becomes({{"agent-scheduler", {"n0"}}, {"volcano", {"n1", "n2"}}});
    EXPECT_EQ(f.shards(), (Names{"agent-scheduler", "volcano"}));
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.status("configuration") == "flags"; }, seconds(10)));
    // A third scheduler comes with a ConfigMap, without a restart.
    f.configure(std::string(kUsualDocument) + "");
    f.settle();
    f.configure(R"(schedulerConfigs:
- {name: third, policies: [{name: node-limit, arguments: {maxNodes: 1}}]}
- {name: volcano, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.6}}]}
)");
    f.becomes_of_size("third", 1);
    f.shards_become({"third", "volcano"});  // agent-scheduler is no longer configured
  });
}

TEST(OnlineConfiguration, Row37_ALimitShrinksAtOnce) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    const auto with_limit = [](int limit) {
      return "schedulerConfigs: [{name: volcano, policies: [{name: node-limit, arguments: {maxNodes: " +
             std::to_string(limit) + "}}]}]\n";
    };
    f.configure(with_limit(10));
    f.nodes("n", 4);
    f.start();
    f.becomes_of_size("volcano", 4);
    f.configure(with_limit(1));
    f.becomes_of_size("volcano", 1);
    EXPECT_EQ(f.metric("volcano_sharding_config_generation"), 2);
    f.soon([&] { return f.events("ShardingConfigurationApplied") >= 1; });
  });
}

TEST(OnlineConfiguration, Rows38And42And43_ABrokenOneChangesNothingAndIsSaid) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(kUsualDocument);
    f.nodes("n", 3);
    f.start();
    f.becomes({{"agent-scheduler", {}}, {"volcano", {"n0", "n1", "n2"}}});
    f.status_is_written("volcano");
    const std::uint64_t writes = f.writes();
    double errors = 0;
    for (const char* broken : {
             "{bad yaml{{",
             "",
             "schedulerConfigs: []",
             "null",
             "- a",
             "schedulerConfigs: [{name: a, policies: [{name: nosuch}]}]",
             "schedulerConfigs: [{name: a, policies: [{name: warmup}]}, {name: a, policies: [{name: warmup}]}]",
             "schedulerConfigs: [{name: a, policies: [{name: warmup, arguments: {minNodes: 1}}]}]",
             "schedulerConfigs: [{name: a, policies: [{name: warmup, weight: -1}]}]",
             "schedulerConfigs: [{name: a, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.9, maxCPUUtil: "
             "0.5}}]}]",
             "schedulerConfigs: [{name: A_b, policies: [{name: warmup}]}]",
             "schedulerConfigs: [{name: a, cpuUtilizationMin: 0.9, cpuUtilizationMax: 0.5}]",
         }) {
      SCOPED_TRACE(broken);
      f.configure(broken);
      ++errors;
      if (f.is_simulated()) f.settle();
      f.soon([&] { return f.metric("volcano_sharding_config_errors_total") == errors; });
      EXPECT_EQ(f.shards(), (Names{"agent-scheduler", "volcano"}));
      EXPECT_EQ(f.desired("volcano").size(), 3u);
    }
    f.rest(minutes(3));
    EXPECT_EQ(f.writes(), writes);
    f.soon([&] { return f.events("ShardingConfigurationRejected") >= 1; });
    f.soon([&] { return f.status("configurationProblem").find("cpuUtilizationMin") != std::string::npos; });
    // The key is removed, then the whole ConfigMap.
    f.cluster.patch(resources::kConfigMaps, "volcano-system", "volcano-sharding-configmap", R"({"data":null})");
    f.settle();
    f.remove_configuration();
    f.rest(minutes(3));
    EXPECT_EQ(f.desired("volcano").size(), 3u);
    EXPECT_EQ(f.writes(), writes);
    // And a good one is taken again.
    f.configure("schedulerConfigs: [{name: volcano, policies: [{name: node-limit, arguments: {maxNodes: 2}}]}]");
    f.becomes_of_size("volcano", 2);
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.status("configurationProblem").empty(); }, seconds(10)));
  });
}

TEST(OnlineConfiguration, Row39_AnEmptyOneAtTheStartDeletesNothing) {
  for (const char* broken : {"", "schedulerConfigs: []", "{bad yaml{{"}) {
    with_sharding(kSeeds, [&](ShardingFixture& f) {
      f.nodes("n", 2);
      f.cluster.apply(
          "{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: special}, spec: "
          "{nodesDesired: [elsewhere]}}");
      f.configure(broken);
      f.start();
      f.rest(minutes(3));
      f.becomes({{"agent-scheduler", {}}, {"volcano", {"n0", "n1"}}, {"special", {"elsewhere"}}});
      EXPECT_EQ(f.shards(), (Names{"agent-scheduler", "special", "volcano"}));
      f.configure(kUsualDocument);
      f.shards_become({"agent-scheduler", "volcano"});
    });
  }
}

TEST(OnlineConfiguration, NodesOfAForeignShardAreNotTakenWhileItMayNotBeDeleted) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.nodes("n", 2);
    f.cluster.apply(
        "{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: special}, spec: "
        "{nodesDesired: [n0]}}");
    f.configure("");
    f.start();
    f.rest(minutes(2));
    f.becomes({{"special", {"n0"}}, {"volcano", {"n1"}}});
    f.configure(kUsualDocument);
    f.becomes({{"volcano", {"n0", "n1"}}});
  });
}

TEST(OnlineConfiguration, Row41_ThePeriodChangesAtOnceAndANonsenseOneIsIgnored) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    const auto document = [](std::string_view period, int limit) {
      return "schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.1}}, {name: "
             "node-limit, arguments: {maxNodes: " +
             std::to_string(limit) + "}}]}]\nshardSyncPeriod: " + std::string(period) + "\n";
    };
    f.configure(document("60s", 10));
    f.nodes("n", 3);
    f.start();
    f.becomes_of_size("s", 3);
    f.configure(document("1s", 10));
    f.settle();
    f.pod("p", "n0", "1");  // a change of 0.125, left to the period
    f.becomes_within(seconds(3), {{"s", {"n1", "n2"}}});
    f.configure(document("abc", 1));
    f.becomes_of_size("s", 1);  // the rest is applied
    EXPECT_EQ(f.status("configurationProblem"), "");
  });
}

TEST(OnlineConfiguration, Row47_TheSpellingsOfTheDesignDocument) {
  const auto result_of = [](std::string_view document) {
    std::map<std::string, Names> result;
    with_sharding(1, [&](ShardingFixture& f) {
      f.configure(document);
      f.nodes("n", 6);
      f.node("warm", "node.volcano.sh/warmup: \"true\"");
      f.pod("p0", "n0", "6");
      f.pod("p1", "n1", "7");
      f.start();
      f.becomes_of_size("agent-scheduler", 2);
      f.becomes_of_size("volcano-scheduler", 3);
      for (const std::string& shard : f.shards()) result[shard] = f.desired(shard);
    });
    return result;
  };
  const auto kebab = result_of(R"(scheduler-configs:
- name: agent-scheduler
  type: agent
  cpu-utilization-min: 0.7
  cpu-utilization-max: 1.0
  prefer-warmup-nodes: true
  min-nodes: 1
  max-nodes: 100
- name: volcano-scheduler
  type: volcano
  cpu-utilization-min: 0.0
  cpu-utilization-max: 0.69
  prefer-warmup-nodes: false
  min-nodes: 1
  max-nodes: 3
shard-sync-period: 60s
enable-node-event-trigger: true
)");
  const auto camel = result_of(R"(schedulerConfigs:
- {name: agent-scheduler, type: agent, cpuUtilizationMin: 0.7, cpuUtilizationMax: 1.0, preferWarmupNodes: true, minNodes: 1, maxNodes: 100}
- {name: volcano-scheduler, type: volcano, cpuUtilizationMin: 0.0, cpuUtilizationMax: 0.69, preferWarmupNodes: no, minNodes: 1, maxNodes: 3}
shardSyncPeriod: 60s
enableNodeEventTrigger: yes
)");
  EXPECT_EQ(kebab, camel);
  EXPECT_EQ(kebab.at("agent-scheduler"), (Names{"n0", "n1"}));
  EXPECT_EQ(kebab.at("volcano-scheduler").size(), 3u);
}

TEST(OnlineConfiguration, Row44_AMalformedFlagLeavesTheBuiltInPair) {
  ShardingOptions options;
  options.scheduler_configs = {"a:b:0:1:true:1:2", "broken"};
  options.config_map = "";
  with_sharding(
      kSeeds,
      [](ShardingFixture& f) {
        f.start();
        f.shards_become({"agent-scheduler", "volcano"});
        f.soon([&] { return f.status("configurationProblem").find("broken") != std::string::npos; });
      },
      options);
}

TEST(OnlineConfiguration, WhatAPolicyNeedsIsReadFromThenOn) {
  with_sharding(
      kSeeds,
      [](ShardingFixture& f) {
        f.configure(kUsualDocument);
        f.node("cpu", "", "8", "");
        f.cluster.apply(
            "{apiVersion: v1, kind: Node, metadata: {name: gpu, annotations: {example.com/heat: \"0.9\"}}, status: "
            "{capacity: "
            "{cpu: \"8\", memory: 32Gi, nvidia.com/gpu: \"8\"}}}");
        f.cluster.apply(
            "{apiVersion: v1, kind: Pod, metadata: {name: g}, spec: {nodeName: gpu, containers: [{name: c, image: i, "
            "resources: {requests: {nvidia.com/gpu: \"6\"}, limits: {nvidia.com/gpu: \"6\"}}}]}}");
        f.start();
        f.becomes({{"volcano", {"cpu", "gpu"}}});
        f.configure(R"(schedulerConfigs:
- name: busy-gpus
  policies:
  - {name: multi-dimension, arguments: {resources: [cpu, nvidia.com/gpu], minUtil: 0.7, missing: reject}}
- name: rest
  policies: [{name: memory-rate}]
)");
        f.becomes({{"busy-gpus", {"gpu"}}, {"rest", {"cpu"}}});
        f.configure(R"(schedulerConfigs:
- name: hot
  policies:
  - {name: metric-range, arguments: {source: annotation, key: example.com/heat, min: 0.8}}
)");
        f.becomes({{"hot", {"gpu"}}});
        f.shards_become({"hot"});
        f.cluster.patch(resources::kNodes, "", "cpu", R"({"metadata":{"annotations":{"example.com/heat":"0.95"}}})");
        f.becomes_within(seconds(70), {{"hot", {"cpu", "gpu"}}});  // metrics are left to the period
      },
      with_period());
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
