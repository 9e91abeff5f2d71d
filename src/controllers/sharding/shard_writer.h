#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/shard.h"
#include "base/log.h"
#include "controllers/sharding/breaker.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/metrics.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::controllers::sharding {

// What a NodeShard should say.
struct DesiredShard {
  std::string name;
  std::vector<std::string> nodes;  // sorted
};

struct PublishRequest {
  std::vector<DesiredShard> desired;              // those that may differ from what is stored
  std::set<std::string, std::less<>> configured;  // all objects that are to exist; `desired` is among them
  bool delete_others = false;                     // objects that are not configured go
};

struct PublishResult {
  std::set<std::string, std::less<>> settled;  // objects of the request that are stored as desired now
  bool is_complete = true;                     // all of them, and nothing is left to delete
  int writes = 0;
  std::optional<Error> error;  // the last failure
  rt::Duration retry_after{};  // the server's wish
};

// Writes NodeShards so that at no moment two stored ones list the same node: an object first gives up what others are
// to get, and takes only what no other object lists, as far as we know; what is then still missing follows in the next
// round. If a giving-up fails, the takers simply wait. A write whose answer was lost counts as both done and not done
// until the object has been read again. Specs go to the main path, status to the subresource, each as a merge patch
// with the version that was seen. One thread calls it.
class ShardWriter {
 public:
  using NodeShard = api::shard::NodeShard;
  using Stored = std::shared_ptr<const NodeShard>;

  ShardWriter(rt::Runtime& runtime, kube::Client& client, Logger log, kube::Metrics& metrics,
              kube::Informer<NodeShard>& shards);

  [[nodiscard]] PublishResult publish(const PublishRequest& request, const rt::StopToken& stop);
  // What is stored, by name: the cache, and our own writes that it has not shown yet.
  [[nodiscard]] std::map<std::string, Stored, std::less<>> stored() const;
  // Whether the object says what we wrote last. For the informer's thread.
  [[nodiscard]] bool is_as_written(const NodeShard& shard) const;
  struct Stripped {  // nodes that were taken from a scheduler that did not give them up
    std::string shard;
    std::size_t nodes = 0;
  };
  // Brings nodesToAdd and nodesToRemove of these in line with what is stored; what fails is left for later. Names of
  // nodes that a scheduler should have given up `grace` ago are taken out of its nodesInUse (0: never); returned are
  // those for which that succeeded.
  std::vector<Stripped> write_statuses(const std::set<std::string, std::less<>>& names, rt::Duration grace,
                                       const rt::StopToken& stop);
  // Objects with nodes in use that others are to get, while write_statuses() is given a grace.
  [[nodiscard]] std::set<std::string, std::less<>> overdue() const;
  [[nodiscard]] CircuitBreaker::State breaker_state() const { return breaker_.state(); }
  [[nodiscard]] rt::Instant breaker_open_until() const { return breaker_.open_until(); }

  static constexpr int kRoundsMax = 4;

 private:
  struct Pending;  // one write of a round
  using View = std::map<std::string, Stored, std::less<>>;

  [[nodiscard]] std::vector<Pending> plan_round(const PublishRequest& request, const View& view,
                                                const std::set<std::string, std::less<>>& failed) const;
  void take_result(Pending& pending, const Result<kube::Response>& result, PublishResult& outcome,
                   std::set<std::string, std::less<>>& failed, const rt::StopToken& stop);
  void remember(const std::string& name, Stored object);
  void remember_written(const std::string& name, const std::vector<std::string>& nodes);
  // Reads the object from the server; true if we know it then.
  bool refresh(const std::string& name, const rt::StopToken& stop);
  void count_failure(const Error& error, PublishResult& outcome);
  // Nodes that are taken from a scheduler now, because it was to give them up `grace` ago. Keeps the times.
  std::vector<std::string> overdue_nodes(const std::string& shard, const std::vector<std::string>& to_remove,
                                         rt::Duration grace);

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::Informer<NodeShard>& shards_;
  kube::Counter writes_counter_, failures_counter_, conflicts_counter_;

  mutable rt::Mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> written_hash_ BASALT_GUARDED_BY(mutex_);

  // Used only by the calling thread.
  struct Own {
    Stored object;  // null: known to be absent
    kube::Revision revision = 0;
  };
  std::map<std::string, Own, std::less<>> own_;
  std::map<std::string, std::vector<std::string>, std::less<>> uncertain_;  // what a lost write may have stored
  // By object: nodes in use that others are to get, and since when.
  std::map<std::string, std::map<std::string, rt::Instant, std::less<>>, std::less<>> overdue_;
  CircuitBreaker breaker_;
};

}  // namespace basalt::controllers::sharding
