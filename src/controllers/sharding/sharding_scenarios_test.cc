#include <gtest/gtest.h>

#include "controllers/sharding/testing/sharding_fixture.h"

// The numbers in the names are the rows of the scenario table.

namespace basalt::controllers::sharding::testing {
namespace {

constexpr std::uint64_t kSeeds = 3;

void with_usual(const std::function<void(ShardingFixture&)>& body) {
  with_sharding(kSeeds, [&](ShardingFixture& f) {
    f.configure(kUsualDocument);
    body(f);
  });
}

// Objects.

TEST(ShardObjects, Row02_AnEmptyClusterHasOneEmptyShardEach) {
  with_usual([](ShardingFixture& f) {
    f.start();
    f.becomes({{"agent-scheduler", {}}, {"volcano", {}}});
    EXPECT_EQ(f.shards(), (Names{"agent-scheduler", "volcano"}));
    for (const char* name : {"agent-scheduler", "volcano"}) {
      const auto shard = f.cluster.get(resources::kNodeShards, "", name);
      const json::Value* nodes = shard->find_path({"spec", "nodesDesired"});
      ASSERT_NE(nodes, nullptr) << name;
      EXPECT_TRUE(nodes->is_array() && nodes->as_array().empty());
    }
  });
}

TEST(ShardObjects, Row03_InUseIsTheSchedulersAndToAddToRemoveAreKept) {
  with_usual([](ShardingFixture& f) {
    f.nodes("n", 3);
    f.start();
    f.becomes({{"volcano", {"n0", "n1", "n2"}}});
    f.soon([&] { return f.names_at("volcano", {"status", "nodesToAdd"}) == Names{"n0", "n1", "n2"}; });
    f.use("volcano", R"(["n0","n1"])");
    f.settle();
    f.soon([&] { return f.names_at("volcano", {"status", "nodesToAdd"}) == Names{"n2"}; });
    f.pod("p", "n0", "7");
    f.becomes({{"volcano", {"n1", "n2"}}, {"agent-scheduler", {"n0"}}});
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesInUse"}), (Names{"n0", "n1"}));
    f.soon([&] { return f.names_at("volcano", {"status", "nodesToRemove"}) == Names{"n0"}; });
    EXPECT_FALSE(f.cluster.get(resources::kNodeShards, "", "volcano")->string_at({"status", "lastUpdateTime"}).empty());
  });
}

TEST(ShardObjects, Row05_AStatusWithNullsIsRead) {
  with_usual([](ShardingFixture& f) {
    f.nodes("n", 1);
    f.cluster.apply(
        "{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: volcano}, spec: "
        "{nodesDesired: []}}");
    f.cluster.patch(resources::kNodeShards, "", "volcano", R"({"status":{"lastUpdateTime":null,"nodesInUse":null}})",
                    "status");
    f.start();
    f.becomes({{"volcano", {"n0"}}});
  });
}

TEST(ShardObjects, Row06_AShardThatBecomesEmptyKeepsItsList) {
  with_usual([](ShardingFixture& f) {
    f.nodes("n", 1);
    f.start();
    f.becomes({{"volcano", {"n0"}}});
    f.drop_node("n0");
    f.becomes({{"volcano", {}}});
    const auto shard = f.cluster.get(resources::kNodeShards, "", "volcano");
    ASSERT_NE(shard->find_path({"spec", "nodesDesired"}), nullptr);
    EXPECT_EQ(f.metric("volcano_sharding_write_failures_total"), 0);
  });
}

// Utilisation.

TEST(Utilisation, Rows07To15_WhoCountsAndWhoDoesNot) {
  with_usual([](ShardingFixture& f) {
    for (const char* name : {"sum", "over", "done", "mirror", "pending", "going", "free"}) f.node(name);
    f.pod("a", "sum", "1000m", "1Gi");
    f.pod("b", "sum", "2000m", "2Gi");
    f.pod("c", "sum", "500m", "512Mi");
    f.pod("d", "over", "5000m");
    f.pod("e", "over", "5000m");
    f.pod("f", "done", "8000m");
    f.cluster.set_pod_phase("default", "f", "Succeeded");
    f.pod("g", "mirror", "6000m", "0", ", annotations: {kubernetes.io/config.mirror: x}");
    f.pod("h", "pending", "6000m");
    f.pod("i", "going", "6000m", "0", ", finalizers: [example.com/hold]");
    f.cluster.remove(resources::kPods, "default", "i", 0);
    f.start();
    f.becomes({{"agent-scheduler", {"going", "over", "pending"}}, {"volcano", {"done", "free", "mirror", "sum"}}});
  });
}

TEST(Utilisation, Row12_APodThatEndsFreesItsNodeAtOnce) {
  with_usual([](ShardingFixture& f) {
    f.node("n");
    f.pod("p", "n", "6000m");
    f.start();
    f.becomes({{"agent-scheduler", {"n"}}});
    f.cluster.set_pod_phase("default", "p", "Failed");
    f.becomes({{"agent-scheduler", {}}, {"volcano", {"n"}}});
  });
}

TEST(Utilisation, Row09_BordersBelongToTheRange) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(R"(schedulerConfigs:
- {name: low, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0, maxCPUUtil: 0.49}}]}
- {name: high, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.5, maxCPUUtil: 1.0}}]}
)");
    for (const char* name : {"a", "b", "c"}) f.node(name);
    f.pod("pa", "a", "3900m");
    f.pod("pb", "b", "4000m");
    f.pod("pc", "c", "4100m");
    f.start();
    f.becomes({{"low", {"a"}}, {"high", {"b", "c"}}});
  });
}

