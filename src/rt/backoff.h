#pragma once

#include <cstdint>

#include "rt/runtime.h"
#include "rt/time.h"

namespace basalt::rt {

struct BackoffOptions {
  Duration base = std::chrono::milliseconds(5);  // the first wait, as in client-go: a conflict is over by then
  // Differs: client-go waits up to 1000 s. After an outage of the API server everything is tried again within this.
  Duration cap = std::chrono::seconds(60);
  double factor = 2;
  double jitter = 0.1;  // each wait is lengthened by up to this share, beyond the cap too, against herds
};

// The wait after `failures` earlier ones (0 gives the base), without jitter.
[[nodiscard]] Duration backoff_delay(const BackoffOptions& options, std::uint32_t failures);

// How long to wait before each further try of one thing. One owner; not thread-safe.
class Backoff {
 public:
  explicit Backoff(Runtime& runtime, BackoffOptions options = {}) : runtime_(runtime), options_(options) {}

  // The wait before the next try, with jitter.
  [[nodiscard]] Duration next();
  // After a success.
  void reset() { failures_ = 0; }
  [[nodiscard]] std::uint32_t failures() const { return failures_; }

 private:
  Runtime& runtime_;
  const BackoffOptions options_;
  std::uint32_t failures_ = 0;
};

}  // namespace basalt::rt
