#include "rt/token_bucket.h"

#include <algorithm>

namespace basalt::rt {

TokenMeter::TokenMeter(TokenBucketOptions options, Instant now)
    : options_{.per_second = options.per_second, .burst = std::max(1.0, options.burst)},
      tokens_(options_.burst),
      filled_(now) {}

void TokenMeter::fill(Instant now) {
  if (now <= filled_) return;
  const double seconds = std::chrono::duration<double>(now - filled_).count();
  tokens_ = std::min(options_.burst, tokens_ + seconds * options_.per_second);
  filled_ = now;
}

bool TokenMeter::try_take(Instant now) {
  if (is_off()) return true;
  fill(now);
  // The sum of many small fillings may miss the whole number by a rounding error.
  constexpr double kRoundingError = 1e-9;
  if (tokens_ < 1 - kRoundingError) return false;
  tokens_ -= 1;
  return true;
}

Duration TokenMeter::reserve(Instant now) {
  if (is_off()) return Duration::zero();
  fill(now);
  tokens_ -= 1;
  if (tokens_ >= 0) return Duration::zero();
  // Rounded up, so that nobody comes a nanosecond early. The bound keeps odd rates from overflowing.
  constexpr double kSecondsMax = 1e9;
  return std::chrono::ceil<Duration>(
      std::chrono::duration<double>(std::min(kSecondsMax, -tokens_ / options_.per_second)));
}

void TokenMeter::give_back() {
  if (!is_off()) tokens_ = std::min(options_.burst, tokens_ + 1);
}

TokenBucket::TokenBucket(Runtime& runtime, TokenBucketOptions options)
    : runtime_(runtime), meter_(options, runtime.now()) {}

bool TokenBucket::try_acquire() {
  const Instant now = runtime_.now();
  MutexLock lock(mutex_);
  return meter_.try_take(now);
}

Duration TokenBucket::reserve() {
  const Instant now = runtime_.now();
  MutexLock lock(mutex_);
  return meter_.reserve(now);
}

bool TokenBucket::acquire(const StopToken& stop, std::source_location where) {
  if (stop.stop_requested()) return false;
  const Duration wait = reserve();
  if (wait == Duration::zero() || !stop.wait_for(runtime_, wait, where)) return true;
  MutexLock lock(mutex_);
  meter_.give_back();
  return false;
}

}  // namespace basalt::rt
