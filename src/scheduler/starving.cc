// Fairness over time: a large gang that small ones overtake again and again gets nodes that are kept free for it.
#include <algorithm>
#include <limits>

#include "scheduler/plan.h"

namespace basalt::scheduler {

namespace {

constexpr rt::Duration kLookPeriod = std::chrono::seconds(1);
// Nodes are chosen anew so often: by then others may have become emptier.
constexpr rt::Duration kChoosePeriod = std::chrono::seconds(60);

std::vector<ShapeId> shapes_of(const Snapshot& snapshot, const Group& group) {
  std::vector<ShapeId> shapes;
  for (const PodId id : group.pods) {
    const Pod& pod = snapshot.pods()[id];
    if (pod.state == PodState::Waiting && std::find(shapes.begin(), shapes.end(), pod.shape) == shapes.end())
      shapes.push_back(pod.shape);
  }
  return shapes;
}

}  // namespace

bool Planner::is_starving(const Group& group) const {
  if (!group.is_live || group.is_nominated || group.reason.kind != PendingKind::NoRoom || group.needed <= 0)
    return false;
  if (now_ < group.waiting_since + options_.starving_after || now_ < group.starve_again) return false;
  // Where a pod that looks at other pods will find a place cannot be foreseen.
  const auto shapes = shapes_of(snapshot_, group);
  return !shapes.empty() && std::none_of(shapes.begin(), shapes.end(),
                                         [&](ShapeId shape) { return snapshot_.shape(shape).depends_on_pods(); });
}

// How many pods of the gang, each taken as large as the largest, the node would hold if all that is ours had left it.
std::int64_t Planner::pods_on_empty_node(const Group& group, const std::vector<ShapeId>& shapes, NodeId id) const {
  const Node& node = snapshot_.nodes()[id];
  if (!node.object || (options_.shard_mode == ShardMode::Hard && !node.is_in_shard)) return 0;
  Amounts room = node.allocatable;
  for (const PodId other : node.pods) {
    const Pod& pod = snapshot_.pods()[other];
    if (pod.group == kNone) add_to(room, snapshot_.shape(pod.shape).requests, -1);
  }
  std::int64_t count = std::numeric_limits<std::int64_t>::max();
  for (const ShapeId shape_id : shapes) {
    const PodShape& shape = snapshot_.shape(shape_id);
    if (judge_node(shape, *node.object) != NodeVerdict::Fits) return 0;
    for (const auto& [r, amount] : shape.requests)
      count = std::min(count, std::max<std::int64_t>(at(room, r), 0) / amount);
    if (!shape.ports.empty()) count = std::min<std::int64_t>(count, 1);
  }
  return std::min<std::int64_t>(count, group.needed);
}

// The nodes with the fewest pods, until the gang would fit on them; none if it never would.
std::vector<NodeId> Planner::choose_nodes(const Group& group) const {
  const std::vector<ShapeId> shapes = shapes_of(snapshot_, group);
  struct Candidate {
    std::size_t pods;
    NodeId node;
    std::int64_t count;
  };
  std::vector<Candidate> candidates;
  for (NodeId id = 0; id < snapshot_.nodes().size(); ++id) {
    const std::int64_t count = pods_on_empty_node(group, shapes, id);
    if (count > 0) candidates.push_back({snapshot_.nodes()[id].pods.size(), id, count});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.pods != b.pods ? a.pods < b.pods : a.node < b.node;
  });
  std::vector<NodeId> nodes;
  std::int64_t missing = group.needed;
  for (const Candidate& candidate : candidates) {
    if (missing <= 0) break;
    nodes.push_back(candidate.node);
    missing -= candidate.count;
  }
  if (missing > 0) nodes.clear();
  return nodes;
}

void Planner::look_for_starving() {
  if (kept_.group != kNone) {
    if (is_starving(snapshot_.groups()[kept_.group]) && now_ < kept_.chosen_at + kChoosePeriod) return;
    kept_ = Kept();
    starving_at_ = now_;
    snapshot_.note_freed();  // others may have the nodes again
  }
  if (now_ < starving_at_) return;
  starving_at_ = now_ + kLookPeriod;
  const auto is_before = [](const Group& a, const Group& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.waiting_since != b.waiting_since ? a.waiting_since < b.waiting_since : a.key < b.key;
  };
  GroupId first = kNone;
  for (const Queue& queue : snapshot_.queues()) {
    for (const Queue::Waiting& waiting : queue.waiting) {
      const Group& group = snapshot_.groups()[waiting.group];
      if (first != kNone && !is_before(group, snapshot_.groups()[first])) continue;
      if (is_starving(group)) first = waiting.group;
    }
  }
  if (first == kNone) return;
  Group& group = snapshot_.groups()[first];
  // A queue that lives on others waits for its turn.
  if (shares_->share(group.queue) <= 1) kept_.nodes = choose_nodes(group);
  if (kept_.nodes.empty()) {
    group.starve_again = now_ + kChoosePeriod;
    return;
  }
  kept_.group = first;
  kept_.chosen_at = now_;
}

void Planner::keep_nodes() {
  if (kept_.group == kNone) return;
  const Group& group = snapshot_.groups()[kept_.group];
  if (group.reason.kind == PendingKind::NoRoom) {
    for (const NodeId node : kept_.nodes) snapshot_.block_node(node);
    return;
  }
  kept_ = Kept();
  snapshot_.note_freed();
}

void Planner::free_nodes() {
  for (const NodeId node : kept_.nodes) snapshot_.unblock_node(node);
}

}  // namespace basalt::scheduler
