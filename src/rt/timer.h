#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <string>

#include "rt/internal/deadline_heap.h"
#include "rt/runtime.h"
#include "rt/time.h"

namespace basalt::rt {

using TimerId = std::uint64_t;
inline constexpr TimerId kNoTimer = 0;

struct TimerQueueOptions {
  std::string name = "timers";       // of the thread
  std::size_t capacity = 1'000'000;  // timers that wait; about 150 bytes each
};

// Calls functions at given times, one after another, on one thread of its own. A function that takes long delays the
// others: it should only mark or post something. Thread-safe; stop() before destruction.
class TimerQueue {
 public:
  explicit TimerQueue(Runtime& runtime, TimerQueueOptions options = {});
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // Calls `function` once, at `at` or soon after. Equal times: in the order of the calls. kNoTimer, and the function is
  // never called, if the queue is full or stopped.
  [[nodiscard]] TimerId schedule(Instant at, std::function<void()> function);
  [[nodiscard]] TimerId schedule_after(Duration delay, std::function<void()> function);
  // After this the function does not run. If it is running now, waits until it has returned (unless called by itself).
  // True if it never ran. Unknown and past ids are fine.
  bool cancel(TimerId id, std::source_location where = std::source_location::current());
  // Waits for the function that runs, drops the others.
  void stop(std::source_location where = std::source_location::current());
  [[nodiscard]] std::size_t size();

 private:
  struct Timer {
    Instant deadline;
    TimerId id = kNoTimer;
    std::size_t heap_index = internal::kNotInHeap;
    std::function<void()> function;
  };
  void work();
  std::unique_ptr<Timer> next_due() BASALT_EXCLUDES(mutex_);

  // Fixed after construction.
  Runtime& runtime_;
  const TimerQueueOptions options_;

  Mutex mutex_;
  Condition changed_;   // for the thread: an earlier timer, or the stop
  Condition returned_;  // a function has returned
  std::map<TimerId, std::unique_ptr<Timer>> timers_ BASALT_GUARDED_BY(mutex_);
  internal::DeadlineHeap<Timer> heap_ BASALT_GUARDED_BY(mutex_);
  TimerId last_id_ BASALT_GUARDED_BY(mutex_) = kNoTimer;
  TimerId running_ BASALT_GUARDED_BY(mutex_) = kNoTimer;
  std::uint64_t thread_id_ BASALT_GUARDED_BY(mutex_) = 0;
  bool stopped_ BASALT_GUARDED_BY(mutex_) = false;

  Thread thread_;  // used only by the owner
};

}  // namespace basalt::rt
