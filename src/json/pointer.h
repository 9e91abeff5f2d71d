#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace basalt::json {

// A JSON pointer (RFC 6901): "/spec/tasks/0/name"; "" is the whole document. A plain value.
class Pointer {
 public:
  Pointer() = default;
  explicit Pointer(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}
  static Result<Pointer> parse(std::string_view text);

  [[nodiscard]] const std::vector<std::string>& tokens() const { return tokens_; }
  [[nodiscard]] bool is_root() const { return tokens_.empty(); }
  [[nodiscard]] std::string to_string() const;
  // True if `other` lies below this one.
  [[nodiscard]] bool is_proper_prefix_of(const Pointer& other) const;

  // The value there, or null. "-" names no element that exists.
  [[nodiscard]] const Value* find_in(const Value& root) const;
  [[nodiscard]] Value* find_in(Value& root) const;

  bool operator==(const Pointer&) const = default;

 private:
  std::vector<std::string> tokens_;
};

// Appends "/token", with ~ and / escaped.
void append_pointer_token(std::string& pointer, std::string_view token);

// An array index by the rules of RFC 6901: digits without leading zeros.
[[nodiscard]] std::optional<std::size_t> parse_array_index(std::string_view token);

}  // namespace basalt::json