TEST(Utilisation, Rows17And18_CapacityDividesUnlessAllocatableIsAskedFor) {
  with_usual([](ShardingFixture& f) {
    f.node("n", "", "10", ", allocatable: {cpu: \"8\", memory: 30Gi}");
    f.cluster.apply("{apiVersion: v1, kind: Node, metadata: {name: bare}}");
    f.pod("p", "n", "6");
    f.start();
    f.becomes({{"volcano", {"bare", "n"}}});
    f.configure(std::string(kUsualDocument) + "utilizationBase: allocatable\n");
    f.becomes({{"volcano", {"bare"}}, {"agent-scheduler", {"n"}}});
  });
}

TEST(Utilisation, Row19_QuantitiesInAnySpelling) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(R"(schedulerConfigs:
- {name: tenth, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.1, maxCPUUtil: 0.1}}]}
)");
    int i = 0;
    for (const char* cpu : {"0.1", "100m", "1e-1"}) {
      const std::string name = "n" + std::to_string(i++);
      f.node(name, "", "1");
      f.pod("p" + name, name, cpu);
    }
    f.start();
    f.becomes({{"tenth", {"n0", "n1", "n2"}}});
  });
}

// Selection.

TEST(Selection, Row21_WarmNodesFirstThenTheBusiest) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(R"(schedulerConfigs:
- name: s
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0, maxCPUUtil: 0.6}}
  - {name: warmup, weight: 2}
  - {name: node-limit, arguments: {maxNodes: 3}}
)");
    const std::vector<std::pair<std::string, bool>> nodes = {{"10", true}, {"55", false}, {"5", true}, {"40", false},
                                                             {"65", true}, {"90", false}, {"30", true}};
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::string name = "n" + std::to_string(i + 1);
      f.node(name, nodes[i].second ? "node.volcano.sh/warmup: \"true\"" : "", "1");
      f.pod("p" + name, name, nodes[i].first + "0m");
    }
    f.start();
    f.becomes({{"s", {"n1", "n3", "n7"}}});
  });
}

TEST(Selection, Rows23And24_TwoFiltersBothCount) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(R"(schedulerConfigs:
- name: s
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0, maxCPUUtil: 0.5}}
  - {name: allocation-rate, arguments: {minCPUUtil: 0.3, maxCPUUtil: 1.0}}
- {name: warm, policies: [{name: warmup}]}
)");
    for (const char* percent : {"20", "40", "70"}) {
      const std::string name = "n" + std::string(percent);
      f.node(name, "", "1");
      f.pod("p" + name, name, std::string(percent) + "0m");
    }
    f.start();
    f.becomes({{"s", {"n40"}}, {"warm", {"n20", "n70"}}});  // the label never filters
  });
}

TEST(Selection, Row25_ALimitAloneAndTheRestForTheNext) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(R"(schedulerConfigs:
- {name: one, policies: [{name: node-limit, arguments: {maxNodes: 1}}]}
- {name: rest, policies: [{name: node-limit, arguments: {maxNodes: 100}}]}
- {name: none, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 1}}]}
)");
    f.nodes("n", 6);
    f.start();
    f.becomes_of_size("one", 1);
    f.becomes_of_size("rest", 5);
    f.becomes({{"none", {}}});  // it exists
  });
}

