#include "api/quantity.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {

namespace {

using base::is_digit;
using Format = Quantity::Format;
__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

constexpr Wide kNanoPerUnit = 1'000'000'000;
constexpr Wide kNanoPerMilli = 1'000'000;
// Symmetric, so that negation is always possible.
constexpr Wide kNanoMax = static_cast<Wide>(~UnsignedWide{0} >> 1);
// Where Kubernetes stops for amounts with a binary suffix.
constexpr Wide kBinaryNanoMax = static_cast<Wide>(std::numeric_limits<std::int64_t>::max()) * kNanoPerUnit;

struct Suffix {
  std::string_view text;
  Format format;
  int exponent;  // of 10, or of 2 for a binary suffix
};

constexpr std::array<Suffix, 16> kSuffixes = {{{"", Format::DecimalSI, 0},
                                               {"m", Format::DecimalSI, -3},
                                               {"Ki", Format::BinarySI, 10},
                                               {"Mi", Format::BinarySI, 20},
                                               {"Gi", Format::BinarySI, 30},
                                               {"Ti", Format::BinarySI, 40},
                                               {"Pi", Format::BinarySI, 50},
                                               {"Ei", Format::BinarySI, 60},
                                               {"k", Format::DecimalSI, 3},
                                               {"M", Format::DecimalSI, 6},
                                               {"G", Format::DecimalSI, 9},
                                               {"T", Format::DecimalSI, 12},
                                               {"P", Format::DecimalSI, 15},
                                               {"E", Format::DecimalSI, 18},
                                               {"n", Format::DecimalSI, -9},
                                               {"u", Format::DecimalSI, -6}}};

Wide add_saturating(Wide a, Wide b) {
  if (b > 0 && a > kNanoMax - b) return kNanoMax;
  if (b < 0 && a < -kNanoMax - b) return -kNanoMax;
  return a + b;
}

Wide multiply_saturating(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  const bool negative = (a < 0) != (b < 0);
  const Wide size_a = a < 0 ? -a : a;
  const Wide size_b = b < 0 ? -b : b;
  if (size_a > kNanoMax / size_b) return negative ? -kNanoMax : kNanoMax;
  return a * b;
}

// Stops once it has saturated, so a huge exponent costs nothing.
Wide times_ten(Wide value, std::int64_t times) {
  for (; times > 0 && value != 0; --times) {
    if (value > kNanoMax / 10) return kNanoMax;
    value *= 10;
  }
  return value;
}

Wide number_of(std::string_view digits) {
  Wide value = 0;
  for (const char c : digits) {
    if (value > (kNanoMax - 9) / 10) return kNanoMax;
    value = value * 10 + (c - '0');
  }
  return value;
}

bool has_nonzero(std::string_view digits) { return digits.find_first_not_of('0') != std::string_view::npos; }

// A number as written, without its sign.
struct Number {
  std::string_view digits;    // before the point
  std::string_view decimals;  // after it
};

// Both return nano units, rounded up.
Wide decimal_nano(const Number& number, std::int64_t exponent) {
  // Far beyond what can be held or told from zero, and far from where adding to it could overflow.
  constexpr std::int64_t kExponentMax = 1'000'000'000'000;
  const std::int64_t shift = std::clamp(exponent, -kExponentMax, kExponentMax) + 9;
  Wide nano = 0;
  bool has_rest = false;
  if (shift < 0) {
    const std::size_t dropped = std::min(static_cast<std::size_t>(-shift), number.digits.size());
    const std::size_t kept = number.digits.size() - dropped;
    nano = number_of(number.digits.substr(0, kept));
    has_rest = has_nonzero(number.digits.substr(kept)) || has_nonzero(number.decimals);
  } else {
    const std::size_t kept = std::min(static_cast<std::size_t>(shift), number.decimals.size());
    const Wide part = number_of(number.decimals.substr(0, kept));
    nano = add_saturating(times_ten(number_of(number.digits), shift),
                          times_ten(part, shift - static_cast<std::int64_t>(kept)));
    has_rest = has_nonzero(number.decimals.substr(kept));
  }
  return has_rest ? add_saturating(nano, 1) : nano;
}

Wide binary_nano(const Number& number, int exponent) {
  const Wide scale = (Wide{1} << exponent) * kNanoPerUnit;  // at most 2^90
  const Wide whole = multiply_saturating(number_of(number.digits), scale);
  // Long multiplication of the decimals by the scale, from the last digit: what is carried over the point is the whole
  // part of the product, what stays behind it only matters for rounding up.
  Wide carry = 0;
  bool has_rest = false;
  for (std::size_t i = number.decimals.size(); i-- > 0;) {
    carry += (number.decimals[i] - '0') * scale;
    has_rest = has_rest || carry % 10 != 0;
    carry /= 10;
  }
  return std::min(add_saturating(whole, carry + (has_rest ? 1 : 0)), kBinaryNanoMax);
}

std::size_t digits_at(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - from;
}

std::optional<Suffix> find_suffix(std::string_view text) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.text == text) return suffix;
  }
  return std::nullopt;
}

