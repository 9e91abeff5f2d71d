// The planner's third step: whom to evict, so that a gang that found no room gets it. Nobody is evicted in vain: the
// gang must fit as a whole when they are gone, and what is not needed for that stays.
#include <algorithm>
#include <optional>
#include <set>

#include "base/sort.h"
#include "scheduler/plan.h"

namespace basalt::scheduler {

// Pods that go together: one pod of a gang that has more than its minimum, or all that a gang has.
struct Planner::VictimUnit {
  GroupId group = kNone;
  RoomKind kind = RoomKind::Preempt;
  std::vector<PodId> pods;
  bool is_core = false;  // the gang ends with it
  std::int32_t priority = 0;
  std::int64_t created = 0;
  double queue_share = 0;
  Amounts amounts;  // what its pods hold
  std::vector<Placement> lifted;
};

// The search for victims of one gang: units are lifted from the snapshot, least valuable first, until the gang fits,
// then what can stay is put back, most valuable first.
struct Planner::VictimSearch {
  GroupId group = kNone;
  std::vector<VictimUnit> units;
  std::optional<Amounts> wanted;  // by the gang, if a sum can tell that it does not fit
  std::size_t looked_at = 0;      // of the units
  bool fits = false;
  std::int64_t trials_left = 0;  // pods that may still be placed for trial
  std::size_t reclaimed = 0;     // lifted units of other queues
  std::set<GroupId> ended;       // gangs that lose their minimum
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

// The units of one gang: its spare pods one by one, and its minimum, unless something of that must stay.
void Planner::add_units(GroupId id, RoomKind kind, std::vector<VictimUnit>& units) const {
  const Group& other = snapshot_.groups()[id];
  VictimUnit core;
  core.group = id;
  core.kind = kind;
  core.is_core = true;
  core.priority = other.priority;
  core.created = other.created;
  core.queue_share = kind == RoomKind::Reclaim ? shares_->share(other.queue) : 0;
  bool may_end = true;
  for (const PodId pod : other.pods) {
    const Pod& placed = snapshot_.pods()[pod];
    // Placed in this very cycle, or already on its way out: neither is evicted.
    if (placed.is_evicting || placed.state != PodState::Placed) continue;
    if (!placed.object->is_preemptable || placed.is_assumed) {
      may_end = false;
      continue;
    }
    core.pods.push_back(pod);
  }
  std::sort(core.pods.begin(), core.pods.end(), [&](PodId a, PodId b) {
    return snapshot_.object(a).metadata.name.view() < snapshot_.object(b).metadata.name.view();
  });
  const auto add = [&](VictimUnit unit) {
    for (const PodId pod : unit.pods) add_to(unit.amounts, snapshot_.shape(snapshot_.pods()[pod].shape).requests);
    units.push_back(std::move(unit));
  };
  const bool is_elastic = other.task_min.empty() && other.sub_groups.empty();
  std::int32_t spare = is_elastic ? other.counts.occupied() - other.min_member : 0;
  for (; spare > 0 && !core.pods.empty(); --spare) {
    VictimUnit extra = core;
    extra.is_core = false;
    extra.pods = {core.pods.back()};
    core.pods.pop_back();
    add(std::move(extra));
  }
  if (may_end && !core.pods.empty()) add(std::move(core));
}

// Least valuable first: own queue before others, those from the queue that is furthest beyond its due, the lowest
// priority, pods that break no gang, the newest.
std::vector<Planner::VictimUnit> Planner::find_victims(const Group& group,
                                                       std::initializer_list<RoomKind> kinds) const {
  std::vector<VictimUnit> units;
  for (GroupId id = 0; id < snapshot_.groups().size(); ++id) {
    const Group& other = snapshot_.groups()[id];
    if (!other.is_live || other.counts.placed == 0 || &other == &group || other.queue == kNone) continue;
    const auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](RoomKind candidate) { return is_victim(group, id, candidate); });
    if (kind != kinds.end()) add_units(id, *kind, units);
  }
  base::stable_sort(units, [](const VictimUnit& a, const VictimUnit& b) {
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.queue_share != b.queue_share) return a.queue_share > b.queue_share;
    if (a.priority != b.priority) return a.priority < b.priority;
    if (a.is_core != b.is_core) return b.is_core;
    return a.created > b.created;
  });
  if (units.size() > options_.eviction_units_max) units.resize(options_.eviction_units_max);
  return units;
}

