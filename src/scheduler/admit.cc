// The planner's first step: which groups are let in, so that their pods are made and looked for room for.
#include <algorithm>

#include "api/gen/names.h"
#include "scheduler/plan.h"

namespace basalt::scheduler {

bool Planner::is_queue_open(QueueId queue) const {
  for (QueueId q = queue; q != kNone; q = snapshot_.queues()[q].parent) {
    if (!snapshot_.queues()[q].is_open) return false;
  }
  return true;
}

namespace {

// What a group still has to get of its minResources.
Amounts still_to_get(const Group& group) {
  Amounts left = group.min_resources;
  for (std::size_t r = 0; r < left.size(); ++r) left[r] = std::max<std::int64_t>(left[r] - at(group.allocated, r), 0);
  return left;
}

}  // namespace

// What evictions could free for a group that waits. A sum, not yet a promise: whether the gang fits where the victims
// are is found out when its pods are there, and nobody is evicted before.
struct Planner::Evictable {
  Amounts in_queue;  // held by gangs of its queue with a lower priority
  Amounts promised;  // of what is freed, to gangs of its queue that are no less important
  bool may_reclaim = false;
};

Planner::Evictable Planner::evictable_for(const Group& group, const Amounts& wanted) {
  Evictable evictable;
  if (group.never_preempts) return evictable;
  if (options_.preempt) {
    for (const auto& [priority, amounts] : snapshot_.queues()[group.queue].evictable) {
      if (priority >= group.priority) break;
      add_to(evictable.in_queue, amounts);
    }
  }
  for (auto it = reserved_by_.lower_bound({group.queue, group.priority});
       it != reserved_by_.end() && it->first.first == group.queue; ++it)
    add_to(evictable.promised, it->second);
  Amounts more = wanted;
  add_to(more, evictable.in_queue, -1);
  evictable.may_reclaim = options_.reclaim && shares_->share_with(group.queue, more, 1) <= 1;
  return evictable;
}

// By queue, with the queues below: what those hold beyond their due that give it back.
const std::vector<Amounts>& Planner::beyond_due() {
  if (!beyond_due_.empty()) return beyond_due_;
  beyond_due_.resize(snapshot_.queues().size());
  for (QueueId id = 0; id < snapshot_.queues().size(); ++id) {
    const Queue& queue = snapshot_.queues()[id];
    const double share = shares_->share(id);
    if (!queue.is_reclaimable || share <= 1 || queue.evictable.empty()) continue;
    Amounts beyond;
    for (const auto& [priority, amounts] : queue.evictable) add_to(beyond, amounts);
    for (std::size_t r = 0; r < beyond.size(); ++r) {
      // Pods go until the resource that is most beyond its due is no longer; with them goes as much of the others.
      const auto with_it = static_cast<std::int64_t>(static_cast<double>(beyond[r]) * (1 - 1 / share));
      beyond[r] = std::min(beyond[r], std::max(at(queue.allocated, r) - at(shares_->deserved(id), r), with_it));
    }
    for (QueueId q = id; q != kNone; q = snapshot_.queues()[q].parent) add_to(beyond_due_[q], beyond);
  }
  return beyond_due_;
}

// Whether a queue's capability has room for as much more, if need be after evictions.
bool Planner::has_capability(const Group& group, QueueId id, const Amounts& wanted) {
  const Queue& queue = snapshot_.queues()[id];
  bool fits_now = true;
  for (std::size_t r = 0; r < std::min(wanted.size(), queue.capability.size()); ++r) {
    fits_now = fits_now &&
               (wanted[r] == 0 || at(queue.allocated, r) + at(reserved_in_[id], r) + wanted[r] <= queue.capability[r]);
  }
  if (fits_now) return true;
  const Evictable evictable = evictable_for(group, wanted);
  for (std::size_t r = 0; r < std::min(wanted.size(), queue.capability.size()); ++r) {
    std::int64_t stays = at(queue.allocated, r) - at(evictable.in_queue, r);
    // From its own queue a group takes by priority alone.
    if (evictable.may_reclaim && id != group.queue) stays -= at(beyond_due()[id], r);
    if (wanted[r] > 0 && stays + at(evictable.promised, r) + wanted[r] > queue.capability[r]) return false;
  }
  return true;
}

PendingKind Planner::admission_problem(Group& group) {
  const Queue& queue = snapshot_.queues()[group.queue];
  if (!queue.object) return PendingKind::QueueMissing;
  if (!is_queue_open(group.queue)) return PendingKind::QueueClosed;
  if (!group.has_min_resources) return PendingKind::None;
  const Amounts wanted = still_to_get(group);
  for (QueueId q = group.queue; q != kNone; q = snapshot_.queues()[q].parent) {
    if (has_capability(group, q, wanted)) continue;
    group.full_queue = q;
    return PendingKind::QueueCapability;
  }
  bool fits_now = true;
  bool fits_slack = true;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    if (wanted[r] == 0) continue;
    const std::int64_t total = at(snapshot_.total(), r);
    if (wanted[r] > total) return PendingKind::ClusterTooSmall;
    const std::int64_t idle = std::max<std::int64_t>(total - at(snapshot_.total_used(), r), 0);
    fits_now = fits_now && wanted[r] + at(reserved_, r) <= idle;
    // Without room now some are admitted all the same, so that their pods are ready when room comes.
    const auto slack = static_cast<std::int64_t>(options_.overcommit * static_cast<double>(total));
    fits_slack = fits_slack && wanted[r] + at(reserved_, r) + at(reserved_waiting_, r) <= idle + slack;
  }
  return fits_now || fits_slack || fits_by_eviction(group, wanted) ? PendingKind::None : PendingKind::ClusterFull;
}

