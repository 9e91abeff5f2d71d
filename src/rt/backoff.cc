#include "rt/backoff.h"

#include <limits>

namespace basalt::rt {

Duration backoff_delay(const BackoffOptions& options, std::uint32_t failures) {
  if (options.base >= options.cap) return options.cap;
  const auto cap = static_cast<double>(options.cap.count());
  auto delay = static_cast<double>(options.base.count());
  // Ends after a few dozen rounds: the delay grows to the cap, or not at all.
  for (std::uint32_t i = 0; i < failures && delay < cap && options.factor > 1 && delay > 0; ++i)
    delay *= options.factor;
  return delay >= cap ? options.cap : Duration(static_cast<Duration::rep>(delay));
}

Duration Backoff::next() {
  const Duration delay = backoff_delay(options_, failures_);
  if (failures_ < std::numeric_limits<std::uint32_t>::max()) ++failures_;
  return runtime_.jitter(delay, options_.jitter);
}

}  // namespace basalt::rt
