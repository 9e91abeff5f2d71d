#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "rt/work_queue_core.h"

namespace basalt::rt {

// A queue of keys ("look at this object again"), the heart of a controller. Thread-safe.
//
// A key is dirty if it has to be worked on, in progress if a worker has it; it waits if it is dirty and not in
// progress. From this follow client-go's rules (util/workqueue/queue.go, v0.33):
//   - One key is never with two workers at once: a key that is added while in progress waits after its done().
//   - No change is lost: after an add() that was accepted, the key is handed out once more.
//   - Adds of a key that is already dirty merge into one.
//
// Order: High before Normal, but at most high_streak_max in a row while Normal waits. Within a priority, lanes take
// turns (lane_of: say, the namespace), so a tenant with 10,000 keys delays another's single key by one turn, not by
// 10,000. Within a lane, first come, first served.
//
// Limit: `capacity` distinct keys that wait or are delayed. At the limit add() refuses new keys with Full and the queue
// remembers it; the owner then adds everything again from its cache (a resync), see take_overflowed(). Keys in progress
// are always accepted.
//
// Needs no thread of its own: a worker that waits in get() watches the next delayed key's time for all.
template <class Key, class Hash = std::hash<Key>>
class WorkQueue {
 public:
  // Tenants are told apart by a number, such as the hash of a name. Two with the same number share a lane, no more.
  // Called without a lock; must always say the same for the same key.
  using LaneOf = std::function<std::uint64_t(const Key&)>;

  explicit WorkQueue(Runtime& runtime, WorkQueueOptions options = {}, LaneOf lane_of = {})
      : lane_of_(std::move(lane_of)), core_(runtime, std::move(options)) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // The key is to be worked on. High moves forward a key that waits as Normal.
  AddResult add(const Key& key, Priority priority = Priority::Normal) {
    const std::uint64_t lane = lane_id(key);
    MutexLock lock(core_.mutex);
    const auto node = node_of(key, lane);
    return finish(node, core_.add(node->second, priority));
  }

  // The same after a delay. Of several delays for one key the earliest counts; add() does not cancel it.
  AddResult add_after(const Key& key, Duration delay, Priority priority = Priority::Normal) {
    const std::uint64_t lane = lane_id(key);
    MutexLock lock(core_.mutex);
    const auto node = node_of(key, lane);
    return finish(node, core_.add_after(node->second, delay, priority));
  }

  // The same after the key's backoff, which grows with every call until forget(), and not before the overall limit of
  // retries allows it, nor before `at_least`.
  AddResult add_rate_limited(const Key& key, Duration at_least = Duration::zero()) {
    const std::uint64_t lane = lane_id(key);
    MutexLock lock(core_.mutex);
    const auto node = node_of(key, lane);
    return finish(node, core_.add_rate_limited(node->second, at_least));
  }

  // The key succeeded, or was given up: its next failure is its first. To be called for every key that was ever added
  // with add_rate_limited(). Does not take the key out of the queue.
  void forget(const Key& key) {
    MutexLock lock(core_.mutex);
    const auto node = nodes_.find(key);
    if (node == nodes_.end()) return;
    node->second.failures = 0;
    erase_if_unneeded(node);
  }

  // How often the key was added with add_rate_limited() since the last forget().
  [[nodiscard]] std::uint32_t retries(const Key& key) {
    MutexLock lock(core_.mutex);
    const auto node = nodes_.find(key);
    return node == nodes_.end() ? 0 : node->second.failures;
  }

  // Waits for a key; none if the queue is closed or the token is stopped. The caller works on it, then calls done().
  [[nodiscard]] std::optional<Key> get(const StopToken& stop = {},
                                       std::source_location where = std::source_location::current()) {
    if (stop.stop_requested()) return std::nullopt;
    {
      MutexLock lock(core_.mutex);
      if (internal::WorkNode* node = core_.try_take(); node != nullptr) return key_of(*node);
      if (core_.is_closed()) return std::nullopt;
    }
    const auto registration = stop.on_stop([this] { core_.wake_all(); });
    MutexLock lock(core_.mutex);
    internal::WorkNode* node = core_.take(stop, where);
    return node != nullptr ? std::optional<Key>(key_of(*node)) : std::nullopt;
  }

  // A key if there is one now.
  [[nodiscard]] std::optional<Key> try_get() {
    MutexLock lock(core_.mutex);
    internal::WorkNode* node = core_.try_take();
    return node != nullptr ? std::optional<Key>(key_of(*node)) : std::nullopt;
  }

  // The work on a key that get() gave is over. If it was added meanwhile, it waits again. Decide about a retry before
  // this call: between done() and a later add, another worker may already have it.
  void done(const Key& key) {
    MutexLock lock(core_.mutex);
    const auto node = nodes_.find(key);
    BASALT_CHECK_MSG(node != nodes_.end(), "done() for a key that is not in progress");
    core_.done(node->second);
    erase_if_unneeded(node);
  }

  // From now on nothing is added and get() returns none at once. What waits is dropped.
  void close() {
    MutexLock lock(core_.mutex);
    core_.close(false);
  }
  // From now on nothing is added; get() hands out what waits, and what waits again after done(), and then returns none.
  // What is delayed is dropped. close() cuts it short.
  void close_and_drain() {
    MutexLock lock(core_.mutex);
    core_.close(true);
  }

  // Keys that wait now.
  [[nodiscard]] std::size_t size() {
    MutexLock lock(core_.mutex);
    return core_.waiting();
  }
  // True if a key was refused with Full since the last take_overflowed().
  [[nodiscard]] bool overflowed() {
    MutexLock lock(core_.mutex);
    return core_.overflowed();
  }
  // The same, and forgets it. Call this first and add everything again then, so that a key refused meanwhile counts for
  // the next time.
  [[nodiscard]] bool take_overflowed() {
    MutexLock lock(core_.mutex);
    return core_.take_overflowed();
  }
  // Takes time in proportion to the lanes in use and the workers.
  [[nodiscard]] WorkQueueMetrics metrics() {
    MutexLock lock(core_.mutex);
    return core_.metrics();
  }

 private:
  struct Node : internal::WorkNode {
    const Key* key = nullptr;
  };
  using Nodes = std::unordered_map<Key, Node, Hash>;

  [[nodiscard]] std::uint64_t lane_id(const Key& key) const { return lane_of_ ? lane_of_(key) : 0; }
  [[nodiscard]] static const Key& key_of(const internal::WorkNode& node) { return *static_cast<const Node&>(node).key; }

  typename Nodes::iterator node_of(const Key& key, std::uint64_t lane) BASALT_REQUIRES(core_.mutex) {
    const auto [node, is_new] = nodes_.try_emplace(key);
    if (is_new) {
      node->second.key = &node->first;
      node->second.lane_id = lane;
    }
    return node;
  }
  AddResult finish(typename Nodes::iterator node, AddResult result) BASALT_REQUIRES(core_.mutex) {
    erase_if_unneeded(node);
    return result;
  }
  void erase_if_unneeded(typename Nodes::iterator node) BASALT_REQUIRES(core_.mutex) {
    if (core_.can_be_erased(node->second, nodes_.size())) nodes_.erase(node);
  }

  // Fixed after construction.
  const LaneOf lane_of_;

  internal::WorkQueueCore core_;
  Nodes nodes_ BASALT_GUARDED_BY(core_.mutex);  // nodes do not move: the core links them
};

}  // namespace basalt::rt
