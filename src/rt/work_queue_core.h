#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <string>
#include <unordered_map>

#include "rt/backoff.h"
#include "rt/internal/deadline_heap.h"
#include "rt/internal/linked_list.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "rt/token_bucket.h"

namespace basalt::rt {

enum class Priority : std::uint8_t { Normal, High };

enum class AddResult : std::uint8_t {
  Added,   // the key will be handed out (again) after this call
  Merged,  // it was already going to be; nothing changed, or it only became due earlier or more urgent
  Full,    // refused: the queue holds as many keys as it may; see WorkQueue::take_overflowed()
  Closed,  // refused: the queue is closed
};

struct WorkQueueOptions {
  std::string name = "queue";
  // Distinct keys that wait or are delayed. About 150 bytes each beside the key, so this is 150 MB at most.
  std::size_t capacity = 1'000'000;
  BackoffOptions backoff;
  // Over all keys, for add_rate_limited() only. client-go's default, {10, 100}, would let 10,000 keys that failed
  // together take 17 minutes; so it is off, and the clients limit their own request rate.
  TokenBucketOptions overall_retries = {.per_second = 0};
  // So many High keys in a row are served while a Normal one waits; then comes a Normal one. Normal work so keeps at
  // least 1/17 of the workers, whatever comes in above it.
  std::uint32_t high_streak_max = 16;
};

// What a queue has done and holds, at one moment.
struct WorkQueueMetrics {
  std::size_t depth = 0;        // keys that wait
  std::size_t delayed = 0;      // keys whose time has not come
  std::size_t in_progress = 0;  // keys handed out and not yet done
  std::uint64_t adds = 0;       // accepted and not merged
  std::uint64_t merged = 0;
  std::uint64_t refused = 0;  // at the capacity
  std::uint64_t retries = 0;  // add_rate_limited()
  std::uint64_t handed_out = 0;
  Duration oldest_waiting{};   // age of the key that has waited longest
  Duration longest_running{};  // of the keys in progress
  Duration unfinished_work{};  // the sum over the keys in progress; grows without end if a worker hangs
  Duration waited_total{};     // over handed_out
  Duration worked_total{};     // over what is done
};

namespace internal {

struct WorkLane;

// What the queue knows of one key. It exists while the key is dirty, in progress, delayed or has failures.
struct WorkNode {
  // Of the lane's list while it waits, of the list of work in progress then.
  WorkNode* previous = nullptr;
  WorkNode* next = nullptr;
  WorkLane* lane = nullptr;  // while it waits
  std::uint64_t lane_id = 0;
  // Of the delay.
  Instant deadline{};
  std::uint64_t id = 0;
  std::size_t heap_index = kNotInHeap;
  Instant since{};  // waits, or is in progress, since
  std::uint32_t failures = 0;
  Priority priority = Priority::Normal;  // it waits, or will wait after done(), with
  Priority delayed_priority = Priority::Normal;
  bool is_dirty = false;        // will be handed out (again)
  bool is_in_progress = false;  // has been handed out

  [[nodiscard]] bool waits() const { return lane != nullptr; }
  [[nodiscard]] bool is_delayed() const { return heap_index != kNotInHeap; }
};

// The keys of one tenant, in the order in which they came.
struct WorkLane {
  WorkLane* previous = nullptr;
  WorkLane* next = nullptr;
  std::uint64_t id = 0;
  LinkedList<WorkNode> nodes;
};

// WorkQueue without its keys: order, delays, limits and waits, over nodes that the WorkQueue owns. Everything is called
// with `mutex` held.
class WorkQueueCore {
 public:
  WorkQueueCore(Runtime& runtime, WorkQueueOptions options);
  ~WorkQueueCore();
  WorkQueueCore(const WorkQueueCore&) = delete;
  WorkQueueCore& operator=(const WorkQueueCore&) = delete;

  Mutex mutex;