// A queue gives back only what is beyond its due, and nothing of what is guaranteed to it.
bool Planner::may_be_taken(const VictimUnit& unit) const {
  if (unit.kind != RoomKind::Reclaim) return true;
  const QueueId queue = snapshot_.groups()[unit.group].queue;
  if (shares_->share_with(queue, unit.amounts, -1) < 1) return false;
  for (QueueId q = queue; q != kNone; q = snapshot_.queues()[q].parent) {
    const Queue& holder = snapshot_.queues()[q];
    for (std::size_t r = 0; r < std::min(holder.guarantee.size(), unit.amounts.size()); ++r) {
      if (unit.amounts[r] > 0 && at(holder.allocated, r) - unit.amounts[r] < holder.guarantee[r]) return false;
    }
  }
  return true;
}

bool Planner::would_fit(VictimSearch& search) {
  const Group& group = snapshot_.groups()[search.group];
  if (search.wanted) {
    for (std::size_t r = 0; r < search.wanted->size(); ++r) {
      if ((*search.wanted)[r] > at(snapshot_.total(), r) - at(snapshot_.total_used(), r)) return false;
    }
  }
  search.trials_left -= std::max(group.needed, 1);
  placer_.set_hypothetical(true);
  const GangOutcome outcome = placer_.place_minimum(search.group);
  placer_.set_hypothetical(false);
  // Who takes from other queues must not be beyond its own due with it.
  const bool is_due = search.reclaimed == 0 || shares_->share(group.queue) <= 1;
  placer_.undo(outcome.placed);
  return outcome.kind == PendingKind::None && is_due;
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

namespace {

void lift(Snapshot& snapshot, PodId pod, std::vector<Placement>& lifted) {
  NodeId node = kNone;
  snapshot.lift(pod, node);
  if (node != kNone) lifted.push_back({pod, node});
}

void put_back(Snapshot& snapshot, std::vector<Placement>& lifted) {
  for (const Placement& placement : lifted) snapshot.put_back(placement.pod, placement.node);
  lifted.clear();
}

// What the pods that the gang still needs ask for together, if they are alike and can only go to nodes that count.
std::optional<Amounts> sum_wanted(const Snapshot& snapshot, const Group& group) {
  ShapeId first = kNone;
  for (const PodId id : group.pods) {
    const Pod& pod = snapshot.pods()[id];
    if (pod.state != PodState::Waiting) continue;
    if (first != kNone && pod.shape != first) return std::nullopt;
    first = pod.shape;
  }
  if (first == kNone || !snapshot.shape(first).tolerations.empty()) return std::nullopt;
  Amounts wanted;
  add_to(wanted, snapshot.shape(first).requests, std::max(group.needed, 1));
  if (wanted.size() > ResourceTable::kPods) wanted[ResourceTable::kPods] = 0;  // nodes may be without a limit
  return wanted;
}

}  // namespace

// One after the other goes until the gang fits, more at a time as it gets longer.
void Planner::lift_until_it_fits(VictimSearch& search) {
  for (std::size_t step = 1; search.looked_at < search.units.size() && !search.fits; step *= 2) {
    for (std::size_t i = 0; i < step && search.looked_at < search.units.size(); ++search.looked_at) {
      VictimUnit& unit = search.units[search.looked_at];
      if (!may_be_taken(unit)) continue;
      for (const PodId pod : unit.pods) lift(snapshot_, pod, unit.lifted);
      search.reclaimed += unit.kind == RoomKind::Reclaim ? 1 : 0;
      ++i;
    }
    search.fits = would_fit(search);
  }
}

// Puts back what is not needed of the units [begin, end), all at once if that does, else the more valuable half first.
// The same comes out as by trying one by one from the end, with fewer trials.
void Planner::keep_what_can_stay(VictimSearch& search, std::size_t begin, std::size_t end) {
  std::vector<std::pair<std::size_t, std::vector<Placement>>> back;
  for (std::size_t i = begin; i < end; ++i) {
    VictimUnit& unit = search.units[i];
    // A spare pod is of no use to a gang that loses its minimum.
    if (unit.lifted.empty() || (!unit.is_core && search.ended.contains(unit.group))) continue;
    back.emplace_back(i, unit.lifted);
    put_back(snapshot_, unit.lifted);
    search.reclaimed -= unit.kind == RoomKind::Reclaim ? 1 : 0;
  }
  if (back.empty() || (search.trials_left > 0 && would_fit(search))) return;
  for (auto& [i, lifted] : back) {
    VictimUnit& unit = search.units[i];
    for (const Placement& placement : lifted) lift(snapshot_, placement.pod, unit.lifted);
    search.reclaimed += unit.kind == RoomKind::Reclaim ? 1 : 0;
  }
  if (search.trials_left <= 0) return;
  if (back.size() == 1) {
    const VictimUnit& unit = search.units[back.front().first];
    if (unit.is_core) search.ended.insert(unit.group);
    return;
  }
  const std::size_t middle = back[back.size() / 2].first;
  keep_what_can_stay(search, middle, end);
  keep_what_can_stay(search, begin, middle);
}

bool Planner::make_room_for(GroupId id, std::initializer_list<RoomKind> kinds) {
  // A search among more than these is not repeated at once if it was in vain.
  constexpr std::size_t kQuick = 512;
  constexpr rt::Duration kPause = std::chrono::seconds(1);
  Group& group = snapshot_.groups()[id];
  VictimSearch search;
  search.group = id;
  search.wanted = sum_wanted(snapshot_, group);
  search.trials_left = options_.eviction_trials_max;
  std::vector<Placement> leaving;
  for (const PodId pod : snapshot_.terminating()) lift(snapshot_, pod, leaving);
  if (!leaving.empty() && would_fit(search)) {
    put_back(snapshot_, leaving);
    return true;  // it will fit when those have gone: nobody else has to
  }
  search.units = find_victims(group, kinds);
  lift_until_it_fits(search);
  if (search.fits) keep_what_can_stay(search, 0, search.looked_at);
  for (VictimUnit& unit : search.units) {
    if (unit.lifted.empty()) continue;
    const std::vector<Placement> victims = unit.lifted;
    put_back(snapshot_, unit.lifted);
    if (!search.fits) continue;
    for (const Placement& victim : victims) evict(group, victim.pod, unit.kind);
  }
  put_back(snapshot_, leaving);
  if (!search.fits && search.units.size() > kQuick) group.evict_again = now_ + kPause;
  return search.fits;
}

// First by priority inside the queue, then from queues beyond their due, then both together.
bool Planner::make_room_by_priority(GroupId id) {
  Group& group = snapshot_.groups()[id];
  group.evict_freed = snapshot_.freed_version();
  group.evict_version = group.version;
  if (group.never_preempts) return false;
  if (options_.preempt && make_room_for(id, {RoomKind::Preempt})) return true;
  if (!options_.reclaim || shares_->share(group.queue) > 1) return false;
  if (make_room_for(id, {RoomKind::Reclaim})) return true;
  const auto& below = snapshot_.queues()[group.queue].evictable;
  const bool has_lower = !below.empty() && below.begin()->first < group.priority;
  return options_.preempt && has_lower && make_room_for(id, {RoomKind::Preempt, RoomKind::Reclaim});
}

bool Planner::make_room_by_untangling(GroupId id) {
  constexpr rt::Duration kPause = std::chrono::seconds(1);  // between two looks for one gang
  Group& group = snapshot_.groups()[id];
  const bool others = std::any_of(entangled_.begin(), entangled_.end(), [&](GroupId other) { return other != id; });
  if (!others || now_ < group.untangle_at) return false;
  group.untangle_at = now_ + kPause;
  return make_room_for(id, {RoomKind::Untangle});
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
    if (kind != PendingKind::NoRoom && kind != PendingKind::QueueCapability && kind != PendingKind::ReservedForOthers)
      continue;
    if (group.is_nominated || now_ < group.retry_at) continue;
    if (now_ < group.evict_again) {
      wake_by(group.evict_again);
      continue;
    }
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
