#include "api/time.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/strings.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {

namespace {

using base::is_digit;
using std::chrono::microseconds;
using std::chrono::seconds;

constexpr std::int64_t kSecondsMin = -62'167'219'200;  // 0000-01-01T00:00:00Z
constexpr std::int64_t kSecondsMax = 253'402'300'799;  // 9999-12-31T23:59:59Z
constexpr std::int64_t kMicros = 1'000'000;
// Go's zero time, 0001-01-01T00:00:00Z. Go programs write it for "none", and Kubernetes answers null for it.
constexpr std::int64_t kGoZeroSeconds = -62'135'596'800;

// Seconds since 1970 and microseconds of that second (the fraction is cut off there).
struct Instant {
  std::int64_t second = 0;
  std::int64_t micros = 0;
};

// Takes the text apart from the left; the first mismatch is remembered.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  // Exactly `digits` digits, or one fewer if `at_least` says so.
  int number(std::size_t digits, std::size_t at_least) {
    std::size_t length = 0;
    int value = 0;
    while (length < digits && length < rest_.size() && is_digit(rest_[length]))
      value = value * 10 + (rest_[length++] - '0');
    ok_ = ok_ && length >= at_least;
    rest_.remove_prefix(length);
    return value;
  }
  int number(std::size_t digits) { return number(digits, digits); }
  void literal(char c) { ok_ = next_is(c) && ok_; }
  bool next_is(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // One digit or more, of which six count.
  std::int64_t fraction_micros() {
    std::int64_t value = 0;
    std::size_t length = 0;
    for (; length < rest_.size() && is_digit(rest_[length]); ++length) {
      if (length < 6) value = value * 10 + (rest_[length] - '0');
    }
    ok_ = ok_ && length > 0;
    for (std::size_t i = length; i < 6; ++i) value *= 10;
    rest_.remove_prefix(length);
    return value;
  }
  void require(bool condition) { ok_ = ok_ && condition; }
  [[nodiscard]] bool is_done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// RFC 3339 with what Go's time.Parse(time.RFC3339, ...) adds: an hour of one digit, a comma before the fraction, and
// offsets of up to 24:60.
std::optional<Instant> scan_rfc3339(std::string_view text) {
  Scanner scanner(text);
  const int year = scanner.number(4);
  scanner.literal('-');
  const auto month = static_cast<unsigned>(scanner.number(2));
  scanner.literal('-');
  const auto day = static_cast<unsigned>(scanner.number(2));
  scanner.literal('T');
  const int hour = scanner.number(2, 1);
  scanner.literal(':');
  const int minute = scanner.number(2);
  scanner.literal(':');
  const int second = scanner.number(2);
  Instant instant;
  if (scanner.next_is('.') || scanner.next_is(',')) instant.micros = scanner.fraction_micros();
  std::int64_t offset_seconds = 0;
  if (!scanner.next_is('Z')) {
    const bool east = scanner.next_is('+');
    if (!east) scanner.literal('-');
    const int offset_hour = scanner.number(2);
    scanner.literal(':');
    const int offset_minute = scanner.number(2);
    scanner.require(offset_hour <= 24 && offset_minute <= 60);
    offset_seconds = (offset_hour * 3600 + offset_minute * 60) * (east ? 1 : -1);
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  scanner.require(date.ok() && hour < 24 && minute < 60 && second < 60);
  if (!scanner.is_done()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  instant.second = days * 86'400 + hour * 3600 + minute * 60 + second - offset_seconds;
  // An offset can lead out of the years that can be written.
  if (instant.second < kSecondsMin) instant = {kSecondsMin, 0};
  if (instant.second > kSecondsMax) instant = {kSecondsMax, kMicros - 1};
  return instant;
}

Error bad_time(std::string_view text) {
  return Error::invalid_input("time " + base::quote(base::ellipsize(text, 64)) +
                              ": must be in RFC 3339 form, such as \"2006-01-02T15:04:05Z\"");
}

void put(char*& at, std::int64_t value, int digits) {
  for (int i = digits - 1; i >= 0; --i) {
    at[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  at += digits;
}

// `micros` below zero: no fraction.
std::string print_rfc3339(std::int64_t second, std::int64_t micros) {
  const std::chrono::sys_seconds point{seconds(std::clamp(second, kSecondsMin, kSecondsMax))};
  const auto day = std::chrono::floor<std::chrono::days>(point);
  const std::chrono::year_month_day date(day);
  const std::int64_t of_day = (point - day).count();
  std::array<char, 27> text{};
  char* at = text.data();
  put(at, static_cast<int>(date.year()), 4);
  *at++ = '-';
  put(at, static_cast<unsigned>(date.month()), 2);
  *at++ = '-';
  put(at, static_cast<unsigned>(date.day()), 2);
  *at++ = 'T';
  put(at, of_day / 3600, 2);
  *at++ = ':';
  put(at, of_day / 60 % 60, 2);
  *at++ = ':';
  put(at, of_day % 60, 2);
  if (micros >= 0) {
    *at++ = '.';
    put(at, micros, 6);
  }
  *at++ = 'Z';
  return {text.data(), at};
}

// Floor division, for times before 1970.
std::int64_t whole_seconds(std::int64_t micros) { return micros / kMicros - (micros % kMicros < 0 ? 1 : 0); }

std::int64_t add_clamped(std::int64_t a, std::int64_t b, std::int64_t min, std::int64_t max) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return b < 0 ? min : max;
  return std::clamp(sum, min, max);
}

// The system clock counts nanoseconds and ends in the years 1677 and 2262.
std::chrono::system_clock::time_point clamp_to_clock(std::int64_t second, std::int64_t micros) {
  using Clock = std::chrono::system_clock;
  const std::int64_t limit = std::chrono::duration_cast<seconds>(Clock::duration::max()).count() - 1;
  if (second > limit || second < -limit) return second > 0 ? Clock::time_point::max() : Clock::time_point::min();
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(seconds(second) + microseconds(micros)));
}

template <class T>
void decode_time(json::Reader& reader, T& time) {
  time = T();
  if (reader.consume_null()) return;
  const std::string_view text = reader.read_string_view();
  if (!reader.ok()) return;
  Result<T> parsed = T::parse(text);
  if (parsed.ok()) {
    time = *parsed;
  } else {
    reader.fail(parsed.error().message);
  }
}

}  // namespace

Result<Time> Time::parse(std::string_view text) {
  const std::optional<Instant> instant = scan_rfc3339(text);
  if (!instant) return bad_time(text);
  if (instant->second == kGoZeroSeconds) return Time();
  return Time(instant->second);
}

std::chrono::system_clock::time_point Time::to_time_point() const { return clamp_to_clock(unix_seconds(), 0); }

std::string Time::to_string() const { return is_zero() ? std::string() : print_rfc3339(seconds_, -1); }

Time Time::operator+(seconds delta) const {
  if (is_zero()) return *this;
  return Time(add_clamped(seconds_, delta.count(), kSecondsMin, kSecondsMax));
}

seconds Time::operator-(Time other) const {
  if (is_zero() || other.is_zero()) return seconds(0);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  return seconds(add_clamped(seconds_, -other.seconds_, -kMax, kMax));
}

Result<MicroTime> MicroTime::parse(std::string_view text) {
  const std::optional<Instant> instant = scan_rfc3339(text);
  if (!instant) return bad_time(text);
  if (instant->second == kGoZeroSeconds && instant->micros == 0) return MicroTime();
  return MicroTime(instant->second * kMicros + instant->micros);
}

std::chrono::system_clock::time_point MicroTime::to_time_point() const {
  const std::int64_t second = whole_seconds(unix_micros());
  return clamp_to_clock(second, unix_micros() - second * kMicros);
}

Time MicroTime::to_time() const { return is_zero() ? Time() : Time::from_unix(whole_seconds(micros_)); }

std::string MicroTime::to_string() const {
  if (is_zero()) return {};
  const std::int64_t second = whole_seconds(micros_);
  return print_rfc3339(second, micros_ - second * kMicros);
}

MicroTime MicroTime::operator+(microseconds delta) const {
  if (is_zero()) return *this;
  return MicroTime(add_clamped(micros_, delta.count(), kSecondsMin * kMicros, kSecondsMax * kMicros + kMicros - 1));
}

microseconds MicroTime::operator-(MicroTime other) const {
  if (is_zero() || other.is_zero()) return microseconds(0);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  return microseconds(add_clamped(micros_, -other.micros_, -kMax, kMax));
}

void decode(json::Reader& reader, Time& time) { decode_time(reader, time); }
void decode(json::Reader& reader, MicroTime& time) { decode_time(reader, time); }

void encode(json::Writer& writer, const Time& time) {
  if (time.is_zero()) {
    writer.null();
  } else {
    writer.string(time.to_string());
  }
}

void encode(json::Writer& writer, const MicroTime& time) {
  if (time.is_zero()) {
    writer.null();
  } else {
    writer.string(time.to_string());
  }
}

}  // namespace basalt::api
