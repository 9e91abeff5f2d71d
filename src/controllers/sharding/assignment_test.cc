#include "controllers/sharding/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "controllers/sharding/full_assignment.h"
#include "rt/sim_test_support.h"

namespace basalt::controllers::sharding {
namespace {

class Names final : public NodeNames {
 public:
  explicit Names(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) names_.push_back("node-" + std::to_string(i));
  }
  std::string_view name_of(NodeId node) const override { return names_[node]; }

 private:
  std::vector<std::string> names_;
};

struct Known {
  std::vector<double> scores;
  ShardIndex incumbent = kNoShard;
};

// The incremental engine and the calculation from nothing, side by side.
class Pair {
 public:
  Pair(std::vector<Level> levels, std::size_t shards, std::size_t nodes)
      : names_(nodes), shards_(shards), engine_(std::move(levels), shards, names_) {}
  void place(NodeId node, std::vector<double> scores, ShardIndex incumbent) {
    known_[node] = {std::move(scores), incumbent};
    engine_.place({node, rank_of(names_.name_of(node)), incumbent, known_[node].scores});
  }
  void erase(NodeId node) {
    known_.erase(node);
    engine_.erase(node);
  }
  void set_max(std::size_t level, std::size_t nodes) { engine_.set_nodes_max(level, nodes); }
  void rebuild() { engine_.rebuild(inputs()); }
  // As after an acknowledged publication.
  void acknowledge() {
    std::vector<NodeId> moved;
    engine_.take_moved(moved);
    const std::vector<ShardIndex> before = owners();
    for (auto& [node, known] : known_) {
      known.incumbent = engine_.owner(node);
      engine_.place({node, rank_of(names_.name_of(node)), known.incumbent, known.scores});
    }
    EXPECT_EQ(owners(), before) << "marking incumbents moved somebody";
  }
  [[nodiscard]] std::vector<ShardIndex> owners() const {
    std::vector<ShardIndex> all;
    for (const auto& [node, known] : known_) all.push_back(engine_.owner(node));
    return all;
  }
  void expect_equal() {
    EXPECT_EQ(owners(), full_assignment(engine_.levels(), shards_, names_, inputs()));
    EXPECT_TRUE(engine_.is_consistent());
    EXPECT_EQ(engine_.nodes(), known_.size());
  }
  [[nodiscard]] Assignment& engine() { return engine_; }

