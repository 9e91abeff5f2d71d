#include "rt/timer.h"

#include <utility>

#include "base/check.h"

namespace basalt::rt {

TimerQueue::TimerQueue(Runtime& runtime, TimerQueueOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      changed_(runtime),
      returned_(runtime),
      thread_(runtime, options_.name, [this] { work(); }) {}

TimerQueue::~TimerQueue() {
  BASALT_CHECK_MSG(!thread_.joinable() || runtime_.was_abandoned(), "a timer queue was destroyed unstopped");
}

TimerId TimerQueue::schedule(Instant at, std::function<void()> function) {
  BASALT_CHECK(function != nullptr);
  auto timer = std::make_unique<Timer>();
  timer->deadline = at;
  timer->function = std::move(function);
  MutexLock lock(mutex_);
  if (stopped_ || timers_.size() >= options_.capacity) return kNoTimer;
  const TimerId id = ++last_id_;
  timer->id = id;
  heap_.insert(*timer);
  if (&heap_.first() == timer.get()) changed_.notify_one();
  timers_.emplace_hint(timers_.end(), id, std::move(timer));
  return id;
}

TimerId TimerQueue::schedule_after(Duration delay, std::function<void()> function) {
  return schedule(saturating_add(runtime_.now(), delay), std::move(function));
}

bool TimerQueue::cancel(TimerId id, std::source_location where) {
  std::unique_ptr<Timer> timer;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  if (const auto found = timers_.find(id); found != timers_.end()) {
    timer = std::move(found->second);
    heap_.erase(*timer);
    timers_.erase(found);
    return true;
  }
  if (thread_id_ != runtime_.this_thread_id()) {
    while (running_ == id && id != kNoTimer) returned_.wait(mutex_, where);
  }
  return false;
}

void TimerQueue::stop(std::source_location where) {
  std::map<TimerId, std::unique_ptr<Timer>> dropped;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    heap_ = {};
    dropped.swap(timers_);
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join(where);
}

std::size_t TimerQueue::size() {
  MutexLock lock(mutex_);
  return timers_.size();
}

void TimerQueue::work() {
  while (const std::unique_ptr<Timer> timer = next_due()) {
    timer->function();
    timer->function = nullptr;
  }
}

// Also says that the function called last has returned.
std::unique_ptr<TimerQueue::Timer> TimerQueue::next_due() {
  MutexLock lock(mutex_);
  thread_id_ = runtime_.this_thread_id();
  if (std::exchange(running_, kNoTimer) != kNoTimer) returned_.notify_all();
  for (;;) {
    if (stopped_) return nullptr;
    if (heap_.empty()) {
      changed_.wait(mutex_);
    } else if (heap_.first().deadline > runtime_.now()) {
      changed_.wait_until(mutex_, heap_.first().deadline);
    } else {
      break;
    }
  }
  const auto found = timers_.find(heap_.first().id);
  std::unique_ptr<Timer> timer = std::move(found->second);
  timers_.erase(found);
  heap_.erase(*timer);
  running_ = timer->id;
  return timer;
}

}  // namespace basalt::rt
