#include "scheduler/finder.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace basalt::scheduler {

namespace {

bool has_room(const PodShape& shape, const Node& node) {
  for (const auto& [r, amount] : shape.requests) {
    if (at(node.free, r) < amount) return false;
  }
  return true;
}

bool has_ports(const PodShape& shape, const Node& node) {
  for (const HostPort& wanted : shape.ports) {
    for (const HostPort& used : node.ports) {
      if (wanted.conflicts_with(used)) return false;
    }
  }
  return true;
}

}  // namespace

// What the places of other pods mean for one pod. Domains are values of a node label.
struct NodeFinder::PodContext {
  using Domains = std::unordered_map<std::string_view, std::int64_t>;
  struct Near {
    std::string_view key;
    Domains domains;
    bool anywhere = false;  // no such pod exists yet, and this one would be the first
  };
  struct Far {
    std::string_view key;
    Domains domains;
  };
  struct Spread {
    std::string_view key;
    Domains counts;
    std::int64_t least = 0;
    std::int32_t max_skew = 1;
    bool counts_itself = false;
  };
  std::vector<Near> near;
  std::vector<Far> far;
  std::vector<Far> wishes;  // domain -> weight
  std::vector<Spread> spread;

  [[nodiscard]] NodeVerdict judge(const api::core::NodeProjection& node) const {
    for (const Near& term : near) {
      const auto value = node.metadata.labels.find(term.key);
      if (!value || (!term.anywhere && !term.domains.contains(*value))) return NodeVerdict::PodAffinity;
    }
    for (const Far& term : far) {
      const auto value = node.metadata.labels.find(term.key);
      if (value && term.domains.contains(*value)) return NodeVerdict::PodAntiAffinity;
    }
    for (const Spread& term : spread) {
      const auto value = node.metadata.labels.find(term.key);
      if (!value) return NodeVerdict::Spread;
      const auto found = term.counts.find(*value);
      const std::int64_t count = (found == term.counts.end() ? 0 : found->second) + (term.counts_itself ? 1 : 0);
      if (count - term.least > term.max_skew) return NodeVerdict::Spread;
    }
    return NodeVerdict::Fits;
  }
  [[nodiscard]] double wish_score(const api::core::NodeProjection& node) const {
    double sum = 0;
    for (const Far& wish : wishes) {
      const auto value = node.metadata.labels.find(wish.key);
      if (!value) continue;
      const auto found = wish.domains.find(*value);
      if (found != wish.domains.end()) sum += static_cast<double>(found->second);
    }
    return sum;
  }
};

NodeFinder::Ranking& NodeFinder::ranking(ShapeId shape, Strategy strategy) {
  const auto key = std::pair(shape, strategy);
  auto found = rankings_.find(key);
  if (found == rankings_.end()) {
    // About 30 bytes a node and shape: bounded to some ten megabytes; the one not used for longest goes.
    const std::size_t most = std::clamp<std::size_t>(1'000'000 / (snapshot_.nodes().size() + 1), 16, 1024);
    if (rankings_.size() >= most) {
      rankings_.erase(std::min_element(rankings_.begin(), rankings_.end(), [](const auto& a, const auto& b) {
        return a.second.used_at < b.second.used_at;
      }));
    }
    found = rankings_.try_emplace(key).first;
  }
  Ranking& ranking = found->second;
  if (ranking.shape_generation != snapshot_.shape_generation(shape)) {
    ranking = Ranking();
    ranking.shape_generation = snapshot_.shape_generation(shape);
  }
  ranking.used_at = ++uses_;
  return ranking;
}

NodeVerdict NodeFinder::judge(Ranking& ranking, const PodShape& shape, NodeId id) {
  const Node& node = snapshot_.nodes()[id];
  if (!node.object) return NodeVerdict::NotReady;
  if (ranking.judged.size() <= id) {
    ranking.judged.resize(snapshot_.nodes().size());
    ranking.judged_version.resize(snapshot_.nodes().size(), std::numeric_limits<std::uint32_t>::max());
    ranking.wishes.resize(snapshot_.nodes().size());
  }
  if (ranking.judged_version[id] != node.spec_version) {
    ranking.judged_version[id] = node.spec_version;
    ranking.judged[id] = shard_mode_ == ShardMode::Hard && !node.is_in_shard ? NodeVerdict::OutsideShard
                                                                             : judge_node(shape, *node.object);
    double wishes = 10 * wishes_fulfilled(shape, *node.object);
    if (shard_mode_ == ShardMode::Soft && node.is_in_shard) wishes += 1e6;
    ranking.wishes[id] = static_cast<float>(wishes);
  }
  if (ranking.judged[id] != NodeVerdict::Fits) return ranking.judged[id];
  if (!has_room(shape, node)) return NodeVerdict::Resources;
  if (!shape.ports.empty() && !has_ports(shape, node)) return NodeVerdict::HostPorts;
  return NodeVerdict::Fits;
}

