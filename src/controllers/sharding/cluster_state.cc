#include "controllers/sharding/cluster_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace basalt::controllers::sharding {
namespace {

double share(std::int64_t used, std::int64_t has) {
  if (has <= 0) return 0;
  return std::min(1.0, static_cast<double>(used) / static_cast<double>(has));
}

bool is_metric_used(const Catalog& catalog, std::size_t place) {
  constexpr std::size_t kHalf = kMetricsMax / 2;
  return place < kHalf ? place < catalog.annotations.size() : place - kHalf < catalog.metric_labels.size();
}

}  // namespace

ClusterState::ClusterState(Catalog catalog)
    : catalog_(std::move(catalog)),
      index_(16, ByName{&nodes_}, ByName{&nodes_}),
      extra_used_(catalog_.resources.size()),
      extra_has_(catalog_.resources.size()),
      metrics_(kMetricsMax) {}

void ClusterState::set_threshold(double threshold) {
  rt::MutexLock lock(mutex_);
  threshold_ = threshold;
}

NodeId ClusterState::lookup(std::string_view name) const {
  const auto place = index_.find(name);
  return place == index_.end() ? kNoNode : *place;
}

NodeId ClusterState::node_id(std::string_view name) {
  if (const NodeId id = lookup(name); id != kNoNode) return id;
  NodeId id = kNoNode;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else {
    id = static_cast<NodeId>(nodes_.size());
    nodes_.emplace_back();
    for (auto& column : extra_used_) column.push_back(0);
    for (auto& column : extra_has_) column.push_back(-1);
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      if (is_metric_used(catalog_, i)) metrics_[i].push_back(std::numeric_limits<double>::quiet_NaN());
    }
  }
  Node& node = nodes_[id];
  node = Node();
  node.name = std::string(name);
  node.rank = rank_of(name);
  node.is_free = false;
  for (auto& column : extra_used_) column[id] = 0;
  for (auto& column : extra_has_) column[id] = -1;
  if (audit_.is_running) {
    audit_.cpu.resize(nodes_.size(), 0);
    audit_.memory.resize(nodes_.size(), 0);
    audit_.cpu[id] = audit_.memory[id] = 0;
  }
  index_.insert(id);
  return id;
}

void ClusterState::release_if_unused(NodeId id) {
  Node& node = nodes_[id];
  if (node.is_free || node.is_present || node.pods > 0 || node.is_dirty) return;
  index_.erase(index_.find(std::string_view(node.name)));
  node.name = std::string();
  node.is_free = true;
  free_.push_back(id);
}

void ClusterState::mark_dirty(NodeId id) {
  Node& node = nodes_[id];
  if (node.is_dirty) return;
  node.is_dirty = true;
  dirty_.push_back(id);
  has_changes_.store(true, std::memory_order_release);
}

void ClusterState::touch(NodeId id) {
  if (nodes_[id].is_touched) return;
  nodes_[id].is_touched = true;
  touched_.push_back(id);
}

// After a change of the sums: whether anybody sees a difference.
void ClusterState::look_at(NodeId id) {
  Node& node = nodes_[id];
  if (!node.is_present) return;
  touch(id);
  const double cpu = share(node.cpu_used, node.cpu_has);
  const double memory = share(node.memory_used, node.memory_has);
  const auto cpu_bucket = static_cast<std::uint8_t>(bucket_of(cpu));
  const auto memory_bucket = static_cast<std::uint8_t>(bucket_of(memory));
  const bool is_far = std::abs(cpu - static_cast<double>(node.cpu_base)) > threshold_ ||
                      std::abs(memory - static_cast<double>(node.memory_base)) > threshold_;
  if (cpu_bucket == node.cpu_bucket && memory_bucket == node.memory_bucket && extra_used_.empty() && !is_far) return;
  node.cpu_bucket = cpu_bucket;
  node.memory_bucket = memory_bucket;
  mark_dirty(id);
  if (is_far) urgent_.store(true, std::memory_order_release);
}

void ClusterState::change_usage(NodeId id, const Amounts& amounts, int sign, std::size_t slot) {
  Node& node = nodes_[id];
  node.cpu_used += sign * amounts.cpu;
  node.memory_used += sign * amounts.memory;
  for (std::size_t i = 0; i < extra_used_.size(); ++i) extra_used_[i][id] += sign * amounts.extra[i];
  if (audit_.is_running && slot < audit_.next_slot) {
    audit_.cpu[id] += sign * amounts.cpu;
    audit_.memory[id] += sign * amounts.memory;
  }
}

