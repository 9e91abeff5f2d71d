#include <gtest/gtest.h>

#include <algorithm>

#include "controllers/sharding/testing/sharding_fixture.h"

// The numbers in the names are the rows of the scenario table.

namespace basalt::controllers::sharding::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
constexpr std::uint64_t kSeeds = 3;

void with_usual(const std::function<void(ShardingFixture&)>& body, int nodes = 4) {
  with_sharding(kSeeds, [&](ShardingFixture& f) {
    f.configure(kUsualDocument);
    f.nodes("n", nodes);
    f.start();
    f.settle();
    body(f);
  });
}

TEST(Publishing, Row48_ALargeChangeWithinHalfASecond) {
  with_usual([](ShardingFixture& f) {
    f.rest(seconds(5));
    f.pod("p", "n1", "6");
    f.rest(milliseconds(500));
    EXPECT_EQ(f.desired("agent-scheduler"), (Names{"n1"}));
  });
}

TEST(Publishing, Row49_ASmallChangeWithThePeriod) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure("schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.1}}]}]");
    f.nodes("n", 2);
    f.start();
    f.settle();
    f.pod("p", "n0", "1");
    f.rest(seconds(30));
    EXPECT_EQ(f.desired("s"), (Names{"n0", "n1"}));
    f.rest(seconds(35));
    EXPECT_EQ(f.desired("s"), (Names{"n1"}));
  });
}

TEST(Publishing, Row50_ASlowClimbCounts) {
  with_usual([](ShardingFixture& f) {
    f.configure("schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.5}}]}]");
    f.settle();
    for (int i = 0; i < 10; ++i) {
      f.pod("p" + std::to_string(i), "n0", "500m");
      f.rest(seconds(1));
    }
    f.settle();
    EXPECT_EQ(f.desired("s"), (Names{"n1", "n2", "n3"}));
  });
}

TEST(Publishing, Row51_NodesComeAndGoWithinHalfASecond) {
  with_usual([](ShardingFixture& f) {
    f.rest(seconds(5));
    f.drop_node("n2");
    f.rest(milliseconds(500));
    EXPECT_EQ(f.desired("volcano"), (Names{"n0", "n1", "n3"}));
    f.rest(seconds(5));
    f.node("new");
    f.rest(milliseconds(500));
    EXPECT_EQ(f.desired("volcano"), (Names{"n0", "n1", "n3", "new"}));
  });
}

TEST(Publishing, Row54_AStormOnOneNodeIsAFewWrites) {
  with_sharding(1, [](ShardingFixture& f) {
    f.configure(std::string(kUsualDocument) + "writeStatus: false\n");
    f.nodes("n", 4);
    f.start();
    f.settle();
    f.rest(seconds(5));
    const std::uint64_t before = f.writes();
    // Ten thousand events within a second: three pods at most, of which each is a change of a quarter.
    for (int i = 0; i < 5000; ++i) {
      f.pod("p" + std::to_string(i % 3), "n0", "2");
      if (i % 3 == 2) {
        for (int k = 0; k < 3; ++k) f.drop_pod("p" + std::to_string(k));
      }
      f.rest(std::chrono::microseconds(200));
    }
    f.settle();
    EXPECT_LE(f.writes() - before, 3u * 2 * 2);  // intervals, objects, giving up and taking
    f.rest(minutes(2));
    EXPECT_EQ(f.metric("volcano_sharding_nodes{shard=\"unassigned\"}"), 0);
    EXPECT_EQ(f.desired("agent-scheduler"), Names());
    EXPECT_EQ(f.desired("volcano").size(), 4u);
    EXPECT_GE(f.metric("volcano_sharding_events_total{kind=\"pod\"}"), 9000);
  });
}

TEST(Publishing, Row55_ManyNodesAtOnceAreOnePublication) {
  with_sharding(1, [](ShardingFixture& f) {
    f.configure(std::string(kUsualDocument) + "writeStatus: false\n");
    f.nodes("n", 1000);
    f.start();
    f.settle();
    f.rest(seconds(5));
    const std::uint64_t before = f.writes();
    for (int i = 0; i < 1000; ++i) f.pod("p" + std::to_string(i), "n" + std::to_string(i), "6");
    f.settle();
    EXPECT_EQ(f.desired("agent-scheduler").size(), 1000u);
    EXPECT_LE(f.writes() - before, 8u);
  });
}

TEST(Publishing, Row56_WithTheTriggerOffOnlyThePeriodCounts) {
  with_usual([](ShardingFixture& f) {
    f.configure(std::string(kUsualDocument) + "enableNodeEventTrigger: false\n");
    f.settle();
    const std::uint64_t before = f.writes();
    f.pod("p", "n0", "7");
    f.rest(seconds(20));
    EXPECT_EQ(f.writes(), before);
    f.rest(seconds(50));
    EXPECT_EQ(f.desired("agent-scheduler"), (Names{"n0"}));
  });
}

TEST(Publishing, Row57_NothingChangesNothingIsWritten) {
  with_usual([](ShardingFixture& f) {
    f.rest(minutes(2));
    const std::uint64_t before = f.writes();
    const std::uint64_t maps = f.process->writes("configmaps");
    f.rest(minutes(11));
    EXPECT_EQ(f.writes(), before);
    EXPECT_EQ(f.process->writes("configmaps"), maps);
  });
}

TEST(Publishing, Row59_WhatOthersChangeIsPutBack) {
  with_usual([](ShardingFixture& f) {
    f.cluster.remove(resources::kNodeShards, "", "volcano");
    f.settle();
    EXPECT_EQ(f.desired("volcano").size(), 4u);
    f.cluster.patch(resources::kNodeShards, "", "volcano", R"({"spec":{"nodesDesired":["n1","stranger"]}})");
    f.settle();
    EXPECT_EQ(f.desired("volcano"), (Names{"n0", "n1", "n2", "n3"}));
    f.cluster.apply(
        "{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: foreign}, spec: "
        "{nodesDesired: [x]}}");
    f.settle();
    EXPECT_EQ(f.shards(), (Names{"agent-scheduler", "volcano"}));
  });
}

