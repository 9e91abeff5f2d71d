#include "controllers/sharding/sharding_metrics.h"

#include "controllers/sharding/partition.h"

namespace basalt::controllers::sharding {
namespace {

constexpr std::string_view kNodes = "volcano_sharding_nodes";
constexpr std::string_view kMissing = "volcano_sharding_missing_nodes";
constexpr std::string_view kBytes = "volcano_sharding_object_bytes";
constexpr std::string_view kLag = "volcano_sharding_watch_lag_seconds";
constexpr std::string_view kLagHelp = "Since the API server last sent anything on this watch.";
constexpr std::string_view kHandover = "volcano_sharding_handover_pending";

std::string name_of(const ShardPlan& plan, ShardIndex shard) {
  return shard == kNoShard ? "unassigned" : plan.rules().rules[static_cast<std::size_t>(shard)].name;
}

}  // namespace

ShardingMetrics::ShardingMetrics(kube::Metrics& metrics)
    : metrics_(metrics),
      ready_(metrics.gauge("volcano_sharding_ready", "1 once nodes, pods, shards and configuration are known.")),
      breaker_(metrics.gauge("volcano_sharding_breaker_state", "Writes: 0 pass, 1 one is tried, 2 pause.")),
      forecast_error_(metrics.gauge("volcano_sharding_forecast_error_points",
                                    "How far forecasts of an hour ago were off lately, in points.")),
      nodes_lag_(metrics.gauge(kLag, kLagHelp, {{"resource", "nodes"}})),
      pods_lag_(metrics.gauge(kLag, kLagHelp, {{"resource", "pods"}})),
      pod_events_(metrics.counter("volcano_sharding_events_total", "Changes seen.", {{"kind", "pod"}})),
      node_events_(metrics.counter("volcano_sharding_events_total", "Changes seen.", {{"kind", "node"}})),
      mismatches_(metrics.counter("volcano_sharding_audit_mismatch_total",
                                  "Nodes whose sums were wrong here and have been corrected.")),
      publish_ok_(metrics.histogram("volcano_sharding_publish_seconds", "From the plan to the acknowledgement.",
                                    kube::Metrics::seconds_bounds(), {{"result", "complete"}})),
      publish_failed_(metrics.histogram("volcano_sharding_publish_seconds", "From the plan to the acknowledgement.",
                                        kube::Metrics::seconds_bounds(), {{"result", "incomplete"}})),
      recompute_(metrics.histogram("volcano_sharding_full_recompute_seconds", "One calculation from nothing.",
                                   kube::Metrics::seconds_bounds())),
      visit_(metrics.histogram("volcano_sharding_event_seconds", "One batch of changed nodes.",
                               {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1})) {}

void ShardingMetrics::show_silence(rt::Duration nodes, rt::Duration pods) const {
  nodes_lag_.set(seconds(nodes));
  pods_lag_.set(seconds(pods));
}

void ShardingMetrics::shard_gauge(std::string_view name, std::string_view help, const std::string& shard,
                                  double value) {
  metrics_.gauge(name, help, {{"shard", shard}}).set(value);
}

void ShardingMetrics::show_plan(const ShardPlan& plan) {
  std::set<std::string, std::less<>> current;
  for (std::size_t i = 0; i < plan.rules().rules.size(); ++i) {
    const std::string& name = plan.rules().rules[i].name;
    current.insert(name);
    shard_gauge(kNodes, "Nodes by who is to have them.", name, static_cast<double>(plan.shard_size(i)));
    shard_gauge(kMissing, "Nodes that are missing to the minimum.", name, static_cast<double>(plan.shortage(i)));
  }
  for (const std::string& name : plan_shards_) {
    if (current.contains(name)) continue;
    metrics_.remove_gauge(kNodes, {{"shard", name}});
    metrics_.remove_gauge(kMissing, {{"shard", name}});
  }
  plan_shards_ = std::move(current);
  shard_gauge(kNodes, "Nodes by who is to have them.", "unassigned", static_cast<double>(plan.unassigned()));
  if (plan.rules().uses_forecast) forecast_error_.set(plan.forecast().error_points());
}

void ShardingMetrics::show_objects(const StoredShards& stored) {
  std::set<std::string, std::less<>> current;
  for (const auto& [name, shard] : stored) {
    current.insert(name);
    shard_gauge(kBytes, "Bytes of the names that an object lists.", name,
                static_cast<double>(names_bytes(shard->spec.nodes_desired)));
    shard_gauge(kHandover, "Nodes that a scheduler is still to take or to give up.", name,
                static_cast<double>(shard->status.nodes_to_add.size() + shard->status.nodes_to_remove.size()));
  }
  for (const std::string& name : objects_) {
    if (current.contains(name)) continue;
    metrics_.remove_gauge(kBytes, {{"shard", name}});
    metrics_.remove_gauge(kHandover, {{"shard", name}});
  }
  objects_ = std::move(current);
}

void ShardingMetrics::show_breaker(CircuitBreaker::State state) { breaker_.set(static_cast<double>(state)); }

void ShardingMetrics::count_events(const ClusterState& state) {
  const ClusterState::Counts now = state.counts();
  pod_events_.add(static_cast<double>(now.pod_events - seen_.pod_events));
  node_events_.add(static_cast<double>(now.node_events - seen_.node_events));
  seen_ = now;
}

void ShardingMetrics::count_moves(const ShardPlan& plan, const std::map<ShardPlan::Move, std::size_t>& moves) {
  for (const auto& [move, count] : moves) {
    metrics_
        .counter("volcano_sharding_moves_total", "Nodes that changed hands.",
                 {{"from", name_of(plan, move.from)}, {"to", name_of(plan, move.to)}})
        .add(static_cast<double>(count));
  }
}

void ShardingMetrics::published(rt::Duration duration, bool is_complete) const {
  (is_complete ? publish_ok_ : publish_failed_).observe(seconds(duration));
}

}  // namespace basalt::controllers::sharding
