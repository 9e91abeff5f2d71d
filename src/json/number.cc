#include "json/number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace basalt::json {
namespace {

constexpr std::int64_t kExponentMax = 1'000'000'000;  // beyond every double and every text we read; keeps sums small

// A number by its significant digits: value = 0.digits * 10^exponent.
struct Decimal {
  bool negative = false;
  std::string digits;  // without leading and trailing zeros; empty for zero
  std::int64_t exponent = 0;
};

Decimal to_decimal(std::string_view raw) {
  Decimal decimal;
  if (raw.front() == '-') {
    decimal.negative = true;
    raw.remove_prefix(1);
  }
  std::size_t at = 0;
  bool after_point = false;
  for (; at < raw.size() && raw[at] != 'e' && raw[at] != 'E'; ++at) {
    if (raw[at] == '.') {
      after_point = true;
      continue;
    }
    if (decimal.digits.empty() && raw[at] == '0') {
      if (after_point) --decimal.exponent;
      continue;
    }
    decimal.digits.push_back(raw[at]);
    if (!after_point) ++decimal.exponent;
  }
  if (at < raw.size()) {
    ++at;
    const bool negative = raw[at] == '-';
    if (raw[at] == '-' || raw[at] == '+') ++at;
    std::int64_t written = 0;
    for (; at < raw.size(); ++at) written = std::min(written * 10 + (raw[at] - '0'), kExponentMax);
    decimal.exponent += negative ? -written : written;
  }
  while (!decimal.digits.empty() && decimal.digits.back() == '0') decimal.digits.pop_back();
  return decimal;
}

}  // namespace

IntegerOutcome to_int64(std::string_view raw, bool is_integer, std::int64_t& value) {
  if (is_integer) {
    const auto result = std::from_chars(raw.data(), raw.data() + raw.size(), value);
    return result.ec == std::errc() ? IntegerOutcome::Exact : IntegerOutcome::OutOfRange;
  }
  Decimal decimal = to_decimal(raw);
  if (decimal.digits.empty()) {
    value = 0;
    return IntegerOutcome::Exact;
  }
  if (decimal.exponent < static_cast<std::int64_t>(decimal.digits.size())) return IntegerOutcome::NotIntegral;
  if (decimal.exponent > 19) return IntegerOutcome::OutOfRange;
  decimal.digits.resize(static_cast<std::size_t>(decimal.exponent), '0');
  if (decimal.negative) decimal.digits.insert(0, 1, '-');
  return to_int64(decimal.digits, true, value);
}

bool to_double(std::string_view raw, double& value) {
  const auto result = std::from_chars(raw.data(), raw.data() + raw.size(), value);
  if (result.ec == std::errc()) return std::isfinite(value);
  // Too large or too small: from_chars does not say which.
  const Decimal decimal = to_decimal(raw);
  if (decimal.exponent > 0) return false;
  value = decimal.negative ? -0.0 : 0.0;
  return true;
}

void append_double(std::string& out, double value) {
  // Between 2^53 and 2^63 the shortest digits, read as an integer (and whoever can does), are another number.
  if (std::fabs(value) >= 0x1p53 && std::fabs(value) < 0x1p63) {
    out.append(std::to_string(static_cast<std::int64_t>(value)));
    return;
  }
  std::array<char, 40> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::fabs(value), std::chars_format::scientific);
  if (std::signbit(value)) out.push_back('-');
  // "d.ddde+xx": the digits without the point, and the power of ten of the first one.
  const std::string_view text(buffer.data(), static_cast<std::size_t>(result.ptr - buffer.data()));
  const std::size_t mark = text.find('e');
  std::string digits(1, text[0]);
  if (mark > 2) digits.append(text.substr(2, mark - 2));
  int power = 0;
  const char* const power_begin = text.data() + mark + (text[mark + 1] == '+' ? 2 : 1);
  std::from_chars(power_begin, result.ptr, power);

  const int count = static_cast<int>(digits.size());
  if (value != 0 && (power < -6 || power >= 21)) {
    out.push_back(digits[0]);
    if (count > 1) out.append(".").append(digits, 1);
    out.append(power < 0 ? "e-" : "e+").append(std::to_string(std::abs(power)));
  } else if (power < 0) {
    out.append("0.").append(static_cast<std::size_t>(-power - 1), '0').append(digits);
  } else if (count <= power + 1) {
    out.append(digits).append(static_cast<std::size_t>(power + 1 - count), '0');
  } else {
    out.append(digits, 0, static_cast<std::size_t>(power + 1)).append(".");
    out.append(digits, static_cast<std::size_t>(power + 1));
  }
}

}  // namespace basalt::json
