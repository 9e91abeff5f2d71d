#include "controllers/sharding/cache_check.h"

#include <algorithm>
#include <utility>

namespace basalt::controllers::sharding {

CacheCheck::CacheCheck(rt::Runtime& runtime, kube::Client& client, Logger log, kube::Metrics& metrics)
    : runtime_(runtime),
      client_(client),
      log_(std::move(log)),
      checks_counter_(metrics.counter("volcano_sharding_cache_checks_total", "Nodes compared with the API server.")),
      mismatch_counter_(metrics.counter("volcano_sharding_audit_mismatch_total",
                                        "Nodes whose sums were wrong here and have been corrected.")) {}

rt::Duration CacheCheck::pause(rt::Duration period) const {
  return repetitions_ > 0 ? std::min(period, kRepeatAfter) : period;
}

std::optional<CacheCheck::Difference> CacheCheck::compare(const ClusterState& state, const std::string& node,
                                                          const rt::StopToken& stop) {
  kube::ListRequest nodes;
  nodes.resource = {"", "v1", "nodes"};
  nodes.field_selector = "metadata.name=" + node;
  nodes.timeout = std::chrono::seconds(10);
  const auto found = client_.list(nodes, stop);
  if (!found.ok()) return std::nullopt;
  kube::ListRequest pods = nodes;
  pods.resource = {"", "v1", "pods"};
  pods.field_selector = "spec.nodeName=" + node + ",status.phase!=Succeeded,status.phase!=Failed";
  const auto bound = client_.list(pods, stop);
  if (!bound.ok()) return std::nullopt;
  const std::optional<Amounts> ours = state.requests_of(node);
  Difference difference;
  difference.node_is_missing = found->items.empty() == ours.has_value();
  if (!ours || found->items.empty()) return difference;
  difference.cpu = ours->cpu;
  difference.memory = ours->memory;
  for (const kube::Bytes& item : bound->items) {
    const Result<PodReading> pod = read_pod(*item, state.catalog());
    if (!pod.ok() || !pod->counts) continue;
    difference.cpu -= pod->requests.cpu;
    difference.memory -= pod->requests.memory;
  }
  return difference;
}

bool CacheCheck::step(const ClusterState& state, const rt::StopToken& stop) {
  const std::string node = repetitions_ > 0 ? suspect_ : state.some_node(runtime_.random());
  if (node.empty()) return false;
  const std::optional<Difference> difference = compare(state, node, stop);
  if (!difference) return false;
  checks_counter_.add();
  if (*difference == Difference()) {
    repetitions_ = 0;
    return false;
  }
  repetitions_ = repetitions_ > 0 && *difference == difference_ ? repetitions_ + 1 : 1;
  suspect_ = node;
  difference_ = *difference;
  if (repetitions_ < kRepetitions) return false;
  repetitions_ = 0;
  mismatch_counter_.add();
  log_.warn("the cache of nodes and pods is out of step with the API server; it is listed anew",
            {{"node", node}, {"cpu_milli_off", difference_.cpu}, {"memory_bytes_off", difference_.memory}});
  return true;
}

}  // namespace basalt::controllers::sharding
