#include "controllers/sharding/publish_clock.h"

#include <algorithm>

namespace basalt::controllers::sharding {

void PublishClock::plan_period(rt::Instant now, double random_unit) {
  // Five per cent around the period, so that many clusters' controllers do not fall into step.
  const double factor = 0.95 + 0.1 * random_unit;
  sync_at_ = rt::saturating_add(now, std::chrono::duration_cast<rt::Duration>(period_ * factor));
}

void PublishClock::set_period(rt::Instant now, rt::Duration period, double random_unit) {
  if (period <= rt::Duration::zero()) period = kPeriodFallback;
  period_ = std::min<rt::Duration>(period, std::chrono::hours(24));
  plan_period(now, random_unit);
}

void PublishClock::trigger(rt::Instant now) { trigger_at_ = std::min(trigger_at_, rt::saturating_add(now, kDebounce)); }

void PublishClock::request_sync(rt::Instant when) { sync_at_ = std::min(sync_at_, when); }

rt::Instant PublishClock::next() const { return std::max(not_before_, std::min({trigger_at_, retry_at_, sync_at_})); }

PublishClock::Due PublishClock::due(rt::Instant now) const {
  if (now < next()) return Due::Nothing;
  if (now >= sync_at_ || (retries_sync_ && now >= retry_at_)) return Due::Sync;
  return Due::Changes;
}

void PublishClock::done(rt::Instant now, const Outcome& outcome) {
  trigger_at_ = rt::kNever;
  retry_at_ = rt::kNever;
  if (outcome.is_sync) plan_period(now, outcome.random_unit);
  not_before_ = std::max(not_before_, outcome.not_before);
  if (outcome.wrote || !outcome.is_complete)
    not_before_ = std::max(not_before_, rt::saturating_add(now, std::max(outcome.interval, kIntervalMin)));
  if (outcome.is_complete) {
    failures_ = 0;
    retries_sync_ = false;
    return;
  }
  retries_sync_ = retries_sync_ || outcome.is_sync;
  rt::Duration pause = kRetryMin;
  for (std::uint32_t i = 0; i < failures_ && pause < kRetryMax; ++i) pause *= 2;
  pause = std::min(pause, kRetryMax);
  if (failures_ < 1000) ++failures_;
  retry_at_ =
      rt::saturating_add(now, std::chrono::duration_cast<rt::Duration>(pause * (0.5 + outcome.random_unit / 2)));
}

}  // namespace basalt::controllers::sharding