 private:
  std::vector<NodeInput> inputs() {
    std::vector<NodeInput> all;
    for (const auto& [node, known] : known_)
      all.push_back({node, rank_of(names_.name_of(node)), known.incumbent, known.scores});
    return all;
  }
  Names names_;
  const std::size_t shards_;
  std::map<NodeId, Known> known_;
  Assignment engine_;
};

TEST(Assignment, TheBestComeInAndTheRestFallThrough) {
  Pair pair({{0, false, 2}, {1, false, kUnlimited}}, 2, 4);
  pair.place(0, {0.1, 0.5}, kNoShard);
  pair.place(1, {0.9, 0.5}, kNoShard);
  pair.place(2, {0.5, 0.5}, kNoShard);
  pair.place(3, {kRefused, kRefused}, kNoShard);
  EXPECT_EQ(pair.owners(), (std::vector<ShardIndex>{1, 0, 0, kNoShard}));
  pair.erase(1);
  EXPECT_EQ(pair.engine().owner(0), 0);
  EXPECT_EQ(pair.engine().shard_size(0), 2u);
  pair.expect_equal();
}

TEST(Assignment, AmongEqualsTheIncumbentStays) {
  for (NodeId incumbent = 0; incumbent < 5; ++incumbent) {
    Pair pair({{0, false, 1}}, 1, 5);
    for (NodeId node = 0; node < 5; ++node) pair.place(node, {1.0}, node == incumbent ? ShardIndex{0} : kNoShard);
    EXPECT_EQ(pair.engine().owner(incumbent), 0);
    pair.expect_equal();
  }
}

TEST(Assignment, AFillLevelMeetsTheMinimumWithWhatIsLeft) {
  Pair pair({{0, false, 10}, {1, false, kUnlimited}, {0, true, 3}}, 2, 6);
  pair.place(0, {1, kRefused, 0}, kNoShard);
  pair.place(1, {kRefused, 1, 0}, kNoShard);  // another scheduler's: not taken
  pair.place(2, {kRefused, kRefused, -30}, kNoShard);
  pair.place(3, {kRefused, kRefused, -10}, kNoShard);
  pair.place(4, {kRefused, kRefused, -20}, kNoShard);
  EXPECT_EQ(pair.owners(), (std::vector<ShardIndex>{0, 1, kNoShard, 0, 0}));
  pair.place(5, {1, kRefused, 0}, kNoShard);  // a real one comes: the farthest of the borrowed goes back
  EXPECT_EQ(pair.owners(), (std::vector<ShardIndex>{0, 1, kNoShard, 0, kNoShard, 0}));
  pair.expect_equal();
}

TEST(Assignment, IncrementalEqualsFullAfterEveryStepOfRandomHistories) {
  std::size_t comparisons = 0;
  rt::run_seeds(1, 60, [&](rt::SimRuntime& runtime) {
    constexpr NodeId kNodes = 40;
    const std::size_t shards = 1 + runtime.random_below(5);
    std::vector<Level> levels;
    for (std::size_t i = 0; i < shards; ++i)
      levels.push_back(
          {static_cast<ShardIndex>(i), false, runtime.random_below(3) == 0 ? kUnlimited : runtime.random_below(15)});
    // As the configuration makes them: what a shard is filled up to is not above its limit.
    std::map<std::size_t, std::size_t> fill_of;  // level of the shard, its fill level
    for (std::size_t i = 0; i < shards; ++i) {
      if (runtime.random_below(3) != 0) continue;
      fill_of[i] = levels.size();
      levels.push_back({static_cast<ShardIndex>(i), true, std::min(levels[i].nodes_max, runtime.random_below(12))});
    }
    Pair pair(levels, shards, kNodes);
    for (int step = 0; step < 150; ++step) {
      const std::uint64_t kind = runtime.random_below(20);
      const auto node = static_cast<NodeId>(runtime.random_below(kNodes));
      if (kind < 13) {
        std::vector<double> scores;
        for (std::size_t i = 0; i < levels.size(); ++i)
          scores.push_back(runtime.random_below(3) == 0 ? kRefused : static_cast<double>(runtime.random_below(4)) / 4);
        pair.place(node, scores, static_cast<ShardIndex>(static_cast<int>(runtime.random_below(shards + 1)) - 1));
      } else if (kind < 16) {
        pair.erase(node);
      } else if (kind < 18) {
        const std::size_t level = runtime.random_below(shards);
        const std::size_t most = runtime.random_below(20);
        if (fill_of.contains(level)) pair.set_max(fill_of[level], std::min(most, runtime.random_below(12)));
        pair.set_max(level, most);
      } else if (kind == 18) {
        pair.acknowledge();
      } else {
        pair.rebuild();
      }
      pair.expect_equal();
      ++comparisons;
      if (::testing::Test::HasFailure()) return;
    }
  });
  std::printf("incremental against full: %zu comparisons of all owners\n", comparisons);
}

TEST(OrderedKeys, KeepsOrderThroughSplitsAndRemovals) {
  Names names(3000);
  OrderedKeys keys(names);
  for (NodeId i = 0; i < 3000; ++i) keys.insert({order_of_score(i % 7), rank_of(names.name_of(i)) >> 1, i});
  EXPECT_EQ(keys.size(), 3000u);
  std::size_t seen = 0;
  OrderKey last{};
  keys.for_each([&](const OrderKey& key) {
    if (seen++ > 0) {
      EXPECT_TRUE(keys.less(last, key));
    }
    last = key;
  });
  EXPECT_EQ(seen, 3000u);
  EXPECT_EQ(keys.best().node % 7, 6u);  // the largest score first
  while (!keys.empty()) keys.erase(keys.size() % 2 == 0 ? keys.best() : keys.worst());
  EXPECT_LT(order_of_score(1), order_of_score(0.5));
  EXPECT_LT(order_of_score(0), order_of_score(-0.5));
  EXPECT_EQ(order_of_score(0.0), order_of_score(-0.0));
}

// Restarts and versions must agree on the order among equals: it is part of what users see.
TEST(OrderedKeys, RanksAreFixedForEver) {
  EXPECT_EQ(rank_of(""), rank_of(std::string()));
  EXPECT_NE(rank_of("a"), rank_of("b"));
  EXPECT_EQ(rank_of("node-1"), 0x13950d4ef307e655ULL);
}

}  // namespace
}  // namespace basalt::controllers::sharding