void ClusterState::wake_if_needed(bool had_changes) {
  if (!had_changes && has_changes() && wake_) wake_();
}

void ClusterState::put_pod(const PodReading& pod) {
  pod_events_.fetch_add(1, std::memory_order_relaxed);
  const bool had_changes = has_changes();
  {
    rt::MutexLock lock(mutex_);
    PodTable::Entry* entry = pods_.find(pod.uid);
    if (!pod.counts) {
      if (entry != nullptr) drop_pod(*entry);
    } else if (entry == nullptr) {
      const NodeId id = node_id(pod.node);
      PodTable::Entry& made = pods_.insert(pod.uid, id, pod.requests);
      if (audit_.is_running && audit_.layout != pods_.layout()) audit_.is_running = false;
      change_usage(id, pod.requests, 1, pods_.slot_of(made));
      ++nodes_[id].pods;
      look_at(id);
    } else {
      entry->is_listed = 1;
      const NodeId id = nodes_[entry->node].name == pod.node ? entry->node : node_id(pod.node);
      if (id != entry->node || !(pods_.amounts(*entry) == pod.requests)) {
        const NodeId before = entry->node;
        const std::size_t slot = pods_.slot_of(*entry);
        change_usage(before, pods_.amounts(*entry), -1, slot);
        --nodes_[before].pods;
        pods_.set_amounts(*entry, pod.requests);
        entry->node = id;
        change_usage(id, pod.requests, 1, slot);
        ++nodes_[id].pods;
        if (before != id) {
          look_at(before);
          release_if_unused(before);
        }
        look_at(id);
      }
    }
  }
  wake_if_needed(had_changes);
}

void ClusterState::drop_pod(PodTable::Entry& entry) {
  const NodeId id = entry.node;
  change_usage(id, pods_.amounts(entry), -1, pods_.slot_of(entry));
  pods_.erase(entry);
  --nodes_[id].pods;
  look_at(id);
  release_if_unused(id);
}

void ClusterState::remove_pod(const PodUid& uid) {
  pod_events_.fetch_add(1, std::memory_order_relaxed);
  const bool had_changes = has_changes();
  {
    rt::MutexLock lock(mutex_);
    if (PodTable::Entry* entry = pods_.find(uid); entry != nullptr) drop_pod(*entry);
  }
  wake_if_needed(had_changes);
}

void ClusterState::begin_pod_list() {
  rt::MutexLock lock(mutex_);
  pods_.unlist_all();
}

void ClusterState::end_pod_list() {
  const bool had_changes = has_changes();
  {
    rt::MutexLock lock(mutex_);
    pods_.visit_unlisted([this](PodTable::Entry& entry) BASALT_NO_THREAD_SAFETY_ANALYSIS { drop_pod(entry); });
  }
  wake_if_needed(had_changes);
}

void ClusterState::begin_node_list() {
  rt::MutexLock lock(mutex_);
  for (Node& node : nodes_) node.is_listed = false;
}

void ClusterState::end_node_list() {
  const bool had_changes = has_changes();
  {
    rt::MutexLock lock(mutex_);
    for (NodeId id = 0; id < nodes_.size(); ++id) {
      if (nodes_[id].is_present && !nodes_[id].is_listed) drop_node(id);
    }
  }
  wake_if_needed(had_changes);
}

void ClusterState::put_node(const NodeReading& reading) {
  node_events_.fetch_add(1, std::memory_order_relaxed);
  const bool had_changes = has_changes();
  {
    rt::MutexLock lock(mutex_);
    const NodeId id = node_id(reading.name);
    Node& node = nodes_[id];
    node.is_listed = true;
    bool is_changed = !node.is_present || node.cpu_has != reading.capacity.cpu ||
                      node.memory_has != reading.capacity.memory || node.label_bits != reading.label_bits;
    for (std::size_t i = 0; i < extra_has_.size(); ++i) {
      const std::int64_t has = (reading.extras & (1U << i)) != 0 ? reading.capacity.extra[i] : -1;
      is_changed = is_changed || extra_has_[i][id] != has;
      extra_has_[i][id] = has;
    }
    bool is_metric_changed = false;
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      if (!is_metric_used(catalog_, i)) continue;
      const double before = metrics_[i][id];
      const double after = reading.metrics[i];
      is_metric_changed =
          is_metric_changed || (std::isnan(before) != std::isnan(after)) || (!std::isnan(after) && before != after);
      metrics_[i][id] = after;
    }
    if (!node.is_present) ++present_;
    node.is_present = true;
    node.cpu_has = reading.capacity.cpu;
    node.memory_has = reading.capacity.memory;
    node.label_bits = reading.label_bits;
    if (is_changed || is_metric_changed) {
      node.cpu_bucket = static_cast<std::uint8_t>(bucket_of(share(node.cpu_used, node.cpu_has)));
      node.memory_bucket = static_cast<std::uint8_t>(bucket_of(share(node.memory_used, node.memory_has)));
      touch(id);
      mark_dirty(id);
    }
    // A metric that somebody writes every few seconds is left to the periodic publication.
    if (is_changed) urgent_.store(true, std::memory_order_release);
  }
  wake_if_needed(had_changes);
}