TEST(Selection, Row26_OfTwoWithTheSameRangeTheFirstHasAll) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(R"(schedulerConfigs:
- {name: first, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0, maxCPUUtil: 1}}]}
- {name: second, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0, maxCPUUtil: 1}}]}
)");
    f.nodes("n", 5);
    f.pod("p", "n2", "7");
    f.start();
    f.becomes_of_size("first", 5);
    f.becomes({{"second", {}}});  // it exists
  });
}

TEST(Selection, Row27_ANodeBetweenTheRangesIsNobodys) {
  with_usual([](ShardingFixture& f) {
    f.node("n", "", "1");
    f.pod("p", "n", "650m");
    f.start();
    f.becomes({{"volcano", {}}, {"agent-scheduler", {}}});
    f.soon([&] { return f.metric("volcano_sharding_nodes{shard=\"unassigned\"}") == 1; });
  });
}

TEST(Selection, Row29_EqualNodesStayAndCostNoWrite) {
  with_sharding(
      kSeeds,
      [](ShardingFixture& f) {
        f.configure("schedulerConfigs: [{name: s, policies: [{name: node-limit, arguments: {maxNodes: 1}}]}]\n");
        f.nodes("n", 100);
        f.start();
        f.becomes_of_size("s", 1);
        f.status_is_written("s");
        const Names chosen = f.desired("s");
        const std::string version = f.version("s");
        f.rest_periods(10);
        EXPECT_EQ(f.version("s"), version);
        f.restart();
        f.settle();
        f.is_ready();
        f.rest_periods(2);
        EXPECT_EQ(f.desired("s"), chosen);
        EXPECT_EQ(f.version("s"), version);
        EXPECT_EQ(f.writes(), 0u);
      },
      with_period());
}

TEST(Selection, Rows30And31_WithoutArgumentsOnlyIdleNodesAndACollapsedRange) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(R"(schedulerConfigs:
- {name: idle, policies: [{name: allocation-rate}]}
- {name: half, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.5, maxCPUUtil: 0.5}}]}
)");
    for (const char* name : {"a", "b", "c", "d"}) f.node(name);
    f.pod("pb", "b", "4");
    f.pod("pc", "c", "4");
    f.pod("pd", "d", "5");
    f.start();
    f.becomes({{"idle", {"a"}}, {"half", {"b", "c"}}});
  });
}

TEST(Selection, Row32_AMissedMinimumIsStatedAndFilledOnlyIfAsked) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    const auto document = [](std::string_view mode) {
      return "schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.2}}, {name: "
             "node-limit, arguments: {minNodes: 5" +
             std::string(mode) + "}}]}]\n";
    };
    f.configure(document(""));
    for (const char* name : {"a", "b", "c", "d"}) f.node(name);
    f.pod("pc", "c", "2");
    f.pod("pd", "d", "7");
    f.start();
    f.becomes({{"s", {"a", "b"}}});
    f.soon([&] { return f.metric("volcano_sharding_missing_nodes{shard=\"s\"}") == 3; });
    f.soon([&] { return f.events("TooFewNodes") == 1; });
    f.configure(document(", minMode: fill"));
    f.becomes({{"s", {"a", "b", "c", "d"}}});
    f.configure(
        "schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.2}}, {name: "
        "node-limit, arguments: {minNodes: 3, minMode: fill}}]}]\n");
    f.becomes({{"s", {"a", "b", "c"}}});  // the nearest to the range is borrowed
  });
}

TEST(Selection, Rows33And53_AnotherWarmupLabel) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(R"(schedulerConfigs:
- name: s
  policies:
  - {name: warmup, arguments: {warmupLabel: pool, warmupLabelValue: "hot"}}
  - {name: node-limit, arguments: {maxNodes: 1}}
)");
    f.nodes("n", 5);
    f.start();
    f.becomes_of_size("s", 1);
    const std::string chosen = *f.desired("s").begin();
    const std::string other = chosen == "n0" ? "n1" : "n0";
    f.cluster.patch(resources::kNodes, "", other, R"({"metadata":{"labels":{"pool":"hot"}}})");
    f.becomes({{"s", {other}}});
    f.cluster.patch(resources::kNodes, "", other, R"({"metadata":{"labels":{"pool":"cold"}}})");
    f.settle();
    EXPECT_EQ(f.desired("s"), (Names{other}));  // among equals the incumbent stays
  });
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
