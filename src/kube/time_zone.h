#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/time.h"
#include "base/result.h"

namespace basalt::kube {

// A zone of the system's database of time zones: how far its clocks are from UTC, at any time. A value.
class TimeZone {
 public:
  TimeZone() = default;  // UTC
  // The content of a file of the database (RFC 9636, version 2 or later).
  [[nodiscard]] static Result<TimeZone> parse(std::string_view file);
  // By its name ("Europe/Berlin"). NotFound: there is no such zone; ServiceUnavailable: this machine has no database.
  [[nodiscard]] static Result<TimeZone> find(const std::string& name);

  // That of this process: what $TZ names, else the machine's (/etc/localtime); UTC if neither can be read.
  [[nodiscard]] static TimeZone of_this_process();

  // Seconds to add to UTC; negative west of Greenwich.
  [[nodiscard]] std::int64_t offset_at(std::int64_t unix_seconds) const;
  // RFC 3339 in this zone: "2026-03-29T03:00:00+02:00", "...Z" for UTC.
  [[nodiscard]] std::string format(api::Time time) const;

 private:
  // When clocks are changed, every year: the last part of a file.
  struct Turn {
    enum class Kind : std::uint8_t { WeekOfMonth, DayWithoutLeap, DayOfYear };
    Kind kind = Kind::WeekOfMonth;
    int month = 0;  // WeekOfMonth: 1 to 12
    int week = 0;   // 1 to 5, 5 is the last
    int day = 0;    // of the week (0 is Sunday) or of the year
    std::int64_t seconds = 7200;
  };
  struct Rule {
    std::int64_t offset = 0;
    std::int64_t summer_offset = 0;
    std::optional<Turn> to_summer;
    std::optional<Turn> to_winter;
  };
  struct Transition {
    std::int64_t at = 0;
    std::int64_t offset = 0;  // from then on
  };
  [[nodiscard]] static std::optional<Rule> parse_rule(std::string_view text);
  [[nodiscard]] static std::optional<Turn> parse_turn(std::string_view text);
  [[nodiscard]] static std::int64_t local_time_of(const Turn& turn, int year);
  [[nodiscard]] std::int64_t offset_by_rule(std::int64_t unix_seconds) const;

  std::int64_t first_offset_ = 0;
  std::vector<Transition> transitions_;  // oldest first
  std::optional<Rule> rule_;             // after the last of them
};

// Whether every part of the name could belong to a time zone: letters, digits, ".", "-", "_", "+", at most 14 long.
[[nodiscard]] bool is_zone_name(std::string_view name);

}  // namespace basalt::kube
