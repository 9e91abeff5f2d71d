#include "controllers/sharding/assignment.h"

#include <algorithm>

#include "base/check.h"

namespace basalt::controllers::sharding {

Assignment::Assignment(std::vector<Level> levels, std::size_t shards, const NodeNames& names)
    : levels_(std::move(levels)), sizes_(shards, 0) {
  BASALT_CHECK_MSG(levels_.size() < kNowhere, "too many levels; the configuration bounds them");
  state_.reserve(levels_.size());
  for (const Level& level : levels_) {
    state_.push_back({OrderedKeys(names), OrderedKeys(names), level.is_fill ? 0 : level.nodes_max});
    has_fill_ = has_fill_ || level.is_fill;
  }
  settle_fill_levels();
}

OrderKey Assignment::key_of(NodeId node, std::size_t level) const {
  constexpr std::uint64_t kNoIncumbent = 1ULL << 63;
  const Node& entry = nodes_[node];
  const bool is_incumbent = entry.incumbent != kNoShard && entry.incumbent == levels_[level].shard;
  return {order_of_score(scores_[node * levels_.size() + level]), (entry.rank >> 1) | (is_incumbent ? 0 : kNoIncumbent),
          node};
}

bool Assignment::takes(NodeId node, std::size_t level) const {
  return scores_[node * levels_.size() + level] > kRefused;
}

void Assignment::set_level(NodeId node, LevelIndex level) {
  Node& entry = nodes_[node];
  if (entry.level == level) return;
  const ShardIndex before = entry.level == kNowhere ? kNoShard : levels_[entry.level].shard;
  const ShardIndex after = level == kNowhere ? kNoShard : levels_[level].shard;
  entry.level = level;
  if (before == after) return;
  if (before != kNoShard) --sizes_[static_cast<std::size_t>(before)];
  if (after != kNoShard) ++sizes_[static_cast<std::size_t>(after)];
  if (!entry.is_moved) {
    entry.is_moved = true;
    moved_.push_back(node);
  }
}

// The node falls through the levels from this one on.
void Assignment::insert_from(std::size_t level, NodeId node) {
  for (; level < levels_.size(); ++level) {
    if (!takes(node, level)) continue;
    LevelState& state = state_[level];
    const OrderKey key = key_of(node, level);
    if (state.members.size() < state.room) {
      state.members.insert(key);
      set_level(node, static_cast<LevelIndex>(level));
      return;
    }
    if (state.room > 0 && state.members.less(key, state.members.worst())) {
      const OrderKey displaced = state.members.worst();
      state.members.erase(displaced);
      state.members.insert(key);
      set_level(node, static_cast<LevelIndex>(level));
      state.waiting.insert(displaced);
      node = displaced.node;
    } else {
      state.waiting.insert(key);
    }
  }
  set_level(node, kNowhere);
}

// The node is no longer in the pools of this level and those after it. Its level is the caller's to set.
void Assignment::remove_from(std::size_t level, NodeId node) {
  NodeId promoted = kNoNode;  // `node`, if it has a new level that is not set yet
  std::size_t promoted_to = 0;
  const auto settle = [&] {
    if (promoted != kNoNode) set_level(promoted, static_cast<LevelIndex>(promoted_to));
  };
  for (; level < levels_.size(); ++level) {
    if (!takes(node, level)) continue;
    LevelState& state = state_[level];
    const OrderKey key = key_of(node, level);
    if (nodes_[node].level != level) {
      state.waiting.erase(key);
      continue;
    }
    state.members.erase(key);
    settle();
    promoted = kNoNode;
    if (state.waiting.empty() || state.members.size() >= state.room) return;
    const OrderKey next = state.waiting.best();
    state.waiting.erase(next);
    state.members.insert(next);
    node = next.node;
    promoted = node;
    promoted_to = level;
  }
  settle();
}

void Assignment::resize(std::size_t level, std::size_t room) {
  LevelState& state = state_[level];
  state.room = room;
  while (state.members.size() > room) {
    const OrderKey displaced = state.members.worst();
    state.members.erase(displaced);
    state.waiting.insert(displaced);
    insert_from(level + 1, displaced.node);
  }
  while (state.members.size() < room && !state.waiting.empty()) {
    const OrderKey next = state.waiting.best();
    state.waiting.erase(next);
    remove_from(level + 1, next.node);
    state.members.insert(next);
    set_level(next.node, static_cast<LevelIndex>(level));
  }
}

// A fill level has room for what its shard lacks. They are the last levels, so a change here reaches only later ones.
void Assignment::settle_fill_levels() {
  if (!has_fill_) return;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    if (!levels_[level].is_fill) continue;
    const std::size_t size = sizes_[static_cast<std::size_t>(levels_[level].shard)];
    const std::size_t others = size - state_[level].members.size();
    const std::size_t wanted = levels_[level].nodes_max;
    const std::size_t room = wanted > others ? wanted - others : 0;
    if (room != state_[level].room) resize(level, room);
  }
}

void Assignment::store(const NodeInput& input) {
  BASALT_CHECK_MSG(input.scores.size() == levels_.size(), "a node needs one score for each level");
  if (input.node >= nodes_.size()) {
    nodes_.resize(input.node + 1);
    scores_.resize(nodes_.size() * levels_.size(), kRefused);
  }
  Node& entry = nodes_[input.node];
  entry.rank = input.rank;
  entry.incumbent = input.incumbent;
  std::copy(input.scores.begin(), input.scores.end(),
            scores_.begin() + static_cast<std::ptrdiff_t>(input.node * levels_.size()));
}

