#include "controllers/sharding/cluster_state.h"

#include <gtest/gtest.h>

#include <map>

#include "rt/sim_test_support.h"

namespace basalt::controllers::sharding {
namespace {

NodeReading node_of(std::string name, std::int64_t cpu = 8000) {
  NodeReading node;
  node.name = std::move(name);
  node.capacity = {cpu, std::int64_t{32} << 30, {}};
  node.metrics.fill(std::numeric_limits<double>::quiet_NaN());
  return node;
}
PodReading pod_of(int number, std::string node, std::int64_t cpu) {
  PodReading pod;
  pod.uid = {7, static_cast<std::uint64_t>(number)};
  pod.counts = !node.empty();
  pod.node = std::move(node);
  pod.requests.cpu = cpu;
  return pod;
}
std::vector<NodeUpdate> take(ClusterState& state) {
  std::vector<NodeUpdate> updates;
  EXPECT_FALSE(state.take_changes(1000, updates));
  return updates;
}

TEST(ClusterState, OnlyWhatAPolicySeesIsAChange) {
  ClusterState state{Catalog()};
  state.put_node(node_of("a"));
  EXPECT_EQ(take(state).size(), 1u);
  state.put_pod(pod_of(1, "a", 20));  // a quarter of a percent
  EXPECT_TRUE(take(state).empty());
  state.put_pod(pod_of(2, "a", 100));
  const auto updates = take(state);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_DOUBLE_EQ(updates[0].facts.cpu, 0.015);
  EXPECT_EQ(updates[0].facts.pods, 2u);
}

TEST(ClusterState, PodsMoveGrowEndAndPrecedeTheirNode) {
  ClusterState state{Catalog()};
  state.put_pod(pod_of(1, "a", 4000));
  EXPECT_EQ(state.facts_of("a"), std::nullopt);
  state.put_node(node_of("a"));
  state.put_node(node_of("b"));
  EXPECT_DOUBLE_EQ(state.facts_of("a")->cpu, 0.5);
  state.put_pod(pod_of(1, "a", 7000));  // resized in place
  EXPECT_DOUBLE_EQ(state.facts_of("a")->cpu, 0.875);
  state.put_pod(pod_of(1, "b", 7000));  // the same pod elsewhere
  EXPECT_DOUBLE_EQ(state.facts_of("a")->cpu, 0);
  EXPECT_DOUBLE_EQ(state.facts_of("b")->cpu, 0.875);
  PodReading ended = pod_of(1, "b", 7000);
  ended.counts = false;
  state.put_pod(ended);
  EXPECT_DOUBLE_EQ(state.facts_of("b")->cpu, 0);
  EXPECT_EQ(state.pods(), 0u);
  state.remove_pod({7, 99});  // unknown: nothing
}

TEST(ClusterState, ANodeThatComesBackHasItsPods) {
  ClusterState state{Catalog()};
  state.put_node(node_of("a"));
  state.put_pod(pod_of(1, "a", 4000));
  take(state);
  state.remove_node("a");
  auto updates = take(state);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_FALSE(updates[0].is_present);
  state.put_node(node_of("a"));
  EXPECT_DOUBLE_EQ(state.facts_of("a")->cpu, 0.5);
}

TEST(ClusterState, WhatIsUrgent) {
  ClusterState state{Catalog()};
  state.put_node(node_of("a"));
  EXPECT_TRUE(state.take_urgent());
  state.reset_baselines();
  state.put_pod(pod_of(1, "a", 4000));  // exactly one half is not beyond it
  EXPECT_FALSE(state.take_urgent());
  state.put_pod(pod_of(2, "a", 100));
  EXPECT_TRUE(state.take_urgent());
  state.reset_baselines();
  state.put_pod(pod_of(3, "a", 100));
  EXPECT_FALSE(state.take_urgent());
  state.put_node(node_of("a"));  // nothing new
  EXPECT_FALSE(state.take_urgent());
  state.put_node(node_of("a", 16000));
  EXPECT_TRUE(state.take_urgent());
  state.remove_node("a");
  EXPECT_TRUE(state.take_urgent());
}

TEST(ClusterState, AListReplacesWhatWasThere) {
  ClusterState state{Catalog()};
  for (int i = 0; i < 10; ++i) state.put_node(node_of("n" + std::to_string(i)));
  for (int i = 0; i < 10; ++i) state.put_pod(pod_of(i, "n" + std::to_string(i), 1000));
  state.begin_node_list();
  state.begin_pod_list();
  for (int i = 0; i < 5; ++i) state.put_node(node_of("n" + std::to_string(i)));
  for (int i = 3; i < 8; ++i) state.put_pod(pod_of(i, "n" + std::to_string(i), 2000));
  EXPECT_EQ(state.nodes(), 10u);  // until the end
  state.end_node_list();
  state.end_pod_list();
  EXPECT_EQ(state.nodes(), 5u);
  EXPECT_EQ(state.pods(), 5u);
  EXPECT_DOUBLE_EQ(state.facts_of("n0")->cpu, 0);
  EXPECT_DOUBLE_EQ(state.facts_of("n3")->cpu, 0.25);
}

// Against a plain sum over all pods, while an audit runs along.
TEST(ClusterState, RandomHistoriesEqualAPlainSum) {
  rt::run_seeds(1, 30, [](rt::SimRuntime& runtime) {
    ClusterState state{Catalog()};
    std::map<int, std::pair<std::string, std::int64_t>> pods;
    std::map<std::string, bool> nodes;
    for (int step = 0; step < 3000; ++step) {
      const std::string node = "n" + std::to_string(runtime.random_below(12));
      const int pod = static_cast<int>(runtime.random_below(200));
      switch (runtime.random_below(8)) {
        case 0:
          state.put_node(node_of(node));
          nodes[node] = true;
          break;
        case 1:
          state.remove_node(node);
          nodes.erase(node);
          break;
        case 2:
        case 3:
          state.remove_pod({7, static_cast<std::uint64_t>(pod)});
          pods.erase(pod);
          break;
        case 4: {
          const auto wrong = state.audit_step(300);
          EXPECT_TRUE(!wrong || *wrong == 0);
          std::vector<NodeUpdate> updates;
          state.take_changes(5, updates);
          break;
        }
        default: {
          const auto cpu = static_cast<std::int64_t>(runtime.random_below(2000));
          state.put_pod(pod_of(pod, node, cpu));
          pods[pod] = {node, cpu};
        }
      }
      if (step % 100 != 0) continue;
      std::map<std::string, std::int64_t> sums;
      for (const auto& [number, entry] : pods) sums[entry.first] += entry.second;
      EXPECT_EQ(state.nodes(), nodes.size());
      EXPECT_EQ(state.pods(), pods.size());
      for (const auto& [name, is_there] : nodes) EXPECT_EQ(state.requests_of(name)->cpu, sums[name]) << name;
    }
  });
}

TEST(ClusterState, TheAuditCorrectsASumThatIsWrong) {
  ClusterState state{Catalog()};
  state.put_node(node_of("a"));
  for (int i = 0; i < 100; ++i) state.put_pod(pod_of(i, "a", 10));
  state.corrupt_for_test("a", 4000);
  std::optional<std::size_t> wrong;
  for (int i = 0; i < 100 && !wrong; ++i) wrong = state.audit_step(64);
  EXPECT_EQ(wrong, std::optional<std::size_t>(1));
  EXPECT_EQ(state.requests_of("a")->cpu, 1000);
  wrong.reset();
  for (int i = 0; i < 100 && !wrong; ++i) wrong = state.audit_step(64);
  EXPECT_EQ(wrong, std::optional<std::size_t>(0));
}

TEST(PodTable, UidsInAnyForm) {
  const PodUid uid = pod_uid("01234567-89ab-cdef-0123-456789ABCDEF");
  EXPECT_EQ(uid.high, 0x0123456789abcdefULL);
  EXPECT_EQ(uid.low, 0x0123456789abcdefULL);
  EXPECT_FALSE(pod_uid("not a uuid") == pod_uid("not a uuid!"));
  EXPECT_TRUE(pod_uid("not a uuid") == pod_uid("not a uuid"));
  EXPECT_FALSE(pod_uid("") == PodUid());
}

TEST(PodTable, GrowsAndForgets) {
  PodTable table;
  const Amounts one{100, 0, {}};
  for (std::uint64_t i = 0; i < 20'000; ++i) table.insert({1, i}, 3, one);
  for (std::uint64_t i = 0; i < 20'000; i += 2) table.erase(*table.find({1, i}));
  EXPECT_EQ(table.size(), 10'000u);
  for (std::uint64_t i = 0; i < 20'000; ++i) EXPECT_EQ(table.find({1, i}) != nullptr, i % 2 == 1);
  for (int round = 0; round < 20; ++round) {  // what is erased makes room again
    for (std::uint64_t i = 0; i < 5'000; ++i) table.insert({2, i}, 3, one);
    for (std::uint64_t i = 0; i < 5'000; ++i) table.erase(*table.find({2, i}));
  }
  EXPECT_LE(table.slots(), 65'536u);
}

}  // namespace
}  // namespace basalt::controllers::sharding
