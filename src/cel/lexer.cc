#include "cel/lexer.h"

#include <algorithm>

#include "base/strings.h"

namespace basalt::cel {
namespace {

bool starts_identifier(char c) { return base::is_alpha(c) || c == '_'; }
bool continues_identifier(char c) { return base::is_alphanumeric(c) || c == '_'; }

int hex_digit(char c) {
  if (base::is_digit(c)) return c - '0';
  const char low = base::to_lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

constexpr std::string_view kPunctuation[] = {"&&", "||", "==", "!=", "<=", ">=", ".?", "[?", "{?",
                                             "(",  ")",  "[",  "]",  "{",  "}",  ".",  ",",  "?",
                                             ":",  "<",  ">",  "+",  "-",  "*",  "/",  "%",  "!"};

}  // namespace

bool append_utf8(std::string& out, std::uint32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
  return true;
}

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    if (base::is_space(text_[at_])) {
      ++at_;
    } else if (peek() == '/' && peek(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

Result<Token> Lexer::next() {
  skip_space();
  Token token;
  token.offset = at_;
  if (at_ >= text_.size()) return token;
  if (starts_identifier(peek())) {
    std::size_t end = at_;
    while (end < text_.size() && continues_identifier(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    const char after = end < text_.size() ? text_[end] : '\0';
    const bool is_raw = word.find_first_of("rR") != std::string_view::npos;
    const bool is_bytes = word.find_first_of("bB") != std::string_view::npos;
    const bool is_prefix = word.size() <= 2 && static_cast<std::size_t>(is_raw) + is_bytes == word.size();
    if (is_prefix && (after == '"' || after == '\'')) return quoted(word.size(), is_raw, is_bytes);
    token.kind = Token::Kind::Identifier;
    token.text = word;
    at_ = end;
    return token;
  }
  if (base::is_digit(peek()) || (peek() == '.' && base::is_digit(peek(1)))) return number();
  if (peek() == '"' || peek() == '\'') return quoted(0, false, false);
  for (const std::string_view sign : kPunctuation) {
    if (!text_.substr(at_).starts_with(sign)) continue;
    token.kind = Token::Kind::Punctuation;
    token.text = text_.substr(at_, sign.size());
    at_ += sign.size();
    return token;
  }
  const std::size_t length = std::max<std::size_t>(base::utf8_sequence_length(text_.substr(at_)), 1);
  return Error::invalid_input("Syntax error: token recognition error at: " + base::quote(text_.substr(at_, length)));
}

Result<Token> Lexer::number() {
  Token token;
  token.offset = at_;
  token.kind = Token::Kind::Int;
  const std::size_t start = at_;
  if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X') && hex_digit(peek(2)) >= 0) {
    at_ += 2;
    while (hex_digit(peek()) >= 0) ++at_;
  } else {
    while (base::is_digit(peek())) ++at_;
    if (peek() == '.' && base::is_digit(peek(1))) {
      token.kind = Token::Kind::Double;
      ++at_;
      while (base::is_digit(peek())) ++at_;
    }
    const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
    if ((peek() == 'e' || peek() == 'E') && base::is_digit(peek(sign))) {
      token.kind = Token::Kind::Double;
      at_ += sign;
      while (base::is_digit(peek())) ++at_;
    }
  }
  token.text = text_.substr(start, at_ - start);
  if (token.kind == Token::Kind::Int && (peek() == 'u' || peek() == 'U')) {
    token.kind = Token::Kind::Uint;
    ++at_;
  }
  return token;
}

Result<Token> Lexer::quoted(std::size_t prefix, bool is_raw, bool is_bytes) {
  Token token;
  token.offset = at_;
  token.kind = is_bytes ? Token::Kind::Bytes : Token::Kind::String;
  at_ += prefix;
  const char mark = peek();
  const std::string triple(3, mark);
  const bool is_triple = text_.substr(at_).starts_with(triple);
  const std::string_view end = is_triple ? std::string_view(triple) : std::string_view(triple).substr(2);
  at_ += end.size();
  while (!text_.substr(at_).starts_with(end)) {
    if (at_ >= text_.size() || (!is_triple && (peek() == '\n' || peek() == '\r'))) {
      return Error::invalid_input("Syntax error: a string is not closed");
    }
    if (peek() == '\\' && !is_raw) {
      BASALT_TRY_DONE(escape(token.value, is_bytes));
    } else {
      token.value += text_[at_++];
    }
  }
  at_ += end.size();
  if (!is_bytes && !base::is_valid_utf8(token.value)) return Error::invalid_input("Syntax error: not UTF-8");
  return token;
}

Done Lexer::escape(std::string& value, bool is_bytes) {
  constexpr std::string_view kNames = "abfnrtv\\?\"'`";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\?\"'`";
  const auto unknown = [] { return Error::invalid_input("Syntax error: a backslash in a string starts no escape"); };
  const char name = peek(1);
  at_ += 2;
  if (const std::size_t found = name == '\0' ? std::string_view::npos : kNames.find(name);
      found != std::string_view::npos) {
    value += kMeanings[found];
    return Ok{};
  }
  std::size_t digits = 0;
  std::uint32_t radix = 16;
  if (name == 'x' || name == 'X') digits = 2;
  if (name == 'u' && !is_bytes) digits = 4;
  if (name == 'U' && !is_bytes) digits = 8;
  if (name >= '0' && name <= '3') {
    digits = 3;
    radix = 8;
    --at_;
  }
  if (digits == 0) return unknown();
  std::uint32_t code = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at_) {
    const int digit = hex_digit(peek());
    if (digit < 0 || static_cast<std::uint32_t>(digit) >= radix) return unknown();
    code = code * radix + static_cast<std::uint32_t>(digit);
  }
  if (is_bytes) {
    value += static_cast<char>(code);
    return Ok{};
  }
  if (!append_utf8(value, code)) return Error::invalid_input("Syntax error: an escape names no character");
  return Ok{};
}

}  // namespace basalt::cel
