#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/result.h"

namespace basalt::json {

enum class Kind : std::uint8_t { Null, Bool, Number, String, Array, Object, Invalid };

// A pull parser over one JSON text (UTF-8). Generated codecs and json::Value are its users.
//
// Errors are sticky: the first one is kept with the path of the value that caused it; from then on every read returns
// an empty value and every loop ends, so callers check once, at the end, with finish(). A read of the wrong type is
// such an error ("spec.tasks[2].replicas: expected integer, found string").
//
// Differs: Go's decoder replaces invalid UTF-8 and lone surrogates with U+FFFD; we refuse them, so that no name or
// label silently becomes another one.
//
// The reader does not own the text; it must outlive the reader and every string_view taken from it. One thread.
// Limits: nesting depth (Options::depth_max); the text's size is the caller's to bound.
class Reader {
 public:
  static constexpr int kDepthMax = 1000;  // codecs recurse once per level: 1,000 fit any thread's stack

  struct Options {
    int depth_max = 256;       // deeper input is an error, never a deep recursion; at most kDepthMax
    bool keep_unknown = true;  // whether codecs keep members that they do not know (see UnknownFields)
    bool strict = false;       // unknown and duplicate members are collected as warnings (field validation)
  };

  explicit Reader(std::string_view text) : Reader(text, Options()) {}
  Reader(std::string_view text, Options options);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // What comes next, without consuming it. Invalid after an error; what cannot start a value (or the end) is one.
  [[nodiscard]] Kind peek();

  // Each consumes exactly one value. A fraction or exponent is accepted by read_int* only if the value is integral
  // (1.0, 1e3); out of range is an error.
  bool consume_null();  // true and consumed if a null is next; otherwise nothing happens
  bool read_bool();
  std::int32_t read_int32();
  std::int64_t read_int64();
  double read_double();
  std::string read_string();
  void read_string(std::string& out);
  // Valid until the next call on this reader: a view into the text, or into a scratch buffer if there were escapes.
  std::string_view read_string_view();
  void skip();                  // consumes any value, checking its syntax
  std::string_view read_raw();  // consumes any value, returns its text (a view into the input)
  // Consumes any value and appends its text without the white space between tokens: what we carry stays on one line,
  // however it came.
  void read_compact(std::string& out);
  // Consumes a number. True if it is written as an integer (no fraction or exponent) that fits; it is then in
  // `integer`, otherwise in `number`.
  bool read_number(std::int64_t& integer, double& number);

  // if (reader.begin_object()) { std::string_view key; while (reader.next_member(key)) { ...read one value... } }
  // A member that the caller does not read is an error of the caller (checked). `key` is valid until the next
  // call of next_member, also of a nested one; codecs compare it at once.
  bool begin_object();
  bool next_member(std::string_view& key);
  bool begin_array();
  bool next_element();
  // Whether a view handed out points into the text, and lives as long as it.
  [[nodiscard]] bool is_in_text(std::string_view view) const { return view.data() >= begin_ && view.data() <= end_; }

  // For codecs: the member just announced by next_member is not known. Keeps its text in `sink` (a comma-separated list
  // of `"key":value`) if keep_unknown, skips it otherwise.
  void unknown_member(std::string_view key, std::string* sink);

  // Records an error at the current path. The first one wins.
  void fail(std::string_view message);

  [[nodiscard]] bool ok() const { return !failed_; }
  [[nodiscard]] bool keep_unknown() const { return options_.keep_unknown; }
  [[nodiscard]] const Options& options() const { return options_; }
  // Checks that nothing but white space follows. Returns the sticky error if there is one.
  Done finish();
  // The path of the value being read: "spec.tasks[2].replicas"; "" at the root.
  [[nodiscard]] std::string path() const;
  // In strict mode: `unknown field "spec.x"`, `duplicate field "spec.y"`. At most kWarningsMax.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  static constexpr std::size_t kWarningsMax = 100;  // a document full of mistakes needs no longer list

 private:
  struct Frame {
    std::string_view raw_key;  // as in the text, escapes and all
    std::int64_t index = -1;   // of the element
    bool is_array = false;
    bool first = true;           // nothing announced yet
    std::size_t seen_begin = 0;  // strict only: where this object's keys begin in seen_
  };

  void skip_space();
  Kind next_kind();
  bool begin_value(Kind kind, const char* expected);
  bool open(char bracket);
  bool scan_string(std::string_view& raw, bool& has_escapes);
  bool scan_literal(std::string_view word);
  bool scan_number(std::string_view& raw, bool& is_integer);
  bool scan_plain_value();
  bool scan_key_and_colon(std::string_view& raw, bool& has_escapes);
  bool to_double(std::string_view raw, double& value);
  void skip_strict();
  void warn(std::string text);
  void report_duplicates(const Frame& frame);
  [[nodiscard]] std::string path_of(std::size_t frame_count) const;
  bool fail_here(std::string_view message);
  bool fail_unexpected(const char* expected);

  Options options_;
  const char* begin_;
  const char* end_;
  const char* cursor_;
  bool failed_ = false;
  bool value_due_ = true;  // a value has been announced (or is the root) and not been read yet
  bool saw_space_ = false;
  std::vector<Frame> frames_;
  std::string scratch_;
  std::string key_scratch_;
  std::string nesting_;  // of skip(): one bracket per open container
  Error error_;
  std::vector<std::string> seen_;
  std::vector<std::string> warnings_;
};

// Appends a JSON text known to be valid, without the white space between its tokens.
void append_compact(std::string& out, std::string_view json);

// Decodes a whole document into T by its codec (`decode(Reader&, T&)`, found by argument-dependent lookup).
template <class T>
Result<T> from_text(std::string_view text, Reader::Options options = {}) {
  Reader reader(text, options);
  T value{};
  decode(reader, value);
  if (Done done = reader.finish(); !done.ok()) return std::move(done).error();
  return value;
}

}  // namespace basalt::json
