#include "scheduler/shape.h"

#include <algorithm>

#include "api/gen/names.h"
#include "api/node_fit.h"
#include "base/strings.h"
#include "json/reader.h"

namespace basalt::scheduler {

namespace {

namespace core = api::core;

using api::holds;
using api::tolerates;

Result<PodTerm> term_of(const core::PodAffinityTerm& source, std::int32_t weight) {
  PodTerm term;
  BASALT_TRY(term.selector, api::Selector::from(source.label_selector ? &*source.label_selector : nullptr));
  term.namespaces = source.namespaces;
  term.topology_key = source.topology_key;
  term.weight = weight;
  if (source.namespace_selector) {
    BASALT_TRY(const api::Selector namespaces, api::Selector::from(*source.namespace_selector));
    term.all_namespaces = namespaces.is_everything();
    if (const auto name = namespaces.exact_value(api::keys::kMetadataName)) term.namespaces.emplace_back(*name);
  }
  return term;
}

template <class Source>
Done read_terms(const Source& source, std::vector<PodTerm>& required, std::vector<PodTerm>& wishes) {
  for (const auto& term : source.required_during_scheduling_ignored_during_execution) {
    BASALT_TRY(PodTerm read, term_of(term, 0));
    required.push_back(std::move(read));
  }
  for (const auto& wish : source.preferred_during_scheduling_ignored_during_execution) {
    BASALT_TRY(PodTerm read, term_of(wish.pod_affinity_term, wish.weight));
    wishes.push_back(std::move(read));
  }
  return Ok();
}

Done read_affinity(core::Affinity& affinity, PodShape& shape) {
  if (affinity.node_affinity) {
    auto& nodes = *affinity.node_affinity;
    if (nodes.required_during_scheduling_ignored_during_execution) {
      shape.has_required_nodes = true;
      shape.required_nodes = std::move(nodes.required_during_scheduling_ignored_during_execution->node_selector_terms);
    }
    for (auto& wish : nodes.preferred_during_scheduling_ignored_during_execution)
      shape.preferred_nodes.push_back({std::move(wish.preference), wish.weight});
  }
  if (affinity.pod_affinity) {
    BASALT_TRY_DONE(read_terms(*affinity.pod_affinity, shape.near, shape.wish_near));
  }
  if (affinity.pod_anti_affinity) {
    BASALT_TRY_DONE(read_terms(*affinity.pod_anti_affinity, shape.far, shape.wish_far));
  }
  return Ok();
}

Done read_spread(const std::vector<core::TopologySpreadConstraint>& constraints, PodShape& shape) {
  for (const auto& constraint : constraints) {
    SpreadTerm term;
    BASALT_TRY(term.selector, api::Selector::from(constraint.label_selector ? &*constraint.label_selector : nullptr));
    term.topology_key = constraint.topology_key;
    term.max_skew = std::max(constraint.max_skew, 1);
    term.is_required = constraint.when_unsatisfiable != "ScheduleAnyway";
    if (term.is_required) shape.spread.push_back(std::move(term));
  }
  return Ok();
}

HostPort port_of(std::string_view text) {
  HostPort port;
  const auto pieces = base::split(text, '/');
  if (pieces.size() != 3) return port;
  port.port = static_cast<std::int32_t>(base::parse_int64(pieces[0]).value_or(0));
  port.protocol = pieces[1];
  port.address = pieces[2];
  return port;
}

template <class T>
void read_list(json::Reader& reader, std::vector<T>& list) {
  if (!reader.begin_array()) return;
  while (reader.next_element()) decode(reader, list.emplace_back());
}

}  // namespace

bool PodTerm::selects(std::string_view own_namespace, const SchedulablePod& other) const {
  const std::string_view ns = other.metadata.namespace_;
  if (!all_namespaces) {
    if (namespaces.empty() ? ns != own_namespace
                           : std::find(namespaces.begin(), namespaces.end(), ns) == namespaces.end())
      return false;
  }
  return selector.matches(other.metadata.labels);
}

Result<PodShape> PodShape::parse(std::string_view text, ResourceTable& resources) {
  PodShape shape;
  core::Affinity affinity;
  std::vector<core::TopologySpreadConstraint> spread;
  Amounts requests;
  json::Reader reader(text, {.keep_unknown = false});
  if (reader.begin_object()) {
    std::string_view key;
    while (reader.next_member(key)) {
      const char member = key.empty() ? '\0' : key[0];
      if (member == 'r') {
        if (!reader.begin_object()) break;
        std::string_view name;
        while (reader.next_member(name)) {
          const ResourceIndex index = resources.index_of(name);
          const std::int64_t amount = std::max<std::int64_t>(reader.read_int64(), 0);
          if (requests.size() <= index) requests.resize(index + 1u);
          requests[index] += amount;
          if (amount > 0) shape.is_best_effort = false;
        }
      } else if (member == 'p') {
        if (!reader.begin_array()) break;
        while (reader.next_element()) shape.ports.push_back(port_of(reader.read_string_view()));
      } else if (member == 's') {
        decode(reader, shape.node_selector);
      } else if (member == 'a') {
        decode(reader, affinity);
      } else if (member == 't') {
        read_list(reader, shape.tolerations);
      } else if (member == 'd') {
        read_list(reader, spread);
      } else {
        reader.skip();
      }
    }
  }
  BASALT_TRY_DONE(reader.finish());
  BASALT_TRY_DONE(read_affinity(affinity, shape));
  BASALT_TRY_DONE(read_spread(spread, shape));
  if (requests.size() <= ResourceTable::kPods) requests.resize(ResourceTable::kPods + 1u);
  requests[ResourceTable::kPods] = 1;
  shape.requests = sparse_of(requests);
  return shape;
}

std::string_view to_text(NodeVerdict verdict) {
  switch (verdict) {
    case NodeVerdict::Fits:
      return "fit";
    case NodeVerdict::NotReady:
      return "not ready";
    case NodeVerdict::Unschedulable:
      return "unschedulable";
    case NodeVerdict::OutsideShard:
      return "node isn't in scheduler node shard";
    case NodeVerdict::NodeSelector:
      return "did not match the node selector";
    case NodeVerdict::NodeAffinity:
      return "did not match the node affinity";
    case NodeVerdict::Taint:
      return "had a taint that the pod does not tolerate";
    case NodeVerdict::Resources:
      return "had too little free";
    case NodeVerdict::HostPorts:
      return "had the host port in use";
    case NodeVerdict::PodAffinity:
      return "did not match the pod affinity";
    case NodeVerdict::PodAntiAffinity:
      return "did not match the pod anti-affinity";
    case NodeVerdict::Spread:
      return "would break the topology spread";
  }
  return "";
}

NodeVerdict judge_node(const PodShape& shape, const core::NodeProjection& node) {
  for (const auto& condition : node.status.conditions) {
    if (condition.type == "Ready" && condition.status != "True") return NodeVerdict::NotReady;
  }
  if (!node.metadata.deletion_timestamp.is_zero()) return NodeVerdict::Unschedulable;
  if (node.spec.unschedulable && !tolerates(shape.tolerations, "node.kubernetes.io/unschedulable", "", "NoSchedule")) {
    return NodeVerdict::Unschedulable;
  }
  if (!shape.node_selector.is_subset_of(node.metadata.labels)) return NodeVerdict::NodeSelector;
  if (shape.has_required_nodes && std::none_of(shape.required_nodes.begin(), shape.required_nodes.end(),
                                               [&](const core::NodeSelectorTerm& term) { return holds(term, node); })) {
    return NodeVerdict::NodeAffinity;
  }
  for (const auto& taint : node.spec.taints) {
    if (taint.effect == "PreferNoSchedule") continue;
    if (!tolerates(shape.tolerations, taint.key, taint.value, taint.effect)) return NodeVerdict::Taint;
  }
  return NodeVerdict::Fits;
}

double wishes_fulfilled(const PodShape& shape, const core::NodeProjection& node) {
  double sum = 0;
  for (const NodeWish& wish : shape.preferred_nodes) {
    if (holds(wish.term, node)) sum += wish.weight;
  }
  for (const auto& taint : node.spec.taints) {
    if (taint.effect == "PreferNoSchedule" && !tolerates(shape.tolerations, taint.key, taint.value, taint.effect))
      sum -= 100;
  }
  return sum;
}

}  // namespace basalt::scheduler
