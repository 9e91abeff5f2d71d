#pragma once

#include <mutex>
#include <source_location>

#include "base/thread_annotations.h"

namespace basalt::rt {

// A leaf lock: held for a few lines, never while waiting, never across a callback. In a simulation it is never
// contended, because threads change over only at waits, and a wait with a lock held ends the run with both places.
class BASALT_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock(std::source_location where = std::source_location::current()) BASALT_ACQUIRE();
  void unlock() BASALT_RELEASE();

 private:
  friend class RealCondition;
  std::mutex mutex_;
};

class BASALT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex, std::source_location where = std::source_location::current()) BASALT_ACQUIRE(mutex)
      : mutex_(mutex) {
    mutex_.lock(where);
  }
  ~MutexLock() BASALT_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// How many rt::Mutex the calling thread holds; waits check that it is at most the one they release.
[[nodiscard]] int locks_held_by_this_thread();

namespace internal {

// Complains if the calling thread may not wait now: it holds a Mutex other than `released`, or it is inside a callback
// that promised not to wait. Returns false after complaining. `fatal` ends the process (simulation); otherwise it is a
// bug that is counted and survived. `where` is the place of the wait.
bool check_may_wait(const Mutex* released, std::source_location where, bool fatal);

// While alive, a wait on this thread is reported as a wait inside `what`, which is a literal.
class NoWaitScope {
 public:
  explicit NoWaitScope(const char* what);
  ~NoWaitScope();
  NoWaitScope(const NoWaitScope&) = delete;
  NoWaitScope& operator=(const NoWaitScope&) = delete;

 private:
  const char* outer_;
};

}  // namespace internal

}  // namespace basalt::rt