// "e3", "E-3": nothing if it is no exponent at all.
std::optional<std::int64_t> find_exponent(std::string_view suffix) {
  if (suffix.size() < 2 || (suffix.front() != 'e' && suffix.front() != 'E')) return std::nullopt;
  return base::parse_int64(suffix.substr(1));
}

Error bad_quantity(std::string_view text, const char* why) {
  return Error::invalid_input("quantity " + base::quote(base::ellipsize(text, 64)) + ": " + why);
}

std::string print(Wide value) {
  const bool negative = value < 0;
  UnsignedWide size = negative ? -static_cast<UnsignedWide>(value) : static_cast<UnsignedWide>(value);
  std::array<char, 40> digits{};
  auto at = digits.end();
  do {
    *--at = static_cast<char>('0' + static_cast<int>(size % 10));
    size /= 10;
  } while (size != 0);
  if (negative) *--at = '-';
  return {at, digits.end()};
}

std::int64_t divide_away_from_zero(Wide value, Wide divisor) {
  Wide quotient = value / divisor;
  if (value % divisor != 0) quotient += value < 0 ? -1 : 1;
  return static_cast<std::int64_t>(
      std::clamp<Wide>(quotient, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
}

}  // namespace

Quantity Quantity::of(std::int64_t units, Format format) {
  Quantity quantity;
  quantity.set_nano(units * kNanoPerUnit);
  quantity.set_format(format);
  return quantity;
}

Quantity Quantity::of_milli(std::int64_t milli, Format format) {
  Quantity quantity;
  quantity.set_nano(milli * kNanoPerMilli);
  quantity.set_format(format);
  return quantity;
}

Quantity Quantity::of_nano(std::int64_t nano, Format format) {
  Quantity quantity;
  quantity.set_nano(nano);
  quantity.set_format(format);
  return quantity;
}

Result<Quantity> Quantity::parse(std::string_view text) {
  static constexpr const char* kBadFormat =
      "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
  static constexpr const char* kBadNumber = "unable to parse numeric part of quantity";
  static constexpr const char* kBadSuffix = "unable to parse quantity's suffix";
  if (text.empty()) return bad_quantity(text, kBadFormat);
  std::size_t at = text.front() == '-' || text.front() == '+' ? 1 : 0;
  Number number;
  number.digits = text.substr(at, digits_at(text, at));
  at += number.digits.size();
  if (at < text.size() && text[at] == '.') {
    number.decimals = text.substr(at + 1, digits_at(text, at + 1));
    at += 1 + number.decimals.size();
  }
  const std::string_view suffix_text = text.substr(at);
  while (at < text.size() && std::string_view("eEinumkKMGTP").find(text[at]) != std::string_view::npos) ++at;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  if (at + digits_at(text, at) != text.size()) return bad_quantity(text, kBadFormat);

  // Differs: Kubernetes takes some numbers without digits ("m", ".") for zero and refuses others ("Ei").
  if (number.digits.empty() && number.decimals.empty()) return bad_quantity(text, kBadNumber);

  Quantity quantity;
  Wide nano = 0;
  Format format = Format::DecimalExponent;
  if (const std::optional<Suffix> suffix = find_suffix(suffix_text)) {
    format = suffix->format;
    nano = format == Format::BinarySI ? binary_nano(number, suffix->exponent) : decimal_nano(number, suffix->exponent);
    // So that the fraction shows in what is printed.
    if (format == Format::BinarySI && nano > 0 && nano < kNanoPerUnit) format = Format::DecimalSI;
  } else if (const std::optional<std::int64_t> exponent = find_exponent(suffix_text)) {
    nano = decimal_nano(number, *exponent);
  } else {
    return bad_quantity(text, kBadSuffix);
  }
  quantity.set_nano(text.front() == '-' ? -nano : nano);
  quantity.set_format(format);
  quantity.keep_text(text);
  return quantity;
}

std::string Quantity::to_string() const {
  const std::size_t length = tag_ & 15;
  return length > 0 ? std::string(text_.data(), length) : canonical();
}

std::string Quantity::canonical() const {
  Wide value = nano();
  if (value == 0) return "0";
  if (format() == Format::BinarySI && value % kNanoPerUnit == 0) {
    value /= kNanoPerUnit;
    if (value >= 1024 || value <= -1024) {
      int exponent = 0;
      for (; exponent < 60 && value % 1024 == 0; exponent += 10) value /= 1024;
      static constexpr std::string_view kLetters = "KMGTPE";
      std::string out = print(value);
      if (exponent > 0) out.append({kLetters[static_cast<std::size_t>(exponent / 10 - 1)], 'i'});
      return out;
    }
    value *= kNanoPerUnit;
  }
  const bool as_exponent = format() == Format::DecimalExponent;
  int exponent = -9;
  for (; (as_exponent || exponent < 18) && value % 1000 == 0; exponent += 3) value /= 1000;
  std::string out = print(value);
  if (as_exponent && exponent != 0) return out.append("e").append(std::to_string(exponent));
  static constexpr std::string_view kLetters = "num kMGTPE";  // from 10^-9 in steps of 1000; none for 10^0
  if (exponent != 0) out.push_back(kLetters[static_cast<std::size_t>(exponent / 3 + 3)]);
  return out;
}

std::int64_t Quantity::value() const { return divide_away_from_zero(nano(), kNanoPerUnit); }
std::int64_t Quantity::milli_value() const { return divide_away_from_zero(nano(), kNanoPerMilli); }
double Quantity::to_double() const { return static_cast<double>(nano()) / 1e9; }

Quantity& Quantity::operator+=(const Quantity& other) {
  if (is_zero()) set_format(other.format());
  set_nano(add_saturating(nano(), other.nano()));
  return *this;
}

Quantity& Quantity::operator-=(const Quantity& other) {
  if (is_zero()) set_format(other.format());
  set_nano(add_saturating(nano(), -other.nano()));
  return *this;
}

Quantity& Quantity::operator*=(std::int64_t factor) {
  set_nano(multiply_saturating(nano(), factor));
  return *this;
}

Quantity Quantity::operator-() const {
  Quantity result = *this;
  result.set_nano(-nano());
  return result;
}

Quantity::Nano Quantity::nano() const {
  return static_cast<Wide>((static_cast<UnsignedWide>(static_cast<std::uint64_t>(high_)) << 64) | low_);
}

void Quantity::set_nano(Nano nano) {
  low_ = static_cast<std::uint64_t>(nano);
  high_ = static_cast<std::int64_t>(nano >> 64);
  tag_ &= 0xF0;
}

void Quantity::set_format(Format format) {
  tag_ = static_cast<std::uint8_t>((static_cast<unsigned>(format) << 4) | (tag_ & 15U));
}

void Quantity::keep_text(std::string_view text) {
  if (text.size() > kTextMax) return;
  std::copy(text.begin(), text.end(), text_.begin());
  tag_ = static_cast<std::uint8_t>((tag_ & 0xF0U) | text.size());
}

void decode(json::Reader& reader, Quantity& quantity) {
  quantity = Quantity();
  if (reader.consume_null()) return;
  const bool is_number = reader.peek() == json::Kind::Number;
  const std::string_view text = is_number ? reader.read_raw() : base::trim(reader.read_string_view());
  if (!reader.ok()) return;
  Result<Quantity> parsed = Quantity::parse(text);
  if (!parsed.ok()) {
    reader.fail(parsed.error().message);
    return;
  }
  quantity = *parsed;
}

void encode(json::Writer& writer, const Quantity& quantity) { writer.string(quantity.to_string()); }

}  // namespace basalt::api