bool Assignment::place(const NodeInput& input) {
  const std::size_t moved = moved_.size();
  if (contains(input.node)) {
    const Node& entry = nodes_[input.node];
    const auto stored = scores_.begin() + static_cast<std::ptrdiff_t>(input.node * levels_.size());
    if (entry.rank == input.rank && entry.incumbent == input.incumbent &&
        std::equal(input.scores.begin(), input.scores.end(), stored))
      return false;
    remove_from(0, input.node);
  } else {
    ++placed_;
  }
  store(input);
  nodes_[input.node].is_placed = true;
  insert_from(0, input.node);
  settle_fill_levels();
  return moved_.size() != moved;
}

bool Assignment::erase(NodeId node) {
  if (!contains(node)) return false;
  const std::size_t moved = moved_.size();
  remove_from(0, node);
  set_level(node, kNowhere);
  Node& entry = nodes_[node];
  entry.is_placed = false;
  entry.incumbent = kNoShard;
  --placed_;
  settle_fill_levels();
  return moved_.size() != moved;
}

void Assignment::rebuild(std::span<const NodeInput> inputs) {
  for (LevelState& state : state_) {
    state.members.clear();
    state.waiting.clear();
  }
  std::vector<LevelIndex> before(nodes_.size(), kNowhere);
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    before[node] = nodes_[node].level;
    nodes_[node].is_placed = false;
  }
  NodeId last = 0;
  for (const NodeInput& input : inputs) last = std::max(last, input.node);
  if (!inputs.empty() && last >= nodes_.size()) {
    nodes_.resize(last + 1);
    scores_.resize(nodes_.size() * levels_.size(), kRefused);
    before.resize(nodes_.size(), kNowhere);
  }
  placed_ = inputs.size();
  std::vector<NodeId> pool;
  pool.reserve(inputs.size());
  for (const NodeInput& input : inputs) {
    store(input);
    nodes_[input.node].is_placed = true;
    pool.push_back(input.node);
  }
  std::vector<LevelIndex> after(nodes_.size(), kNowhere);
  std::vector<std::size_t> sizes(sizes_.size(), 0);
  std::vector<OrderKey> keys;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    LevelState& state = state_[level];
    const auto shard = static_cast<std::size_t>(levels_[level].shard);
    if (levels_[level].is_fill) {
      const std::size_t wanted = levels_[level].nodes_max;
      state.room = wanted > sizes[shard] ? wanted - sizes[shard] : 0;
    }
    keys.clear();
    for (const NodeId node : pool) {
      if (takes(node, level)) keys.push_back(key_of(node, level));
    }
    std::sort(keys.begin(), keys.end(),
              [&state](const OrderKey& a, const OrderKey& b) { return state.members.less(a, b); });
    const std::size_t count = std::min(keys.size(), state.room);
    state.members.assign(keys.data(), count);
    state.waiting.assign(keys.data() + count, keys.size() - count);
    for (std::size_t i = 0; i < count; ++i) after[keys[i].node] = static_cast<LevelIndex>(level);
    sizes[shard] += count;
    if (count > 0) std::erase_if(pool, [&after](NodeId node) { return after[node] != kNowhere; });
  }
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    nodes_[node].level = before[node];
    set_level(node, after[node]);
    if (!nodes_[node].is_placed) nodes_[node].incumbent = kNoShard;
  }
}

bool Assignment::set_nodes_max(std::size_t level, std::size_t nodes_max) {
  if (levels_[level].nodes_max == nodes_max) return false;
  const std::size_t moved = moved_.size();
  levels_[level].nodes_max = nodes_max;
  if (!levels_[level].is_fill) resize(level, nodes_max);
  settle_fill_levels();
  return moved_.size() != moved;
}

ShardIndex Assignment::owner(NodeId node) const {
  if (!contains(node) || nodes_[node].level == kNowhere) return kNoShard;
  return levels_[nodes_[node].level].shard;
}

ShardIndex Assignment::incumbent(NodeId node) const { return contains(node) ? nodes_[node].incumbent : kNoShard; }

std::size_t Assignment::shard_size(ShardIndex shard) const { return sizes_[static_cast<std::size_t>(shard)]; }

void Assignment::members(ShardIndex shard, std::vector<NodeId>& out) const {
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    if (levels_[level].shard != shard) continue;
    state_[level].members.for_each([&out](const OrderKey& key) { out.push_back(key.node); });
  }
}

double Assignment::score(NodeId node, std::size_t level) const {
  return contains(node) ? scores_[node * levels_.size() + level] : kRefused;
}

void Assignment::take_moved(std::vector<NodeId>& out) {
  for (const NodeId node : moved_) nodes_[node].is_moved = false;
  out.insert(out.end(), moved_.begin(), moved_.end());
  moved_.clear();
}

bool Assignment::is_consistent() const {
  std::vector<std::size_t> sizes(sizes_.size(), 0);
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const LevelState& state = state_[level];
    if (state.members.size() > state.room) return false;
    if (!state.waiting.empty() && state.members.size() < state.room) return false;
    if (!state.waiting.empty() && !state.members.empty() &&
        !state.members.less(state.members.worst(), state.waiting.best()))
      return false;
    bool good = true;
    state.members.for_each(
        [&](const OrderKey& key) { good = good && nodes_[key.node].level == level && key == key_of(key.node, level); });
    state.waiting.for_each(
        [&](const OrderKey& key) { good = good && nodes_[key.node].level > level && key == key_of(key.node, level); });
    if (!good) return false;
    sizes[static_cast<std::size_t>(levels_[level].shard)] += state.members.size();
  }
  return sizes == sizes_;
}

std::size_t Assignment::memory_bytes() const {
  std::size_t bytes = nodes_.capacity() * sizeof(Node) + scores_.capacity() * sizeof(double);
  for (const LevelState& state : state_) bytes += state.members.memory_bytes() + state.waiting.memory_bytes();
  return bytes;
}

}  // namespace basalt::controllers::sharding
