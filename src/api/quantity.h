#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/fwd.h"
#include "base/result.h"

namespace basalt::api {

// An amount of a resource, as Kubernetes writes it: "500m", "1.5Gi", "2e3".
//
// The value is exact: a whole number of nano units in 128 bits. What is finer is rounded away from zero, as Kubernetes
// does, so that a tiny request never becomes none. Arithmetic saturates at +-kMaxUnits units (about 1.7e29), and so
// does parsing: an absurd amount in somebody's pod stays absurd but breaks no cache.
//
// The text it was given is kept until the value changes (up to 15 bytes, longer text is kept only if it is canonical),
// so a read-write cycle changes no byte. Comparison looks at the value alone: "1000m" equals "1".
// A plain value of 32 bytes without heap; copies are as cheap as they look.
//
// Parsing and canonical forms follow resource.Quantity of k8s.io/apimachinery v0.36, to its cap of 2^63-1 on what is
// written with a binary suffix.
// Differs: decimal amounts are bounded (by the above); `value()` and `milli_value()` saturate where Kubernetes wraps
// around; amounts of 1000E and 1024Ei or more keep their suffix, which Kubernetes drops when it prints them.
class Quantity {
 public:
  enum class Format : std::uint8_t { DecimalSI, BinarySI, DecimalExponent };

  constexpr Quantity() = default;  // zero, DecimalSI
  // Whole units, thousandths, billionths.
  static Quantity of(std::int64_t units, Format format = Format::DecimalSI);
  static Quantity of_milli(std::int64_t milli, Format format = Format::DecimalSI);
  static Quantity of_nano(std::int64_t nano, Format format = Format::DecimalSI);

  // Linear in the text, which may be of any length. The error names the text.
  static Result<Quantity> parse(std::string_view text);

  // The text as given if the value has not changed since, else the canonical form.
  [[nodiscard]] std::string to_string() const;
  // As Kubernetes prints a quantity after arithmetic: no fraction, and the largest suffix that allows it. A binary
  // amount that is below 1024 or has a fraction is written as a decimal one.
  [[nodiscard]] std::string canonical() const;

  // Rounded away from zero; saturating.
  [[nodiscard]] std::int64_t value() const;
  [[nodiscard]] std::int64_t milli_value() const;
  [[nodiscard]] double to_double() const;  // approximate; for metrics and ratios, not for decisions

  [[nodiscard]] int sign() const { return high_ < 0 ? -1 : (high_ == 0 && low_ == 0 ? 0 : 1); }
  [[nodiscard]] bool is_zero() const { return high_ == 0 && low_ == 0; }
  [[nodiscard]] Format format() const { return static_cast<Format>(tag_ >> 4); }

  // A zero takes over the other's format, so that summing up starts from Quantity().
  Quantity& operator+=(const Quantity& other);
  Quantity& operator-=(const Quantity& other);
  Quantity& operator*=(std::int64_t factor);
  [[nodiscard]] Quantity operator-() const;
  friend Quantity operator+(Quantity a, const Quantity& b) { return a += b; }
  friend Quantity operator-(Quantity a, const Quantity& b) { return a -= b; }
  friend Quantity operator*(Quantity a, std::int64_t factor) { return a *= factor; }

  // By value, never by text or format.
  bool operator==(const Quantity& other) const { return high_ == other.high_ && low_ == other.low_; }
  std::strong_ordering operator<=>(const Quantity& other) const {
    if (high_ != other.high_) return high_ <=> other.high_;
    return low_ <=> other.low_;
  }

  // The largest number of whole units that can be held: (2^127 - 1) / 10^9.
  static constexpr double kMaxUnits = 1.7014118346046923e29;

 private:
  static constexpr std::size_t kTextMax = 15;

  __extension__ using Nano = __int128;
  [[nodiscard]] Nano nano() const;
  void set_nano(Nano nano);  // forgets the text
  void set_format(Format format);
  void keep_text(std::string_view text);

  // The nano units, two's complement in two halves: an __int128 member would raise the alignment to 16.
  std::uint64_t low_ = 0;
  std::int64_t high_ = 0;
  std::uint8_t tag_ = 0;  // format in the upper, length of the text in the lower four bits; length 0: canonical form
  std::array<char, kTextMax> text_{};
};

static_assert(sizeof(Quantity) == 32);

// A string or a number; null is zero. Written as a string.
void decode(json::Reader& reader, Quantity& quantity);
void encode(json::Writer& writer, const Quantity& quantity);

}  // namespace basalt::api