// The watcher of the fixture sees every version: no node is ever in two lists.
TEST(Publishing, Row60_NodesThatSwapAreNeverInTwoLists) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(kUsualDocument);
    f.nodes("n", 40);
    for (int i = 0; i < 20; ++i) f.pod("p" + std::to_string(i), "n" + std::to_string(i), "7");
    f.start();
    f.settle();
    EXPECT_EQ(f.desired("agent-scheduler").size(), 20u);
    for (int i = 0; i < 5; ++i) f.drop_pod("p" + std::to_string(i));
    for (int i = 20; i < 25; ++i) f.pod("p" + std::to_string(i), "n" + std::to_string(i), "7");
    f.settle();
    EXPECT_EQ(f.desired("agent-scheduler").size(), 20u);
    EXPECT_TRUE(f.desired("volcano").contains("n0"));
    EXPECT_GE(f.exclusivity.versions(), 4u);
    EXPECT_EQ(f.metric("volcano_sharding_moves_total{from=\"volcano\",to=\"agent-scheduler\"}"), 5);
  });
}

TEST(Publishing, ASchedulerThatIsGoneGivesUpAfterTheGrace) {
  with_usual([](ShardingFixture& f) {
    f.configure(std::string(kUsualDocument) + "handoverGrace: 2m\n");
    f.settle();
    f.use("volcano", R"(["n0","n1","n2","n3"])");
    f.settle();
    f.pod("p", "n0", "7");
    f.rest(seconds(100));
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesInUse"}).size(), 4u);
    f.rest(seconds(40));
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesInUse"}), (Names{"n1", "n2", "n3"}));
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesToRemove"}), Names());
  });
}

TEST(Publishing, WithoutAGraceItKeepsThem) {
  with_usual([](ShardingFixture& f) {
    f.use("volcano", R"(["n0","n1","n2","n3"])");
    f.pod("p", "n0", "7");
    f.rest(minutes(20));
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesInUse"}).size(), 4u);
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesToRemove"}), (Names{"n0"}));
  });
}

TEST(Publishing, APartitionedShardIsSeveralObjects) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    const auto document = [](int parts) {
      return "schedulerConfigs: [{name: s, partitions: " + std::to_string(parts) +
             ", policies: [{name: allocation-rate, arguments: {maxCPUUtil: 1}}]}]\n";
    };
    f.configure(document(3));
    f.nodes("n", 60);
    f.start();
    f.settle();
    EXPECT_EQ(f.shards(), (Names{"s-0", "s-1", "s-2"}));
    std::map<std::string, std::string> before;
    for (const std::string& shard : f.shards()) {
      EXPECT_LE(f.desired(shard).size(), 21u);
      for (const std::string& node : f.desired(shard)) before[node] = shard;
    }
    EXPECT_EQ(before.size(), 60u);
    f.restart();
    f.settle();
    EXPECT_EQ(f.writes(), 0u);
    f.configure(document(4));
    f.settle();
    int moved = 0;
    for (const std::string& shard : f.shards()) {
      for (const std::string& node : f.desired(shard)) moved += before[node] != shard;
    }
    EXPECT_EQ(f.shards().size(), 4u);
    EXPECT_LE(moved, 20);  // about the share of the new part
    f.configure(document(2));
    f.settle();
    EXPECT_EQ(f.shards(), (Names{"s-0", "s-1"}));
    EXPECT_EQ(f.desired("s-0").size() + f.desired("s-1").size(), 60u);
  });
}

TEST(Publishing, AnObjectThatIsTooLargeIsCutAndSaid) {
  with_sharding(1, [](ShardingFixture& f) {
    f.configure(
        "schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 1}}]}]\n"
        "objectBytesMax: 10000\n");
    const std::string long_name(100, 'x');
    for (int i = 0; i < 40; ++i) f.node(long_name + std::to_string(i));
    f.start();
    f.settle();
    const Names listed = f.desired("s");
    EXPECT_LT(listed.size(), 40u);
    EXPECT_GT(listed.size(), 20u);
    EXPECT_EQ(f.events("NodeShardTooLarge"), 1);
    f.restart();
    f.settle();
    EXPECT_EQ(f.desired("s"), listed);  // those that fit stay
    f.configure(
        "schedulerConfigs: [{name: s, partitions: auto, policies: [{name: allocation-rate, arguments: {maxCPUUtil: "
        "1}}]}]\n"
        "objectBytesMax: 10000\n");
    f.settle();
    std::size_t all = 0;
    for (const std::string& shard : f.shards()) all += f.desired(shard).size();
    EXPECT_EQ(all, 40u);
    EXPECT_GE(f.shards().size(), 2u);
  });
}

TEST(Publishing, Row75_LongNamesAndStrangeAnnotations) {
  with_sharding(1, [](ShardingFixture& f) {
    f.configure(kUsualDocument);
    std::string name(253, 'a');
    f.node(name);
    json::Value node =
        json::Object{{"apiVersion", "v1"},
                     {"kind", "Node"},
                     {"metadata", json::Object{{"name", "odd"},
                                               {"annotations", json::Object{{"text", "\xC3\xA4\xF0\x9F\x98\x80\n\"\\"},
                                                                            {"large", std::string(100'000, 'z')}}}}}};
    f.cluster.apply(node.to_text());
    f.start();
    f.settle();
    EXPECT_EQ(f.desired("volcano"), (Names{name, "odd"}));
  });
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
