#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/gen/shard.h"
#include "controllers/sharding/assignment.h"
#include "controllers/sharding/cluster_state.h"
#include "controllers/sharding/policies/forecast.h"
#include "controllers/sharding/rules.h"
#include "controllers/sharding/shard_writer.h"

namespace basalt::controllers::sharding {

// The NodeShards of the API server by name.
using StoredShards = std::map<std::string, std::shared_ptr<const api::shard::NodeShard>, std::less<>>;

// Which object lists a node: a shard of the configuration and, if that is split, the part.
struct Seat {
  ShardIndex shard = kNoShard;
  int part = 0;
};
// What an object of this name is in the configuration; kNoShard if it is not configured.
[[nodiscard]] Seat seat_of_object(const RuleSet& rules, std::string_view object_name);

// One configuration applied to one ClusterState: who is to have which node, which objects may differ from that, and
// what has been acknowledged. Changes of nodes are taken over in pieces; lists of names are made when they are to be
// written. Used by one thread.
class ShardPlan {
 public:
  ShardPlan(std::shared_ptr<const RuleSet> rules, ClusterState& state);

  // All nodes from nothing. Whoever is listed in a stored object is an incumbent, so that a restart moves nobody.
  void rebuild(const StoredShards& stored, std::int64_t unix_seconds);
  // Up to `count` nodes that changed. True if more wait.
  bool absorb(std::size_t count, std::int64_t unix_seconds);
  // For policies that forecast: every node is looked at again, because time has passed.
  void look_again(std::int64_t unix_seconds);

  // Some list may differ from what is stored.
  [[nodiscard]] bool is_dirty() const { return dirty_count_ > 0; }
  void mark_all();

  struct Cut {  // nodes for which an object has no room
    std::string object;
    std::size_t nodes = 0;
    bool operator==(const Cut&) const = default;
  };
  struct Lists {
    std::vector<DesiredShard> desired;              // of the shards that may differ
    std::set<std::string, std::less<>> configured;  // all objects that are to exist
    std::vector<Cut> cut;
    std::size_t bytes = 0;  // of the names in `desired`
  };
  [[nodiscard]] Lists lists(const StoredShards& stored, std::size_t object_bytes_max);

  struct Move {
    ShardIndex from = kNoShard;
    ShardIndex to = kNoShard;
    auto operator<=>(const Move&) const = default;
  };
  // What was made of the last lists: these objects are stored as listed. Returns how many nodes went from whom to whom.
  std::map<Move, std::size_t> settle(const Lists& lists, const std::set<std::string, std::less<>>& settled);

  [[nodiscard]] const RuleSet& rules() const { return *rules_; }
  [[nodiscard]] std::size_t nodes() const { return assignment_.nodes(); }
  [[nodiscard]] std::size_t shard_size(std::size_t shard) const {
    return assignment_.shard_size(static_cast<ShardIndex>(shard));
  }
  [[nodiscard]] int parts(std::size_t shard) const { return parts_[shard]; }
  // Nodes that are missing to the shard's minimum.
  [[nodiscard]] std::size_t shortage(std::size_t shard) const;
  [[nodiscard]] std::size_t unassigned() const;
  [[nodiscard]] const ForecastModel& forecast() const { return forecast_; }
  // Nodes whose owner differs from what a calculation from nothing gives; 0 unless there is a bug.
  [[nodiscard]] std::size_t disagreements() const;
  [[nodiscard]] std::size_t memory_bytes() const { return assignment_.memory_bytes(); }

 private:
  void evaluate(const NodeUpdate& update, ShardIndex incumbent, std::int64_t unix_seconds, std::span<double> scores);
  void take_moves();
  void mark(ShardIndex shard);
  void fit_limits();
  void list_shard(std::size_t shard, const StoredShards& stored, std::size_t object_bytes_max, Lists& lists);
  void list_whole(std::size_t shard, const StoredShards& stored, std::size_t object_bytes_max,
                  std::vector<std::string> names, Lists& lists);
  [[nodiscard]] int stored_parts(std::size_t shard, const StoredShards& stored) const;

  const std::shared_ptr<const RuleSet> rules_;
  ClusterState& state_;
  Assignment assignment_;
  ForecastModel forecast_;
  std::vector<bool> dirty_;  // by shard
  std::size_t dirty_count_ = 0;
  std::vector<int> parts_;       // by shard: objects that it is split into
  std::vector<NodeId> pending_;  // nodes whose owner is not acknowledged as such
  std::vector<NodeUpdate> updates_;
  std::vector<double> scores_;
  std::vector<NodeId> moved_;
};

}  // namespace basalt::controllers::sharding
