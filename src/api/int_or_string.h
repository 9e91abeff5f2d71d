#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "api/fwd.h"
#include "base/result.h"

namespace basalt::api {

// A field that takes 3 or "30%" or "http": ports, rolling update bounds.
class IntOrString {
 public:
  IntOrString() = default;  // 0
  IntOrString(std::int32_t value) : value_(value) {}
  IntOrString(std::string value) : value_(std::move(value)) {}
  IntOrString(std::string_view value) : value_(std::string(value)) {}
  IntOrString(const char* value) : value_(std::string(value)) {}

  [[nodiscard]] bool is_int() const { return value_.index() == 0; }
  [[nodiscard]] bool is_string() const { return value_.index() == 1; }
  // 0 for a string, "" for a number.
  [[nodiscard]] std::int32_t int_value() const { return is_int() ? *std::get_if<0>(&value_) : 0; }
  [[nodiscard]] std::string_view string_value() const {
    return is_string() ? std::string_view(*std::get_if<1>(&value_)) : std::string_view();
  }
  [[nodiscard]] std::string to_string() const;

  // The number itself, or the percentage of `total` ("25%"), rounded up or down. Any other string is an error.
  enum class Rounding : bool { Down, Up };
  [[nodiscard]] Result<std::int64_t> resolve(std::int64_t total, Rounding rounding) const;

  bool operator==(const IntOrString&) const = default;

 private:
  std::variant<std::int32_t, std::string> value_ = std::int32_t{0};
};

void decode(json::Reader& reader, IntOrString& value);
void encode(json::Writer& writer, const IntOrString& value);

}  // namespace basalt::api
