#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/core_pod.h"
#include "api/gen/meta.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/string_map.h"
#include "api/time.h"

namespace basalt::controllers::podgroup {

inline constexpr std::string_view kGroupNamePrefix = "podgroup-";

// The name of the group of all pods whose controller has this UID; a pod without a controller is its own.
[[nodiscard]] std::string group_name(std::string_view owner_uid);

// The group for a pod and those like it (fact sheet 3.5). `owner_annotations` are the annotations of the pod's owners,
// those of the first owner winning; empty if they are not to be inherited. What is wrong with an annotation is left
// out, with a sentence in `complaints`.
[[nodiscard]] api::scheduling::PodGroup build_group(const api::core::Pod& pod, const api::StringMap& owner_annotations,
                                                    api::Time now, std::vector<std::string>& complaints);

// The merge patch that brings `found` to what `wanted` says, "" if nothing differs. Only what is derived from the pod
// is written: the queue stays if the pod names none, and labels and annotations of others stay. Differs: upstream
// replaces labels, annotations and specification as a whole.
[[nodiscard]] std::string group_patch(const api::scheduling::PodGroup& found, const api::scheduling::PodGroup& wanted);

// The strategic merge patch that puts a pod into a group; only of the pod with this UID.
[[nodiscard]] std::string pod_patch(std::string_view pod_uid, std::string_view group);

}  // namespace basalt::controllers::podgroup
