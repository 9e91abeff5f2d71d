#include <gtest/gtest.h>

#include <algorithm>

#include "controllers/sharding/testing/sharding_fixture.h"
#include "rt/test_size.h"

// The numbers in the names are the rows of the scenario table.

namespace basalt::controllers::sharding::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
constexpr std::uint64_t kSeeds = 3;

void with_usual(const std::function<void(ShardingFixture&)>& body, int nodes = 4, const ShardingOptions& options = {}) {
  with_sharding(
      kSeeds,
      [&](ShardingFixture& f) {
        f.configure(kUsualDocument);
        f.nodes("n", nodes);
        f.start();
        f.becomes_of_size("volcano", static_cast<std::size_t>(nodes));
        body(f);
      },
      options);
}

TEST(Publishing, Row48_ALargeChangeWithinHalfASecond) {
  with_usual([](ShardingFixture& f) {
    f.rest(seconds(5));
    f.pod("p", "n1", "6");
    f.becomes_within(milliseconds(500), {{"agent-scheduler", {"n1"}}});
  });
}

TEST(Publishing, Row49_ASmallChangeWithThePeriod) {
  with_sharding(
      kSeeds,
      [](ShardingFixture& f) {
        f.configure("schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.1}}]}]");
        f.nodes("n", 2);
        const rt::Instant begin = f.now();
        f.start();
        f.becomes_of_size("s", 2);
        f.settle();  // what is written comes back and is looked at once more, a second later
        f.settle();
        f.pod("p", "n0", "1");
        f.rest(seconds(30));
        const Names meanwhile = f.desired("s");
        if (f.is_before_the_period(begin)) {
          EXPECT_EQ(meanwhile, (Names{"n0", "n1"}));
        }
        f.becomes_within(seconds(35), {{"s", {"n1"}}});
      },
      with_period(seconds(5)));
}

TEST(Publishing, Row50_ASlowClimbCounts) {
  with_usual([](ShardingFixture& f) {
    f.configure("schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.5}}]}]");
    f.becomes_of_size("s", 4);
    f.status_is_written("s");
    f.settle();
    f.settle();
    // What counts is the climb since the last publication, of which a slow server may be at its last.
    const int pods = f.is_simulated() ? 10 : 14;
    for (int i = 0; i < pods; ++i) {
      f.pod("p" + std::to_string(i), "n0", "500m");
      f.rest(f.is_simulated() ? milliseconds(1000) : milliseconds(100));
    }
    f.becomes({{"s", {"n1", "n2", "n3"}}});
  });
}

TEST(Publishing, Row51_NodesComeAndGoWithinHalfASecond) {
  with_usual([](ShardingFixture& f) {
    f.rest(seconds(5));
    f.drop_node("n2");
    f.becomes_within(milliseconds(500), {{"volcano", {"n0", "n1", "n3"}}});
    f.rest(seconds(5));
    f.node("new");
    f.becomes_within(milliseconds(500), {{"volcano", {"n0", "n1", "n3", "new"}}});
  });
}

// How many writes this time has room for: two shards, each of which may give up first and take then, once a second.
std::uint64_t writes_in(rt::Duration time) {
  return (2 + static_cast<std::uint64_t>(std::chrono::duration_cast<seconds>(time).count())) * 2 * 2;
}

// Ten thousand events within a second; on a real server as many as it takes in.
TEST(Publishing, Row54_AStormOnOneNodeIsAFewWrites) {
  with_sharding(
      1,
      [](ShardingFixture& f) {
        f.configure(std::string(kUsualDocument) + "writeStatus: false\n");
        f.nodes("n", 4);
        f.start();
        f.becomes_of_size("volcano", 4);
        f.rest(seconds(5));
        const std::uint64_t before = f.writes();
        const rt::Instant begin = f.now();
        const int rounds = f.is_simulated() ? rt::test_size(5000) : 150;
        // Three pods at most, of which each is a change of a quarter.
        for (int i = 0; i < rounds; ++i) {
          f.pod("p" + std::to_string(i % 3), "n0", "2");
          if (i % 3 == 2) {
            for (int k = 0; k < 3; ++k) f.drop_pod("p" + std::to_string(k));
          }
          f.rest(std::chrono::microseconds(200));
        }
        const rt::Duration storm = f.now() - begin;
        f.settle();
        EXPECT_LE(f.writes() - before, writes_in(storm));
        for (int k = 0; k < 3; ++k) f.drop_pod("p" + std::to_string(k));
        f.rest_periods(2);
        f.becomes({{"agent-scheduler", {}}, {"volcano", {"n0", "n1", "n2", "n3"}}});
        f.soon([&] { return f.metric("volcano_sharding_nodes{shard=\"unassigned\"}") == 0; });
        f.soon([&] { return f.metric("volcano_sharding_events_total{kind=\"pod\"}") >= 1.8 * rounds; });
      },
      with_period(seconds(2)));
}

