#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/time.h"
#include "base/result.h"
#include "kube/time_zone.h"

namespace basalt::kube {

// A cron schedule of five fields (numbers, names, ranges, steps, lists), or a descriptor such as @daily or
// @every 1h30m. A value.
//
// A day fits if both its fields do; if neither of them is "*", one is enough. Where clocks are put forward, the times
// that are left out do not come that day; where they are put back, those that come twice come twice.
class CronSchedule {
 public:
  // An error's message is what is wrong with it.
  [[nodiscard]] static Result<CronSchedule> parse(std::string_view text);

  // The first time after; nothing if there is none within five years (30 February). @every counts from `after`.
  [[nodiscard]] std::optional<api::Time> next(api::Time after, const TimeZone& zone) const;

  // What has come due since `after`, up to and with `now`. Counted up to `kMissedMax`; the latest is exact in any case.
  struct Due {
    api::Time latest;
    std::int64_t count = 0;
  };
  static constexpr std::int64_t kMissedMax = 101;
  [[nodiscard]] std::optional<Due> due(api::Time after, api::Time now, const TimeZone& zone) const;

 private:
  [[nodiscard]] bool day_fits(unsigned day_of_month, unsigned day_of_week) const;
  [[nodiscard]] bool has(std::size_t field, unsigned value) const { return (bits_[field] >> value & 1) != 0; }
  [[nodiscard]] api::Time latest_until(api::Time now, api::Time fallback, const TimeZone& zone) const;

  std::array<std::uint64_t, 5> bits_{};  // minute, hour, day of month, month, day of week
  bool any_day_of_month_ = false;
  bool any_day_of_week_ = false;
  std::optional<std::chrono::seconds> every_;
};

// What is wrong with a schedule; "" if nothing.
[[nodiscard]] std::string cron_complaint(std::string_view schedule);

}  // namespace basalt::kube
