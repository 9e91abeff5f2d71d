#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rt/time.h"
#include "workloads/common/object.h"
#include "workloads/common/pod.h"

namespace basalt::workloads {

namespace stateful_keys {
inline constexpr std::string_view kRevision = "controller-revision-hash";
inline constexpr std::string_view kPodName = "statefulset.kubernetes.io/pod-name";
inline constexpr std::string_view kPodIndex = "apps.kubernetes.io/pod-index";
}  // namespace stateful_keys

// The names of the ControllerRevisions that a set comes from and goes to.
struct StatefulRevisions {
  std::string current;
  std::string update;
};

struct StatefulSetPlan {
  struct Create {
    std::int64_t ordinal = 0;
    bool is_update = true;  // of the new revision
  };
  std::vector<Create> creates;
  std::vector<PodPtr> deletes;
  std::vector<PodPtr> scaled_away;  // of these: whose ordinal is no longer wanted
  json::Value status;
  std::optional<rt::Duration> look_again;
};

// The ordinal of a pod of this set; nothing if the name is none of its names.
[[nodiscard]] std::optional<std::int64_t> ordinal_of(std::string_view set, std::string_view pod);

// Pure: the next step. Ordered sets take one at a time, and the next when the one before is available; parallel ones
// make and delete all at once, but update one at a time, too.
[[nodiscard]] StatefulSetPlan plan_stateful_set(const Object& set, const std::vector<PodPtr>& pods,
                                                const StatefulRevisions& revisions, rt::WallTime now);

}  // namespace basalt::workloads
