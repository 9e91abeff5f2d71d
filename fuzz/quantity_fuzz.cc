// Quantities: whatever parses must print to text that reads back as the same amount, agree with floating point about
// its size, and obey the laws of arithmetic.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/quantity.h"
#include "base/check.h"
#include "json/reader.h"
#include "json/writer.h"

namespace {

using basalt::Result;
using basalt::api::Quantity;

// The amount by other means: strtold reads the number, the suffix is a factor.
long double approximate(const std::string& text) {
  char* end = nullptr;
  std::string number = text;
  // strtold knows hexadecimal numbers and words that a quantity has not, but no parsed quantity begins like them.
  const std::size_t suffix_at = number.find_first_not_of("+-.0123456789");
  const std::string suffix = suffix_at == std::string::npos ? "" : number.substr(suffix_at);
  if (!suffix.empty() && (suffix[0] == 'e' || (suffix[0] == 'E' && suffix.size() > 1 && suffix[1] != 'i'))) {
    return std::strtold(number.c_str(), &end);
  }
  number.resize(suffix_at == std::string::npos ? number.size() : suffix_at);
  const long double value = std::strtold(number.c_str(), &end);
  if (suffix.empty()) return value;
  constexpr std::string_view kDecimal = "num kMGTPE";
  constexpr std::string_view kBinary = "KMGTPE";
  if (suffix.ends_with('i')) return value * std::pow(1024.0L, static_cast<long double>(kBinary.find(suffix[0]) + 1));
  return value * std::pow(1000.0L, static_cast<long double>(kDecimal.find(suffix[0])) - 3);
}

void check_size(const std::string& text, const Quantity& quantity) {
  const long double expected = std::fabs(approximate(text));
  const long double actual = std::fabs(static_cast<long double>(quantity.to_double()));
  const bool is_binary_cap = quantity.format() == Quantity::Format::BinarySI && expected > 9.2e18L;
  if (is_binary_cap || expected > 1.7e29L) return;  // held at a limit
  // Rounded up to the next nano unit at most.
  BASALT_CHECK(actual >= expected * (1 - 1e-9L) && actual <= expected * (1 + 1e-9L) + 1.01e-9L);
}

void check_one(const std::string& text, const Quantity& quantity) {
  const Result<Quantity> again = Quantity::parse(quantity.to_string());
  BASALT_CHECK(again.ok() && *again == quantity);
  if (text.size() <= 15) BASALT_CHECK(quantity.to_string() == text);
  // A binary amount above 2^63-1 comes from arithmetic only, and then does not read back.
  const std::string canonical = quantity.canonical();
  const Result<Quantity> short_form = Quantity::parse(canonical);
  BASALT_CHECK(short_form.ok() && *short_form == quantity);
  if (short_form->format() == quantity.format()) BASALT_CHECK(short_form->canonical() == canonical);
  const auto decoded = basalt::json::from_text<Quantity>(basalt::json::to_text(quantity));
  BASALT_CHECK(decoded.ok() && *decoded == quantity);
  BASALT_CHECK(-(-quantity) == quantity && (quantity - quantity).is_zero());
  BASALT_CHECK((quantity.sign() < 0) == (quantity < Quantity()));
  if (text.find_first_of("eE") == std::string::npos || text.size() < 40) check_size(text, quantity);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t middle = input.find('|');
  const std::string first(input.substr(0, middle));
  const Result<Quantity> a = Quantity::parse(first);
  if (!a.ok()) {
    BASALT_CHECK(!a.error().message.empty() && a.error().message.size() < 1000);
    return 0;
  }
  check_one(first, *a);
  if (middle == std::string_view::npos) return 0;
  const std::string second(input.substr(middle + 1));
  const Result<Quantity> b = Quantity::parse(second);
  if (!b.ok()) return 0;
  check_one(second, *b);
  BASALT_CHECK(*a + *b == *b + *a);
  BASALT_CHECK((*a < *b) == (*b > *a) && (*a < *b) == (-*b < -*a));
  const bool far_from_limit = std::fabs(a->to_double()) < 1e28 && std::fabs(b->to_double()) < 1e28;
  if (far_from_limit) {
    BASALT_CHECK(*a + *b - *b == *a);
    BASALT_CHECK(*a * 3 == *a + *a + *a);
    BASALT_CHECK((*a < *b) == ((*a - *b).sign() < 0));
  }
  return 0;
}
