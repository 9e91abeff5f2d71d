#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace basalt::cel {

struct Token {
  enum class Kind : std::uint8_t { End, Identifier, Int, Uint, Double, String, Bytes, Punctuation };
  Kind kind = Kind::End;
  std::size_t offset = 0;  // in the text
  std::string_view text;   // Identifier, Punctuation ("&&", ".?"), and the spelling of numbers without suffix
  std::string value;       // String, Bytes: without quotes and escapes
};

// Cuts an expression into tokens, one at a time. Errors say what is wrong; `offset()` says where.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  [[nodiscard]] Result<Token> next();
  [[nodiscard]] std::size_t offset() const { return at_; }

 private:
  void skip_space();
  [[nodiscard]] Result<Token> number();
  [[nodiscard]] Result<Token> quoted(std::size_t prefix, bool is_raw, bool is_bytes);
  [[nodiscard]] Done escape(std::string& value, bool is_bytes);
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Appends a code point; false if it is none.
bool append_utf8(std::string& out, std::uint32_t code_point);

}  // namespace basalt::cel
