#include "controllers/sharding/shard_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "controllers/sharding/configuration.h"
#include "rt/sim_test_support.h"

namespace basalt::controllers::sharding {
namespace {

std::shared_ptr<const RuleSet> rules_of(std::string_view document) {
  Result<Configuration> read = read_document(document);
  EXPECT_TRUE(read.ok()) << read.error().message;
  return read->rules;
}

constexpr std::string_view kDocument = R"(schedulerConfigs:
- name: warm
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.3, maxCPUUtil: 0.9}}
  - {name: warmup, weight: 2}
  - {name: node-limit, arguments: {maxNodes: 6}}
- name: busy
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.5, maxCPUUtil: 1.0}}
  - {name: node-limit, arguments: {minNodes: 4, maxPercent: 30, minMode: fill}}
- name: rest
  partitions: 2
  policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.7}}]
)";

NodeReading node_of(const std::string& name, bool is_warm) {
  NodeReading node;
  node.name = name;
  node.capacity = {8000, std::int64_t{32} << 30, {}};
  node.label_bits = is_warm ? 1 : 0;
  return node;
}

// What a server would store if every write succeeded.
class Server {
 public:
  void store(const ShardPlan::Lists& lists) {
    for (const DesiredShard& desired : lists.desired) {
      auto shard = std::make_shared<api::shard::NodeShard>();
      shard->metadata.name = desired.name;
      shard->spec.nodes_desired = desired.nodes;
      shards_[desired.name] = std::move(shard);
    }
    std::erase_if(shards_, [&](const auto& entry) { return !lists.configured.contains(entry.first); });
  }
  [[nodiscard]] const StoredShards& shards() const { return shards_; }

 private:
  StoredShards shards_;
};

std::set<std::string, std::less<>> names_of(const ShardPlan::Lists& lists) {
  std::set<std::string, std::less<>> names;
  for (const DesiredShard& desired : lists.desired) names.insert(desired.name);
  return names;
}

// Nodes and pods come, change and go; publications succeed, fail in part, or the process starts anew. After every step
// the plan equals a calculation from nothing; lists never share a node; limits hold.
TEST(ShardPlan, RandomHistoriesWithPublicationsAndRestarts) {
  for (const char* hysteresis : {"0", "0.05"}) {
    rt::run_seeds(1, 15, [&](rt::SimRuntime& runtime) {
      const auto rules = rules_of(std::string(kDocument) + "hysteresis: " + hysteresis + "\n");
      ClusterState state(rules->catalog);
      auto plan = std::make_unique<ShardPlan>(rules, state);
      Server server;
      plan->rebuild(server.shards(), 0);
      for (int step = 0; step < 400; ++step) {
        const std::string node = "n" + std::to_string(runtime.random_below(30));
        const std::uint64_t kind = runtime.random_below(20);
        if (kind < 4) {
          state.put_node(node_of(node, runtime.random_below(2) == 0));
        } else if (kind < 5) {
          state.remove_node(node);
        } else if (kind < 16) {
          PodReading pod;
          pod.uid = {1, runtime.random_below(60)};
          pod.node = node;
          pod.counts = runtime.random_below(4) != 0;
          pod.requests.cpu = static_cast<std::int64_t>(runtime.random_below(6000));
          state.put_pod(pod);
        } else if (kind < 19) {
          while (plan->absorb(7, 0)) {}
          const ShardPlan::Lists lists = plan->lists(server.shards(), 1'200'000);
          std::set<std::string> seen;
          for (const DesiredShard& desired : lists.desired) {
            for (const std::string& name : desired.nodes) EXPECT_TRUE(seen.insert(name).second) << name;
          }
          std::set<std::string, std::less<>> settled = names_of(lists);
          if (!settled.empty() && runtime.random_below(4) == 0) {
            settled.erase(settled.begin());  // one write failed
          } else {
            server.store(lists);
          }
          plan->settle(lists, settled);
        } else {
          plan = std::make_unique<ShardPlan>(rules, state);
          plan->rebuild(server.shards(), 0);
        }
        plan->absorb(5, 0);
        EXPECT_EQ(plan->disagreements(), 0u);
        EXPECT_LE(plan->shard_size(0), 6u);
        EXPECT_LE(plan->shard_size(1), std::max<std::size_t>(1, plan->nodes() * 3 / 10));
        if (::testing::Test::HasFailure()) return;
      }
    });
  }
}

// A restart with an unchanged cluster owes nothing: lists equal what is stored.
TEST(ShardPlan, ARestartChangesNoList) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    const auto rules = rules_of(std::string(kDocument) + "hysteresis: 0.02\n");
    ClusterState state(rules->catalog);
    for (int i = 0; i < 60; ++i) {
      state.put_node(node_of("n" + std::to_string(i), i % 3 == 0));
      PodReading pod;
      pod.uid = {2, static_cast<std::uint64_t>(i)};
      pod.node = "n" + std::to_string(i);
      pod.counts = true;
      pod.requests.cpu = static_cast<std::int64_t>(runtime.random_below(10)) * 800;
      state.put_pod(pod);
    }
    Server server;
    for (int life = 0; life < 3; ++life) {
      ShardPlan plan(rules, state);
      plan.rebuild(server.shards(), 0);
      const ShardPlan::Lists lists = plan.lists(server.shards(), 1'200'000);
      EXPECT_EQ(lists.desired.size(), 4u);
      for (const DesiredShard& desired : lists.desired) {
        const auto stored = server.shards().find(desired.name);
        if (life == 0) continue;
        ASSERT_NE(stored, server.shards().end());
        EXPECT_EQ(stored->second->spec.nodes_desired, desired.nodes) << desired.name;
      }
      server.store(lists);
      plan.settle(lists, names_of(lists));
      EXPECT_FALSE(plan.is_dirty());
    }
  });
}

