// The planner's fourth step: what the objects are to say. Nothing is written that is written already, and numbers that
// move are written at a measured pace.
#include <algorithm>

#include "api/conditions.h"
#include "scheduler/explain.h"
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

namespace {

// Upstream's word for a gang that is placed (pkg/scheduler/plugins/gang, v1.12); it is a sentence there.
constexpr std::string_view kReadyReason = "tasks in gang are ready to be scheduled";

// Positions near the head matter exactly, those far behind roughly: else every start would rewrite all that wait.
bool has_moved(std::size_t before, std::size_t now) {
  if (before == now) return false;
  const auto [small, large] = std::minmax(before, now);
  return small <= kExactPositionMax || large >= 2 * small;
}

}  // namespace

void Planner::say_scheduled(Group& group, GroupStatus& wanted) {
  if (wanted.phase != GroupPhase::Running) return;
  wanted.pending.clear();
  const bool is_said = api::is_condition_true(wanted.conditions, scheduling::pod_group_condition_type::kScheduled);
  const bool was_stuck = api::remove_condition(wanted.conditions, scheduling::pod_group_condition_type::kUnschedulable);
  if (is_said && !was_stuck) return;
  Condition placed;
  placed.type = scheduling::pod_group_condition_type::kScheduled;
  placed.status = "True";
  placed.transition_id = session_;
  placed.reason = kReadyReason;
  placed.message = "the gang has its minimum of " + std::to_string(group.min_member) + " pods placed";
  api::set_condition(wanted.conditions, std::move(placed), wall_);
}

// The more wait, the more seldom each is looked at again. And all on one beat: a cycle, which looks at all that wait,
// then serves many, where times of their own would mean a cycle for each.
rt::Instant Planner::refresh_at(rt::Instant written) const {
  const auto by_number = static_cast<rt::Duration::rep>(waiting_groups_) * options_.condition_refresh_each;
  const rt::Duration refresh = std::max(options_.condition_refresh, by_number);
  const rt::Duration beat = std::max<rt::Duration>(options_.condition_refresh / 6, rt::Duration(1));
  const rt::Duration due = (written + refresh).time_since_epoch();
  return rt::Instant(due / beat * beat);
}

// Differs: upstream leaves the condition of the other type behind as true; here one of the two stands at a time, so
// that a gang that runs is not called unschedulable.
void Planner::say_conditions(GroupId id, GroupStatus& wanted, bool& is_new) {
  Group& group = snapshot_.groups()[id];
  if (group.reason.kind == PendingKind::None) {
    say_scheduled(group, wanted);
    return;
  }
  if (now_ < speaks_at(group)) {
    call_again(id, speaks_at(group));
    return;
  }
  const Condition* old =
      api::find_condition(group.status.conditions, scheduling::pod_group_condition_type::kUnschedulable);
  const std::string word(condition_reason_of(group.reason.kind));
  const bool same_word = old != nullptr && old->status == "True" && old->reason == word;
  const bool is_worded = !group.reason.text.empty();
  if (same_word && is_worded && now_ < refresh_at(group.condition_written_at)) {
    call_again(id, refresh_at(group.condition_written_at));
    return;
  }
  group.condition_written_at = now_;
  call_again(id, refresh_at(now_));
  const bool is_unchanged = group.explained_version == group.version &&
                            group.explained_freed == snapshot_.freed_version() &&
                            group.explained_placed == snapshot_.placed_version();
  if (same_word && is_worded && is_unchanged) return;
  group.explained_version = group.version;
  group.explained_freed = snapshot_.freed_version();
  group.explained_placed = snapshot_.placed_version();
  group.reason = explain(id);
  const auto said = decode_reason(group.status.pending);
  const bool same_kind = said && said->kind == group.reason.kind && !has_moved(said->position, group.reason.position);
  if (same_word && same_kind && old->message == group.reason.text) return;
  is_new = !same_word;
  wanted.pending = encode_reason(group.reason);
  api::remove_condition(wanted.conditions, scheduling::pod_group_condition_type::kScheduled);
  Condition stuck;
  stuck.type = scheduling::pod_group_condition_type::kUnschedulable;
  stuck.status = "True";
  stuck.transition_id = session_;
  stuck.reason = word;
  stuck.message = group.reason.text;
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
    plan_.pod_conditions.push_back(
        {pod_id, pod.object->metadata.uid.str(), group.reason.kind, group.reason.text, group.is_single});
  }
}

rt::Instant Planner::speaks_at(const Group& group) const {
  switch (group.reason.kind) {
    case PendingKind::GroupMissing:
    case PendingKind::NotEnoughPods:
    case PendingKind::NotEnoughPodsOfTask:
    case PendingKind::NotEnoughSubGroups:
      return group.waiting_since + options_.condition_delay;
    default:
      return group.waiting_since;
  }
}

// Let in, and nobody has made a pod for it, or none that may start.
bool Planner::awaits_first_pods(const Group& group) const {
  const GroupCounts& counts = group.counts;
  return group.object && group.is_admitted && group.min_member > 0 && counts.ready_to_place() == 0 &&
         counts.placed + counts.terminating + counts.succeeded + counts.failed == 0 &&
         group.status.phase != GroupPhase::Completed;
}

void Planner::say_group(GroupId id) {
  Group& group = snapshot_.groups()[id];
  if (!group.is_live) return;
  if (awaits_first_pods(group)) {
    set_reason(group, group.counts.gated > 0 ? PendingKind::Gated : PendingKind::NotEnoughPods);
  } else if (group.counts.waiting == 0 && group.is_admitted) {
    clear_reason(group);
  }
  if (!group.object) {
    if (!group.is_single && group.counts.waiting > 0) set_reason(group, PendingKind::GroupMissing);
    if (group.is_single && group.counts.waiting > 0 && group.reason.kind == PendingKind::None) return;
    if (group.reason.kind == PendingKind::None) return;
    if (now_ < speaks_at(group)) {
      call_again(id, speaks_at(group));
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
  say_conditions(id, wanted, is_new);
  say_pod_conditions(id);
  snapshot_.refresh_waiting(id);
  if (wanted == group.status) {
    group.status_due = group.status_due <= now_ ? rt::kNever : group.status_due;
    return;
  }
  const bool only_counts = wanted.phase == group.status.phase && wanted.conditions == group.status.conditions &&
                           wanted.pending == group.status.pending;
  if (only_counts && group.status_due > now_) {
    call_again(id, std::min(group.status_due, now_ + options_.counts_delay));
    return;
  }
  if (group.status_due <= now_) group.status_due = rt::kNever;
  const bool has_pending = wanted.pending != group.status.pending;
  plan_.statuses.push_back({id, group.object->metadata.uid, std::move(wanted), has_pending, is_new});
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

}  // namespace basalt::scheduler
