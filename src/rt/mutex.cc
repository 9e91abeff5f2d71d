#include "rt/mutex.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/sanitizers.h"
#include "rt/internal/place.h"

namespace basalt::rt {
namespace {

// Locks are leaves, so a thread holds one, rarely two. More than these are counted but not named.
constexpr int kNamedMax = 4;
// How often a lock that is taken is looked at before the thread sleeps: about two microseconds, as long as most are
// held. Falling asleep and being woken costs more than that.
constexpr int kSpinsMax = 40;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Of the operating system's thread. Fibers of a simulation share it, which is right: none of them holds a lock while
// another one runs. So ThreadSanitizer must not take it for theirs.
struct HeldLocks {
  struct Held {
    const Mutex* mutex = nullptr;
    std::source_location where;
  };
  int count = 0;
  std::array<Held, kNamedMax> held;
  const char* no_wait_inside = nullptr;
};

thread_local HeldLocks held_locks;

BASALT_UNSEEN_BY_TSAN void push(const Mutex* mutex, std::source_location where) {
  HeldLocks& locks = held_locks;
  if (locks.count < kNamedMax) locks.held[static_cast<std::size_t>(locks.count)] = {mutex, where};
  ++locks.count;
}

BASALT_UNSEEN_BY_TSAN void pop(const Mutex* mutex) {
  HeldLocks& locks = held_locks;
  BASALT_CHECK(locks.count > 0);
  // Usually the last one; a lock released out of order moves the later ones down.
  for (int i = std::min(locks.count, kNamedMax) - 1; i >= 0; --i) {
    if (locks.held[static_cast<std::size_t>(i)].mutex != mutex) continue;
    for (int j = i; j + 1 < std::min(locks.count, kNamedMax); ++j)
      locks.held[static_cast<std::size_t>(j)] = locks.held[static_cast<std::size_t>(j + 1)];
    break;
  }
  --locks.count;
}

BASALT_UNSEEN_BY_TSAN const HeldLocks::Held* find(const Mutex* mutex) {
  for (int i = 0; i < std::min(held_locks.count, kNamedMax); ++i) {
    const auto& held = held_locks.held[static_cast<std::size_t>(i)];
    if (held.mutex == mutex) return &held;
  }
  return nullptr;
}

BASALT_UNSEEN_BY_TSAN const HeldLocks::Held* find_other_than(const Mutex* mutex) {
  for (int i = 0; i < std::min(held_locks.count, kNamedMax); ++i) {
    const auto& held = held_locks.held[static_cast<std::size_t>(i)];
    if (held.mutex != mutex) return &held;
  }
  return nullptr;
}

}  // namespace

void Mutex::lock(std::source_location where) BASALT_NO_THREAD_SAFETY_ANALYSIS {
  if (!mutex_.try_lock()) {
    // A thread that holds it already would wait for itself for ever. This covers fibers of a simulation too: a fiber
    // that another one overtook cannot hold a lock, or its wait would have ended the run.
    if (const auto* held = find(this); held != nullptr)
      base::check_failed(where.file_name(), static_cast<int>(where.line()), "a lock is taken twice",
                         "first at " + place_text(held->where));
    int spins = 0;
    do {
      if (++spins > kSpinsMax) {
        mutex_.lock();
        break;
      }
      pause_briefly();
    } while (!mutex_.try_lock());
  }
  push(this, where);
}

void Mutex::unlock() BASALT_NO_THREAD_SAFETY_ANALYSIS {
  pop(this);
  mutex_.unlock();
}

BASALT_UNSEEN_BY_TSAN int locks_held_by_this_thread() { return held_locks.count; }

namespace internal {

BASALT_UNSEEN_BY_TSAN bool check_may_wait(const Mutex* released, std::source_location where, bool fatal) {
  const HeldLocks& locks = held_locks;
  const int allowed = released != nullptr ? 1 : 0;
  if (locks.count == allowed && locks.no_wait_inside == nullptr) return true;
  const char* what = "a wait with a lock held";
  std::string detail;
  if (locks.count < allowed) {
    what = "a wait that releases a lock which is not held";
  } else if (locks.no_wait_inside != nullptr) {
    what = "a wait where none is allowed";
    detail = std::string("inside ") + locks.no_wait_inside;
  } else if (const auto* held = find_other_than(released); held != nullptr) {
    detail = "the lock was taken at " + place_text(held->where);
  }
  if (fatal) base::check_failed(where.file_name(), static_cast<int>(where.line()), what, detail);
  base::report_bug(where.file_name(), static_cast<int>(where.line()), what);
  return false;
}

BASALT_UNSEEN_BY_TSAN NoWaitScope::NoWaitScope(const char* what) : outer_(held_locks.no_wait_inside) {
  held_locks.no_wait_inside = what;
}

BASALT_UNSEEN_BY_TSAN NoWaitScope::~NoWaitScope() { held_locks.no_wait_inside = outer_; }

}  // namespace internal
}  // namespace basalt::rt
