#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/snapshot.h"

namespace basalt::scheduler {

enum class Strategy : std::uint8_t { Pack, Spread };
enum class ShardMode : std::uint8_t { None, Soft, Hard };

// Finds the best node for a pod. For each shape it keeps the nodes that fit in a heap by score and follows the
// snapshot's log of changed nodes, so that one search costs the changes since the last one, not the number of nodes.
// Pods that look at other pods (affinity, spread) are searched for node by node.
class NodeFinder {
 public:
  NodeFinder(const Snapshot& snapshot, ShardMode shard_mode) : snapshot_(snapshot), shard_mode_(shard_mode) {}

  // The best node that has room now; kNone if there is none.
  [[nodiscard]] NodeId find(PodId pod, Strategy strategy);

  using Verdicts = std::array<std::size_t, kNodeVerdicts>;
  // How many nodes say what about this pod.
  [[nodiscard]] Verdicts judge_all(PodId pod);

 private:
  struct Item {
    float score;
    NodeId node;
    std::uint32_t stamp;
    bool operator<(const Item& other) const { return score != other.score ? score < other.score : node > other.node; }
  };
  struct Ranking {
    std::uint64_t shape_generation = 0;
    std::uint64_t position = 0;  // in the snapshot's log
    std::uint64_t used_at = 0;
    bool is_built = false;
    std::vector<Item> heap;
    std::vector<std::uint32_t> stamps;  // of the item that counts for a node
    // What does not depend on pods, for a version of the node.
    std::vector<std::uint32_t> judged_version;
    std::vector<NodeVerdict> judged;
    std::vector<float> wishes;
  };
  struct PodContext;

  Ranking& ranking(ShapeId shape, Strategy strategy);
  void sync(Ranking& ranking, ShapeId shape, Strategy strategy);
  void rebuild(Ranking& ranking, ShapeId shape, Strategy strategy);
  void push(Ranking& ranking, ShapeId shape, Strategy strategy, NodeId node);
  NodeVerdict judge(Ranking& ranking, const PodShape& shape, NodeId node);
  [[nodiscard]] double score(const PodShape& shape, const Node& node, Strategy strategy) const;
  [[nodiscard]] NodeId find_among_pods(PodId pod, Ranking& ranking, const PodContext& context, Strategy strategy);
  [[nodiscard]] bool make_context(PodId pod, Ranking& ranking, PodContext& context);

  const Snapshot& snapshot_;
  const ShardMode shard_mode_;
  std::map<std::pair<ShapeId, Strategy>, Ranking> rankings_;
  std::uint64_t uses_ = 0;
};

}  // namespace basalt::scheduler