void ClusterState::drop_node(NodeId id) {
  Node& node = nodes_[id];
  node.is_present = false;
  node.cpu_has = node.memory_has = 0;
  node.label_bits = 0;
  --present_;
  mark_dirty(id);
  urgent_.store(true, std::memory_order_release);
}

void ClusterState::remove_node(std::string_view name) {
  node_events_.fetch_add(1, std::memory_order_relaxed);
  const bool had_changes = has_changes();
  {
    rt::MutexLock lock(mutex_);
    const NodeId id = lookup(name);
    if (id != kNoNode && nodes_[id].is_present) drop_node(id);
  }
  wake_if_needed(had_changes);
}

NodeUpdate ClusterState::update_of(NodeId id) const {
  const Node& node = nodes_[id];
  NodeUpdate update{id, node.is_present, node.rank, {}};
  if (!node.is_present) return update;
  NodeFacts& facts = update.facts;
  facts.cpu = share(node.cpu_used, node.cpu_has);
  facts.memory = share(node.memory_used, node.memory_has);
  facts.shares.fill(-1);
  for (std::size_t i = 0; i < extra_used_.size(); ++i) {
    if (extra_has_[i][id] > 0) facts.shares[i] = share(extra_used_[i][id], extra_has_[i][id]);
  }
  facts.metrics.fill(std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    if (is_metric_used(catalog_, i)) facts.metrics[i] = metrics_[i][id];
  }
  facts.label_bits = node.label_bits;
  facts.pods = node.pods;
  return update;
}

// Whoever took the last changes has worked on them by now: the ids of nodes that ended may be used again.
void ClusterState::release_taken() {
  for (const NodeId id : to_release_) release_if_unused(id);
  to_release_.clear();
}

bool ClusterState::take_changes(std::size_t count, std::vector<NodeUpdate>& out) {
  rt::MutexLock lock(mutex_);
  release_taken();
  for (; count > 0 && dirty_taken_ < dirty_.size(); --count, ++dirty_taken_) {
    const NodeId id = dirty_[dirty_taken_];
    nodes_[id].is_dirty = false;
    out.push_back(update_of(id));
    if (!nodes_[id].is_present) to_release_.push_back(id);
  }
  if (dirty_taken_ < dirty_.size()) return true;
  dirty_.clear();
  dirty_taken_ = 0;
  has_changes_.store(false, std::memory_order_release);
  return false;
}

void ClusterState::take_all(std::vector<NodeUpdate>& out) {
  rt::MutexLock lock(mutex_);
  release_taken();
  for (std::size_t i = dirty_taken_; i < dirty_.size(); ++i) {
    nodes_[dirty_[i]].is_dirty = false;
    if (!nodes_[dirty_[i]].is_present) to_release_.push_back(dirty_[i]);
  }
  dirty_.clear();
  dirty_taken_ = 0;
  has_changes_.store(false, std::memory_order_release);
  out.reserve(out.size() + present_);
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (nodes_[id].is_present) out.push_back(update_of(id));
  }
}

void ClusterState::reset_baselines() {
  rt::MutexLock lock(mutex_);
  for (const NodeId id : touched_) {
    Node& node = nodes_[id];
    node.is_touched = false;
    node.cpu_base = static_cast<float>(share(node.cpu_used, node.cpu_has));
    node.memory_base = static_cast<float>(share(node.memory_used, node.memory_has));
  }
  touched_.clear();
}

std::string_view ClusterState::name_of(NodeId node) const {
  rt::MutexLock lock(mutex_);
  return node < nodes_.size() ? std::string_view(nodes_[node].name) : std::string_view();
}

