#pragma once

#include <chrono>

namespace basalt::rt {

using Duration = std::chrono::nanoseconds;

// Monotonic time of one runtime. Zero is when the runtime was made. Never compared between two runtimes.
struct MonotonicClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicClock, Duration>;
  static constexpr bool is_steady = true;
};
using Instant = MonotonicClock::time_point;

// Time of day, for what is written into objects.
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

inline constexpr Instant kNever = Instant::max();

// `from + by`, but kNever instead of an overflow: callers add durations that users wrote.
[[nodiscard]] constexpr Instant saturating_add(Instant from, Duration by) {
  if (by > Duration::zero() && from > Instant::max() - by) return kNever;
  if (by < Duration::zero() && from < Instant::min() - by) return Instant::min();
  return from + by;
}

}  // namespace basalt::rt
