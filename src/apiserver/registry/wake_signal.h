#pragma once

#include "base/thread_annotations.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// Wakes one waiting thread: something is ready, or it is to end. Held by shared_ptr, because callbacks that fire it may
// run once more after the waiter is gone. A signal that comes while nobody waits is not lost.
class WakeSignal {
 public:
  explicit WakeSignal(rt::Runtime& runtime) : condition_(runtime) {}

  void fire() { set(false); }
  void end() { set(true); }
  // Waits for a signal, the end or the deadline, and forgets the signal. True if it is the end.
  bool wait_until(rt::Instant deadline) {
    rt::MutexLock lock(mutex_);
    while (!ready_ && !ended_) {
      if (!condition_.wait_until(mutex_, deadline)) break;
    }
    ready_ = false;
    return ended_;
  }
  // Forgets the signal, so that only what comes later ends the next wait. True if it is the end.
  bool clear() {
    rt::MutexLock lock(mutex_);
    ready_ = false;
    return ended_;
  }

 private:
  void set(bool end) {
    rt::MutexLock lock(mutex_);
    ready_ = true;
    ended_ = ended_ || end;
    condition_.notify_all();
  }

  rt::Mutex mutex_;
  rt::Condition condition_;
  bool ready_ BASALT_GUARDED_BY(mutex_) = false;
  bool ended_ BASALT_GUARDED_BY(mutex_) = false;
};

}  // namespace basalt::apiserver
