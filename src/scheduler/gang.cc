#include "scheduler/gang.h"

#include <algorithm>
#include <map>

#include "base/sort.h"

namespace basalt::scheduler {

bool GangPlacer::Needs::met() const {
  return total <= 0 && std::all_of(tasks.begin(), tasks.end(), [](const auto& task) { return task.second <= 0; }) &&
         std::all_of(sub_groups.begin(), sub_groups.end(), [](std::int32_t count) { return count <= 0; });
}

bool GangPlacer::Needs::is_helped_by(const Unit& unit) const {
  if (unit.rule != kNone && sub_groups[unit.rule] > 0) return true;
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](const auto& task) { return task.second > 0 && task.first == unit.task; });
}

void GangPlacer::Needs::note(const Unit& unit) {
  total -= static_cast<std::int32_t>(unit.pods.size());
  if (unit.rule != kNone) --sub_groups[unit.rule];
  for (auto& [name, count] : tasks) {
    if (name == unit.task) count -= static_cast<std::int32_t>(unit.pods.size());
  }
}

std::vector<PodId> GangPlacer::waiting_pods(const Group& group) const {
  std::vector<PodId> waiting;
  for (const PodId id : group.pods) {
    const Pod& pod = snapshot_.pods()[id];
    if (pod.state != PodState::Waiting || pod.object->is_gated) continue;
    if (group.is_single && now_ < pod.seen_at + options_.ungrouped_wait) continue;
    waiting.push_back(id);
  }
  return waiting;
}

namespace {

// How many more must be placed to have `least`, given what is there. Pods that failed are not placed again; if without
// them there are too few, all that wait go together. Negative: there are too few pods.
std::int32_t still_needed(std::int32_t least, std::int32_t occupied, std::int32_t waiting, std::int32_t failed) {
  const std::int32_t needed = std::max(least - occupied, 0);
  if (needed <= waiting) return needed;
  return failed > 0 && occupied + waiting + failed >= least ? waiting : -1;
}

}  // namespace

PendingKind GangPlacer::count_needs(const Group& group, const std::vector<PodId>& waiting, Needs& needs,
                                    GangOutcome& outcome) {
  const auto ready = static_cast<std::int32_t>(waiting.size());
  needs.total = still_needed(group.min_member, group.counts.occupied(), ready, group.counts.failed);
  if (needs.total < 0) {
    outcome.needed = group.min_member - group.counts.occupied();
    outcome.fitted = ready;
    return group.counts.gated > 0 ? PendingKind::Gated : PendingKind::NotEnoughPods;
  }
  for (const auto& [name, least] : group.task_min) {
    std::int32_t occupied = 0, failed = 0, wait = 0;
    for (const PodId id : group.pods) {
      const Pod& pod = snapshot_.pods()[id];
      if (pod.object->task != name) continue;
      if (pod.state == PodState::Placed || pod.state == PodState::Succeeded) ++occupied;
      if (pod.state == PodState::Failed) ++failed;
    }
    for (const PodId id : waiting) wait += snapshot_.object(id).task == name ? 1 : 0;
    const std::int32_t needed = still_needed(least, occupied, wait, failed);
    if (needed < 0) {
      outcome.needed = least;
      outcome.fitted = occupied + wait;
      outcome.task = name;
      return PendingKind::NotEnoughPodsOfTask;
    }
    if (needed > 0) needs.tasks.emplace_back(name, needed);
  }
  return PendingKind::None;
}

// Sorts the pods of each rule into sub-groups by their labels. What completes a sub-group becomes one unit; pods that
// are in none stay for the caller.
PendingKind GangPlacer::count_sub_groups(const Group& group, const std::vector<PodId>& waiting, Needs& needs,
                                         std::vector<Unit>& units) {
  std::vector<PodId> left = waiting;
  for (std::uint32_t r = 0; r < group.sub_groups.size(); ++r) {
    const SubGroupRule& rule = group.sub_groups[r];
    struct Bucket {
      std::int32_t occupied = 0;
      std::vector<PodId> waiting;
    };
    std::map<std::vector<std::string>, Bucket> buckets;
    const auto bucket_of = [&](PodId id) -> Bucket* {
      const auto& labels = snapshot_.object(id).metadata.labels;
      if (!rule.selector.matches(labels)) return nullptr;
      std::vector<std::string> values;
      for (const std::string& key : rule.keys) values.emplace_back(labels.get(key));
      return &buckets[values];
    };
    for (const PodId id : group.pods) {
      const PodState state = snapshot_.pods()[id].state;
      if (state != PodState::Placed && state != PodState::Succeeded) continue;
      if (Bucket* bucket = bucket_of(id)) ++bucket->occupied;
    }
    std::vector<PodId> others;
    for (const PodId id : left) {
      if (Bucket* bucket = bucket_of(id)) {
        bucket->waiting.push_back(id);
      } else {
        others.push_back(id);
      }
    }
    std::int32_t complete = 0;
    std::int32_t possible = 0;
    for (auto& [values, bucket] : buckets) {
      const std::int32_t missing = rule.size - bucket.occupied;
      if (missing <= 0) {
        ++complete;
        others.insert(others.end(), bucket.waiting.begin(), bucket.waiting.end());
        continue;
      }
      if (missing > static_cast<std::int32_t>(bucket.waiting.size())) continue;  // incomplete: none of it starts
      ++possible;
      Unit unit;
      unit.pods.assign(bucket.waiting.begin(), bucket.waiting.begin() + missing);
      unit.rule = r;
      units.push_back(std::move(unit));
      // The rest of a bucket that is larger than a sub-group follows one by one.
      others.insert(others.end(), bucket.waiting.begin() + missing, bucket.waiting.end());
    }
    needs.sub_groups.push_back(std::max(rule.groups_min - complete, 0));
    if (needs.sub_groups.back() > possible) return PendingKind::NotEnoughSubGroups;
    left = std::move(others);
  }
  for (const PodId id : left) units.push_back({.pods = {id}, .task = snapshot_.object(id).task.view()});
  return PendingKind::None;
}

