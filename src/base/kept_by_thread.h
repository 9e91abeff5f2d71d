#pragma once

#include <utility>

#include "base/sanitizers.h"

namespace basalt::base {

// Memory that a thread keeps from one call to the next, so that it is not allocated anew each time. `Owner` tells
// places apart. Never kept across a wait: the threads of a simulation share what an operating system's thread keeps. To
// ThreadSanitizer they would race for it, so nothing is kept there.
template <class Owner, class T>
class KeptByThread {
 public:
  [[nodiscard]] static T take() {
#if BASALT_TSAN
    return {};
#else
    return std::exchange(kept(), {});
#endif
  }
  static void give([[maybe_unused]] T&& memory) {
#if !BASALT_TSAN
    kept() = std::move(memory);
#endif
  }

 private:
  static T& kept() {
    thread_local T memory;
    return memory;
  }
};

}  // namespace basalt::base
