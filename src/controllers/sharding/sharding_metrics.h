#pragma once

#include <map>
#include <string>

#include "controllers/sharding/breaker.h"
#include "controllers/sharding/cluster_state.h"
#include "controllers/sharding/shard_plan.h"
#include "kube/metrics.h"
#include "rt/time.h"

namespace basalt::controllers::sharding {

// The controller's time series. Shards come from the configuration, so their number is bounded. One thread.
class ShardingMetrics {
 public:
  explicit ShardingMetrics(kube::Metrics& metrics);

  void show_plan(const ShardPlan& plan);
  void show_breaker(CircuitBreaker::State state);
  // How long the watches have been silent.
  void show_silence(rt::Duration nodes, rt::Duration pods) const;
  void show_ready(bool is_ready) const { ready_.set(is_ready ? 1 : 0); }
  void count_events(const ClusterState& state);
  // The state was replaced by another, which begins to count at zero.
  void forget_events() { seen_ = {}; }
  void count_moves(const ShardPlan& plan, const std::map<ShardPlan::Move, std::size_t>& moves);
  void published(rt::Duration duration, bool is_complete) const;
  void recomputed(rt::Duration duration) const { recompute_.observe(seconds(duration)); }
  void visited(rt::Duration duration) const { visit_.observe(seconds(duration)); }
  void corrected(std::size_t nodes) const { mismatches_.add(static_cast<double>(nodes)); }
  // Bytes of the names in an object, and how many nodes of it change hands.
  void show_objects(const StoredShards& stored);

 private:
  static double seconds(rt::Duration duration) { return std::chrono::duration<double>(duration).count(); }
  void shard_gauge(std::string_view name, std::string_view help, const std::string& shard, double value);

  kube::Metrics& metrics_;
  kube::Gauge ready_, breaker_, forecast_error_, nodes_lag_, pods_lag_;
  kube::Counter pod_events_, node_events_, mismatches_;
  kube::Histogram publish_ok_, publish_failed_, recompute_, visit_;
  ClusterState::Counts seen_;
  std::set<std::string, std::less<>> plan_shards_;
  std::set<std::string, std::less<>> objects_;
};

}  // namespace basalt::controllers::sharding
