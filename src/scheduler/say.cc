// The planner's fourth step: what the objects are to say. Nothing is written that is written already, and numbers that
// move are written at a measured pace.
#include <algorithm>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "scheduler/plan.h"

namespace basalt::scheduler {

namespace scheduling = api::scheduling;
using Condition = scheduling::PodGroupCondition;

void Planner::call_again(GroupId id, rt::Instant at) {
  Group& group = snapshot_.groups()[id];
  if (group.status_due <= at && group.status_due > now_) return;
  due_.erase({group.status_due, id});
  group.status_due = at;
  due_.insert({at, id});
}

// The phase that the counts mean.
GroupPhase Planner::phase_of(Group& group) {
  const GroupCounts& counts = group.counts;
  const GroupPhase before = group.status.phase;
  const std::int32_t alive = counts.placed + counts.terminating;
  const std::int32_t scheduled = alive + counts.succeeded + counts.failed;
  const bool was_running = before == GroupPhase::Running || before == GroupPhase::Unknown;
  const bool is_stuck = group.reason.kind != PendingKind::None && counts.waiting > 0;
  const GroupPhase waiting = group.is_admitted ? GroupPhase::Inqueue : GroupPhase::Pending;
  if (alive == 0 && counts.waiting == 0) {
    if (scheduled >= std::max(group.min_member, 1)) return GroupPhase::Completed;
    if (before == GroupPhase::Completed) return before;  // its pods were cleaned up
  }
  if (scheduled == 0) {
    if (!was_running && before != GroupPhase::Completed) return waiting;
    // All its pods are gone: it begins again, if its queue lets it.
    group.is_admitted = false;
    group.was_tried = false;
    return GroupPhase::Pending;
  }
  if (is_stuck && alive > 0 && (was_running || counts.running > 0)) return GroupPhase::Unknown;
  if (scheduled >= std::max(group.min_member, 1)) return GroupPhase::Running;
  return was_running ? GroupPhase::Running : waiting;
}

void Planner::say_conditions(Group& group, GroupStatus& wanted, bool& is_new) {
  const GroupId id = snapshot_.find_group(group.key);
  const Condition* old = api::find_condition(group.status.conditions, scheduling::pod_group_condition_type::kUnschedulable);
  if (group.reason.kind == PendingKind::None) {
    if (wanted.phase != GroupPhase::Running) return;
    if (api::is_condition_true(wanted.conditions, scheduling::pod_group_condition_type::kScheduled)) {
      if (old == nullptr) return;
    }
    api::remove_condition(wanted.conditions, scheduling::pod_group_condition_type::kUnschedulable);
    Condition placed;
    placed.type = scheduling::pod_group_condition_type::kScheduled;
    placed.status = "True";
    placed.reason = "Scheduled";
    placed.message = "the gang has its minimum of " + std::to_string(group.min_member) + " pods placed";
    api::set_condition(wanted.conditions, std::move(placed), wall_);
    return;
  }
  if (now_ < group.waiting_since + options_.condition_delay) {
    call_again(id, group.waiting_since + options_.condition_delay);
    return;
  }
  const std::string word(condition_reason_of(group.reason.kind));
  const bool same_word = old != nullptr && old->status == "True" && old->reason == word;
  if (same_word && !group.reason.text.empty() && now_ < group.condition_written_at + options_.condition_refresh) {
    call_again(id, group.condition_written_at + options_.condition_refresh);
    return;
  }
  group.reason = explain(id);
  group.condition_written_at = now_;
  if (same_word && old->message == group.reason.text) return;
  is_new = !same_word;
  api::remove_condition(wanted.conditions, scheduling::pod_group_condition_type::kScheduled);
  Condition stuck;
  stuck.type = scheduling::pod_group_condition_type::kUnschedulable;
  stuck.status = "True";
  stuck.reason = word;
  stuck.message = group.reason.text;
  if (old != nullptr) stuck.transition_id = old->transition_id;
  api::set_condition(wanted.conditions, std::move(stuck), wall_);
}

void Planner::say_pod_conditions(GroupId id) {
  Group& group = snapshot_.groups()[id];
  if (group.reason.text.empty()) return;
  for (const PodId pod_id : group.pods) {
    const Pod& pod = snapshot_.pods()[pod_id];
    if (pod.state != PodState::Waiting || pod.object->is_gated || pod.told == group.reason.kind) continue;
    // After a restart: what an earlier scheduler said is good enough until the kind changes.
    if (pod.told == PendingKind::None && pod.object->unschedulable_hash != 0) {
      snapshot_.set_told(pod_id, group.reason.kind);
      continue;
    }
    if (plan_.pod_conditions.size() >= options_.pod_conditions_max) {
      call_again(id, now_ + std::chrono::milliseconds(100));
      return;
    }
    snapshot_.set_told(pod_id, group.reason.kind);
    plan_.pod_conditions.push_back({pod_id, pod.object->metadata.uid.str(), group.reason.kind, group.reason.text});
  }
}

void Planner::say_group(GroupId id) {
  Group& group = snapshot_.groups()[id];
  if (!group.is_live) return;
  if (group.counts.waiting == 0 && group.is_admitted) clear_reason(group);
  if (!group.object) {
    if (!group.is_single && group.counts.waiting > 0) set_reason(group, PendingKind::GroupMissing);
    if (group.is_single && group.counts.waiting > 0 && group.reason.kind == PendingKind::None) return;
    if (group.reason.kind == PendingKind::None) return;
    if (now_ < group.waiting_since + options_.condition_delay) {
      call_again(id, group.waiting_since + options_.condition_delay);
      return;
    }
    if (group.reason.text.empty()) group.reason = explain(id);
    say_pod_conditions(id);
    return;
  }
  GroupStatus wanted = group.status;
  wanted.phase = phase_of(group);
  wanted.running = group.counts.running;
  wanted.succeeded = group.counts.succeeded;
  wanted.failed = group.counts.failed;
  bool is_new = false;
  say_conditions(group, wanted, is_new);
  say_pod_conditions(id);
  snapshot_.refresh_waiting(id);
  if (wanted == group.status) {
    group.status_due = group.status_due <= now_ ? rt::kNever : group.status_due;
    return;
  }
  const bool only_counts = wanted.phase == group.status.phase && wanted.conditions == group.status.conditions;
  if (only_counts && group.status_due > now_) {
    call_again(id, std::min(group.status_due, now_ + options_.counts_delay));
    return;
  }
  if (group.status_due <= now_) group.status_due = rt::kNever;
  plan_.statuses.push_back({id, group.object->metadata.uid, std::move(wanted), is_new});
}

void Planner::say_queues() {
  constexpr rt::Duration kPeriod = std::chrono::seconds(1);
  queue_written_.resize(snapshot_.queues().size(), rt::Instant() - kPeriod);
  for (QueueId id = 0; id < snapshot_.queues().size(); ++id) {
    const Queue& queue = snapshot_.queues()[id];
    if (!queue.object) continue;
    api::ResourceList allocated = snapshot_.resources().to_list(queue.allocated);
    api::ResourceList written = queue.object->status.allocated;
    written.drop_zeros();
    if (allocated == written) continue;
    if (now_ < queue_written_[id] + kPeriod) {
      wake_by(queue_written_[id] + kPeriod);
      continue;
    }
    queue_written_[id] = now_;
    plan_.queues.push_back({id, std::move(allocated)});
  }
}

void Planner::say() {
  // Reasons are set while we walk, so the set is emptied first.
  std::set<GroupId> dirty;
  for (int round = 0; round < 2; ++round) {
    dirty.swap(snapshot_.dirty_groups());
    for (const GroupId id : dirty) say_group(id);
    dirty.clear();
  }
  // A group that goes back to Pending in this step is admitted in the next cycle.
  plan_.has_more = plan_.has_more || !snapshot_.dirty_groups().empty();
  say_queues();
}

// Sentences.

ResourceShortage Planner::shortage(ResourceIndex resource, std::int64_t requested, std::int64_t free) const {
  const ResourceTable& table = snapshot_.resources();
  free = std::max<std::int64_t>(free, 0);
  return {table.name(resource), table.text_of(resource, requested), table.text_of(resource, free),
          table.text_of(resource, std::max<std::int64_t>(requested - free, 0))};
}

namespace {

std::string text_of(const std::vector<ResourceShortage>& shortages) {
  std::string text;
  for (const ResourceShortage& shortage : shortages) {
    if (!text.empty()) text += ", ";
    text += shortage.name + ": " + shortage.requested + " requested, " + shortage.free + " free, " + shortage.lacking +
            " short";
  }
  return text;
}

}  // namespace

std::string Planner::room_text(const Group& group, PodId pod, PendingReason& reason) {
  const PodShape& shape = snapshot_.shape(snapshot_.pods()[pod].shape);
  const auto needed = static_cast<std::int64_t>(std::max(group.needed, 1));
  for (const auto& [r, amount] : shape.requests) {
    const std::int64_t free = at(snapshot_.total(), r) - at(snapshot_.total_used(), r);
    if (amount * needed > free && r != ResourceTable::kPods) reason.shortages.push_back(shortage(r, amount * needed, free));
  }
  std::string text = std::to_string(group.fitted) + "/" + std::to_string(needed) + " pods fit";
  if (!reason.shortages.empty()) text += "; " + text_of(reason.shortages);
  const NodeFinder::Verdicts verdicts = finder_.judge_all(pod);
  std::size_t nodes = 0;
  for (const std::size_t count : verdicts) nodes += count;
  text += "; of " + std::to_string(nodes) + " nodes";
  const char* separator = " ";
  for (std::size_t v = 0; v < verdicts.size(); ++v) {
    if (verdicts[v] == 0) continue;
    text += separator + std::to_string(verdicts[v]) + " " + std::string(to_text(static_cast<NodeVerdict>(v)));
    separator = ", ";
  }
  if (nodes == 0) text += " there is none";
  return text;
}

PendingReason Planner::explain(GroupId id) {
  const Group& group = snapshot_.groups()[id];
  PendingReason reason;
  reason.kind = group.reason.kind;
  const std::string queue = group.queue == kNone ? "" : "\"" + snapshot_.queues()[group.queue].name + "\"";
  const auto against_limit = [&](const Amounts& wanted, const Amounts& limit, const Amounts& used) {
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      if (wanted[r] == 0 || r >= limit.size() || limit[r] >= kUnlimited) continue;
      if (at(used, r) + wanted[r] > limit[r])
        reason.shortages.push_back(shortage(static_cast<ResourceIndex>(r), wanted[r], limit[r] - at(used, r)));
    }
    return text_of(reason.shortages);
  };
  PodId pod = kNone;
  Amounts wanted = group.is_admitted || group.is_single ? Amounts() : group.min_resources;
  std::int32_t left = std::max(group.needed, 1);
  for (const PodId member : group.pods) {
    if (snapshot_.pods()[member].state != PodState::Waiting) continue;
    if (pod == kNone || member == group.blocker) pod = member;
    if ((group.is_admitted || group.is_single) && left-- > 0)
      add_to(wanted, snapshot_.shape(snapshot_.pods()[member].shape).requests);
  }
  switch (group.reason.kind) {
    case PendingKind::None: break;
    case PendingKind::GroupMissing:
      reason.text = "the pod group \"" + group.key.to_string() + "\" that the pods name does not exist; create it, or "
                    "remove the annotation " + std::string(api::keys::kGroupName);
      break;
    case PendingKind::QueueMissing:
      reason.text = "the queue " + queue + " does not exist; create it or choose another";
      break;
    case PendingKind::QueueClosed:
      reason.text = "the queue " + queue + ", or one above it, is closed; open it or choose another";
      break;
    case PendingKind::QueueCapability: {
      const QueueId full = group.full_queue == kNone ? group.queue : group.full_queue;
      const Queue& limited = snapshot_.queues()[full];
      reason.text = "the queue \"" + limited.name + "\" has reached its capability: " +
                    against_limit(wanted, limited.capability, limited.allocated);
      break;
    }
    case PendingKind::ReservedForOthers:
      reason.text = "what is free is guaranteed to other queues: " +
                    against_limit(wanted, snapshot_.total(), snapshot_.total_used());
      break;
    case PendingKind::ClusterTooSmall:
      reason.text = "the gang needs more than all nodes have: " + against_limit(wanted, snapshot_.total(), {});
      break;
    case PendingKind::ClusterFull:
      reason.text = "the cluster has no room to admit the gang: " +
                    against_limit(wanted, snapshot_.total(), snapshot_.total_used());
      break;
    case PendingKind::NotEnoughPods:
      reason.text = std::to_string(group.counts.occupied() + group.counts.ready_to_place()) + "/" +
                    std::to_string(group.min_member) + " pods of the gang exist";
      break;
    case PendingKind::Gated:
      reason.text = std::to_string(group.counts.gated) + " pods of the gang are held back by scheduling gates; " +
                    std::to_string(group.counts.occupied() + group.counts.ready_to_place()) + "/" +
                    std::to_string(group.min_member) + " are ready";
      break;
    case PendingKind::NotEnoughPodsOfTask:
      reason.text = std::to_string(group.fitted) + "/" + std::to_string(group.needed) + " pods of task \"" +
                    group.short_task + "\" exist";
      break;
    case PendingKind::NotEnoughSubGroups:
      reason.text = "there are fewer complete sub-groups than the gang needs";
      break;
    case PendingKind::MakingRoom: reason.text = "other pods are being evicted to make room for the gang"; break;
    case PendingKind::QueueBlocked:
      reason.text = "the queue " + queue + " is first in, first out, and a job ahead of this one does not fit";
      break;
    case PendingKind::Refused: reason.text = group.reason.text; break;
    case PendingKind::NoRoom:
      reason.text = pod == kNone ? "no room" : room_text(group, pod, reason);
      break;
  }
  return reason;
}

}  // namespace basalt::scheduler
