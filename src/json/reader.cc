#include "json/reader.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "json/escape.h"
#include "json/number.h"
#include "json/scan.h"

namespace basalt::json {
namespace {

constexpr std::array<Kind, 256> kKindOfByte = [] {
  std::array<Kind, 256> table{};
  table.fill(Kind::Invalid);
  table['n'] = Kind::Null;
  table['t'] = Kind::Bool;
  table['f'] = Kind::Bool;
  table['"'] = Kind::String;
  table['['] = Kind::Array;
  table['{'] = Kind::Object;
  table['-'] = Kind::Number;
  for (int c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = Kind::Number;
  return table;
}();

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::Null:
      return "null";
    case Kind::Bool:
      return "boolean";
    case Kind::Number:
      return "number";
    case Kind::String:
      return "string";
    case Kind::Array:
      return "array";
    case Kind::Object:
      return "object";
    case Kind::Invalid:
      break;
  }
  return "something that is not JSON";
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Reader::Reader(std::string_view text, Options options)
    : options_(options), begin_(text.data()), end_(text.data() + text.size()), cursor_(text.data()) {
  options_.depth_max = std::clamp(options_.depth_max, 0, kDepthMax);
  frames_.reserve(16);  // API objects rarely nest deeper
}

inline void Reader::skip_space() {
  if (cursor_ != end_ && static_cast<unsigned char>(*cursor_) > ' ') return;
  while (cursor_ != end_ && is_space(*cursor_)) {
    ++cursor_;
    saw_space_ = true;
  }
}

// The kind of the next value by its first byte, without judging it.
inline Kind Reader::next_kind() {
  skip_space();
  return cursor_ == end_ ? Kind::Invalid : kKindOfByte[static_cast<unsigned char>(*cursor_)];
}

Kind Reader::peek() {
  if (failed_) return Kind::Invalid;
  const Kind kind = next_kind();
  if (kind == Kind::Invalid) fail_unexpected("a value");
  return kind;
}

// Common start of every read: false after an error or if another type is next.
inline bool Reader::begin_value(Kind kind, const char* expected) {
  if (failed_) return false;
  BASALT_DCHECK(value_due_);
  const Kind found = next_kind();
  if (found == kind) {
    value_due_ = false;
    return true;
  }
  if (found == Kind::Invalid) {
    fail_unexpected(expected);
  } else {
    fail(std::string("expected ") + expected + ", found " + name_of(found));
  }
  return false;
}

bool Reader::consume_null() {
  if (failed_ || next_kind() != Kind::Null) return false;
  BASALT_DCHECK(value_due_);
  value_due_ = false;
  return scan_literal("null");
}

bool Reader::read_bool() {
  if (!begin_value(Kind::Bool, "boolean")) return false;
  if (*cursor_ == 't') return scan_literal("true");
  scan_literal("false");
  return false;
}

std::int32_t Reader::read_int32() {
  const std::int64_t wide = read_int64();
  if (wide < std::numeric_limits<std::int32_t>::min() || wide > std::numeric_limits<std::int32_t>::max()) {
    fail("integer " + std::to_string(wide) + " is out of range (32 bits)");
    return 0;
  }
  return static_cast<std::int32_t>(wide);
}

std::int64_t Reader::read_int64() {
  if (!begin_value(Kind::Number, "integer")) return 0;
  std::string_view raw;
  bool is_integer = false;
  if (!scan_number(raw, is_integer)) return 0;
  std::int64_t value = 0;
  switch (to_int64(raw, is_integer, value)) {
    case IntegerOutcome::Exact:
      return value;
    case IntegerOutcome::NotIntegral:
      fail("expected integer, found number " + std::string(raw.substr(0, 40)));
      return 0;
    case IntegerOutcome::OutOfRange:
      fail("integer " + std::string(raw.substr(0, 40)) + " is out of range (64 bits)");
      return 0;
  }
  return 0;
}

double Reader::read_double() {
  if (!begin_value(Kind::Number, "number")) return 0;
  std::string_view raw;
  bool is_integer = false;
  double value = 0;
  if (!scan_number(raw, is_integer) || !to_double(raw, value)) return 0;
  return value;
}

bool Reader::read_number(std::int64_t& integer, double& number) {
  if (!begin_value(Kind::Number, "number")) return false;
  std::string_view raw;
  bool is_integer = false;
  if (!scan_number(raw, is_integer)) return false;
  if (is_integer && to_int64(raw, true, integer) == IntegerOutcome::Exact) return true;
  to_double(raw, number);
  return false;
}

bool Reader::to_double(std::string_view raw, double& value) {
  if (json::to_double(raw, value)) return true;
  fail("number " + std::string(raw.substr(0, 40)) + " is out of range");
  return false;
}

std::string Reader::read_string() {
  std::string out;
  read_string(out);
  return out;
}

void Reader::read_string(std::string& out) {
  out.clear();
  if (!begin_value(Kind::String, "string")) return;
  std::string_view raw;
  bool has_escapes = false;
  if (!scan_string(raw, has_escapes)) return;
  if (has_escapes) {
    unescape(raw, out);
  } else {
    out.assign(raw);
  }
}

std::string_view Reader::read_string_view() {
  if (!begin_value(Kind::String, "string")) return {};
  std::string_view raw;
  bool has_escapes = false;
  if (!scan_string(raw, has_escapes)) return {};
  if (!has_escapes) return raw;
  scratch_.clear();
  unescape(raw, scratch_);
  return scratch_;
}

std::string_view Reader::read_raw() {
  if (failed_) return {};
  skip_space();
  const char* const start = cursor_;
  saw_space_ = false;
  skip();
  return failed_ ? std::string_view() : std::string_view(start, static_cast<std::size_t>(cursor_ - start));
}

void Reader::read_compact(std::string& out) {
  const std::string_view raw = read_raw();
  if (saw_space_) {
    append_compact(out, raw);
  } else {
    out.append(raw);
  }
}

void Reader::skip() {
  if (failed_) return;
  BASALT_DCHECK(value_due_);
  if (options_.strict) {
    skip_strict();
    return;
  }
  value_due_ = false;
  nesting_.clear();
  const std::size_t nesting_max = static_cast<std::size_t>(options_.depth_max);
  std::string_view raw;
  bool has_escapes = false;
  while (true) {
    // One value, or the opening of one.
    skip_space();
    const char first = cursor_ == end_ ? '\0' : *cursor_;
    if (first == '{' || first == '[') {
      if (frames_.size() + nesting_.size() >= nesting_max) {
        fail_here("nested too deeply");
        return;
      }
      ++cursor_;
      skip_space();
      const char closing = first == '{' ? '}' : ']';
      if (cursor_ == end_ || *cursor_ != closing) {
        nesting_.push_back(closing);
        if (first == '{' && !scan_key_and_colon(raw, has_escapes)) return;
        continue;
      }
      ++cursor_;
    } else if (!scan_plain_value()) {
      return;
    }
    // What follows a value: the ends of containers, then a comma.
    while (true) {
      if (nesting_.empty()) return;
      skip_space();
      const char next = cursor_ == end_ ? '\0' : *cursor_;
      if (next == nesting_.back()) {
        ++cursor_;
        nesting_.pop_back();
        continue;
      }
      if (next != ',') {
        fail_unexpected(nesting_.back() == '}' ? "a comma or a closing brace" : "a comma or a closing bracket");
        return;
      }
      ++cursor_;
      if (nesting_.back() == '}') {
        skip_space();
        if (!scan_key_and_colon(raw, has_escapes)) return;
      }
      break;
    }
  }
}

// The same by way of frames_, so that duplicates at any depth are seen and named with their path.
void Reader::skip_strict() {
  const std::size_t outer = frames_.size();
  do {
    std::string_view key;
    if (value_due_) {
      const Kind kind = next_kind();
      if (kind == Kind::Object) {
        if (!begin_object()) return;
      } else if (kind == Kind::Array) {
        if (!begin_array()) return;
      } else {
        value_due_ = false;
        if (!scan_plain_value()) return;
      }
    } else if (frames_.back().is_array) {
      next_element();
    } else {
      next_member(key);
    }
  } while (!failed_ && (value_due_ || frames_.size() > outer));
}

// A value that is no container.
inline bool Reader::scan_plain_value() {
  std::string_view raw;
  bool flag = false;
  switch (next_kind()) {
    case Kind::String:
      return scan_string(raw, flag);
    case Kind::Number: {
      if (!scan_number(raw, flag)) return false;
      // What we carry unread must be readable later: a number beyond double is refused here, too. Short texts without
      // an exponent cannot be.
      double value = 0;
      return (flag && raw.size() < 300) || to_double(raw, value);
    }
    case Kind::Null:
      return scan_literal("null");
    case Kind::Bool:
      return scan_literal(*cursor_ == 't' ? "true" : "false");
    default:
      return fail_unexpected("a value");
  }
}

bool Reader::open(char bracket) {
  if (frames_.size() >= static_cast<std::size_t>(options_.depth_max)) {
    return fail_here("nested too deeply");
  }
  ++cursor_;
  Frame frame;
  frame.is_array = bracket == '[';
  frame.seen_begin = seen_.size();
  frames_.push_back(frame);
  return true;
}

bool Reader::begin_object() { return begin_value(Kind::Object, "object") && open('{'); }

bool Reader::begin_array() { return begin_value(Kind::Array, "array") && open('['); }

bool Reader::next_member(std::string_view& key) {
  if (failed_) return false;
  BASALT_CHECK_MSG(!value_due_, "a member was announced and not read");
  Frame& frame = frames_.back();
  BASALT_DCHECK(!frame.is_array);
  skip_space();
  const char next = cursor_ == end_ ? '\0' : *cursor_;
  if (next == '}') {
    ++cursor_;
    if (options_.strict) report_duplicates(frame);
    frames_.pop_back();
    return false;
  }
  if (!frame.first) {
    if (next != ',') return fail_unexpected("a comma or a closing brace");
    ++cursor_;
    skip_space();
  }
  frame.first = false;
  bool has_escapes = false;
  if (!scan_key_and_colon(frame.raw_key, has_escapes)) return false;
  key = frame.raw_key;
  if (has_escapes) {
    key_scratch_.clear();
    unescape(frame.raw_key, key_scratch_);
    key = key_scratch_;
  }
  if (options_.strict) seen_.emplace_back(key);
  value_due_ = true;
  return true;
}

bool Reader::next_element() {
  if (failed_) return false;
  BASALT_CHECK_MSG(!value_due_, "an element was announced and not read");
  Frame& frame = frames_.back();
  BASALT_DCHECK(frame.is_array);
  skip_space();
  const char next = cursor_ == end_ ? '\0' : *cursor_;
  if (next == ']') {
    ++cursor_;
    frames_.pop_back();
    return false;
  }
  if (!frame.first) {
    if (next != ',') return fail_unexpected("a comma or a closing bracket");
    ++cursor_;
  }
  frame.first = false;
  ++frame.index;
  value_due_ = true;
  return true;
}

void Reader::unknown_member(std::string_view /*key*/, std::string* sink) {
  if (failed_) return;
  if (options_.strict) warn("unknown field \"" + path() + "\"");
  if (sink == nullptr || !options_.keep_unknown) {
    skip();
    return;
  }
  if (!sink->empty()) sink->push_back(',');
  sink->push_back('"');
  sink->append(frames_.back().raw_key);  // as it came: its escapes need no second thought
  sink->append("\":");
  read_compact(*sink);
}

// From the opening quote to the closing one. Checks characters, escapes and UTF-8, so that unescape cannot fail.
inline bool Reader::scan_string(std::string_view& raw, bool& has_escapes) {
  const char* const start = cursor_ + 1;
  const char* at = start;
  has_escapes = false;
  while (true) {
    at = find_special(at, end_);
    if (at == end_) {
      cursor_ = at;
      return fail_here("string is not closed");
    }
    if (*at == '"') {
      raw = std::string_view(start, static_cast<std::size_t>(at - start));
      cursor_ = at + 1;
      return true;
    }
    if (*at == '\\') {
      const char* problem = nullptr;
      const std::size_t length = check_escape(at, end_, problem);
      if (length == 0) {
        cursor_ = at;
        return fail_here(problem);
      }
      has_escapes = true;
      at += length;
      continue;
    }
    if (static_cast<unsigned char>(*at) < 0x20) {
      cursor_ = at;
      return fail_here("control character in string");
    }
    do {
      const std::size_t length = utf8_length(at, end_);
      if (length == 0) {
        cursor_ = at;
        return fail_here("invalid UTF-8 in string");
      }
      at += length;
    } while (at != end_ && static_cast<unsigned char>(*at) >= 0x80);
  }
}

bool Reader::scan_literal(std::string_view word) {
  if (static_cast<std::size_t>(end_ - cursor_) < word.size() || std::string_view(cursor_, word.size()) != word) {
    return fail_here("unknown word, expected " + std::string(word));
  }
  cursor_ += word.size();
  return true;
}

inline bool Reader::scan_number(std::string_view& raw, bool& is_integer) {
  const char* const start = cursor_;
  const char* at = cursor_;
  const auto digits = [&at, this] {
    const char* const first = at;
    while (at != end_ && is_digit(*at)) ++at;
    return at != first;
  };
  is_integer = true;
  bool valid = true;
  if (*at == '-') ++at;
  if (at != end_ && *at == '0') {
    ++at;
  } else {
    valid = digits();
  }
  if (valid && at != end_ && *at == '.') {
    is_integer = false;
    ++at;
    valid = digits();
  }
  if (valid && at != end_ && (*at == 'e' || *at == 'E')) {
    is_integer = false;
    ++at;
    if (at != end_ && (*at == '+' || *at == '-')) ++at;
    valid = digits();
  }
  cursor_ = at;
  if (!valid || (at != end_ && is_digit(*at))) return fail_here("malformed number");
  raw = std::string_view(start, static_cast<std::size_t>(at - start));
  return true;
}

inline bool Reader::scan_key_and_colon(std::string_view& raw, bool& has_escapes) {
  if (cursor_ == end_ || *cursor_ != '"') return fail_unexpected("a key in quotes");
  if (!scan_string(raw, has_escapes)) return false;
  skip_space();
  if (cursor_ == end_ || *cursor_ != ':') return fail_unexpected("a colon after the key");
  ++cursor_;
  return true;
}

Done Reader::finish() {
  if (!failed_) {
    skip_space();
    if (value_due_ || !frames_.empty()) {
      fail_unexpected("a value");
    } else if (cursor_ != end_) {
      fail_unexpected("the end of the text");
    }
  }
  if (failed_) return error_;
  return Ok{};
}

void append_compact(std::string& out, std::string_view json) {
  const char* at = json.data();
  const char* const end = at + json.size();
  while (at != end) {
    const char* const start = at;
    if (is_space(*at)) {
      ++at;
      continue;
    }
    if (*at != '"') {
      while (at != end && *at != '"' && !is_space(*at)) ++at;
    } else {
      ++at;
      while (*at != '"') at += *at == '\\' ? 2 : 1;
      ++at;
    }
    out.append(start, at);
  }
}

}  // namespace basalt::json
