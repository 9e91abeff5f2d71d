#pragma once

#include <source_location>

#include "rt/runtime.h"
#include "rt/stop.h"
#include "rt/time.h"

namespace basalt::rt {

struct TokenBucketOptions {
  double per_second = 0;  // 0: no limit
  double burst = 1;       // tokens that an idle bucket holds; at least 1
};

// The arithmetic of a token bucket, without clock, lock or wait.
class TokenMeter {
 public:
  TokenMeter(TokenBucketOptions options, Instant now);
  [[nodiscard]] bool is_off() const { return options_.per_second <= 0; }
  // Takes a token if there is one.
  [[nodiscard]] bool try_take(Instant now);
  // Takes a token that there may not yet be; says after which time it may be used.
  [[nodiscard]] Duration reserve(Instant now);
  // Gives back a token that was reserved but not used.
  void give_back();

 private:
  void fill(Instant now);
  TokenBucketOptions options_;
  double tokens_;  // negative: so many are promised
  Instant filled_;
};

// Limits how often something is done: `per_second` on average, `burst` at once. Thread-safe. Waiters are served in the
// order in which they asked.
class TokenBucket {
 public:
  TokenBucket(Runtime& runtime, TokenBucketOptions options);

  [[nodiscard]] bool try_acquire();
  // Waits for a token; false if stopped before it came.
  [[nodiscard]] bool acquire(const StopToken& stop = {}, std::source_location where = std::source_location::current());
  // Takes the next free token and says how long to wait before using it.
  [[nodiscard]] Duration reserve();

 private:
  Runtime& runtime_;
  Mutex mutex_;
  TokenMeter meter_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::rt
