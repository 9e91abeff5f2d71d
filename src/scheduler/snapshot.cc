#include "scheduler/snapshot.h"

#include <algorithm>

#include "base/check.h"
#include "kube/identity.h"

namespace basalt::scheduler {

namespace core = api::core;

bool Snapshot::is_ours(const SchedulablePod& pod) const {
  const auto& names = options_.scheduler_names;
  return std::find(names.begin(), names.end(), pod.scheduler_name.view()) != names.end();
}

PodState Snapshot::state_of(const SchedulablePod& pod) {
  if (pod.phase == "Succeeded") return PodState::Succeeded;
  if (pod.phase == "Failed") return PodState::Failed;
  if (!pod.metadata.deletion_timestamp.is_zero()) return PodState::Terminating;
  return pod.node_name.empty() ? PodState::Waiting : PodState::Placed;
}

// Pods.

void Snapshot::set_pod(const api::ObjectKey& key, std::shared_ptr<const SchedulablePod> pod, rt::Instant now) {
  PodId id = find_pod(key);
  if (id != kNone && pod && pods_[id].object->metadata.uid == pod->metadata.uid.view() &&
      kube::parse_revision(pod->metadata.resource_version) <
          kube::parse_revision(pods_[id].object->metadata.resource_version)) {
    return;  // an older state of what we know already
  }
  const bool is_relevant = pod && (is_ours(*pod) ? !(pod->is_finished() && pod->group.empty())
                                                 : !pod->node_name.empty() && !pod->is_finished());
  if (id != kNone && (!is_relevant || pods_[id].object->metadata.uid != pod->metadata.uid.view())) {
    remove_pod(id);
    pod_ids_.erase(key);
    id = kNone;
  }
  if (!is_relevant) return;
  if (id != kNone) {
    update_pod(id, std::move(pod));
    return;
  }
  if (free_pods_.empty()) {
    id = static_cast<PodId>(pods_.size());
    pods_.emplace_back();
  } else {
    id = free_pods_.back();
    free_pods_.pop_back();
  }
  pod_ids_[key] = id;
  pods_[id].object = std::move(pod);
  add_pod(id, key, now);
}

void Snapshot::add_pod(PodId id, const api::ObjectKey& key, rt::Instant now) {
  Pod& pod = pods_[id];
  pod.seen_at = now;
  pod.shape = take_shape(pod.object->shape);
  pod.state = state_of(*pod.object);
  if (is_ours(*pod.object)) join_group(id, group_of(*pod.object, key));
  if (!pod.object->node_name.empty() && !pod.object->is_finished()) take_room(id, node_named(pod.object->node_name));
  if (pod.state == PodState::Terminating) terminating_.insert(id);
}

void Snapshot::remove_pod(PodId id) {
  Pod& pod = pods_[id];
  if (pod.node != kNone) {
    give_room(id);
    note_freed();
  }
  terminating_.erase(id);
  const GroupId group = pod.group;
  if (group != kNone) {
    leave_group(id);
    drop_group_if_unused(group);
  }
  release_shape(pod.shape);
  pods_[id] = Pod();
  free_pods_.push_back(id);
}

void Snapshot::update_pod(PodId id, std::shared_ptr<const SchedulablePod> object) {
  Pod& pod = pods_[id];
  const api::ObjectKey key{object->metadata.namespace_.str(), object->metadata.name.str()};
  PodState state = state_of(*object);
  const bool is_running = object->phase == "Running";
  const bool was_running = pod.object->phase == "Running";
  if (state == PodState::Waiting && pod.is_assumed) state = PodState::Placed;
  const bool regroup = object->group != pod.object->group;
  const bool reshape = object->shape != pod.object->shape;
  const bool recount = state != pod.state || is_running != was_running || object->is_gated != pod.object->is_gated ||
                       object->priority != pod.object->priority || object->is_preemptable != pod.object->is_preemptable;
  NodeId node = pod.node;
  if (!object->node_name.empty()) {
    node = object->is_finished() ? kNone : node_named(object->node_name);
    pod.is_assumed = false;
  } else if (state != PodState::Placed) {
    node = kNone;  // deleted, or failed, before it was bound
    pod.is_assumed = false;
  }
  if (!regroup && !reshape && !recount && node == pod.node) {
    pod.object = std::move(object);
    return;
  }
  if (pod.node != kNone && (node != pod.node || reshape || regroup)) {
    give_room(id);
    note_freed();
  }
  const GroupId old_group = pod.group;
  if (old_group != kNone) leave_group(id);
  pod.object = std::move(object);
  pod.state = state;
  if (reshape) {
    release_shape(pod.shape);
    pod.shape = take_shape(pod.object->shape);
  }
  if (is_ours(*pod.object)) join_group(id, regroup ? group_of(*pod.object, key) : old_group);
  if (node != kNone && pods_[id].node == kNone) take_room(id, node);
  if (state == PodState::Terminating) {
    terminating_.insert(id);
  } else if (!pods_[id].is_evicting) {
    terminating_.erase(id);
  }
  if (old_group != kNone && old_group != pods_[id].group) drop_group_if_unused(old_group);
}

void Snapshot::count(Group& group, const Pod& pod, std::int32_t by) {
  GroupCounts& counts = group.counts;
  switch (pod.state) {
    case PodState::Waiting:
      counts.waiting += by;
      if (pod.object->is_gated) counts.gated += by;
      break;
    case PodState::Placed:
      counts.placed += by;
      if (pod.object->phase == "Running") counts.running += by;
      break;
    case PodState::Terminating:
      counts.terminating += by;
      break;
    case PodState::Succeeded:
      counts.succeeded += by;
      break;
    case PodState::Failed:
      counts.failed += by;
      break;
  }
}

void Snapshot::join_group(PodId id, GroupId group_id) {
  Pod& pod = pods_[id];
  Group& group = groups_[group_id];
  pod.group = group_id;
  pod.group_slot = static_cast<std::uint32_t>(group.pods.size());
  group.pods.push_back(id);
  count(group, pod, 1);
  if (pod.node != kNone) charge(pod, 1);
  ++group.version;
  read_priority(group);
  mark_dirty(group_id);
  refresh_waiting(group_id);
}

void Snapshot::leave_group(PodId id) {
  Pod& pod = pods_[id];
  Group& group = groups_[pod.group];
  count(group, pod, -1);
  if (pod.node != kNone) charge(pod, -1);
  const PodId last = group.pods.back();
  group.pods[pod.group_slot] = last;
  pods_[last].group_slot = pod.group_slot;
  group.pods.pop_back();
  ++group.version;
  mark_dirty(pod.group);
  refresh_waiting(pod.group);
  pod.group = kNone;
}

void Snapshot::set_state(PodId id, PodState state) {
  Pod& pod = pods_[id];
  if (pod.group != kNone) count(groups_[pod.group], pod, -1);
  pod.state = state;
  if (pod.group != kNone) count(groups_[pod.group], pod, 1);
}

// Room.

void Snapshot::take_room(PodId id, NodeId node_id) {
  Pod& pod = pods_[id];
  Node& node = nodes_[node_id];
  BASALT_CHECK(pod.node == kNone);
  const PodShape& wanted = shape(pod.shape);
  pod.node = node_id;
  pod.node_slot = static_cast<std::uint32_t>(node.pods.size());
  node.pods.push_back(id);
  add_to(node.free, wanted.requests, -1);
  if (is_usable(node)) add_to(total_used_, wanted.requests);
  node.ports.insert(node.ports.end(), wanted.ports.begin(), wanted.ports.end());
  if (!wanted.far.empty()) far_pods_.insert(id);
  if (pod.group != kNone) charge(pod, 1);
  ++placed_version_;
  log_node(node_id);
}

void Snapshot::give_room(PodId id) {
  Pod& pod = pods_[id];
  Node& node = nodes_[pod.node];
  const PodShape& wanted = shape(pod.shape);
  const PodId last = node.pods.back();
  node.pods[pod.node_slot] = last;
  pods_[last].node_slot = pod.node_slot;
  node.pods.pop_back();
  add_to(node.free, wanted.requests, 1);
  if (is_usable(node)) add_to(total_used_, wanted.requests, -1);
  for (const HostPort& port : wanted.ports) {
    const auto found = std::find_if(node.ports.begin(), node.ports.end(), [&](const HostPort& used) {
      return used.port == port.port && used.protocol == port.protocol && used.address == port.address;
    });
    if (found != node.ports.end()) node.ports.erase(found);
  }
  far_pods_.erase(id);
  if (pod.group != kNone) charge(pod, -1);
  log_node(pod.node);
  pod.node = kNone;
}

void Snapshot::charge(const Pod& pod, std::int64_t factor) {
  Group& group = groups_[pod.group];
  const SparseAmounts& amounts = shape(pod.shape).requests;
  add_to(group.allocated, amounts, factor);
  for (QueueId queue = group.queue; queue != kNone; queue = queues_[queue].parent)
    add_to(queues_[queue].allocated, amounts, factor);
  if (!pod.object->is_preemptable) return;
  add_to(group.evictable, amounts, factor);
  if (group.queue == kNone) return;
  auto& sums = queues_[group.queue].evictable;
  Amounts& sum = sums[group.priority];
  add_to(sum, amounts, factor);
  if (factor < 0 && is_zero(sum)) sums.erase(group.priority);
}

// Puts a group's part into its queue's sums, or takes it out: its queue or its priority changes.
void Snapshot::charge_evictable(const Group& group, std::int64_t factor) {
  if (group.queue == kNone || is_zero(group.evictable)) return;
  auto& sums = queues_[group.queue].evictable;
  Amounts& sum = sums[group.priority];
  add_to(sum, group.evictable, factor);
  if (is_zero(sum)) sums.erase(group.priority);
}

void Snapshot::assume(PodId id, NodeId node) {
  Pod& pod = pods_[id];
  BASALT_CHECK(pod.state == PodState::Waiting);
  set_state(id, PodState::Placed);
  pod.is_assumed = true;
  take_room(id, node);
}

void Snapshot::forget(PodId id) {
  Pod& pod = pods_[id];
  if (!pod.is_assumed) return;
  pod.is_assumed = false;
  give_room(id);
  set_state(id, PodState::Waiting);
}

void Snapshot::lift(PodId id, NodeId& node) {
  node = pods_[id].node;
  if (node != kNone) give_room(id);
}

void Snapshot::set_evicting(PodId id) {
  pods_[id].is_evicting = true;
  terminating_.insert(id);
}

void Snapshot::clear_evicting(PodId id) {
  pods_[id].is_evicting = false;
  if (pods_[id].state != PodState::Terminating) terminating_.erase(id);
}

void Snapshot::put_back(PodId id, NodeId node) {
  if (node != kNone) take_room(id, node);
}

void Snapshot::block_node(NodeId id) {
  Node& node = nodes_[id];
  for (const std::int64_t amount : node.free) node.blocked.push_back(std::max<std::int64_t>(amount, 0));
  add_to(node.free, node.blocked, -1);
  log_node(id);
}

void Snapshot::unblock_node(NodeId id) {
  Node& node = nodes_[id];
  add_to(node.free, node.blocked);
  node.blocked.clear();
  log_node(id);
}

// Nodes.

bool Snapshot::is_usable(const Node& node) const {
  if (!node.object || node.object->spec.unschedulable) return false;
  if (options_.shard_is_hard && !node.is_in_shard) return false;
  return std::none_of(node.object->status.conditions.begin(), node.object->status.conditions.end(),
                      [](const auto& condition) { return condition.type == "Ready" && condition.status != "True"; });
}

void Snapshot::count_node(const Node& node, std::int64_t factor) {
  if (!is_usable(node)) return;
  usable_nodes_ = static_cast<std::size_t>(static_cast<std::int64_t>(usable_nodes_) + factor);
  add_to(total_, node.allocatable, factor);
  add_to(total_used_, node.allocatable, factor);
  add_to(total_used_, node.free, -factor);
}

void Snapshot::log_node(NodeId id) {
  node_log_.push_back(id);
  if (node_log_.size() > std::max<std::size_t>(4096, 4 * nodes_.size())) {
    node_log_.pop_front();
    ++log_begin_;
  }
}

NodeId Snapshot::node_named(std::string_view name) {
  const auto [entry, is_new] = node_ids_.try_emplace(std::string(name), static_cast<NodeId>(nodes_.size()));
  if (is_new) {
    Node& node = nodes_.emplace_back();
    node.name = name;
    node.is_in_shard = !has_shard_ || shard_nodes_.contains(node.name);
  }
  return entry->second;
}

void Snapshot::set_node(const std::string& name, std::shared_ptr<const core::NodeProjection> object) {
  if (!object && !node_ids_.contains(name)) return;
  const NodeId id = node_named(name);
  Node& node = nodes_[id];
  if (node.object && object) {
    const auto& old = *node.object;
    if (old.metadata.uid == object->metadata.uid && old.spec == object->spec && old.status == object->status &&
        old.metadata.labels == object->metadata.labels &&
        old.metadata.deletion_timestamp == object->metadata.deletion_timestamp) {
      node.object = std::move(object);  // a heartbeat
      return;
    }
  }
  count_node(node, -1);
  Amounts used = node.allocatable;
  add_to(used, node.free, -1);
  node.object = std::move(object);
  node.allocatable = node.object ? resources_.amounts_of(node.object->status.allocatable.to_list()) : Amounts();
  // A node that does not say how many pods it takes does not limit them.
  if (node.object && !node.object->status.allocatable.contains("pods"))
    node.allocatable[ResourceTable::kPods] = kUnlimited;
  node.free = node.allocatable;
  add_to(node.free, used, -1);
  ++node.spec_version;
  count_node(node, 1);
  log_node(id);
  note_freed();
}

void Snapshot::set_shard(bool is_known, const std::vector<std::string>& nodes) {
  has_shard_ = is_known;
  shard_nodes_ = {nodes.begin(), nodes.end()};
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    Node& node = nodes_[id];
    const bool is_in_shard = !has_shard_ || shard_nodes_.contains(node.name);
    if (is_in_shard == node.is_in_shard) continue;
    count_node(node, -1);
    node.is_in_shard = is_in_shard;
    count_node(node, 1);
    ++node.spec_version;
    log_node(id);
    note_freed();
  }
}

