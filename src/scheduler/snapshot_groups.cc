// The snapshot's pod groups, queues and priority classes.
#include <algorithm>
#include <tuple>

#include "api/gen/names.h"
#include "kube/identity.h"
#include "scheduler/explain.h"
#include "scheduler/snapshot.h"

namespace basalt::scheduler {

namespace scheduling = api::scheduling;

std::string_view to_string(GroupPhase phase) {
  switch (phase) {
    case GroupPhase::None:
      return "";
    case GroupPhase::Pending:
      return scheduling::pod_group_phase::kPending;
    case GroupPhase::Inqueue:
      return scheduling::pod_group_phase::kInqueue;
    case GroupPhase::Running:
      return scheduling::pod_group_phase::kRunning;
    case GroupPhase::Unknown:
      return scheduling::pod_group_phase::kUnknown;
    case GroupPhase::Completed:
      return scheduling::pod_group_phase::kCompleted;
  }
  return "";
}

GroupPhase group_phase_of(std::string_view text) {
  for (const GroupPhase phase :
       {GroupPhase::Pending, GroupPhase::Inqueue, GroupPhase::Running, GroupPhase::Unknown, GroupPhase::Completed}) {
    if (to_string(phase) == text) return phase;
  }
  return GroupPhase::None;
}

bool Queue::Waiting::operator<(const Waiting& other) const {
  if (priority != other.priority) return priority > other.priority;
  if (created != other.created) return created < other.created;
  if (group == other.group) return false;
  return std::tie(*key, group) < std::tie(*other.key, other.group);
}

GroupId Snapshot::group_named(const api::ObjectKey& key) {
  if (const GroupId id = find_group(key); id != kNone) return id;
  GroupId id;
  if (free_groups_.empty()) {
    id = static_cast<GroupId>(groups_.size());
    groups_.emplace_back();
  } else {
    id = free_groups_.back();
    free_groups_.pop_back();
    groups_[id] = Group();
  }
  group_ids_[key] = id;
  groups_[id].key = key;
  groups_[id].is_live = true;
  return id;
}

GroupId Snapshot::group_of(const SchedulablePod& pod, const api::ObjectKey& key) {
  if (!pod.group.empty()) return group_named({key.ns, pod.group.str()});
  // A slash cannot be in a name, so this meets no pod group.
  const GroupId id = group_named({key.ns, "pod/" + key.name});
  Group& group = groups_[id];
  group.is_single = true;
  group.created = pod.metadata.creation_timestamp.unix_seconds();
  group.never_preempts = pod.never_preempts;
  group.status.phase = GroupPhase::Inqueue;
  move_to_queue(id, queue_named(pod.queue.empty() ? api::queues::kDefault : pod.queue.view()));
  return id;
}

GroupId Snapshot::find_group(const api::ObjectKey& key) const {
  const auto found = group_ids_.find(key);
  return found == group_ids_.end() ? kNone : found->second;
}

void Snapshot::drop_group_if_unused(GroupId id) {
  Group& group = groups_[id];
  if (group.object || !group.pods.empty()) return;
  group.is_live = false;
  refresh_waiting(id);
  dirty_groups_.erase(id);
  group_ids_.erase(group.key);
  free_groups_.push_back(id);
}

void Snapshot::set_group(const api::ObjectKey& key, std::shared_ptr<const scheduling::PodGroup> object,
                         rt::Instant now) {
  if (!object) {
    const GroupId id = find_group(key);
    if (id == kNone) return;
    Group& group = groups_[id];
    group.object = nullptr;
    group.status = GroupStatus();
    group.status_revision = 0;
    ++group.version;
    refresh_waiting(id);
    mark_dirty(id);
    drop_group_if_unused(id);
    return;
  }
  const GroupId id = group_named(key);
  Group& group = groups_[id];
  const bool is_new = !group.object || group.object->metadata.uid != object->metadata.uid;
  const bool spec_changed = is_new || !(group.object->spec == object->spec);
  const std::uint64_t revision = kube::parse_revision(object->metadata.resource_version);
  if (is_new) {
    group.status_revision = 0;
    group.was_tried = false;
    group.is_nominated = false;
    group.reason = {};
    group.admitted_at = now;
    group.is_admitted = false;
    group.waiting_since = now;
    group.condition_written_at = {};
  }
  group.object = std::move(object);
  if (revision >= group.status_revision) {
    const auto& seen = group.object->status;
    group.status = {group_phase_of(seen.phase),
                    seen.running,
                    seen.succeeded,
                    seen.failed,
                    seen.conditions,
                    std::string(group.object->metadata.annotations.get(kPendingAnnotation))};
    group.status_revision = revision;
  }
  if (spec_changed) {
    read_group_spec(group);
    ++group.version;
    move_to_queue(id, queue_named(group.object->spec.queue.empty() ? api::queues::kDefault
                                                                   : std::string_view(group.object->spec.queue)));
  }
  mark_dirty(id);
  refresh_waiting(id);
}

void Snapshot::read_group_spec(Group& group) {
  const auto& spec = group.object->spec;
  group.created = group.object->metadata.creation_timestamp.unix_seconds();
  group.min_member = std::max(spec.min_member, 0);
  group.task_min.assign(spec.min_task_member.begin(), spec.min_task_member.end());
  // A gang smaller than the sum of its tasks' minimums starts without some of them, as tasks that wait for others do.
  std::int64_t of_tasks = 0;
  for (const auto& [task, least] : group.task_min) of_tasks += least;
  if (of_tasks > group.min_member) group.task_min.clear();
  group.has_min_resources = spec.min_resources.has_value();
  api::ResourceList needed = spec.min_resources.value_or(api::ResourceList());
  // Names that only quotas know are no resources of nodes.
  for (const auto& [name, amount] : spec.min_resources.value_or(api::ResourceList())) {
    if (name.starts_with("requests.") || name.starts_with("limits.") || name.starts_with("count/")) needed.erase(name);
  }
  group.min_resources = resources_.amounts_of(needed);
  group.sub_groups.clear();
  for (const auto& policy : spec.sub_group_policy) {
    SubGroupRule rule;
    if (policy.label_selector) {
      auto selector = api::Selector::from(*policy.label_selector);
      rule.selector = selector.ok() ? std::move(*selector) : api::Selector::nothing();
    }
    rule.keys = policy.match_label_keys;
    rule.size = std::max(policy.sub_group_size_or_default(), 1);
    rule.groups_min = std::max(policy.min_sub_groups_or_default(), 0);
    group.sub_groups.push_back(std::move(rule));
  }
  read_priority(group);
}

void Snapshot::read_priority(Group& group) {
  std::int32_t priority = 0;
  const auto found =
      group.object ? priority_classes_.find(group.object->spec.priority_class_name) : priority_classes_.end();
  if (found != priority_classes_.end()) {
    priority = found->second->value;
    group.never_preempts = found->second->preemption_policy.value_or("") == "Never";
  } else if (!group.pods.empty()) {
    priority = INT32_MIN;
    // Pods of a gang are alike; the first few tell.
    for (std::size_t i = 0; i < std::min<std::size_t>(group.pods.size(), 9); ++i)
      priority = std::max(priority, pods_[group.pods[i]].object->priority);
  }
  if (priority == group.priority) return;
  charge_evictable(group, -1);
  group.priority = priority;
  charge_evictable(group, 1);
}

void Snapshot::set_priority_class(const std::string& name,
                                  std::shared_ptr<const api::core::PriorityClass> priority_class) {
  if (priority_class) {
    priority_classes_[name] = std::move(priority_class);
  } else {
    priority_classes_.erase(name);
  }
  for (GroupId id = 0; id < groups_.size(); ++id) {
    Group& group = groups_[id];
    if (!group.is_live || !group.object || group.object->spec.priority_class_name != name) continue;
    read_priority(group);
    ++group.version;
    refresh_waiting(id);
  }
}

void Snapshot::refresh_waiting(GroupId id) {
  Group& group = groups_[id];
  const bool is_known = group.is_live && group.queue != kNone && (group.is_single || group.object);
  const bool is_admissible =
      !group.is_single && (group.status.phase == GroupPhase::None || group.status.phase == GroupPhase::Pending);
  const bool wants = is_known && (group.counts.ready_to_place() > 0 || is_admissible);
  if (group.is_waiting && (!wants || group.wait_priority != group.priority)) {
    queues_[group.queue].waiting.erase({group.wait_priority, group.wait_created, id, &group.key});
    group.is_waiting = false;
  }
  if (wants && !group.is_waiting) {
    group.wait_priority = group.priority;
    group.wait_created = group.created;
    queues_[group.queue].waiting.insert({group.priority, group.created, id, &group.key});
    group.is_waiting = true;
  }
}

std::size_t Snapshot::waiting_groups() const {
  std::size_t count = 0;
  for (const Queue& queue : queues_) count += queue.waiting.size();
  return count;
}

void Snapshot::wrote_status(GroupId id, const GroupStatus& status, std::uint64_t revision) {
  Group& group = groups_[id];
  if (revision < group.status_revision) return;
  group.status = status;
  group.status_revision = revision;
  refresh_waiting(id);
}

void Snapshot::move_to_queue(GroupId id, QueueId queue) {
  Group& group = groups_[id];
  if (group.queue == queue) return;
  if (group.is_waiting) {
    queues_[group.queue].waiting.erase({group.wait_priority, group.wait_created, id, &group.key});
    group.is_waiting = false;
  }
  for (QueueId q = group.queue; q != kNone; q = queues_[q].parent) add_to(queues_[q].allocated, group.allocated, -1);
  charge_evictable(group, -1);
  group.queue = queue;
  charge_evictable(group, 1);
  for (QueueId q = queue; q != kNone; q = queues_[q].parent) add_to(queues_[q].allocated, group.allocated);
  note_freed();
}

QueueId Snapshot::queue_named(std::string_view name) {
  const auto [entry, is_new] = queue_ids_.try_emplace(std::string(name), static_cast<QueueId>(queues_.size()));
  const QueueId id = entry->second;
  if (is_new) {
    queues_.emplace_back().name = name;
    if (name != api::queues::kRoot) {
      const QueueId root = queue_named(api::queues::kRoot);
      queues_[id].parent = root;
      queues_[root].children.push_back(id);
    }
  }
  return id;
}

QueueId Snapshot::find_queue(std::string_view name) const {
  const auto found = queue_ids_.find(std::string(name));
  return found == queue_ids_.end() ? kNone : found->second;
}

void Snapshot::set_queue(const std::string& name, std::shared_ptr<const scheduling::Queue> object) {
  if (!object && find_queue(name) == kNone) return;
  const QueueId id = queue_named(name);
  const auto old = queues_[id].object;
  if (old && object && old->spec == object->spec && old->status.state == object->status.state) {
    queues_[id].object = std::move(object);  // a count that somebody wrote
    return;
  }
  Queue& queue = queues_[id];
  queue.object = std::move(object);
  const scheduling::QueueSpec spec = queue.object ? queue.object->spec : scheduling::QueueSpec();
  const std::string state = queue.object ? queue.object->status.state : std::string();
  queue.weight = std::max(spec.weight, 1);
  queue.priority = spec.priority;
  queue.is_open =
      state.empty() || state == scheduling::queue_state::kOpen || state == scheduling::queue_state::kUnknown;
  queue.is_reclaimable = spec.reclaimable.value_or(true);
  queue.is_fifo = spec.dequeue_strategy == scheduling::dequeue_strategy::kFifo;
  queue.capability = resources_.limits_of(spec.capability, kUnlimited);
  queue.deserved = resources_.limits_of(spec.deserved, -1);
  queue.guarantee = resources_.amounts_of(spec.guarantee.resource);
  rebuild_tree();
  note_freed();
}

// Parents from their names, and sums from the groups. Rare: a queue changed.
void Snapshot::rebuild_tree() {
  const QueueId root = queue_named(api::queues::kRoot);
  for (QueueId id = 0; id < queues_.size(); ++id) {
    if (!queues_[id].object) continue;
    const std::string parent = queues_[id].object->spec.parent;
    if (!parent.empty() && id != root) static_cast<void>(queue_named(parent));
  }
  for (QueueId id = 0; id < queues_.size(); ++id) {
    Queue& queue = queues_[id];
    queue.children.clear();
    queue.allocated.clear();
    queue.parent = id == root ? kNone : root;
    if (id == root || !queue.object || queue.object->spec.parent.empty()) continue;
    const QueueId parent = find_queue(queue.object->spec.parent);
    if (parent != kNone && parent != id) queue.parent = parent;
  }
  for (QueueId id = 0; id < queues_.size(); ++id) {
    // A circle of parents hangs below the root.
    QueueId above = queues_[id].parent;
    for (std::size_t steps = 0; above != kNone && steps <= queues_.size(); ++steps) above = queues_[above].parent;
    if (above != kNone) queues_[id].parent = root;
    if (queues_[id].parent != kNone) queues_[queues_[id].parent].children.push_back(id);
  }
  for (const Group& group : groups_) {
    if (!group.is_live) continue;
    for (QueueId q = group.queue; q != kNone; q = queues_[q].parent) add_to(queues_[q].allocated, group.allocated);
  }
}

}  // namespace basalt::scheduler
