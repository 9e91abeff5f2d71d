#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"

namespace basalt::json {

// Appends JSON text to a string. Compact (no white space), UTF-8, with the escapes of Go's encoder; its HTML escapes
// (<, > and &) only when `escape_html` is set. What is not UTF-8 in a string is written as U+FFFD, as Go does: the
// output is always valid. Numbers: int64 exactly; doubles in the shortest form that reads back, in Go's notation. The
// caller keeps begin/end balanced; a debug check says so if not. One thread.
class Writer {
 public:
  struct Options {
    bool escape_html = false;
  };

  explicit Writer(std::string& out) : Writer(out, Options()) {}
  Writer(std::string& out, Options options) : out_(out), options_(options) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { BASALT_DCHECK(depth_ == 0 && !after_key_); }

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view key);  // then exactly one value

  void null();
  void boolean(bool value);
  void integer(std::int64_t value);
  void number(double value);  // NaN and infinities are written as null: JSON has no word for them
  void string(std::string_view value);
  void raw(std::string_view json);  // a valid JSON text
  // Members kept by Reader::unknown_member: `"key":value,"key":value`, possibly empty.
  void raw_members(std::string_view members);

 private:
  // Writes the comma that is due before a value or key.
  void separate() {
    if (after_key_) {
      after_key_ = false;
      return;
    }
    if (!first_) out_.push_back(',');
    first_ = false;
  }
  void open(char bracket) {
    separate();
    out_.push_back(bracket);
    first_ = true;
    ++depth_;
  }
  void close(char bracket) {
    BASALT_DCHECK(depth_ > 0 && !after_key_);
    out_.push_back(bracket);
    first_ = false;
    --depth_;
  }

  std::string& out_;
  Options options_;
  bool first_ = true;
  bool after_key_ = false;
  int depth_ = 0;
};

// Appends `value` as a quoted JSON string.
void append_quoted(std::string& out, std::string_view value, Writer::Options options = {});

// Encodes by the codec of T (`encode(Writer&, const T&)`).
template <class T>
std::string to_text(const T& value) {
  std::string out;
  Writer writer(out);
  encode(writer, value);
  return out;
}

}  // namespace basalt::json