std::vector<GangPlacer::Unit> GangPlacer::make_units(const Group& group, std::vector<PodId> waiting, Needs& needs,
                                                     PendingKind& problem) {
  const auto before = [&](PodId a, PodId b) {
    const SchedulablePod& first = snapshot_.object(a);
    const SchedulablePod& second = snapshot_.object(b);
    if (first.priority != second.priority) return first.priority > second.priority;
    return first.metadata.name.view() < second.metadata.name.view();
  };
  std::sort(waiting.begin(), waiting.end(), before);
  std::vector<Unit> units;
  problem = count_sub_groups(group, waiting, needs, units);
  if (problem != PendingKind::None) return units;
  bool is_mixed = false;
  for (Unit& unit : units) {
    if (unit.task.empty()) unit.task = snapshot_.object(unit.pods.front()).task.view();
    for (const PodId id : unit.pods) {
      const ShapeId shape_id = snapshot_.pods()[id].shape;
      is_mixed = is_mixed || shape_id != snapshot_.pods()[units.front().pods.front()].shape;
      const PodShape& shape = snapshot_.shape(shape_id);
      unit.is_picky = unit.is_picky || shape.is_picky() || !shape.ports.empty();
      for (const auto& [r, amount] : shape.requests) {
        const std::int64_t whole = std::max<std::int64_t>(at(snapshot_.total(), r), 1);
        unit.size = std::max(
            unit.size, static_cast<std::int64_t>(1e12 * static_cast<double>(amount) / static_cast<double>(whole)));
      }
    }
  }
  // Those that are hard to place go first: the others find room around them.
  if (is_mixed) {
    base::stable_sort(units, [](const Unit& a, const Unit& b) {
      if (a.is_picky != b.is_picky) return a.is_picky;
      return a.size > b.size;
    });
  }
  return units;
}

bool GangPlacer::place_unit(const Group& group, const Unit& unit, Strategy strategy, GangOutcome& outcome) {
  std::size_t done = 0;
  for (const PodId id : unit.pods) {
    const PodShape& shape = snapshot_.shape(snapshot_.pods()[id].shape);
    PendingKind problem = PendingKind::None;
    if (!shape.is_best_effort) {
      if (const QueueId full = shares_->first_over_capability(group.queue, shape.requests); full != kNone) {
        problem = PendingKind::QueueCapability;
        outcome.queue = full;
      } else {
        for (const auto& [r, amount] : shape.requests) {
          if (at(withheld_, r) > 0 &&
              at(snapshot_.total_used(), r) + amount > at(snapshot_.total(), r) - at(withheld_, r))
            problem = PendingKind::ReservedForOthers;
        }
      }
    }
    const NodeId node = problem == PendingKind::None ? finder_.find(id, strategy) : kNone;
    if (node == kNone) {
      if (outcome.blocker == kNone) {
        outcome.blocker = id;
        outcome.kind = problem == PendingKind::None ? PendingKind::NoRoom : problem;
      }
      for (; done > 0; --done) {
        snapshot_.forget(outcome.placed.back().pod);
        outcome.placed.pop_back();
      }
      return false;
    }
    snapshot_.assume(id, node);
    outcome.placed.push_back({id, node});
    ++done;
  }
  return true;
}

bool GangPlacer::try_units(const Group& group, const std::vector<Unit>& units, Needs needs, Strategy strategy,
                           GangOutcome& outcome) {
  std::vector<bool> taken(units.size());
  std::vector<ShapeId> hopeless;
  // First what a task or sub-group must have, then anything up to the gang's size.
  for (const bool only_helpful : {true, false}) {
    for (std::size_t i = 0; i < units.size() && !needs.met(); ++i) {
      if (taken[i] || (only_helpful && !needs.is_helped_by(units[i]))) continue;
      const ShapeId shape = snapshot_.pods()[units[i].pods.front()].shape;
      if (units[i].pods.size() == 1 && std::find(hopeless.begin(), hopeless.end(), shape) != hopeless.end()) continue;
      if (place_unit(group, units[i], strategy, outcome)) {
        taken[i] = true;
        needs.note(units[i]);
      } else if (units[i].pods.size() == 1 && !snapshot_.shape(shape).depends_on_pods() &&
                 snapshot_.far_pods().empty()) {
        hopeless.push_back(shape);
      }
    }
  }
  outcome.fitted = std::max(outcome.fitted, static_cast<std::int32_t>(outcome.placed.size()));
  if (needs.met()) return true;
  undo(outcome.placed);
  outcome.placed.clear();
  return false;
}

