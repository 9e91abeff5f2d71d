#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "api/fwd.h"
#include "base/result.h"

namespace basalt::api {

// A point in time to the second, as metadata.creationTimestamp and most fields have it. The default is "none", which is
// null in JSON; 1970-01-01T00:00:00Z is an ordinary time. None sorts before every other time.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time from_unix(std::int64_t seconds) { return Time(seconds); }
  static Time from(std::chrono::system_clock::time_point point) {
    return Time(std::chrono::floor<std::chrono::seconds>(point).time_since_epoch().count());
  }
  // RFC 3339 as Go's time package reads it: any offset, any fraction (cut off here), years 0 to 9999.
  static Result<Time> parse(std::string_view text);

  [[nodiscard]] constexpr bool is_zero() const { return seconds_ == kNone; }
  explicit constexpr operator bool() const { return !is_zero(); }
  [[nodiscard]] constexpr std::int64_t unix_seconds() const { return is_zero() ? 0 : seconds_; }
  [[nodiscard]] std::chrono::system_clock::time_point to_time_point() const;
  [[nodiscard]] std::string to_string() const;  // "2026-01-02T03:04:05Z"; "" if none

  // None stays none. Saturates at the years 0 and 9999.
  [[nodiscard]] Time operator+(std::chrono::seconds delta) const;
  [[nodiscard]] Time operator-(std::chrono::seconds delta) const { return *this + -delta; }
  // Zero if either is none.
  [[nodiscard]] std::chrono::seconds operator-(Time other) const;
  constexpr auto operator<=>(const Time&) const = default;

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  explicit constexpr Time(std::int64_t seconds) : seconds_(seconds) {}
  std::int64_t seconds_ = kNone;
};

// The same to the microsecond: leases, events. Written with exactly six decimals.
// Differs: Kubernetes reads a MicroTime only with six decimals; we take any number of them, or none.
class MicroTime {
 public:
  constexpr MicroTime() = default;
  static constexpr MicroTime from_unix_micros(std::int64_t micros) { return MicroTime(micros); }
  static MicroTime from(std::chrono::system_clock::time_point point) {
    return MicroTime(std::chrono::floor<std::chrono::microseconds>(point).time_since_epoch().count());
  }
  static Result<MicroTime> parse(std::string_view text);

  [[nodiscard]] constexpr bool is_zero() const { return micros_ == kNone; }
  explicit constexpr operator bool() const { return !is_zero(); }
  [[nodiscard]] constexpr std::int64_t unix_micros() const { return is_zero() ? 0 : micros_; }
  [[nodiscard]] std::chrono::system_clock::time_point to_time_point() const;
  [[nodiscard]] Time to_time() const;           // cut to the second
  [[nodiscard]] std::string to_string() const;  // "2026-01-02T03:04:05.000006Z"; "" if none

  [[nodiscard]] MicroTime operator+(std::chrono::microseconds delta) const;
  [[nodiscard]] MicroTime operator-(std::chrono::microseconds delta) const { return *this + -delta; }
  [[nodiscard]] std::chrono::microseconds operator-(MicroTime other) const;
  constexpr auto operator<=>(const MicroTime&) const = default;

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  explicit constexpr MicroTime(std::int64_t micros) : micros_(micros) {}
  std::int64_t micros_ = kNone;
};

// Null or a string.
void decode(json::Reader& reader, Time& time);
void encode(json::Writer& writer, const Time& time);
void decode(json::Reader& reader, MicroTime& time);
void encode(json::Writer& writer, const MicroTime& time);

}  // namespace basalt::api
