#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rt/time.h"
#include "workloads/common/object.h"
#include "workloads/common/pod.h"
#include "workloads/daemonset/node_choice.h"

namespace basalt::workloads {

inline constexpr std::string_view kDaemonHashLabel = "controller-revision-hash";

struct DaemonSetPlan {
  std::vector<std::string> creates;  // nodes that get a pod of the present template
  std::vector<PodPtr> deletes;
  std::vector<PodPtr> ended;  // pods that are to run for ever and do not: replaced, but not too often
  json::Value status;
  std::optional<rt::Duration> look_again;
};

// Pure: one pod for each node that is wanted, and the next step of an update. `hash` is that of the present template.
[[nodiscard]] DaemonSetPlan plan_daemon_set(const Object& set, const std::vector<PodPtr>& pods,
                                            const std::vector<NodePtr>& nodes, const NodeChoice& choice,
                                            std::string_view hash, rt::WallTime now);

// Where a pod runs, or is going to.
[[nodiscard]] std::string_view node_of(const Pod& pod);

}  // namespace basalt::workloads
