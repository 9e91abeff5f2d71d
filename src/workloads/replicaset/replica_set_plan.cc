#include "workloads/replicaset/replica_set_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace basalt::workloads {
namespace {

int phase_rank(const Pod& pod) {
  if (pod.phase == "Running") return 2;
  return pod.phase == "Unknown" ? 1 : 0;
}

json::Value status_of(const Object& set, const std::vector<PodPtr>& active, rt::WallTime now) {
  const std::int64_t min_ready = int_at(set.json, {"spec", "minReadySeconds"});
  const api::StringMap labels = strings_at(set.json, {"spec", "template", "metadata", "labels"});
  std::int64_t labeled = 0;
  std::int64_t ready = 0;
  std::int64_t available = 0;
  for (const PodPtr& pod : active) {
    labeled += labels.is_subset_of(pod->metadata.labels) ? 1 : 0;
    ready += pod->counts_as_ready() ? 1 : 0;
    available += is_available(*pod, min_ready, now) ? 1 : 0;
  }
  json::Value status = object_at(set.json, {"status"});
  const auto put = [&](std::string_view name, std::int64_t count) {
    if (count > 0) {
      status.as_object().set(name, count);
    } else {
      status.as_object().erase(name);
    }
  };
  status.as_object().set("replicas", static_cast<std::int64_t>(active.size()));
  put("fullyLabeledReplicas", labeled);
  put("readyReplicas", ready);
  put("availableReplicas", available);
  put("observedGeneration", set.metadata.generation);
  return status;
}

}  // namespace

void sort_for_deletion(std::vector<PodPtr>& pods) {
  std::map<std::string_view, std::int64_t> crowd;  // running pods by node
  for (const PodPtr& pod : pods) {
    if (!pod->node_name.empty()) ++crowd[pod->node_name];
  }
  const auto rank = [&](const Pod& pod) {
    const std::int64_t neighbours = pod.node_name.empty() ? 0 : crowd[pod.node_name];
    const std::int64_t since = pod.counts_as_ready() ? pod.ready_since.unix_seconds() : 0;
    return std::tuple(pod.node_name.empty() ? 0 : 1, phase_rank(pod), pod.counts_as_ready() ? 1 : 0, pod.deletion_cost,
                      -neighbours, -since, -pod.restarts, -pod.metadata.creation.unix_seconds(),
                      std::string_view(pod.metadata.name));
  };
  std::sort(pods.begin(), pods.end(), [&](const PodPtr& a, const PodPtr& b) { return rank(*a) < rank(*b); });
}

ReplicaSetPlan plan_replica_set(const Object& set, const std::vector<PodPtr>& pods, rt::WallTime now) {
  std::vector<PodPtr> active;
  for (const PodPtr& pod : pods) {
    if (pod->is_active()) active.push_back(pod);
  }
  ReplicaSetPlan plan;
  plan.status = status_of(set, active, now);
  plan.look_again = next_available_in(active, int_at(set.json, {"spec", "minReadySeconds"}), now);
  if (set.metadata.is_being_deleted) return plan;
  const std::int64_t wanted = int_at(set.json, {"spec", "replicas"}, 1);
  const std::int64_t surplus = static_cast<std::int64_t>(active.size()) - wanted;
  if (surplus < 0) plan.creates = std::min(-surplus, kPodsAtOnceMax);
  if (surplus > 0) {
    sort_for_deletion(active);
    active.resize(static_cast<std::size_t>(std::min(surplus, kPodsAtOnceMax)));
    plan.deletes = std::move(active);
  }
  return plan;
}

}  // namespace basalt::workloads