bool Planner::fits_by_eviction(const Group& group, const Amounts& wanted) {
  const Evictable evictable = evictable_for(group, wanted);
  const QueueId root = snapshot_.find_queue(api::queues::kRoot);
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    if (wanted[r] == 0) continue;
    std::int64_t room = at(snapshot_.total(), r) - at(snapshot_.total_used(), r) + at(evictable.in_queue, r);
    if (evictable.may_reclaim) room += at(beyond_due()[root], r);
    if (wanted[r] + at(evictable.promised, r) > room) return false;
  }
  return true;
}

// Groups that were admitted hold their minResources against others: those whose pods are on their way (reserved), and,
// for the slack alone, those that found no room.
void Planner::count_reservations() {
  reserved_.clear();
  reserved_waiting_.clear();
  reserved_by_.clear();
  beyond_due_.clear();
  reserved_in_.assign(snapshot_.queues().size(), {});
  for (auto it = reserving_.begin(); it != reserving_.end();) {
    const Group& group = snapshot_.groups()[*it];
    const bool holds = group.is_live && group.is_admitted && !group.was_tried && group.has_min_resources &&
                       now_ < group.admitted_at + options_.reservation_max;
    if (holds) reserve(group);
    it = holds ? std::next(it) : reserving_.erase(it);
  }
  for (const Queue& queue : snapshot_.queues()) {
    for (const Queue::Waiting& waiting : queue.waiting) {
      const Group& group = snapshot_.groups()[waiting.group];
      if (!group.is_admitted || !group.was_tried || !group.has_min_resources) continue;
      const Amounts held = still_to_get(group);
      add_to(reserved_waiting_, held);
      if (group.is_nominated) add_to(reserved_by_[{group.queue, group.priority}], held);
    }
  }
}

void Planner::reserve(const Group& group) {
  const Amounts held = still_to_get(group);
  add_to(reserved_, held);
  add_to(reserved_by_[{group.queue, group.priority}], held);
  for (QueueId q = group.queue; q != kNone; q = snapshot_.queues()[q].parent) add_to(reserved_in_[q], held);
}

void Planner::admit() {
  count_reservations();
  for (const Queue& queue : snapshot_.queues()) {
    bool is_full = false;
    for (const Queue::Waiting& waiting : queue.waiting) {
      Group& group = snapshot_.groups()[waiting.group];
      if (group.is_admitted || group.is_single) continue;
      const GroupPhase phase = group.status.phase;
      const bool was_admitted = phase == GroupPhase::Inqueue || phase == GroupPhase::Running ||
                                phase == GroupPhase::Unknown || group.counts.occupied() > 0;
      PendingKind problem = PendingKind::None;
      if (!was_admitted) {
        // One that does not fit at the head of a queue that takes turns strictly holds the others.
        problem = is_full ? PendingKind::QueueBlocked : admission_problem(group);
      }
      if (problem != PendingKind::None) {
        is_full = is_full || (queue.is_fifo && problem != PendingKind::QueueBlocked);
        set_reason(group, problem);
        continue;
      }
      group.is_admitted = true;
      group.was_tried = false;
      if (!was_admitted) group.admitted_at = now_;
      clear_reason(group);
      snapshot_.mark_dirty(waiting.group);
      if (group.has_min_resources) {
        reserving_.insert(waiting.group);
        reserve(group);
      }
    }
  }
}

}  // namespace basalt::scheduler
