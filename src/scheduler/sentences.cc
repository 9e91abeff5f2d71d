// The planner's words: why a group waits, with numbers.
#include <algorithm>

#include "api/gen/names.h"
#include "base/strings.h"
#include "scheduler/explain.h"
#include "scheduler/plan.h"

namespace basalt::scheduler {

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

std::string ratio(std::int64_t part, std::int64_t whole) { return std::to_string(part) + "/" + std::to_string(whole); }

}  // namespace

std::string Planner::room_text(const Group& group, PodId pod, PendingReason& reason) {
  const PodShape& shape = snapshot_.shape(snapshot_.pods()[pod].shape);
  const auto needed = static_cast<std::int64_t>(std::max(group.needed, 1));
  for (const auto& [r, amount] : shape.requests) {
    const std::int64_t free = at(snapshot_.total(), r) - at(snapshot_.total_used(), r);
    if (amount * needed > free && r != ResourceTable::kPods)
      reason.shortages.push_back(shortage(r, amount * needed, free));
  }
  std::string text = ratio(group.fitted, needed) + " pods fit";
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
  if (kept_.group != kNone && &snapshot_.groups()[kept_.group] != &group)
    text += "; " + std::to_string(kept_.nodes.size()) + " are kept free for " +
            snapshot_.groups()[kept_.group].key.to_string() + ", which has waited longest";
  return text;
}

// What exceeds the limit, into the reason and as text.
std::string Planner::limit_text(const Amounts& wanted, const Amounts& limit, const Amounts& used,
                                PendingReason& reason) const {
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    if (wanted[r] == 0 || r >= limit.size() || limit[r] >= kUnlimited) continue;
    if (at(used, r) + wanted[r] > limit[r])
      reason.shortages.push_back(shortage(static_cast<ResourceIndex>(r), wanted[r], limit[r] - at(used, r)));
  }
  return text_of(reason.shortages);
}

// What the gang needs now: its minResources before it is admitted, then what its pods ask for. `pod` is the one that
// found no place, or the first that waits.
Amounts Planner::wanted_by(const Group& group, PodId& pod) const {
  const bool by_pods = group.is_admitted || group.is_single;
  Amounts wanted = by_pods ? Amounts() : group.min_resources;
  std::int32_t left = std::max(group.needed, 1);
  for (const PodId member : group.pods) {
    if (snapshot_.pods()[member].state != PodState::Waiting) continue;
    if (pod == kNone || member == group.blocker) pod = member;
    if (by_pods && left-- > 0) add_to(wanted, snapshot_.shape(snapshot_.pods()[member].shape).requests);
  }
  return wanted;
}

std::string Planner::reason_text(const Group& group, PendingReason& reason) {
  PodId pod = kNone;
  const Amounts wanted = wanted_by(group, pod);
  const std::int32_t ready = group.counts.occupied() + group.counts.ready_to_place();
  switch (reason.kind) {
    case PendingKind::None:
      return "";
    case PendingKind::GroupMissing:
      return "the pod group " + base::quote(group.key.to_string()) +
             " that the pods name does not exist; create it, or remove " + "the annotation " +
             std::string(api::keys::kGroupName);
    case PendingKind::QueueMissing:
      return "the queue " + base::quote(reason.queue) + " does not exist; create it or choose another";
    case PendingKind::QueueClosed:
      return "the queue " + base::quote(reason.queue) + ", or one above it, is closed; open it or choose another";
    case PendingKind::QueueCapability: {
      const Queue& limited = snapshot_.queues()[group.full_queue == kNone ? group.queue : group.full_queue];
      return "the queue " + base::quote(limited.name) +
             " has reached its capability: " + limit_text(wanted, limited.capability, limited.allocated, reason);
    }
    case PendingKind::ReservedForOthers:
      return "what is free is guaranteed to other queues: " +
             limit_text(wanted, snapshot_.total(), snapshot_.total_used(), reason);
    case PendingKind::ClusterTooSmall:
      return "the gang needs more than all nodes have: " + limit_text(wanted, snapshot_.total(), {}, reason);
    case PendingKind::ClusterFull:
      return "the cluster has no room to admit the gang: " +
             limit_text(wanted, snapshot_.total(), snapshot_.total_used(), reason);
    case PendingKind::NotEnoughPods:
      return ratio(ready, group.min_member) + " pods of the gang exist";
    case PendingKind::Gated:
      return std::to_string(group.counts.gated) + " pods of the gang are held back by scheduling gates; " +
             ratio(ready, group.min_member) + " are ready";
    case PendingKind::NotEnoughPodsOfTask:
      return ratio(group.fitted, group.needed) + " pods of task " + base::quote(group.short_task) + " exist";
    case PendingKind::NotEnoughSubGroups:
      return "there are fewer complete sub-groups than the gang needs";
    case PendingKind::MakingRoom:
      return "other pods are being evicted to make room for the gang";
    case PendingKind::QueueBlocked:
      return "the queue " + base::quote(reason.queue) +
             " is first in, first out, and a job ahead of this one does not fit";
    case PendingKind::Refused:
      return group.reason.text;
    case PendingKind::NoRoom:
      return pod == kNone ? "no room" : room_text(group, pod, reason);
  }
  return "";
}

