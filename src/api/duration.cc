#include "api/duration.h"

#include <array>
#include <cstdint>
#include <optional>

#include "base/strings.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {

namespace {

using base::is_digit;

constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;  // one more than the largest int64

struct Unit {
  std::string_view text;
  std::uint64_t nanoseconds;
};

constexpr std::array<Unit, 8> kUnits = {{{"ns", 1},
                                         {"us", 1'000},
                                         {"\u00b5s", 1'000},  // micro sign
                                         {"\u03bcs", 1'000},  // Greek letter mu
                                         {"ms", 1'000'000},
                                         {"s", 1'000'000'000},
                                         {"m", 60'000'000'000},
                                         {"h", 3'600'000'000'000}}};

std::string_view take_digits(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

std::optional<std::uint64_t> whole_number(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (value > kLimit / 10) return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
    if (value > kLimit) return std::nullopt;
  }
  return value;
}

// A fraction of a unit, cut to nanoseconds. Go works this out in floating point ("0.3333333333333333333h" is 20m), and
// so do we, lest one of two parties sees another duration; digits beyond what fits an integer are left out.
std::uint64_t fraction_of(std::string_view digits, std::uint64_t unit) {
  std::uint64_t value = 0;
  double scale = 1;
  for (const char c : digits) {
    if (value > (kLimit - 1) / 10) break;
    const std::uint64_t longer = value * 10 + static_cast<std::uint64_t>(c - '0');
    if (longer > kLimit) break;
    value = longer;
    scale *= 10;
  }
  return static_cast<std::uint64_t>(static_cast<double>(value) * (static_cast<double>(unit) / scale));
}

std::string_view take_unit(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && text[length] != '.' && !is_digit(text[length])) ++length;
  const std::string_view unit = text.substr(0, length);
  text.remove_prefix(length);
  return unit;
}

Error bad_duration(std::string_view text, const std::string& why) {
  return Error::invalid_input("duration " + base::quote(base::ellipsize(text, 64)) + ": " + why);
}

// Writes backwards, ending before `end`.
char* put_number(char* end, std::uint64_t value) {
  do {
    *--end = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  return end;
}

// The last `digits` digits of the value as a fraction without trailing zeros, with its point if anything is left of it.
char* put_fraction(char* end, std::uint64_t& value, int digits) {
  bool started = false;
  for (int i = 0; i < digits; ++i) {
    const auto digit = static_cast<char>('0' + value % 10);
    started = started || digit != '0';
    if (started) *--end = digit;
    value /= 10;
  }
  if (started) *--end = '.';
  return end;
}

std::string with_unit(std::int64_t amount, char unit) { return std::to_string(amount) + unit; }

// "5m30s", and "5m" if the smaller part is zero.
std::string two_units(std::int64_t amount, char unit, std::int64_t rest, char rest_unit) {
  std::string out = with_unit(amount, unit);
  if (rest != 0) out += with_unit(rest, rest_unit);
  return out;
}

}  // namespace

Result<Duration> Duration::parse(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest == "0") return Duration();
  if (rest.empty()) return bad_duration(text, "a number and a unit are expected, such as \"90s\" or \"1h30m\"");
  std::uint64_t total = 0;
  const auto too_large = [&] { return bad_duration(text, "too large: at most about 292 years"); };
  while (!rest.empty()) {
    const std::string_view digits = take_digits(rest);
    std::string_view decimals;
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
      decimals = take_digits(rest);
    }
    if (digits.empty() && decimals.empty()) return bad_duration(text, "a number is expected before each unit");
    const std::string_view unit_text = take_unit(rest);
    if (unit_text.empty()) return bad_duration(text, "missing unit: one of ns, us, ms, s, m, h");
    const Unit* unit = nullptr;
    for (const Unit& each : kUnits) {
      if (each.text == unit_text) unit = &each;
    }
    if (unit == nullptr) {
      return bad_duration(
          text, "unknown unit " + base::quote(base::ellipsize(unit_text, 16)) + ": must be one of ns, us, ms, s, m, h");
    }
    const std::optional<std::uint64_t> amount = whole_number(digits);
    if (!amount || *amount > kLimit / unit->nanoseconds) return too_large();
    // Each term is at most 2^63 + one hour, so the sum of two cannot wrap.
    const std::uint64_t term = *amount * unit->nanoseconds + fraction_of(decimals, unit->nanoseconds);
    if (term > kLimit || total + term > kLimit) return too_large();
    total += term;
  }
  if (!negative && total == kLimit) return too_large();
  const auto count = static_cast<std::int64_t>(negative ? ~total + 1 : total);
  return Duration(std::chrono::nanoseconds(count));
}

std::string Duration::to_string() const {
  const std::int64_t count = value.count();
  if (count == 0) return "0s";
  std::uint64_t left = count < 0 ? ~static_cast<std::uint64_t>(count) + 1 : static_cast<std::uint64_t>(count);
  std::array<char, 32> buffer{};  // the longest is "-2562047h47m16.854775808s"
  char* const end = buffer.data() + buffer.size();
  char* at = end;
  *--at = 's';
  if (left < 1'000'000'000) {
    // Below a second the unit shrinks so that something stands before the point.
    int decimals = 0;
    if (left >= 1'000'000) {
      *--at = 'm';
      decimals = 6;
    } else if (left >= 1'000) {
      *--at = '\xb5';
      *--at = '\xc2';
      decimals = 3;
    } else {
      *--at = 'n';
    }
    at = put_fraction(at, left, decimals);
    at = put_number(at, left);
  } else {
    at = put_fraction(at, left, 9);
    at = put_number(at, left % 60);
    left /= 60;
    if (left > 0) {
      *--at = 'm';
      at = put_number(at, left % 60);
      left /= 60;
    }
    if (left > 0) {
      *--at = 'h';
      at = put_number(at, left);
    }
  }
  if (count < 0) *--at = '-';
  return {at, end};
}

std::string human_duration(std::chrono::nanoseconds age) {
  // The steps of duration.HumanDuration, k8s.io/apimachinery v0.36: two units while the larger one is small.
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  const std::int64_t minutes = seconds / 60;
  const std::int64_t hours = minutes / 60;
  const std::int64_t days = hours / 24;
  const std::int64_t years = days / 365;
  if (minutes < 2) return with_unit(seconds, 's');
  if (minutes < 10) return two_units(minutes, 'm', seconds % 60, 's');
  if (hours < 3) return with_unit(minutes, 'm');
  if (hours < 8) return two_units(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return with_unit(hours, 'h');
  if (days < 8) return two_units(days, 'd', hours % 24, 'h');
  if (years < 2) return with_unit(days, 'd');
  if (years < 8) return two_units(years, 'y', days % 365, 'd');
  return with_unit(years, 'y');
}

void decode(json::Reader& reader, Duration& duration) {
  duration = Duration();
  if (reader.consume_null()) return;
  const std::string_view text = reader.read_string_view();
  if (!reader.ok()) return;
  const Result<Duration> parsed = Duration::parse(text);
  if (parsed.ok()) {
    duration = *parsed;
  } else {
    reader.fail(parsed.error().message);
  }
}

void encode(json::Writer& writer, const Duration& duration) { writer.string(duration.to_string()); }

}  // namespace basalt::api
