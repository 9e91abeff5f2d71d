#include "yaml/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "json/number.h"

namespace basalt::yaml {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_sign(char c) { return c == '+' || c == '-'; }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Digits of one base, whole; nothing if there are none, others, or too many for 64 bits.
std::optional<std::uint64_t> parse_digits(std::string_view digits, int base) {
  std::uint64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || result.ec != std::errc() || result.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<json::Value> integer_value(bool negative, std::uint64_t magnitude, bool has_sign) {
  constexpr std::uint64_t kTwoTo63 = std::uint64_t{1} << 63;
  if (negative) {
    if (magnitude > kTwoTo63) return std::nullopt;
    return json::Value(static_cast<std::int64_t>(~magnitude + 1));
  }
  if (magnitude < kTwoTo63) return json::Value(static_cast<std::int64_t>(magnitude));
  // Only the unsigned reading takes these, and it takes no sign.
  if (has_sign) return std::nullopt;
  return json::Value(static_cast<double>(magnitude));
}

// `text` without underscores: an optional sign, then 0x, 0o or 0 (octal), 0b, or decimal digits.
std::optional<json::Value> parse_integer(std::string_view text) {
  const bool has_sign = is_sign(text.front());
  const bool negative = text.front() == '-';
  std::string_view digits = text.substr(has_sign ? 1 : 0);
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
    digits.remove_prefix(mark == 'x' || mark == 'b' || mark == 'o' ? 2 : 1);
  }
  if (const auto magnitude = parse_digits(digits, base)) return integer_value(negative, *magnitude, has_sign);
  // A binary number may have its sign behind the mark.
  if (text.starts_with("0b") && digits.size() > 1 && is_sign(digits[0])) {
    if (const auto magnitude = parse_digits(digits.substr(1), 2)) {
      return integer_value(digits[0] == '-', *magnitude, true);
    }
  }
  return std::nullopt;
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
std::optional<double> parse_float(std::string_view text) {
  std::string number;  // in JSON's grammar
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return text.substr(start, at - start);
  };
  if (at < text.size() && is_sign(text[at])) {
    if (text[at] == '-') number += '-';
    ++at;
  }
  std::string_view whole = digits();
  std::string_view fraction;
  const bool has_point = at < text.size() && text[at] == '.';
  if (has_point) {
    ++at;
    fraction = digits();
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  while (whole.size() > 1 && whole[0] == '0') whole.remove_prefix(1);
  number.append(whole.empty() ? "0" : whole);
  if (!fraction.empty()) number.append(".").append(fraction);
  if (at < text.size() && (text[at] | 0x20) == 'e') {
    ++at;
    number += 'e';
    if (at < text.size() && is_sign(text[at])) number += text[at++];
    const std::string_view exponent = digits();
    if (exponent.empty()) return std::nullopt;
    number.append(exponent);
  }
  double value = 0;
  if (at != text.size() || !json::to_double(number, value)) return std::nullopt;
  return value;
}

std::string without_underscores(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  std::copy_if(text.begin(), text.end(), std::back_inserter(plain), [](char c) { return c != '_'; });
  return plain;
}

bool underscores_separate_digits(std::string_view text) {
  for (std::size_t at = text.find('_'); at != std::string_view::npos; at = text.find('_', at + 1)) {
    if (at == 0 || at + 1 == text.size() || !is_digit(text[at - 1]) || !is_digit(text[at + 1])) return false;
  }
  return true;
}

}  // namespace

Scalar resolve_plain(std::string_view text) {
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return {ScalarType::Null, {}};
  if (is_one_of(text, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) {
    return {ScalarType::Bool, true};
  }
  if (is_one_of(text, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    return {ScalarType::Bool, false};
  }
  if (is_one_of(text, {".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf",
                       "-.INF"})) {
    return {ScalarType::NotFinite, {}};
  }
  const char first = text.front();
  if (first == '.') {
    // Stricter about underscores than below, as Go's own parser of floats is.
    if (underscores_separate_digits(text)) {
      if (const auto number = parse_float(without_underscores(text))) return {ScalarType::Float, *number};
    }
  } else if (is_digit(first) || is_sign(first)) {
    const std::string plain = without_underscores(text);
    if (auto integer = parse_integer(plain)) return {ScalarType::Int, std::move(*integer)};
    if (const auto number = parse_float(plain)) return {ScalarType::Float, *number};
  }
  return {ScalarType::String, text};
}

bool looks_special_elsewhere(std::string_view text) {
  if (text == "<<" || text == "=") return true;
  const std::size_t sign = !text.empty() && is_sign(text[0]) ? 1 : 0;
  if (text.size() <= sign || !is_digit(text[sign])) return false;
  // A date begins with four digits and a dash.
  if (text.size() > 4 && text[4] == '-' && std::all_of(text.begin(), text.begin() + 4, is_digit)) return true;
  // Sexagesimal: groups of digits between colons.
  const bool only_these = std::all_of(text.begin() + static_cast<std::ptrdiff_t>(sign), text.end(),
                                      [](char c) { return is_digit(c) || c == '_' || c == ':' || c == '.'; });
  return only_these && text.find(':') != std::string_view::npos;
}

std::string float_key(double value) {
  const auto single = static_cast<float>(value);
  if (std::isinf(single)) return single < 0 ? "-.inf" : ".inf";
  std::array<char, 40> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::fabs(single), std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(result.ptr - buffer.data()));
  const std::size_t mark = text.find('e');
  int power = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), result.ptr, power);
  std::string key = std::signbit(single) ? "-" : "";
  std::string digits(1, text[0]);
  if (mark > 2) digits.append(text.substr(2, mark - 2));
  const auto count = static_cast<int>(digits.size());
  // Go's shortest %g: an exponent (of two digits at least, as here) below 1e-4 and from 1e6 on.
  if (power < -4 || power >= 6) return key.append(text);
  if (power < 0) return key.append("0.").append(static_cast<std::size_t>(-power - 1), '0').append(digits);
  if (count <= power + 1) return key.append(digits).append(static_cast<std::size_t>(power + 1 - count), '0');
  digits.insert(static_cast<std::size_t>(power + 1), ".");
  return key.append(digits);
}

}  // namespace basalt::yaml