  AddResult add(WorkNode& node, Priority priority) BASALT_REQUIRES(mutex);
  AddResult add_after(WorkNode& node, Duration delay, Priority priority) BASALT_REQUIRES(mutex);
  AddResult add_rate_limited(WorkNode& node, Duration at_least) BASALT_REQUIRES(mutex);
  // The next key to work on, or null if there is none now.
  WorkNode* try_take() BASALT_REQUIRES(mutex);
  // Waits for it; null if closed or stopped. The caller has made `stop` call wake_all().
  WorkNode* take(const StopToken& stop, std::source_location where) BASALT_REQUIRES(mutex);
  void done(WorkNode& node) BASALT_REQUIRES(mutex);
  // True if nothing is left to know about the key. `nodes` is how many there are.
  [[nodiscard]] bool can_be_erased(const WorkNode& node, std::size_t nodes) const BASALT_REQUIRES(mutex);

  void close(bool drain) BASALT_REQUIRES(mutex);
  [[nodiscard]] bool is_closed() const BASALT_REQUIRES(mutex) { return closed_; }
  void wake_all() BASALT_EXCLUDES(mutex);
  [[nodiscard]] std::size_t waiting() BASALT_REQUIRES(mutex);
  [[nodiscard]] bool overflowed() const BASALT_REQUIRES(mutex) { return overflowed_; }
  bool take_overflowed() BASALT_REQUIRES(mutex);
  [[nodiscard]] WorkQueueMetrics metrics() BASALT_REQUIRES(mutex);

 private:
  // One priority: lanes served in turn.
  struct Level {
    std::unordered_map<std::uint64_t, WorkLane> lanes;
    LinkedList<WorkLane> ring;  // the lanes that are not empty, the next to serve first
    std::size_t size = 0;
  };
  Level& level_of(Priority priority) BASALT_REQUIRES(mutex) { return levels_[static_cast<std::size_t>(priority)]; }

  bool accepts(const WorkNode& node) BASALT_REQUIRES(mutex);
  void mark(WorkNode& node, Priority priority, Instant now) BASALT_REQUIRES(mutex);
  void enqueue(WorkNode& node, Instant now) BASALT_REQUIRES(mutex);
  void unlink(WorkNode& node) BASALT_REQUIRES(mutex);
  Level* level_to_serve() BASALT_REQUIRES(mutex);
  void promote_due(Instant now) BASALT_REQUIRES(mutex);
  void undelay(WorkNode& node) BASALT_REQUIRES(mutex);
  void wake_one() BASALT_REQUIRES(mutex);
  void pass_on() BASALT_REQUIRES(mutex);

  // Fixed after construction.
  Runtime& runtime_;
  const WorkQueueOptions options_;

  // One waiter at most watches the clock, on timer_; the others sleep on ready_ until there is work or that post is
  // free. So a deadline wakes one thread, not all.
  Condition ready_;
  Condition timer_;
  std::uint32_t ready_waiters_ BASALT_GUARDED_BY(mutex) = 0;
  bool has_timer_waiter_ BASALT_GUARDED_BY(mutex) = false;

  std::array<Level, 2> levels_ BASALT_GUARDED_BY(mutex);
  LinkedList<WorkNode> in_progress_ BASALT_GUARDED_BY(mutex);
  DeadlineHeap<WorkNode> delayed_ BASALT_GUARDED_BY(mutex);
  std::size_t occupied_ BASALT_GUARDED_BY(mutex) = 0;  // nodes that wait or are delayed, or both
  TokenMeter overall_retries_ BASALT_GUARDED_BY(mutex);
  std::uint32_t high_streak_ BASALT_GUARDED_BY(mutex) = 0;
  std::uint64_t last_id_ BASALT_GUARDED_BY(mutex) = 0;
  bool closed_ BASALT_GUARDED_BY(mutex) = false;
  bool drains_ BASALT_GUARDED_BY(mutex) = false;
  bool overflowed_ BASALT_GUARDED_BY(mutex) = false;
  WorkQueueMetrics totals_ BASALT_GUARDED_BY(mutex);
};

}  // namespace internal
}  // namespace basalt::rt
