#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "json/value.h"
#include "rt/time.h"
#include "workloads/common/object.h"
#include "workloads/common/pod.h"

namespace basalt::workloads {

struct ReplicaSetPlan {
  std::int64_t creates = 0;
  std::vector<PodPtr> deletes;
  json::Value status;                      // as it is before the pods change; without the condition of failures
  std::optional<rt::Duration> look_again;  // when a pod becomes available by time alone
};

// Pods made or deleted in one pass; the next follows when the caches show them.
inline constexpr std::int64_t kPodsAtOnceMax = 500;

// Pure: what is to be done about the pods that a ReplicaSet owns.
[[nodiscard]] ReplicaSetPlan plan_replica_set(const Object& set, const std::vector<PodPtr>& pods, rt::WallTime now);

// Those that go first stand first: without a node, not running, not ready, of low cost, crowded on a node, ready for a
// short time, restarted often, young.
void sort_for_deletion(std::vector<PodPtr>& pods);

}  // namespace basalt::workloads