double NodeFinder::score(const PodShape& shape, const Node& node, Strategy strategy) const {
  double used = 0;
  for (const auto& [r, amount] : shape.requests) {
    if (r == ResourceTable::kPods && !shape.is_best_effort) continue;
    const auto whole = static_cast<double>(
        r == ResourceTable::kPods ? std::min<std::int64_t>(at(node.allocatable, r), 1000) : at(node.allocatable, r));
    const auto taken = static_cast<double>(at(node.allocatable, r) - at(node.free, r) + amount);
    if (whole > 0) used = std::max(used, taken / whole);
  }
  double value = strategy == Strategy::Pack ? used : -used;
  // Devices that the pod has no use for are kept for those that have.
  for (std::size_t r = ResourceTable::kPods + 1u; r < node.allocatable.size(); ++r) {
    if (node.allocatable[r] <= 0 ||
        snapshot_.resources().name(static_cast<ResourceIndex>(r)).find('/') == std::string::npos)
      continue;
    if (std::none_of(shape.requests.begin(), shape.requests.end(), [&](const auto& entry) { return entry.first == r; }))
      value -= 2;
  }
  return value;
}

void NodeFinder::push(Ranking& ranking, ShapeId shape_id, Strategy strategy, NodeId id) {
  const std::uint32_t stamp = ++ranking.stamps[id];
  const PodShape& shape = snapshot_.shape(shape_id);
  if (judge(ranking, shape, id) != NodeVerdict::Fits) return;
  const auto score_of = static_cast<float>(score(shape, snapshot_.nodes()[id], strategy));
  ranking.heap.push_back({ranking.wishes[id] + score_of, id, stamp});
}

void NodeFinder::rebuild(Ranking& ranking, ShapeId shape, Strategy strategy) {
  ranking.heap.clear();
  ranking.stamps.resize(snapshot_.nodes().size());
  for (NodeId id = 0; id < snapshot_.nodes().size(); ++id) push(ranking, shape, strategy, id);
  std::make_heap(ranking.heap.begin(), ranking.heap.end());
  ranking.position = snapshot_.log_end();
  ranking.is_built = true;
}

void NodeFinder::sync(Ranking& ranking, ShapeId shape, Strategy strategy) {
  const std::size_t nodes = snapshot_.nodes().size();
  if (!ranking.is_built || ranking.position < snapshot_.log_begin() ||
      snapshot_.log_end() - ranking.position > nodes + 16 || ranking.heap.size() > 4 * nodes + 64) {
    rebuild(ranking, shape, strategy);
    return;
  }
  ranking.stamps.resize(nodes);
  for (; ranking.position < snapshot_.log_end(); ++ranking.position) {
    const std::size_t before = ranking.heap.size();
    push(ranking, shape, strategy, snapshot_.node_log()[ranking.position - snapshot_.log_begin()]);
    if (ranking.heap.size() > before) std::push_heap(ranking.heap.begin(), ranking.heap.end());
  }
}

NodeId NodeFinder::find(PodId pod, Strategy strategy) {
  const ShapeId shape = snapshot_.pods()[pod].shape;
  Ranking& candidates = ranking(shape, strategy);
  sync(candidates, shape, strategy);
  if (!snapshot_.far_pods().empty() || snapshot_.shape(shape).depends_on_pods()) {
    PodContext context;
    if (make_context(pod, candidates, context)) return find_among_pods(pod, candidates, context, strategy);
  }
  auto& heap = candidates.heap;
  while (!heap.empty() && candidates.stamps[heap.front().node] != heap.front().stamp) {
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
  }
  return heap.empty() ? kNone : heap.front().node;
}

NodeId NodeFinder::find_among_pods(PodId pod, Ranking& ranking, const PodContext& context, Strategy strategy) {
  const PodShape& shape = snapshot_.shape(snapshot_.pods()[pod].shape);
  NodeId best = kNone;
  double best_score = 0;
  for (NodeId id = 0; id < snapshot_.nodes().size(); ++id) {
    const Node& node = snapshot_.nodes()[id];
    if (judge(ranking, shape, id) != NodeVerdict::Fits) continue;
    if (context.judge(*node.object) != NodeVerdict::Fits) continue;
    const double value = ranking.wishes[id] + score(shape, node, strategy) + 10 * context.wish_score(*node.object);
    if (best == kNone || value > best_score) {
      best = id;
      best_score = value;
    }
  }
  return best;
}