TEST(Publishing, Row55_ManyNodesAtOnceAreOnePublication) {
  with_sharding(1, [](ShardingFixture& f) {
    f.configure(std::string(kUsualDocument) + "writeStatus: false\n");
    f.nodes("n", 1000);
    f.start();
    f.becomes_of_size("volcano", 1000);
    f.rest(seconds(5));
    const std::uint64_t before = f.writes();
    const rt::Instant begin = f.now();
    f.at_once([&] {
      for (int i = 0; i < 1000; ++i) f.pod("p" + std::to_string(i), "n" + std::to_string(i), "6");
    });
    const rt::Duration time = f.now() - begin;
    f.becomes_of_size("agent-scheduler", 1000);
    EXPECT_LE(f.writes() - before, writes_in(time));
  });
}

TEST(Publishing, Row56_WithTheTriggerOffOnlyThePeriodCounts) {
  with_sharding(
      kSeeds,
      [](ShardingFixture& f) {
        f.configure(std::string(kUsualDocument) + "enableNodeEventTrigger: false\nwriteStatus: false\n");
        f.nodes("n", 4);
        const rt::Instant begin = f.now();
        f.start();
        f.becomes_of_size("volcano", 4);
        f.settle();  // what is written comes back and is looked at once more, a second later
        f.settle();
        const std::uint64_t before = f.writes();
        f.pod("p", "n0", "7");
        f.rest(seconds(20));
        const std::uint64_t meanwhile = f.writes();
        if (f.is_before_the_period(begin)) {
          EXPECT_EQ(meanwhile, before);
        }
        f.becomes_within(seconds(50), {{"agent-scheduler", {"n0"}}});
      },
      with_period(seconds(5)));
}

TEST(Publishing, Row57_NothingChangesNothingIsWritten) {
  with_usual(
      [](ShardingFixture& f) {
        f.status_is_written("volcano");
        f.soon([&] { return f.status("configuration") != "<none>"; });
        f.rest_periods(6);
        const std::uint64_t before = f.writes();
        const std::uint64_t maps = f.process->writes("configmaps");
        f.rest_periods(11);
        EXPECT_EQ(f.writes(), before);
        EXPECT_EQ(f.process->writes("configmaps"), maps);
      },
      4, with_period());
}

TEST(Publishing, Row59_WhatOthersChangeIsPutBack) {
  with_usual([](ShardingFixture& f) {
    f.cluster.remove(resources::kNodeShards, "", "volcano");
    f.becomes_of_size("volcano", 4);
    f.cluster.patch(resources::kNodeShards, "", "volcano", R"({"spec":{"nodesDesired":["n1","stranger"]}})");
    f.becomes({{"volcano", {"n0", "n1", "n2", "n3"}}});
    f.cluster.apply(
        "{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: foreign}, spec: "
        "{nodesDesired: [x]}}");
    f.shards_become({"agent-scheduler", "volcano"});
  });
}

// The watcher of the fixture sees every version: no node is ever in two lists.
TEST(Publishing, Row60_NodesThatSwapAreNeverInTwoLists) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    f.configure(kUsualDocument);
    f.nodes("n", 40);
    for (int i = 0; i < 20; ++i) f.pod("p" + std::to_string(i), "n" + std::to_string(i), "7");
    f.start();
    Names busy, idle;
    for (int i = 0; i < 40; ++i) (i < 20 ? busy : idle).insert("n" + std::to_string(i));
    f.becomes({{"agent-scheduler", busy}, {"volcano", idle}});
    f.at_once([&] {
      for (int i = 0; i < 5; ++i) f.drop_pod("p" + std::to_string(i));
      for (int i = 20; i < 25; ++i) f.pod("p" + std::to_string(i), "n" + std::to_string(i), "7");
    });
    for (int i = 0; i < 5; ++i) idle.insert(busy.extract("n" + std::to_string(i)));
    for (int i = 20; i < 25; ++i) busy.insert(idle.extract("n" + std::to_string(i)));
    f.becomes({{"agent-scheduler", busy}, {"volcano", idle}});
    EXPECT_GE(f.exclusivity.versions(), 4u);
    f.soon([&] { return f.metric("volcano_sharding_moves_total{from=\"volcano\",to=\"agent-scheduler\"}") == 5; });
  });
}

