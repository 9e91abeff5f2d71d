#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cel/value.h"

namespace basalt::cel {

// RFC 3339, with up to nine decimals kept; nothing if it is none or outside the years 1 to 9999.
[[nodiscard]] std::optional<Timestamp> parse_timestamp(std::string_view text);
[[nodiscard]] std::string timestamp_text(const Timestamp& time);
[[nodiscard]] std::optional<Timestamp> make_timestamp(std::int64_t seconds, std::int64_t nanos);

// Go's notation in; seconds with a fraction out ("90s", "1.5s"), as the language prints them.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);
[[nodiscard]] std::string duration_text(const Duration& duration);

// getHours and the like, of a timestamp in a zone ("" is UTC; "+02:00") or of a duration. Names of zones other than UTC
// are not known.
[[nodiscard]] Result<Value> time_part(const Value& time, std::string_view part, std::string_view zone);

// a + b, a - b; "no such overload" for what cannot be added.
[[nodiscard]] Result<Value> add_times(const Value& a, const Value& b);
[[nodiscard]] Result<Value> subtract_times(const Value& a, const Value& b);

}  // namespace basalt::cel