// Shapes.

ShapeId Snapshot::take_shape(std::string_view text) {
  const auto [entry, is_new] = shape_ids_.try_emplace(std::string(text), kNone);
  if (is_new) {
    if (free_shapes_.empty()) {
      entry->second = static_cast<ShapeId>(shapes_.size());
      shapes_.emplace_back();
    } else {
      entry->second = free_shapes_.back();
      free_shapes_.pop_back();
    }
    ShapeEntry& made = shapes_[entry->second];
    made.text = text;
    made.generation = ++shape_generation_;
    if (auto parsed = PodShape::parse(text, resources_); parsed.ok()) {
      made.shape = std::move(*parsed);
    } else {
      // The API server checked the pod, so this is a selector that we read more strictly: no node will do.
      made.shape = PodShape();
      made.shape.has_required_nodes = true;
      made.shape.requests = {{ResourceTable::kPods, 1}};
    }
  }
  ++shapes_[entry->second].users;
  return entry->second;
}

void Snapshot::release_shape(ShapeId id) {
  ShapeEntry& entry = shapes_[id];
  if (--entry.users > 0) return;
  shape_ids_.erase(entry.text);
  entry = ShapeEntry();
  free_shapes_.push_back(id);
}

PodId Snapshot::find_pod(const api::ObjectKey& key) const {
  const auto found = pod_ids_.find(key);
  return found == pod_ids_.end() ? kNone : found->second;
}

NodeId Snapshot::find_node(std::string_view name) const {
  const auto found = node_ids_.find(std::string(name));
  return found == node_ids_.end() ? kNone : found->second;
}

}  // namespace basalt::scheduler