TEST(Publishing, ASchedulerThatIsGoneGivesUpAfterTheGrace) {
  with_usual([](ShardingFixture& f) {
    const seconds grace = f.is_simulated() ? seconds(120) : seconds(4);
    f.configure(std::string(kUsualDocument) + "handoverGrace: " + std::to_string(grace.count()) + "s\n");
    f.settle();
    f.use("volcano", R"(["n0","n1","n2","n3"])");
    f.settle();
    const rt::Instant begin = f.now();
    f.pod("p", "n0", "7");
    f.rest(seconds(100));
    const Names meanwhile = f.names_at("volcano", {"status", "nodesInUse"});
    if (f.now() - begin < grace) {
      EXPECT_EQ(meanwhile.size(), 4u);
    }
    f.rest(seconds(40));
    f.soon([&] { return f.names_at("volcano", {"status", "nodesInUse"}) == Names{"n1", "n2", "n3"}; });
    f.soon([&] { return f.names_at("volcano", {"status", "nodesToRemove"}).empty(); });
  });
}

TEST(Publishing, WithoutAGraceItKeepsThem) {
  with_usual([](ShardingFixture& f) {
    f.use("volcano", R"(["n0","n1","n2","n3"])");
    f.pod("p", "n0", "7");
    f.rest(minutes(20));
    f.soon([&] { return f.names_at("volcano", {"status", "nodesToRemove"}) == Names{"n0"}; });
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesInUse"}).size(), 4u);
  });
}

TEST(Publishing, APartitionedShardIsSeveralObjects) {
  with_sharding(kSeeds, [](ShardingFixture& f) {
    const auto document = [](int parts) {
      return "schedulerConfigs: [{name: s, partitions: " + std::to_string(parts) +
             ", policies: [{name: allocation-rate, arguments: {maxCPUUtil: 1}}]}]\n";
    };
    std::map<std::string, std::string> owners;  // by node
    const auto look = [&] {
      owners.clear();
      for (const std::string& shard : f.shards()) {
        for (const std::string& node : f.desired(shard)) owners[node] = shard;
      }
      return owners.size() == 60;
    };
    f.configure(document(3));
    f.nodes("n", 60);
    f.start();
    f.shards_become({"s-0", "s-1", "s-2"});
    f.soon(look);
    for (const std::string& shard : f.shards()) EXPECT_LE(f.desired(shard).size(), 21u);
    for (const std::string& shard : f.shards()) f.status_is_written(shard);
    const auto before = owners;
    f.restart();
    f.settle();
    f.is_ready();
    f.settle();
    EXPECT_EQ(f.writes(), 0u);
    f.configure(document(4));
    f.shards_become({"s-0", "s-1", "s-2", "s-3"});
    f.soon(look);
    int moved = 0;
    for (const auto& [node, shard] : owners) moved += before.at(node) != shard;
    EXPECT_LE(moved, 20);  // about the share of the new part
    f.configure(document(2));
    f.shards_become({"s-0", "s-1"});
    f.soon(look);
  });
}

TEST(Publishing, AnObjectThatIsTooLargeIsCutAndSaid) {
  with_sharding(1, [](ShardingFixture& f) {
    f.configure(
        "schedulerConfigs: [{name: s, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 1}}]}]\n"
        "objectBytesMax: 10000\n");
    f.nodes(std::string(100, 'x'), 40);
    f.start();
    f.settle();
    f.soon([&] { return f.events("NodeShardTooLarge") == 1; });
    f.soon([&] { return f.exists("s") && f.desired("s").size() > 20; });
    f.status_is_written("s");
    const Names listed = f.desired("s");
    EXPECT_LT(listed.size(), 40u);
    f.restart();
    f.settle();
    f.is_ready();
    f.settle();
    EXPECT_EQ(f.desired("s"), listed);  // those that fit stay
    f.configure(
        "schedulerConfigs: [{name: s, partitions: auto, policies: [{name: allocation-rate, arguments: {maxCPUUtil: "
        "1}}]}]\n"
        "objectBytesMax: 10000\n");
    f.settle();
    f.soon([&] {
      std::size_t all = 0;
      for (const std::string& shard : f.shards()) all += f.desired(shard).size();
      return all == 40 && f.shards().size() >= 2;
    });
  });
}

TEST(Publishing, Row75_LongNamesAndStrangeAnnotations) {
  with_sharding(1, [](ShardingFixture& f) {
    f.configure(kUsualDocument);
    Names all;
    const auto odd_node = [&](const std::string& name, std::size_t bytes) {
      const json::Value node = json::Object{
          {"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata", json::Object{{"name", name},
                                    {"annotations", json::Object{{"text", "\xC3\xA4\xF0\x9F\x98\x80\n\"\\"},
                                                                 {"large", std::string(bytes, 'z')}}}}}};
      f.cluster.apply(node.to_text());
      all.insert(name);
    };
    odd_node(std::string(253, 'a'), 10);
    for (int i = 0; i < 20; ++i) odd_node("odd" + std::to_string(i), 250'000);  // 5 MB over all nodes
    f.start();
    f.becomes({{"volcano", all}});
  });
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
