#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/core_affinity.h"
#include "api/gen/core_node.h"
#include "api/labels.h"
#include "api/string_map.h"
#include "base/result.h"
#include "scheduler/pod.h"
#include "scheduler/resources.h"

namespace basalt::scheduler {

struct HostPort {
  std::string protocol;
  std::string address;  // "" for all addresses
  std::int32_t port = 0;
  [[nodiscard]] bool conflicts_with(const HostPort& other) const {
    return port == other.port && protocol == other.protocol &&
           (address.empty() || other.address.empty() || address == other.address);
  }
};

// Pods to be near to or far from: those that `selects`, seen through the node label `topology_key`.
// Differs: a namespace selector that is not empty knows a namespace only by its name (kubernetes.io/metadata.name).
struct PodTerm {
  api::Selector selector;
  std::vector<std::string> namespaces;  // none: the pod's own
  bool all_namespaces = false;
  std::string topology_key;
  std::int32_t weight = 0;  // of a wish
  [[nodiscard]] bool selects(std::string_view own_namespace, const SchedulablePod& other) const;
};

struct SpreadTerm {
  api::Selector selector;
  std::string topology_key;
  std::int32_t max_skew = 1;
  bool is_required = true;
};

struct NodeWish {
  api::core::NodeSelectorTerm term;
  std::int32_t weight = 0;
};

// Everything about a pod that decides where it may run; equal for the pods of a task.
struct PodShape {
  SparseAmounts requests;  // with one of "pods"
  bool is_best_effort = true;
  std::vector<HostPort> ports;
  api::StringMap node_selector;
  bool has_required_nodes = false;
  std::vector<api::core::NodeSelectorTerm> required_nodes;  // one of them must hold
  std::vector<NodeWish> preferred_nodes;
  std::vector<api::core::Toleration> tolerations;
  std::vector<PodTerm> near;
  std::vector<PodTerm> far;
  std::vector<PodTerm> wish_near;
  std::vector<PodTerm> wish_far;
  std::vector<SpreadTerm> spread;

  static Result<PodShape> parse(std::string_view text, ResourceTable& resources);

  // Whether other pods' places decide about this one's.
  [[nodiscard]] bool depends_on_pods() const {
    return !near.empty() || !far.empty() || !wish_near.empty() || !wish_far.empty() || !spread.empty();
  }
  [[nodiscard]] bool is_picky() const { return !node_selector.empty() || has_required_nodes; }
};

// What speaks against a node; the order is that in which it is looked at.
enum class NodeVerdict : std::uint8_t {
  Fits,
  NotReady,
  Unschedulable,
  OutsideShard,
  NodeSelector,
  NodeAffinity,
  Taint,
  Resources,
  HostPorts,
  PodAffinity,
  PodAntiAffinity,
  Spread,
};
inline constexpr std::size_t kNodeVerdicts = 12;
// For counts: "3 nodes " + text.
[[nodiscard]] std::string_view to_text(NodeVerdict verdict);

// Whether the node could ever take a pod of this shape, by what does not depend on pods.
[[nodiscard]] NodeVerdict judge_node(const PodShape& shape, const api::core::NodeProjection& node);
// Sum of the fulfilled wishes about nodes, less the taints that should better be avoided.
[[nodiscard]] double wishes_fulfilled(const PodShape& shape, const api::core::NodeProjection& node);

}  // namespace basalt::scheduler