bool NodeFinder::make_context(PodId pod_id, Ranking& ranking, PodContext& context) {
  const SchedulablePod& pod = snapshot_.object(pod_id);
  const PodShape& shape = snapshot_.shape(snapshot_.pods()[pod_id].shape);
  const std::string_view ns = pod.metadata.namespace_;
  // Calls `see(node, label value)` for each placed pod that the term selects.
  const auto for_selected = [&](const PodTerm& term, auto see) {
    for (const Node& node : snapshot_.nodes()) {
      if (!node.object || node.pods.empty()) continue;
      const auto value = node.object->metadata.labels.find(term.topology_key);
      if (!value) continue;
      for (const PodId other : node.pods) {
        if (term.selects(ns, snapshot_.object(other))) see(*value);
      }
    }
  };
  for (const PodTerm& term : shape.near) {
    auto& near = context.near.emplace_back();
    near.key = term.topology_key;
    for_selected(term, [&](std::string_view value) { ++near.domains[value]; });
    near.anywhere = near.domains.empty() && term.selects(ns, pod);
  }
  for (const PodTerm& term : shape.far) {
    auto& far = context.far.emplace_back();
    far.key = term.topology_key;
    for_selected(term, [&](std::string_view value) { ++far.domains[value]; });
  }
  const auto add_wishes = [&](const std::vector<PodTerm>& terms, std::int64_t sign) {
    for (const PodTerm& term : terms) {
      auto& wish = context.wishes.emplace_back();
      wish.key = term.topology_key;
      for_selected(term, [&](std::string_view value) { wish.domains[value] += sign * term.weight; });
    }
  };
  add_wishes(shape.wish_near, 1);
  add_wishes(shape.wish_far, -1);
  // Pods that want this one to keep away from them.
  for (const PodId other : snapshot_.far_pods()) {
    const Pod& placed = snapshot_.pods()[other];
    const Node& node = snapshot_.nodes()[placed.node];
    if (!node.object) continue;
    for (const PodTerm& term : snapshot_.shape(placed.shape).far) {
      if (!term.selects(placed.object->metadata.namespace_, pod)) continue;
      const auto value = node.object->metadata.labels.find(term.topology_key);
      if (!value) continue;
      auto& far = context.far.emplace_back();
      far.key = term.topology_key;
      far.domains[*value] = 1;
    }
  }
  for (const SpreadTerm& term : shape.spread) {
    auto& spread = context.spread.emplace_back();
    spread.key = term.topology_key;
    spread.max_skew = term.max_skew;
    spread.counts_itself = term.selector.matches(pod.metadata.labels);
    for (NodeId id = 0; id < snapshot_.nodes().size(); ++id) {
      const Node& node = snapshot_.nodes()[id];
      const NodeVerdict verdict = judge(ranking, shape, id);
      if (!node.object || (verdict != NodeVerdict::Fits && verdict != NodeVerdict::Resources)) continue;
      const auto value = node.object->metadata.labels.find(term.topology_key);
      if (!value) continue;
      std::int64_t& count = spread.counts[*value];
      for (const PodId other : node.pods) {
        const SchedulablePod& object = snapshot_.object(other);
        if (object.metadata.namespace_ == ns && term.selector.matches(object.metadata.labels)) ++count;
      }
    }
    spread.least = std::numeric_limits<std::int64_t>::max();
    for (const auto& [value, count] : spread.counts) spread.least = std::min(spread.least, count);
    if (spread.counts.empty()) spread.least = 0;
  }
  return !context.near.empty() || !context.far.empty() || !context.wishes.empty() || !context.spread.empty();
}

NodeFinder::Verdicts NodeFinder::judge_all(PodId pod) {
  Verdicts verdicts{};
  const ShapeId shape_id = snapshot_.pods()[pod].shape;
  const PodShape& shape = snapshot_.shape(shape_id);
  Ranking& known = ranking(shape_id, Strategy::Pack);
  PodContext context;
  const bool looks_at_pods = make_context(pod, known, context);
  for (NodeId id = 0; id < snapshot_.nodes().size(); ++id) {
    const Node& node = snapshot_.nodes()[id];
    if (!node.object) continue;
    NodeVerdict verdict = judge(known, shape, id);
    if (verdict == NodeVerdict::Fits && looks_at_pods) verdict = context.judge(*node.object);
    ++verdicts[static_cast<std::size_t>(verdict)];
  }
  return verdicts;
}

}  // namespace basalt::scheduler