// One shape, and at least as many pods of it did not fit into a cluster that had no less room.
bool GangPlacer::is_known_to_fail(const Group& group, const std::vector<PodId>& waiting, const Needs& needs) const {
  if (is_hypothetical_ || !group.sub_groups.empty()) return false;
  const ShapeId shape = snapshot_.pods()[waiting.front()].shape;
  const auto found = failures_.find(shape);
  if (found == failures_.end() || found->second.freed != snapshot_.freed_version() ||
      found->second.generation != snapshot_.shape_generation(shape) || needs.total < found->second.pods)
    return false;
  return std::all_of(waiting.begin(), waiting.end(), [&](PodId id) { return snapshot_.pods()[id].shape == shape; });
}

GangOutcome GangPlacer::place_minimum(GroupId id) {
  GangOutcome outcome;
  const Group& group = snapshot_.groups()[id];
  std::vector<PodId> waiting = waiting_pods(group);
  Needs needs;
  outcome.kind = count_needs(group, waiting, needs, outcome);
  if (outcome.kind != PendingKind::None) return outcome;
  outcome.needed = needs.total;
  if (waiting.empty()) return outcome;
  if (needs.total > 0 && is_known_to_fail(group, waiting, needs)) {
    outcome.kind = PendingKind::NoRoom;
    outcome.fitted = failures_[snapshot_.pods()[waiting.front()].shape].fitted;
    outcome.blocker = waiting.front();
    return outcome;
  }
  const ShapeId first_shape = snapshot_.pods()[waiting.front()].shape;
  const bool is_mixed = std::any_of(waiting.begin(), waiting.end(),
                                    [&](PodId pod) { return snapshot_.pods()[pod].shape != first_shape; });
  const std::vector<Unit> units = make_units(group, std::move(waiting), needs, outcome.kind);
  if (outcome.kind != PendingKind::None || needs.met()) return outcome;
  withheld_ = shares_->has_guarantees() ? shares_->withheld_from(group.queue) : Amounts();
  if (try_units(group, units, needs, options_.strategy, outcome)) {
    outcome.kind = PendingKind::None;
    return outcome;
  }
  // Spreading breaks up room that pods of different size would share.
  if (is_mixed && options_.strategy == Strategy::Spread && try_units(group, units, needs, Strategy::Pack, outcome)) {
    outcome.kind = PendingKind::None;
    return outcome;
  }
  if (outcome.kind == PendingKind::NoRoom && !is_mixed && !is_hypothetical_ && group.sub_groups.empty() &&
      !snapshot_.shape(first_shape).depends_on_pods() && snapshot_.far_pods().empty()) {
    failures_[first_shape] = {snapshot_.shape_generation(first_shape), snapshot_.freed_version(), needs.total,
                              outcome.fitted, outcome.blocker};
    if (failures_.size() > 4096) failures_.clear();
  }
  return outcome;
}

bool GangPlacer::has_minimum(GroupId id) {
  const Group& group = snapshot_.groups()[id];
  const std::vector<PodId> waiting = waiting_pods(group);
  Needs needs;
  GangOutcome ignored;
  if (count_needs(group, waiting, needs, ignored) != PendingKind::None) return false;
  if (!group.sub_groups.empty()) {
    PendingKind problem = PendingKind::None;
    static_cast<void>(make_units(group, waiting, needs, problem));
    if (problem != PendingKind::None) return false;
  }
  return needs.met();
}

GangOutcome GangPlacer::place_rest(GroupId id) {
  GangOutcome outcome;
  const Group& group = snapshot_.groups()[id];
  std::vector<PodId> waiting = waiting_pods(group);
  if (waiting.empty()) return outcome;
  Needs needs;
  PendingKind problem = PendingKind::None;
  const std::vector<Unit> units = make_units(group, std::move(waiting), needs, problem);
  withheld_ = shares_->has_guarantees() ? shares_->withheld_from(group.queue) : Amounts();
  std::vector<ShapeId> hopeless;
  for (const Unit& unit : units) {
    const ShapeId shape = snapshot_.pods()[unit.pods.front()].shape;
    if (unit.pods.size() == 1 && std::find(hopeless.begin(), hopeless.end(), shape) != hopeless.end()) continue;
    outcome.needed += static_cast<std::int32_t>(unit.pods.size());
    if (!place_unit(group, unit, options_.strategy, outcome) && !snapshot_.shape(shape).depends_on_pods())
      hopeless.push_back(shape);
  }
  outcome.fitted = static_cast<std::int32_t>(outcome.placed.size());
  return outcome;
}

void GangPlacer::undo(const std::vector<Placement>& placed) {
  for (auto it = placed.rbegin(); it != placed.rend(); ++it) snapshot_.forget(it->pod);
}

}  // namespace basalt::scheduler
