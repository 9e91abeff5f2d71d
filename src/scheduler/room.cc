// The planner's third step: whom to evict, so that a gang that found no room gets it. Nobody is evicted in vain: the
// gang must fit as a whole when they are gone, and what is not needed for that stays.
#include <algorithm>

#include "base/sort.h"
#include "scheduler/plan.h"

namespace basalt::scheduler {

// Pods that go together: one pod of a gang that has more than its minimum, or all that a gang has.
struct Planner::VictimUnit {
  GroupId group = kNone;
  std::vector<PodId> pods;
  bool is_core = false;  // the gang ends with it
  std::int32_t priority = 0;
  std::int64_t created = 0;
  double queue_share = 0;
  std::vector<Placement> lifted;
};

// Half placed, and the rest has found no room for some time: as it is, it runs not and lets others not run.
bool Planner::is_entangled(GroupId id) {
  const Group& group = snapshot_.groups()[id];
  if (group.counts.placed == 0 || group.counts.waiting == 0 || group.is_nominated) return false;
  const PendingKind kind = group.reason.kind;
  if (kind != PendingKind::NoRoom && kind != PendingKind::QueueCapability && kind != PendingKind::ReservedForOthers)
    return false;
  if (placer_.has_minimum(id)) return false;
  const rt::Instant due = group.waiting_since + options_.untangle_delay;
  if (now_ < due) call_again(id, due);
  return now_ >= due;
}

namespace {

bool was_complete_once(const Group& group) {
  return group.status.phase == GroupPhase::Running || group.status.phase == GroupPhase::Unknown;
}

bool is_before(const Group& a, const Group& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  if (a.created != b.created) return a.created < b.created;
  return a.key < b.key;
}

}  // namespace

bool Planner::is_victim(const Group& group, GroupId other_id, RoomKind kind) const {
  const Group& other = snapshot_.groups()[other_id];
  switch (kind) {
    case RoomKind::Preempt:
      return other.queue == group.queue && other.priority < group.priority;
    case RoomKind::Reclaim:
      return other.queue != group.queue && snapshot_.queues()[other.queue].is_reclaimable &&
             shares_->share(other.queue) > 1;
    case RoomKind::Untangle:
      if (std::find(entangled_.begin(), entangled_.end(), other_id) == entangled_.end()) return false;
      // One that ran as a whole has something to lose: it gives way only to another that is half placed, too.
      return !was_complete_once(other) || (group.counts.placed > 0 && is_before(group, other));
  }
  return false;
}

std::vector<Planner::VictimUnit> Planner::find_victims(const Group& group, RoomKind kind) const {
  std::vector<VictimUnit> units;
  for (GroupId id = 0; id < snapshot_.groups().size(); ++id) {
    const Group& other = snapshot_.groups()[id];
    if (!other.is_live || other.counts.placed == 0 || &other == &group || other.queue == kNone) continue;
    if (!is_victim(group, id, kind)) continue;
    VictimUnit core;
    core.group = id;
    core.is_core = true;
    core.priority = other.priority;
    core.created = other.created;
    core.queue_share = kind == RoomKind::Reclaim ? shares_->share(other.queue) : 0;
    bool may_end = true;
    for (const PodId pod : other.pods) {
      const Pod& placed = snapshot_.pods()[pod];
      // Placed in this very cycle, or already on its way out: neither is evicted.
      if (placed.is_evicting || placed.state == PodState::Terminating) continue;
      if (placed.state != PodState::Placed) continue;
      if (!placed.object->is_preemptable || placed.is_assumed) {
        may_end = false;
        continue;
      }
      core.pods.push_back(pod);
    }
    std::sort(core.pods.begin(), core.pods.end(), [&](PodId a, PodId b) {
      return snapshot_.object(a).metadata.name.view() < snapshot_.object(b).metadata.name.view();
    });
    const bool is_elastic = other.task_min.empty() && other.sub_groups.empty();
    std::int32_t spare = is_elastic ? other.counts.occupied() - other.min_member : 0;
    for (; spare > 0 && !core.pods.empty(); --spare) {
      VictimUnit extra = core;
      extra.is_core = false;
      extra.pods = {core.pods.back()};
      core.pods.pop_back();
      units.push_back(std::move(extra));
    }
    if (may_end && !core.pods.empty()) units.push_back(std::move(core));
  }
  // Least valuable first.
  base::stable_sort(units, [](const VictimUnit& a, const VictimUnit& b) {
    if (a.queue_share != b.queue_share) return a.queue_share > b.queue_share;
    if (a.is_core != b.is_core) return b.is_core;
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.created > b.created;
  });
  if (units.size() > options_.eviction_units_max) units.resize(options_.eviction_units_max);
  return units;
}

bool Planner::would_fit(GroupId id) {
  placer_.set_hypothetical(true);
  const GangOutcome outcome = placer_.place_minimum(id);
  placer_.set_hypothetical(false);
  placer_.undo(outcome.placed);
  return outcome.kind == PendingKind::None;
}

void Planner::evict(const Group& group, PodId pod, RoomKind kind) {
  const std::string whom = "evicted to make room for " + group.key.to_string() + ", ";
  EvictDecision decision{pod, snapshot_.object(pod).metadata.uid.str(), "Preempted", whom + "of higher priority"};
  if (kind == RoomKind::Reclaim) {
    decision.reason = "Reclaimed";
    decision.message = whom + "whose queue has less than its due";
  } else if (kind == RoomKind::Untangle) {
    decision.reason = "Released";
    decision.message = whom + "which fits as a whole: the rest of this pod's gang found no room";
  }
  plan_.evictions.push_back(std::move(decision));
  snapshot_.set_evicting(pod);
}

bool Planner::make_room_for(GroupId id, RoomKind kind) {
  Group& group = snapshot_.groups()[id];
  std::vector<Placement> leaving;
  const auto lift = [&](PodId pod, std::vector<Placement>& lifted) {
    NodeId node = kNone;
    snapshot_.lift(pod, node);
    if (node != kNone) lifted.push_back({pod, node});
  };
  const auto put_back = [&](std::vector<Placement>& lifted) {
    for (const Placement& placement : lifted) snapshot_.put_back(placement.pod, placement.node);
    lifted.clear();
  };
  for (const PodId pod : snapshot_.terminating()) lift(pod, leaving);
  if (!leaving.empty() && would_fit(id)) {
    put_back(leaving);
    return true;  // it will fit when those have gone: nobody else has to
  }
  std::vector<VictimUnit> units = find_victims(group, kind);
  // One after the other goes until the gang fits, more at a time as it gets longer.
  std::size_t gone = 0;
  bool fits = false;
  for (std::size_t step = 1; gone < units.size() && !fits; step *= 2) {
    for (std::size_t i = 0; i < step && gone < units.size(); ++gone) {
      VictimUnit& unit = units[gone];
      // A queue gives back only what is beyond its due.
      if (kind == RoomKind::Reclaim) {
        Amounts less;
        for (const PodId pod : unit.pods) add_to(less, snapshot_.shape(snapshot_.pods()[pod].shape).requests);
        if (shares_->share_with(snapshot_.groups()[unit.group].queue, less, -1) < 1) continue;
      }
      for (const PodId pod : unit.pods) lift(pod, unit.lifted);
      ++i;
    }
    fits = would_fit(id);
  }
  // What is not needed stays, the most valuable first.
  std::vector<GroupId> ended;
  for (std::size_t i = gone; fits && i-- > 0;) {
    VictimUnit& unit = units[i];
    if (unit.lifted.empty()) continue;
    if (!unit.is_core && std::find(ended.begin(), ended.end(), unit.group) != ended.end()) continue;
    std::vector<Placement> lifted = unit.lifted;
    put_back(unit.lifted);
    if (would_fit(id)) continue;
    for (const Placement& placement : lifted) lift(placement.pod, unit.lifted);
    if (unit.is_core) ended.push_back(unit.group);
  }
  for (VictimUnit& unit : units) {
    if (unit.lifted.empty()) continue;
    std::vector<Placement> victims = unit.lifted;
    put_back(unit.lifted);
    if (!fits) continue;
    for (const Placement& victim : victims) evict(group, victim.pod, kind);
  }
  put_back(leaving);
  return fits;
}

bool Planner::make_room_by_priority(GroupId id) {
  Group& group = snapshot_.groups()[id];
  group.evict_freed = snapshot_.freed_version();
  group.evict_version = group.version;
  if (group.never_preempts) return false;
  if (options_.preempt && make_room_for(id, RoomKind::Preempt)) return true;
  if (!options_.reclaim || group.reason.kind != PendingKind::NoRoom) return false;
  Amounts wanted;
  std::int32_t left = std::max(group.needed, 1);
  for (const PodId pod : group.pods) {
    if (snapshot_.pods()[pod].state != PodState::Waiting || left-- <= 0) continue;
    add_to(wanted, snapshot_.shape(snapshot_.pods()[pod].shape).requests);
  }
  return shares_->share_with(group.queue, wanted, 1) <= 1 && make_room_for(id, RoomKind::Reclaim);
}

bool Planner::make_room_by_untangling(GroupId id) {
  constexpr rt::Duration kPause = std::chrono::seconds(1);  // between two looks for one gang
  Group& group = snapshot_.groups()[id];
  const bool others = std::any_of(entangled_.begin(), entangled_.end(), [&](GroupId other) { return other != id; });
  if (!others || now_ < group.untangle_at) return false;
  group.untangle_at = now_ + kPause;
  return make_room_for(id, RoomKind::Untangle);
}

void Planner::make_room() {
  entangled_.clear();
  for (const GroupId id : failed_) {
    if (is_entangled(id)) entangled_.push_back(id);
  }
  int attempts = options_.eviction_attempts_max;
  for (const GroupId id : failed_) {
    Group& group = snapshot_.groups()[id];
    const PendingKind kind = group.reason.kind;
    if (kind != PendingKind::NoRoom && kind != PendingKind::QueueCapability) continue;
    if (group.is_nominated || now_ < group.retry_at) continue;
    const bool is_news = group.evict_freed != snapshot_.freed_version() || group.evict_version != group.version;
    if (!is_news && entangled_.empty()) continue;
    if (!is_news && now_ < group.untangle_at) {
      wake_by(group.untangle_at);
      continue;
    }
    if (attempts-- == 0) {
      plan_.has_more = true;
      return;
    }
    const bool made = (is_news && make_room_by_priority(id)) || make_room_by_untangling(id);
    if (!made) continue;
    group.is_nominated = true;
    nominated_.insert(id);
    set_reason(group, PendingKind::MakingRoom);
  }
}

}  // namespace basalt::scheduler
