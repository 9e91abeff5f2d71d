#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/resource_list.h"
#include "api/string_map.h"
#include "api/time.h"
#include "base/result.h"
#include "json/value.h"
#include "kube/client.h"
#include "rt/stop.h"

namespace basalt::node {

struct NodeDescription {
  std::string name;
  std::string address = "127.0.0.1";
  api::ResourceList capacity;
  api::ResourceList allocatable;  // as capacity if empty
  api::StringMap labels;          // beside kubernetes.io/hostname, os and arch
  json::Array taints;             // as in spec.taints
  std::string runtime;            // process or simulated
};

// This machine's processors and memory, and room for `pods`.
[[nodiscard]] api::ResourceList machine_capacity(std::int64_t pods);

// As it is now, ready since `since`.
[[nodiscard]] json::Value node_object(const NodeDescription& description, api::Time now, api::Time since);

// Whether the node is ready, as a merge patch of its status.
[[nodiscard]] std::string node_ready_patch(bool ready, std::string_view reason, std::string_view message,
                                           api::Time now);

[[nodiscard]] kube::Request create_node_request(const json::Value& node);
// Brings a node that is there already up to date: labels, and by a second request the status.
[[nodiscard]] kube::Request update_node_request(const json::Value& node);
[[nodiscard]] kube::Request update_node_status_request(const json::Value& node);

// What takes away the taints that a real API server gives to every new node (not-ready) and a cluster to a silent one
// (unreachable). On a cluster its node controller does it; where none runs the node would take no pods for ever.
// Nothing if the node as `shown` has none of them, or only such as it wants itself.
[[nodiscard]] std::optional<kube::Request> untaint_request(const json::Value& shown, const json::Array& own_taints);

// Creates the node or brings it up to date, and takes those taints away.
[[nodiscard]] Done register_node(kube::Client& client, const json::Value& node, const rt::StopToken& stop);

}  // namespace basalt::node
