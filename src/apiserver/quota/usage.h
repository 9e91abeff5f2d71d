#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/resource_list.h"
#include "json/value.h"

namespace basalt::apiserver {

// What one object counts for in quotas: "pods", "count/pods", "requests.cpu", "services.nodeports" and so on.
// `storage` is the resource as the store names it: "group/plural", "/pods". A pod that has ended counts as an object
// only.
[[nodiscard]] api::ResourceList quota_usage(std::string_view storage, const json::Value& object);

// The resources ("group/plural") that the names of a quota's spec.hard are about, without repeats.
[[nodiscard]] std::vector<std::string> quota_subjects(const json::Value& quota);

// Whether the scopes of the quota let it count this object. Without scopes it counts everything.
[[nodiscard]] bool quota_covers(const json::Value& quota, std::string_view storage, const json::Value& object);

// The names of spec.hard that every container of a pod must state, with the containers that do not: "cpu for: main".
// "" if nothing is missing.
[[nodiscard]] std::string unstated_resources(const json::Value& quota, const json::Value& pod);

// A map of quantities; what is not one is left out.
[[nodiscard]] api::ResourceList quantities_at(const json::Value& object, std::initializer_list<std::string_view> path);
[[nodiscard]] json::Object quantities_to_json(const api::ResourceList& list);

// What a pod asks for or is limited to as a whole (`kind` is "requests" or "limits"): its containers together, or an
// init container that needs more; init containers that go on running count with the rest.
[[nodiscard]] api::ResourceList pod_resources(const json::Value& pod, std::string_view kind);

}  // namespace basalt::apiserver
