#include "rt/work_queue_core.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace basalt::rt::internal {

WorkQueueCore::WorkQueueCore(Runtime& runtime, WorkQueueOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      ready_(runtime),
      timer_(runtime),
      overall_retries_(options_.overall_retries, runtime.now()) {}

WorkQueueCore::~WorkQueueCore() {
  MutexLock lock(mutex);
  BASALT_CHECK_MSG((ready_waiters_ == 0 && !has_timer_waiter_) || runtime_.was_abandoned(),
                   "a work queue was destroyed while a thread waits on it: " + options_.name);
}

// Keys that occupy a place already need no new one. A key in progress left its place when it was handed out and may
// always come back: refusing it would lose a change. There are at most as many of them as workers.
bool WorkQueueCore::accepts(const WorkNode& node) {
  if (node.waits() || node.is_delayed() || node.is_in_progress || occupied_ < options_.capacity) return true;
  overflowed_ = true;
  ++totals_.refused;
  return false;
}

AddResult WorkQueueCore::add(WorkNode& node, Priority priority) {
  if (closed_) return AddResult::Closed;
  if (!accepts(node)) return AddResult::Full;
  const bool was_dirty = node.is_dirty;
  mark(node, priority, runtime_.now());
  ++(was_dirty ? totals_.merged : totals_.adds);
  return was_dirty ? AddResult::Merged : AddResult::Added;
}

void WorkQueueCore::mark(WorkNode& node, Priority priority, Instant now) {
  if (!node.is_dirty) {
    node.is_dirty = true;
    node.priority = priority;
    if (!node.is_in_progress) enqueue(node, now);
    return;
  }
  if (priority <= node.priority) return;
  // More urgent than it was.
  if (!node.waits()) {
    node.priority = priority;
    return;
  }
  const Instant since = node.since;
  unlink(node);
  node.priority = priority;
  enqueue(node, since);
}

void WorkQueueCore::enqueue(WorkNode& node, Instant now) {
  Level& level = level_of(node.priority);
  WorkLane& lane = level.lanes[node.lane_id];
  lane.id = node.lane_id;
  if (lane.nodes.empty()) level.ring.push_back(lane);
  lane.nodes.push_back(node);
  node.lane = &lane;
  node.since = now;
  ++level.size;
  if (!node.is_delayed()) ++occupied_;
  wake_one();
}

void WorkQueueCore::unlink(WorkNode& node) {
  Level& level = level_of(node.priority);
  WorkLane& lane = *std::exchange(node.lane, nullptr);
  lane.nodes.erase(node);
  if (lane.nodes.empty()) {
    level.ring.erase(lane);
    // The last one stays: a queue with one lane, which is often empty, would allocate it again and again.
    if (level.lanes.size() > 1) level.lanes.erase(lane.id);
  }
  --level.size;
  if (!node.is_delayed()) --occupied_;
}

AddResult WorkQueueCore::add_after(WorkNode& node, Duration delay, Priority priority) {
  if (delay <= Duration::zero()) return add(node, priority);
  if (closed_) return AddResult::Closed;
  if (!accepts(node)) return AddResult::Full;
  const Instant deadline = saturating_add(runtime_.now(), delay);
  const bool was_delayed = node.is_delayed();
  node.delayed_priority = was_delayed ? std::max(priority, node.delayed_priority) : priority;
  ++(was_delayed ? totals_.merged : totals_.adds);
  if (was_delayed && node.deadline <= deadline) return AddResult::Merged;
  if (was_delayed) {
    delayed_.erase(node);
  } else if (!node.waits()) {
    ++occupied_;
  }
  node.deadline = deadline;
  node.id = ++last_id_;
  delayed_.insert(node);
  if (&delayed_.first() == &node) {
    if (has_timer_waiter_) {
      timer_.notify_one();
    } else if (ready_waiters_ > 0) {
      ready_.notify_one();
    }
  }
  return was_delayed ? AddResult::Merged : AddResult::Added;
}

AddResult WorkQueueCore::add_rate_limited(WorkNode& node, Duration at_least) {
  if (closed_) return AddResult::Closed;
  const Duration own = runtime_.jitter(backoff_delay(options_.backoff, node.failures), options_.backoff.jitter);
  const Duration overall = overall_retries_.reserve(runtime_.now());
  const AddResult result = add_after(node, std::max({own, overall, at_least}), Priority::Normal);
  if (result == AddResult::Full) {
    overall_retries_.give_back();
    return result;
  }
  if (node.failures < std::numeric_limits<std::uint32_t>::max()) ++node.failures;
  ++totals_.retries;
  return result;
}

void WorkQueueCore::undelay(WorkNode& node) {
  delayed_.erase(node);
  if (!node.waits()) --occupied_;
}

void WorkQueueCore::promote_due(Instant now) {
  while (!delayed_.empty() && delayed_.first().deadline <= now) {
    WorkNode& node = delayed_.first();
    undelay(node);
    mark(node, node.delayed_priority, now);
  }
}

WorkQueueCore::Level* WorkQueueCore::level_to_serve() {
  Level& high = level_of(Priority::High);
  Level& normal = level_of(Priority::Normal);
  if (normal.size == 0) {
    high_streak_ = 0;
    return high.size > 0 ? &high : nullptr;
  }
  if (high.size > 0 && high_streak_ < options_.high_streak_max) {
    ++high_streak_;
    return &high;
  }
  high_streak_ = 0;
  return &normal;
}

WorkNode* WorkQueueCore::try_take() {
  if (closed_ && !drains_) return nullptr;
  const Instant now = runtime_.now();
  if (!closed_) promote_due(now);
  Level* level = level_to_serve();
  if (level == nullptr) return nullptr;
  WorkLane& lane = *level->ring.first();
  WorkNode& node = *lane.nodes.first();
  if (lane.nodes.size() > 1) {
    // To the end of the ring: the next tenant's turn.
    level->ring.erase(lane);
    level->ring.push_back(lane);
  }
  unlink(node);
  totals_.waited_total += now - node.since;
  ++totals_.handed_out;
  node.is_dirty = false;
  node.is_in_progress = true;
  node.since = now;
  in_progress_.push_back(node);
  pass_on();
  return &node;
}

WorkNode* WorkQueueCore::take(const StopToken& stop, std::source_location where) {
  for (;;) {
    if (stop.stop_requested()) break;
    if (WorkNode* node = try_take(); node != nullptr) return node;
    if (closed_) break;
    if (!delayed_.empty() && !has_timer_waiter_) {
      has_timer_waiter_ = true;
      timer_.wait_until(mutex, delayed_.first().deadline, where);
      has_timer_waiter_ = false;
    } else {
      ++ready_waiters_;
      ready_.wait(mutex, where);
      --ready_waiters_;
    }
  }
  pass_on();
  return nullptr;
}

void WorkQueueCore::wake_one() {
  if (ready_waiters_ > 0) {
    ready_.notify_one();
  } else if (has_timer_waiter_) {
    timer_.notify_one();
  }
}

// By every thread that leaves: it may have been woken for more than it took, or have watched the clock for the others.
void WorkQueueCore::pass_on() {
  const bool has_work = level_of(Priority::Normal).size + level_of(Priority::High).size > 0;
  if (has_work || (!delayed_.empty() && !has_timer_waiter_)) wake_one();
}

void WorkQueueCore::done(WorkNode& node) {
  BASALT_CHECK_MSG(node.is_in_progress, "done() for a key that is not in progress in " + options_.name);
  const Instant now = runtime_.now();
  in_progress_.erase(node);
  node.is_in_progress = false;
  totals_.worked_total += now - node.since;
  if (node.is_dirty) enqueue(node, now);
}

bool WorkQueueCore::can_be_erased(const WorkNode& node, std::size_t nodes) const {
  if (node.is_dirty || node.is_in_progress || node.is_delayed()) return false;
  // The count of failures of an idle key outlives it until forget(), but not beyond the bound of the whole.
  return node.failures == 0 || nodes > options_.capacity;
}

void WorkQueueCore::close(bool drain) {
  if (closed_ && (drain || !drains_)) return;
  closed_ = true;
  drains_ = drain;
  ready_.notify_all();
  timer_.notify_all();
}

void WorkQueueCore::wake_all() {
  // The lock makes sure that nobody is between looking at the token and going to sleep.
  MutexLock lock(mutex);
  ready_.notify_all();
  timer_.notify_all();
}

std::size_t WorkQueueCore::waiting() {
  if (!closed_) promote_due(runtime_.now());
  return level_of(Priority::Normal).size + level_of(Priority::High).size;
}

bool WorkQueueCore::take_overflowed() { return std::exchange(overflowed_, false); }

WorkQueueMetrics WorkQueueCore::metrics() {
  const Instant now = runtime_.now();
  WorkQueueMetrics metrics = totals_;
  metrics.depth = waiting();
  metrics.delayed = delayed_.size();
  metrics.in_progress = in_progress_.size();
  for (const Level& level : levels_) {
    for (const WorkLane* lane = level.ring.first(); lane != nullptr; lane = lane->next)
      metrics.oldest_waiting = std::max(metrics.oldest_waiting, now - lane->nodes.first()->since);
  }
  for (const WorkNode* node = in_progress_.first(); node != nullptr; node = node->next) {
    metrics.longest_running = std::max(metrics.longest_running, now - node->since);
    metrics.unfinished_work += now - node->since;
  }
  return metrics;
}

}  // namespace basalt::rt::internal
