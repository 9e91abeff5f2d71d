#pragma once

#include <cstdint>

#include "rt/time.h"

namespace basalt::controllers::sharding {

// When NodeShards are written: soon after something urgent (the first trigger starts a short wait in which others
// join), regularly, and again after a failure with growing pauses; never sooner than a pause after the last time. A
// pause after a failure holds back only the repetition, not new triggers: one object that cannot be written must not
// delay all others. Pure; times and random numbers come from the caller.
class PublishClock {
 public:
  static constexpr rt::Duration kDebounce = std::chrono::milliseconds(200);
  static constexpr rt::Duration kIntervalMin = std::chrono::seconds(1);
  static constexpr rt::Duration kPeriodFallback = std::chrono::seconds(120);  // for periods of 0 or less
  static constexpr rt::Duration kRetryMin = std::chrono::milliseconds(100);
  static constexpr rt::Duration kRetryMax = std::chrono::seconds(60);

  enum class Due : std::uint8_t { Nothing, Changes, Sync };

  void set_period(rt::Instant now, rt::Duration period, double random_unit);
  // Something that is not left to the period.
  void trigger(rt::Instant now);
  // Everything is to be compared with what is stored, at once or after the short wait.
  void request_sync(rt::Instant when);

  [[nodiscard]] Due due(rt::Instant now) const;
  [[nodiscard]] rt::Instant next() const;  // when due() says something

  struct Outcome {
    bool is_sync = false;
    bool is_complete = true;
    bool wrote = false;        // only then the pause after it counts, and after failures
    rt::Duration interval{};   // wanted until the next time, for the sake of those who watch
    rt::Instant not_before{};  // the server's wish, or the breaker's
    double random_unit = 0;    // in [0, 1)
  };
  void done(rt::Instant now, const Outcome& outcome);
  [[nodiscard]] rt::Duration period() const { return period_; }
  [[nodiscard]] std::uint32_t failures() const { return failures_; }

 private:
  void plan_period(rt::Instant now, double random_unit);

  rt::Duration period_ = std::chrono::seconds(60);
  rt::Instant trigger_at_ = rt::kNever;
  rt::Instant retry_at_ = rt::kNever;
  rt::Instant sync_at_ = rt::kNever;
  rt::Instant not_before_{};
  bool retries_sync_ = false;
  std::uint32_t failures_ = 0;
};

}  // namespace basalt::controllers::sharding