void ClusterState::names_of(const std::vector<NodeId>& ids, std::vector<std::string>& names) const {
  constexpr std::size_t kChunk = 4096;  // so that nobody waits long for the lock
  names.reserve(names.size() + ids.size());
  for (std::size_t begin = 0; begin < ids.size(); begin += kChunk) {
    rt::MutexLock lock(mutex_);
    for (std::size_t i = begin; i < std::min(ids.size(), begin + kChunk); ++i) names.push_back(nodes_[ids[i]].name);
  }
}

NodeId ClusterState::find(std::string_view name) const {
  rt::MutexLock lock(mutex_);
  const NodeId id = lookup(name);
  return id != kNoNode && nodes_[id].is_present ? id : kNoNode;
}

std::optional<NodeFacts> ClusterState::facts_of(std::string_view name) const {
  rt::MutexLock lock(mutex_);
  const NodeId id = lookup(name);
  if (id == kNoNode || !nodes_[id].is_present) return std::nullopt;
  return update_of(id).facts;
}

std::optional<Amounts> ClusterState::requests_of(std::string_view name) const {
  rt::MutexLock lock(mutex_);
  const NodeId id = lookup(name);
  if (id == kNoNode || !nodes_[id].is_present) return std::nullopt;
  Amounts amounts{nodes_[id].cpu_used, nodes_[id].memory_used, {}};
  for (std::size_t i = 0; i < extra_used_.size(); ++i) amounts.extra[i] = extra_used_[i][id];
  return amounts;
}

std::string ClusterState::some_node(std::uint64_t number) const {
  rt::MutexLock lock(mutex_);
  if (present_ == 0) return {};
  // Few ids are free or without a node, so this ends soon.
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[(number + i) % nodes_.size()];
    if (node.is_present) return node.name;
  }
  return {};
}

std::size_t ClusterState::nodes() const {
  rt::MutexLock lock(mutex_);
  return present_;
}

std::size_t ClusterState::pods() const {
  rt::MutexLock lock(mutex_);
  return pods_.size();
}

ClusterState::Counts ClusterState::counts() const { return {pod_events_.load(), node_events_.load()}; }

std::optional<std::size_t> ClusterState::audit_step(std::size_t slots) {
  rt::MutexLock lock(mutex_);
  if (!audit_.is_running) {
    audit_ = {true, pods_.layout(), 0, std::vector<std::int64_t>(nodes_.size(), 0),
              std::vector<std::int64_t>(nodes_.size(), 0)};
  }
  const std::size_t end = std::min(pods_.slots(), audit_.next_slot + slots);
  pods_.visit_slots(audit_.next_slot, end, [this](const PodTable::Entry& entry) BASALT_NO_THREAD_SAFETY_ANALYSIS {
    audit_.cpu[entry.node] += pods_.amounts(entry).cpu;
    audit_.memory[entry.node] += pods_.amounts(entry).memory;
  });
  audit_.next_slot = end;
  if (end < pods_.slots()) return std::nullopt;
  std::size_t wrong = 0;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    Node& node = nodes_[id];
    if (node.is_free || (node.cpu_used == audit_.cpu[id] && node.memory_used == audit_.memory[id])) continue;
    ++wrong;
    node.cpu_used = audit_.cpu[id];
    node.memory_used = audit_.memory[id];
    look_at(id);
  }
  audit_ = Audit();
  return wrong;
}

std::size_t ClusterState::memory_bytes() const {
  rt::MutexLock lock(mutex_);
  std::size_t bytes = pods_.memory_bytes() + nodes_.capacity() * sizeof(Node) + index_.size() * 24 +
                      index_.bucket_count() * sizeof(void*);
  for (const Node& node : nodes_) bytes += node.name.capacity() > 15 ? node.name.capacity() + 17 : 0;
  bytes += (dirty_.capacity() + touched_.capacity() + free_.capacity()) * sizeof(NodeId);
  for (const auto& column : extra_used_) bytes += 2 * column.capacity() * sizeof(std::int64_t);
  for (const auto& column : metrics_) bytes += column.capacity() * sizeof(double);
  return bytes;
}

void ClusterState::corrupt_for_test(std::string_view name, std::int64_t cpu) {
  rt::MutexLock lock(mutex_);
  const NodeId id = lookup(name);
  BASALT_CHECK(id != kNoNode);
  nodes_[id].cpu_used += cpu;
  look_at(id);
}

}  // namespace basalt::controllers::sharding
