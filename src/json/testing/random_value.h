#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "json/scan.h"
#include "json/value.h"

// Random values for property tests, from a fixed seed. For tests only.
namespace basalt::json::testing {

class RandomValues {
 public:
  explicit RandomValues(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  // Up to `depth` levels of containers with a handful of members each.
  Value value(int depth) {
    if (depth > 0 && !one_in(3)) return one_in(2) ? Value(array(depth)) : Value(object(depth));
    return scalar();
  }

  Array array(int depth) {
    Array array;
    for (std::uint64_t left = below(5); left > 0; --left) array.push_back(value(depth - 1));
    return array;
  }

  Object object(int depth) {
    Object object;
    for (std::uint64_t left = below(6); left > 0; --left) object.set(key(), value(depth - 1));
    return object;
  }

  Value scalar() {
    switch (below(8)) {
      case 0:
        return nullptr;
      case 1:
        return one_in(2);
      case 2:
        return static_cast<std::int64_t>(below(10));
      case 3:
        return static_cast<std::int64_t>(random_());
      case 4:
        return number();
      default:
        return string();
    }
  }

  // Few different keys, so that two random objects have some in common.
  std::string key() {
    if (!one_in(4)) return std::string(1, static_cast<char>('a' + below(6)));
    return string();
  }

  std::string string() {
    if (one_in(3)) return std::string(kTricky[below(kTricky.size())]);
    std::string text;
    for (std::uint64_t left = below(one_in(20) ? 200 : 12); left > 0; --left) append_character(text);
    return text;
  }

  // A copy with a few changes at random places.
  Value changed(const Value& value, int depth) {
    if (depth <= 0 || one_in(6)) return this->value(depth);
    if (value.is_object()) {
      Object object;
      for (const Member& member : value.as_object()) {
        if (one_in(5)) continue;
        object.set(member.key, one_in(3) ? changed(member.value, depth - 1) : member.value);
      }
      if (one_in(3)) object.set(key(), this->value(depth - 1));
      return object;
    }
    if (value.is_array()) {
      Array array;
      for (const Value& element : value.as_array()) {
        if (one_in(5)) continue;
        array.push_back(one_in(3) ? changed(element, depth - 1) : element);
        if (one_in(6)) array.push_back(this->value(depth - 1));
      }
      return array;
    }
    return one_in(2) ? value : scalar();
  }

 private:
  double number() {
    if (one_in(2)) return static_cast<double>(below(2000)) / 8 - 100;
    const auto any = std::bit_cast<double>(random_());
    return std::isfinite(any) ? any : 0.5;
  }

  void append_character(std::string& text) {
    static constexpr std::array<char32_t, 12> kOdd = {0x00,   0x09,   0x0D,   0x7F,   0x85,   0xA0,
                                                      0x2028, 0x2029, 0xFEFF, 0xE000, 0xFFFD, 0x1F600};
    static constexpr std::string_view kPunctuation = " \n:-#?,[]{}&*!|>'\"%@`~/\\=<.+_";
    switch (below(8)) {
      case 0:
        append_utf8(text, kOdd[below(kOdd.size())]);
        return;
      case 1:
        append_utf8(text, static_cast<char32_t>(0xA1 + below(0x2000)));
        return;
      case 2:
      case 3:
        text.push_back(kPunctuation[below(kPunctuation.size())]);
        return;
      case 4:
        text.push_back(static_cast<char>('0' + below(10)));
        return;
      default:
        text.push_back(static_cast<char>('a' + below(26)));
    }
  }

  static constexpr std::array<std::string_view, 42> kTricky = {
      "",     " ",      "~",   "null",  "Null",  "true",      "Yes",    "no",         "on",     "OFF",  "y",
      "0",    "-1",     "010", "0x1F",  "0o7",   "1e3",       "1.5",    ".5",         ".inf",   ".NaN", "1_000",
      "1:30", "<<",     "=",   "---",   "...",   "- a",       "a: b",   "a #b",       "# c",    "{}",   "[]",
      "a\nb", "a\nb\n", "\n",  "\n\na", " a\nb", "a \nb\n\n", "\ta\nb", "2001-01-01", "x\n \ny"};

  std::mt19937_64 random_;
};

}  // namespace basalt::json::testing