void Planner::add_position(GroupId id, PendingReason& reason) {
  const Group& group = snapshot_.groups()[id];
  if (group.queue == kNone) return;
  const Queue& queue = snapshot_.queues()[group.queue];
  const auto [entry, is_new] = positions_.try_emplace(group.queue);
  if (is_new) {
    GroupId before = kNone;
    for (const Queue::Waiting& waiting : queue.waiting) {
      entry->second[waiting.group] = {entry->second.size() + 1, before};
      before = waiting.group;
    }
  }
  const auto found = entry->second.find(id);
  if (found == entry->second.end()) return;
  reason.position = found->second.first;
  reason.waiting = entry->second.size();
  if (found->second.second != kNone) reason.ahead = snapshot_.groups()[found->second.second].key.to_string();
}

// The group that holds most of a resource, in the whole cluster or in a queue with those below it.
std::string Planner::holder_of(const Group& group, ResourceIndex resource, QueueId within) {
  const auto [entry, is_new] = holders_.try_emplace({within, resource}, kNone);
  const auto is_within = [&](QueueId queue) {
    for (QueueId q = queue; q != kNone; q = snapshot_.queues()[q].parent) {
      if (q == within) return true;
    }
    return within == kNone;
  };
  if (is_new) {
    std::int64_t most = 0;
    for (GroupId id = 0; id < snapshot_.groups().size(); ++id) {
      const Group& other = snapshot_.groups()[id];
      if (!other.is_live || at(other.allocated, resource) <= most || !is_within(other.queue)) continue;
      most = at(other.allocated, resource);
      entry->second = id;
    }
  }
  if (entry->second == kNone || &snapshot_.groups()[entry->second] == &group) return "";
  return snapshot_.groups()[entry->second].key.to_string();
}

PendingReason Planner::explain(GroupId id) {
  const Group& group = snapshot_.groups()[id];
  PendingReason reason;
  reason.kind = group.reason.kind;
  if (group.queue != kNone) reason.queue = snapshot_.queues()[group.queue].name;
  reason.text = reason_text(group, reason);
  reason.needed = group.needed > 0 ? group.needed : group.min_member;
  reason.fitted = group.fitted;
  add_position(id, reason);
  const bool is_held = reason.kind == PendingKind::NoRoom || reason.kind == PendingKind::ClusterFull ||
                       reason.kind == PendingKind::QueueCapability;
  if (is_held && !reason.shortages.empty()) {
    const ResourceIndex short_one = snapshot_.resources().index_of(reason.shortages.front().name);
    const QueueId within = reason.kind == PendingKind::QueueCapability
                               ? (group.full_queue == kNone ? group.queue : group.full_queue)
                               : kNone;
    reason.holder = holder_of(group, short_one, within);
  }
  reason.unblock = unblock_text(reason);
  return reason;
}

}  // namespace basalt::scheduler