// All nodes change by up to one point: few of them may move.
TEST(ShardPlan, ASmallChangeMovesFewNodes) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    constexpr int kNodes = 3000;
    const auto rules = rules_of(R"(schedulerConfigs:
- {name: agent, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1}}]}
- {name: batch, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.6}}]}
hysteresis: 0.02
)");
    ClusterState state(rules->catalog);
    std::vector<std::int64_t> load;
    const auto put = [&](int i) {
      PodReading pod;
      pod.uid = {3, static_cast<std::uint64_t>(i)};
      pod.node = "n" + std::to_string(i);
      pod.counts = true;
      pod.requests.cpu = load[static_cast<std::size_t>(i)];
      state.put_pod(pod);
    };
    for (int i = 0; i < kNodes; ++i) {
      state.put_node(node_of("n" + std::to_string(i), false));
      load.push_back(static_cast<std::int64_t>(runtime.random_below(8000)));
      put(i);
    }
    ShardPlan plan(rules, state);
    plan.rebuild({}, 0);
    ShardPlan::Lists lists = plan.lists({}, 1'200'000);
    plan.settle(lists, names_of(lists));
    for (int i = 0; i < kNodes; ++i) {
      auto& own = load[static_cast<std::size_t>(i)];
      own = std::max<std::int64_t>(0, own + static_cast<std::int64_t>(runtime.random_below(161)) - 80);
      put(i);
    }
    while (plan.absorb(512, 0)) {}
    plan.mark_all();
    lists = plan.lists({}, 1'200'000);
    std::size_t moved = 0;
    for (const auto& [move, count] : plan.settle(lists, names_of(lists))) moved += count;
    EXPECT_LE(moved, kNodes * 2 / 100);
  });
}

TEST(ShardPlan, ObjectsAndTheirShards) {
  const auto rules = rules_of(kDocument);
  EXPECT_EQ(seat_of_object(*rules, "warm").shard, 0);
  EXPECT_EQ(seat_of_object(*rules, "rest-1").shard, 2);
  EXPECT_EQ(seat_of_object(*rules, "rest-1").part, 1);
  EXPECT_EQ(seat_of_object(*rules, "rest").shard, 2);  // from before it was split
  for (const char* other : {"rest-01", "rest-x", "rest-", "warm-1", "nobody", "rest-5000"})
    EXPECT_EQ(seat_of_object(*rules, other).shard, kNoShard) << other;
}

// Half of the nodes are busy from 20 to 23 o'clock. Once the week is known and the forecast has proved right, the
// scheduler that wants quiet nodes gives them up an hour before that, and has them back in the night.
TEST(ShardPlan, NodesLeaveBeforeTheirBusyHourIfAForecastIsAskedFor) {
  const auto rules = rules_of(R"(schedulerConfigs:
- name: quiet
  policies:
  - {name: allocation-rate, arguments: {maxCPUUtil: 0.5}}
  - {name: forecast, arguments: {maxCPUUtil: 0.05, mode: "on"}}
)");
  ClusterState state(rules->catalog);
  constexpr std::uint64_t kNodes = 8;
  for (std::uint64_t i = 0; i < kNodes; ++i) state.put_node(node_of("n" + std::to_string(i), false));
  ShardPlan plan(rules, state);
  constexpr std::int64_t kMidnight = 1'767'225'600;
  plan.rebuild({}, kMidnight);
  for (std::int64_t hour = 0; hour < 21 * 24; ++hour) {
    const std::int64_t of_day = hour % 24;
    for (std::uint64_t i = 0; i < kNodes / 2; ++i) {
      PodReading pod;
      pod.uid = {i, i};
      pod.node = "n" + std::to_string(i);
      pod.counts = of_day >= 20 && of_day < 23;
      pod.requests = {7000, 0, {}};
      if (pod.counts) {
        state.put_pod(pod);
      } else {
        state.remove_pod(pod.uid);
      }
    }
    plan.look_again(kMidnight + hour * 3600);
    const bool is_busy = of_day >= 20 && of_day < 23;
    const bool is_foreseen = of_day == 19 && hour >= 14 * 24;
    const bool may_be_foreseen = of_day == 19 && hour >= 7 * 24;
    if (may_be_foreseen && !is_foreseen) continue;
    EXPECT_EQ(plan.shard_size(0), is_busy || is_foreseen ? kNodes / 2 : kNodes) << "hour " << hour;
    EXPECT_EQ(plan.disagreements(), 0u);
  }
  EXPECT_LT(plan.forecast().error_points(), 10);
}

}  // namespace
}  // namespace basalt::controllers::sharding
