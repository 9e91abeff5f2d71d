#include "scheduler/plan.h"

#include <algorithm>

#include "api/gen/names.h"

namespace basalt::scheduler {

Planner::Planner(Snapshot& snapshot, PlannerOptions options)
    : snapshot_(snapshot),
      options_(options),
      finder_(snapshot, options.shard_mode),
      placer_(snapshot, finder_, {.strategy = options.strategy, .ungrouped_wait = options.ungrouped_wait}) {}

Plan Planner::run(rt::Instant now, api::Time wall, std::string session) {
  now_ = now;
  wall_ = wall;
  session_ = std::move(session);
  waiting_groups_ = snapshot_.waiting_groups();
  plan_ = Plan();
  failed_.clear();
  rest_.clear();
  positions_.clear();
  holders_.clear();
  while (!due_.empty() && due_.begin()->first <= now) {
    snapshot_.mark_dirty(due_.begin()->second);
    due_.erase(due_.begin());
  }
  shares_ = std::make_unique<QueueShares>(snapshot_);
  placer_.begin(*shares_, now);
  admit();
  place();
  make_room();
  say();
  if (!due_.empty()) wake_by(due_.begin()->first);
  return std::move(plan_);
}

// 2. Place.

void Planner::set_reason(Group& group, PendingKind kind) {
  if (group.reason.kind == kind) return;
  const GroupId id = snapshot_.find_group(group.key);
  if (group.reason.kind == PendingKind::None) group.waiting_since = now_;
  group.reason = {};
  group.reason.kind = kind;
  snapshot_.mark_dirty(id);
}

void Planner::clear_reason(Group& group) {
  if (group.reason.kind == PendingKind::None) return;
  group.reason = {};
  snapshot_.mark_dirty(snapshot_.find_group(group.key));
}

bool Planner::is_unchanged_failure(const Group& group) const {
  if (group.failed_freed != snapshot_.freed_version() || group.failed_version != group.version) return false;
  if (group.failed_placed == snapshot_.placed_version()) return true;
  // Pods that look at other pods may find a place because others were placed.
  return std::none_of(group.pods.begin(), group.pods.end(), [&](PodId id) {
    const Pod& pod = snapshot_.pods()[id];
    return pod.state == PodState::Waiting && snapshot_.shape(pod.shape).depends_on_pods();
  });
}

void Planner::remember_failure(Group& group, const GangOutcome& outcome) {
  // New numbers: what was said is out of date.
  if (group.needed != outcome.needed || group.fitted != outcome.fitted)
    snapshot_.mark_dirty(snapshot_.find_group(group.key));
  group.failed_freed = snapshot_.freed_version();
  group.failed_version = group.version;
  group.failed_placed = snapshot_.placed_version();
  group.needed = outcome.needed;
  group.fitted = outcome.fitted;
  group.blocker = outcome.blocker;
  group.full_queue = outcome.queue;
  group.short_task = outcome.task;
}

void Planner::commit(GroupId id, const GangOutcome& outcome) {
  for (const Placement& placement : outcome.placed)
    plan_.binds.push_back({placement.pod, id, snapshot_.object(placement.pod).metadata.uid.str()});
  if (!outcome.placed.empty()) snapshot_.mark_dirty(id);
  snapshot_.refresh_waiting(id);
}

bool Planner::may_try(const Group& group) {
  if (!group.is_single && !group.is_admitted) return false;
  if (group.counts.ready_to_place() <= 0) return false;
  if (now_ < group.retry_at) {
    wake_by(group.retry_at);
    return false;
  }
  if (group.is_single) {
    const rt::Instant ripe = snapshot_.pods()[group.pods.front()].seen_at + options_.ungrouped_wait;
    if (now_ < ripe) {
      wake_by(ripe);
      return false;
    }
    const Queue& queue = snapshot_.queues()[group.queue];
    return !queue.object || is_queue_open(group.queue);
  }
  return true;
}

PendingKind Planner::try_group(GroupId id) {
  Group& group = snapshot_.groups()[id];
  if (group.reason.kind != PendingKind::None && group.reason.kind != PendingKind::QueueBlocked &&
      is_unchanged_failure(group)) {
    failed_.push_back(id);
    return group.reason.kind;
  }
  group.was_tried = true;
  const GangOutcome outcome = placer_.place_minimum(id);
  if (outcome.kind != PendingKind::None) {
    remember_failure(group, outcome);
    if (!group.is_nominated) set_reason(group, outcome.kind);
    failed_.push_back(id);
    return outcome.kind;
  }
  clear_reason(group);
  group.is_nominated = false;
  commit(id, outcome);
  if (group.counts.ready_to_place() > 0) rest_.push_back(id);
  return PendingKind::None;
}

// Groups for which room is being made: what they will get when the last victim has gone is kept from the others.
void Planner::place_held() {
  for (auto it = nominated_.begin(); it != nominated_.end();) {
    const GroupId id = *it;
    Group& group = snapshot_.groups()[id];
    if (!group.is_live || !group.is_nominated) {
      it = nominated_.erase(it);
      continue;
    }
    if (may_try(group)) static_cast<void>(try_group(id));
    if (group.is_nominated) {
      std::vector<Placement> lifted;
      for (const PodId pod : snapshot_.terminating()) {
        NodeId node = kNone;
        snapshot_.lift(pod, node);
        if (node != kNone) lifted.push_back({pod, node});
      }
      placer_.set_hypothetical(true);
      const GangOutcome outcome = placer_.place_minimum(id);
      placer_.set_hypothetical(false);
      for (const Placement& placement : lifted) snapshot_.put_back(placement.pod, placement.node);
      held_.insert(held_.end(), outcome.placed.begin(), outcome.placed.end());
      // What was to be freed was taken otherwise, or the gang changed: it stands in line again.
      if (outcome.kind != PendingKind::None || outcome.placed.empty()) group.is_nominated = false;
      if (outcome.kind != PendingKind::None) set_reason(group, outcome.kind);
    }
    it = group.is_nominated ? std::next(it) : nominated_.erase(it);
  }
}

QueueId Planner::pick_queue(QueueId from, const std::vector<std::size_t>& remaining,
                            const std::vector<std::size_t>& own) const {
  while (own[from] == 0) {
    QueueId best = kNone;
    for (const QueueId child : snapshot_.queues()[from].children) {
      if (remaining[child] > 0 && (best == kNone || shares_->is_before(child, best))) best = child;
    }
    if (best == kNone) return kNone;
    from = best;
  }
  return from;
}

void Planner::place_in_order(const std::set<GroupId>& tried, std::optional<std::int32_t> above_priority) {
  const auto& queues = snapshot_.queues();
  std::vector<std::vector<GroupId>> lists(queues.size());
  std::vector<std::size_t> own(queues.size());        // candidates left in a queue's own list
  std::vector<std::size_t> remaining(queues.size());  // and below it, too
  for (QueueId q = 0; q < queues.size(); ++q) {
    for (const Queue::Waiting& waiting : queues[q].waiting) {
      const Group& group = snapshot_.groups()[waiting.group];
      if (above_priority && group.priority <= *above_priority) break;  // the most important stand first
      if (group.is_nominated || !may_try(group) || tried.contains(waiting.group)) continue;
      lists[q].push_back(waiting.group);
    }
    own[q] = lists[q].size();
    for (QueueId above = q; above != kNone; above = queues[above].parent) remaining[above] += own[q];
  }
  const auto take = [&](QueueId queue, std::size_t count) {
    own[queue] -= count;
    for (QueueId above = queue; above != kNone; above = queues[above].parent) remaining[above] -= count;
  };
  const QueueId root = snapshot_.find_queue(api::queues::kRoot);
  while (root != kNone && remaining[root] > 0) {
    if (plan_.binds.size() >= options_.placements_max) {
      plan_.has_more = true;
      return;
    }
    const QueueId queue = pick_queue(root, remaining, own);
    if (queue == kNone) return;
    const GroupId id = lists[queue][lists[queue].size() - own[queue]];
    take(queue, 1);
    const PendingKind problem = try_group(id);
    if (problem == PendingKind::None || !queues[queue].is_fifo) continue;
    // Those behind wait for their turn.
    for (std::size_t i = lists[queue].size() - own[queue]; i < lists[queue].size(); ++i)
      set_reason(snapshot_.groups()[lists[queue][i]], PendingKind::QueueBlocked);
    take(queue, own[queue]);
  }
}

void Planner::place_rest() {
  for (const GroupId id : rest_) {
    Group& group = snapshot_.groups()[id];
    if (plan_.binds.size() >= options_.placements_max) {
      plan_.has_more = true;
      return;
    }
    if (group.failed_version == group.version && is_unchanged_failure(group)) continue;
    const GangOutcome outcome = placer_.place_rest(id);
    if (outcome.blocker != kNone) remember_failure(group, outcome);
    commit(id, outcome);
  }
}

void Planner::place() {
  held_.clear();
  place_held();
  // A gang of which a part is placed comes first: its room must not go to others, or both would wait for ever.
  std::set<GroupId> tried;
  for (const Queue& queue : snapshot_.queues()) {
    for (const Queue::Waiting& waiting : queue.waiting) {
      const Group& group = snapshot_.groups()[waiting.group];
      if (group.counts.placed > 0 && !group.is_nominated && may_try(group) && !placer_.has_minimum(waiting.group))
        tried.insert(waiting.group);
    }
  }
  for (const GroupId id : tried) static_cast<void>(try_group(id));
  look_for_starving();
  if (kept_.group != kNone) {
    // Only those that are more important may still take what it waits for.
    place_in_order(tried, snapshot_.groups()[kept_.group].priority);
    for (const GroupId id : failed_) tried.insert(id);
    for (const GroupId id : rest_) tried.insert(id);
    if (tried.insert(kept_.group).second) static_cast<void>(try_group(kept_.group));
    keep_nodes();
  }
  place_in_order(tried, std::nullopt);
  place_rest();
  free_nodes();
  placer_.undo(held_);
}

}  // namespace basalt::scheduler
