#pragma once

#include <cerrno>
#include <cstddef>

#include "base/sanitizers.h"

#if BASALT_TSAN
#include <sanitizer/tsan_interface.h>

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateBenignRaceSized(const char* file, int line, const volatile void* memory, std::size_t bytes,
                             const char* why);
}
#endif

// What ThreadSanitizer is told of the threads of a simulation: each is a thread to it, and a change from one to the
// other orders nothing, so what they do without a lock in common is a race although only one of them runs at a time.
// In other builds all of this is nothing.
namespace basalt::rt::internal {

// From here on, until unseen_ends(), the calling thread's reads and writes are not looked at: the simulation's own.
inline void unseen_begins() {
#if BASALT_TSAN
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
}

inline void unseen_ends() {
#if BASALT_TSAN
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}

class UnseenScope {
 public:
  UnseenScope() { unseen_begins(); }
  ~UnseenScope() { unseen_ends(); }
  UnseenScope(const UnseenScope&) = delete;
  UnseenScope& operator=(const UnseenScope&) = delete;
};

// `errno` is the operating system's thread's, which all of a simulation share; nobody expects it to outlast a wait.
inline void share_errno() {
#if BASALT_TSAN
  AnnotateBenignRaceSized(__FILE__, __LINE__, &errno, sizeof errno, "errno");
#endif
}

// What the caller of hand_on() did before comes before what a later caller of take_over() with the same pointer does.
inline void hand_on([[maybe_unused]] void* token) {
#if BASALT_TSAN
  __tsan_release(token);
#endif
}

inline void take_over([[maybe_unused]] void* token) {
#if BASALT_TSAN
  __tsan_acquire(token);
#endif
}

}  // namespace basalt::rt::internal
