#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "controllers/sharding/cluster_state.h"
#include "kube/client.h"
#include "kube/metrics.h"
#include "rt/runtime.h"

namespace basalt::controllers::sharding {

// Keeps a ClusterState equal to the cluster: one watch of nodes, one of pods, each on a thread of its own. Not the
// shared caches, because these keep a kilobyte of every pod: here a pod costs 30 to 60 bytes and a node about 200, so
// that ten million pods on a million nodes fit in one process. The pods' watch asks the server for bound pods that have
// not ended, so that everything else costs nothing.
class ClusterFeeds {
 public:
  ClusterFeeds(rt::Runtime& runtime, kube::Client& client, const Logger& log, kube::Metrics* metrics,
               ClusterState& state);
  ~ClusterFeeds();  // stop() has been called if start() was
  void start();
  void stop();
  // Both have been listed completely.
  [[nodiscard]] bool has_synced() const;
  // Drops what is known of the position and lists everything again; for when the cache was found out of step.
  void relist();
  [[nodiscard]] std::uint64_t undecodable() const;
  // How long each watch has been silent: no event, no bookmark, no list. A server that works sends a bookmark every
  // minute; after 90 s the watch is opened anew. Asked regularly, by one thread: it notices progress between two calls.
  struct Silence {
    rt::Duration nodes{};
    rt::Duration pods{};
  };
  [[nodiscard]] Silence silence();

 private:
  class Feed;
  std::unique_ptr<Feed> nodes_;
  std::unique_ptr<Feed> pods_;
};

}  // namespace basalt::controllers::sharding
