#pragma once

#include <chrono>
#include <compare>
#include <string>
#include <string_view>

#include "api/fwd.h"
#include "base/result.h"

namespace basalt::api {

// A length of time in Go's notation: "1h15m30.918s", "300ms", "-1.5h". This is metav1.Duration, and every flag that
// takes a duration.
struct Duration {
  std::chrono::nanoseconds value{0};

  constexpr Duration() = default;
  constexpr Duration(std::chrono::nanoseconds nanoseconds) : value(nanoseconds) {}

  // Exactly what Go's time.ParseDuration takes (units ns, us, ms, s, m, h; about +-292 years).
  static Result<Duration> parse(std::string_view text);
  // Exactly as Go prints it: "0s", "1.5s", "1h0m0s", "2.5µs".
  [[nodiscard]] std::string to_string() const;

  [[nodiscard]] std::chrono::seconds seconds() const { return std::chrono::duration_cast<std::chrono::seconds>(value); }
  [[nodiscard]] std::chrono::milliseconds milliseconds() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(value);
  }
  constexpr auto operator<=>(const Duration&) const = default;
};

// An age as kubectl prints it, two units at most: "119s", "5m30s", "179m", "7h15m", "47h", "2d3h", "200d", "3y40d".
// "<invalid>" if it lies in the future by more than a second.
[[nodiscard]] std::string human_duration(std::chrono::nanoseconds age);

// A string; null is zero.
void decode(json::Reader& reader, Duration& duration);
void encode(json::Writer& writer, const Duration& duration);

}  // namespace basalt::api
