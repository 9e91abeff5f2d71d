#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "controllers/sharding/ordered_keys.h"

namespace basalt::controllers::sharding {

// A shard by its place in the configuration; partitions of one entry are one shard here.
using ShardIndex = std::int16_t;
inline constexpr ShardIndex kNoShard = -1;
// A score that says: this level does not take the node.
inline constexpr double kRefused = -1e300;
inline constexpr std::size_t kUnlimited = SIZE_MAX;

// One step of the chain through which every node falls until a level keeps it. Each scheduler is a level, in the order
// of the configuration; after them come the fill levels of schedulers whose minimum is to be met with nodes that
// nobody else has taken.
struct Level {
  ShardIndex shard = kNoShard;  // who owns what this level keeps
  bool is_fill = false;
  std::size_t nodes_max = kUnlimited;  // of a fill level: what its shard is to have at least, from all its levels
};

// What the engine knows of one node.
struct NodeInput {
  NodeId node = kNoNode;
  std::uint64_t rank = 0;           // rank_of() its name
  ShardIndex incumbent = kNoShard;  // wins ties at the levels of this shard
  std::span<const double> scores;   // one for each level; kRefused where it is not taken
};

// Who owns which node, kept exact under single changes: each costs O(levels * log nodes).
//
// Pool of level i: the nodes that no level before it keeps. Of the pool, `members` and `waiting` hold those that the
// level takes; every member is better than everyone who waits, and somebody waits only if the members are full.
// full_assignment() computes the same from nothing. One owner; no clock, no input or output.
class Assignment {
 public:
  Assignment(std::vector<Level> levels, std::size_t shards, const NodeNames& names);

  // A new node, or new facts about one. True if the owner of any node has changed.
  bool place(const NodeInput& input);
  bool erase(NodeId node);
  // Replaces everything by these, in one go: O(levels * nodes * log nodes), much faster than one by one.
  void rebuild(std::span<const NodeInput> inputs);
  // Of a level that is no fill level: how many it keeps. Of a fill level: how many its shard is to have.
  bool set_nodes_max(std::size_t level, std::size_t nodes_max);

  [[nodiscard]] std::span<const Level> levels() const { return levels_; }
  [[nodiscard]] bool contains(NodeId node) const { return node < nodes_.size() && nodes_[node].is_placed; }
  [[nodiscard]] ShardIndex owner(NodeId node) const;  // kNoShard if nobody's or unknown
  [[nodiscard]] ShardIndex incumbent(NodeId node) const;
  [[nodiscard]] std::size_t shard_size(ShardIndex shard) const;
  [[nodiscard]] std::size_t nodes() const { return placed_; }
  [[nodiscard]] std::uint64_t rank(NodeId node) const { return nodes_[node].rank; }  // of a node that is placed
  [[nodiscard]] std::size_t id_limit() const { return nodes_.size(); }               // all ids are below it
  [[nodiscard]] std::size_t waiting(std::size_t level) const { return state_[level].waiting.size(); }
  void members(ShardIndex shard, std::vector<NodeId>& out) const;  // appended, best first
  [[nodiscard]] double score(NodeId node, std::size_t level) const;

  // Nodes whose owner was changed since the last call, each once. Some may have their former owner again.
  void take_moved(std::vector<NodeId>& out);
  [[nodiscard]] bool has_moved() const { return !moved_.empty(); }

  // For tests: the order and the invariants above, checked completely.
  [[nodiscard]] bool is_consistent() const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  using LevelIndex = std::uint8_t;
  static constexpr LevelIndex kNowhere = 255;
  struct Node {
    std::uint64_t rank = 0;
    ShardIndex incumbent = kNoShard;
    LevelIndex level = kNowhere;  // that keeps it
    bool is_placed = false;
    bool is_moved = false;  // is in moved_
  };
  struct LevelState {
    OrderedKeys members;
    OrderedKeys waiting;
    std::size_t room = kUnlimited;  // how many members it may have now
  };

  [[nodiscard]] OrderKey key_of(NodeId node, std::size_t level) const;
  [[nodiscard]] bool takes(NodeId node, std::size_t level) const;
  void store(const NodeInput& input);
  void set_level(NodeId node, LevelIndex level);
  void insert_from(std::size_t level, NodeId node);
  void remove_from(std::size_t level, NodeId node);
  void resize(std::size_t level, std::size_t room);
  void settle_fill_levels();

  std::vector<Level> levels_;
  std::vector<LevelState> state_;
  bool has_fill_ = false;
  std::vector<Node> nodes_;         // by id
  std::vector<double> scores_;      // by id * levels
  std::vector<std::size_t> sizes_;  // by shard
  std::size_t placed_ = 0;
  std::vector<NodeId> moved_;
};

}  // namespace basalt::controllers::sharding
