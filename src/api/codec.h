#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/duration.h"
#include "api/int_or_string.h"
#include "api/kind_info.h"
#include "api/quantity.h"
#include "api/resource_list.h"
#include "api/string_map.h"
#include "api/time.h"
#include "json/raw.h"
#include "json/reader.h"
#include "json/writer.h"

// What generated codecs are made of. Only src/api/gen/*.cc include this.
//
// A struct of the API has `decode(Reader&, T&)`, `encode(Writer&, const T&)` and `is_empty(const T&)` in its own
// namespace; the templates here find them by argument-dependent lookup and add what the standard types need.
namespace basalt::api::codec {

// Reading one value.

inline void read(json::Reader& reader, bool& value) { value = reader.read_bool(); }
inline void read(json::Reader& reader, std::int32_t& value) { value = reader.read_int32(); }
inline void read(json::Reader& reader, std::int64_t& value) { value = reader.read_int64(); }
inline void read(json::Reader& reader, double& value) { value = reader.read_double(); }
inline void read(json::Reader& reader, std::string& value) { reader.read_string(value); }
template <class T>
void read(json::Reader& reader, std::optional<T>& value);
template <class T>
void read(json::Reader& reader, std::vector<T>& value);
template <class T>
void read(json::Reader& reader, std::map<std::string, T>& value);
template <class T>
void read(json::Reader& reader, T& value) {
  decode(reader, value);
}

// The value of a member. Null means absent.
template <class T>
void field(json::Reader& reader, T& value) {
  if (reader.consume_null()) {
    value = T();
    return;
  }
  read(reader, value);
}

template <class T>
void read(json::Reader& reader, std::optional<T>& value) {
  read(reader, value.emplace());
}

template <class T>
void read(json::Reader& reader, std::vector<T>& value) {
  value.clear();
  if (!reader.begin_array()) return;
  while (reader.next_element()) field(reader, value.emplace_back());
}

template <class T>
void read(json::Reader& reader, std::map<std::string, T>& value) {
  value.clear();
  if (!reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) field(reader, value[std::string(key)]);
}

// The entries of a map whose key passes the test.
template <class Test>
void field_of_keys(json::Reader& reader, StringMap& value, Test test) {
  value.clear();
  if (reader.consume_null() || !reader.begin_object()) return;
  std::vector<std::pair<std::string, std::string>> kept;
  std::string_view key;
  while (reader.next_member(key)) {
    if (!test(key)) {
      reader.skip();
      continue;
    }
    auto& entry = kept.emplace_back(std::string(key), std::string());
    field(reader, entry.second);
  }
  std::vector<StringMap::value_type> views(kept.begin(), kept.end());
  value = StringMap::of(std::move(views));
}

// A list that is cut to its size, because it will live in a cache.
template <class T>
void field_exact(json::Reader& reader, std::vector<T>& value) {
  field(reader, value);
  value.shrink_to_fit();
}

// The elements of a list that pass the test, likewise.
template <class T, class Test>
void field_of_elements(json::Reader& reader, std::vector<T>& value, Test test) {
  value.clear();
  if (reader.consume_null() || !reader.begin_array()) return;
  while (reader.next_element()) {
    T element{};
    field(reader, element);
    if (test(element)) value.push_back(std::move(element));
  }
  value.shrink_to_fit();
}

// apiVersion and kind may be missing (items of a list); if they are there they must be right.
inline void expect_api_version(json::Reader& reader, const KindInfo& info) {
  const std::string_view text = reader.read_string_view();
  if (reader.ok() && !text.empty() && !info.has_api_version(text))
    reader.fail("expected \"" + info.api_version() + "\", found \"" + std::string(text) + "\"");
}
inline void expect_kind(json::Reader& reader, const KindInfo& info) {
  const std::string_view text = reader.read_string_view();
  if (reader.ok() && !text.empty() && text != info.kind)
    reader.fail("expected \"" + std::string(info.kind) + "\", found \"" + std::string(text) + "\"");
}

// Whether a member is left out: the zero value of Go, except that an empty struct counts, too.

inline bool is_zero(bool value) { return !value; }
inline bool is_zero(std::int32_t value) { return value == 0; }
inline bool is_zero(std::int64_t value) { return value == 0; }
inline bool is_zero(double value) { return value == 0; }
inline bool is_zero(const std::string& value) { return value.empty(); }
inline bool is_zero(const json::Raw& value) { return value.empty(); }
inline bool is_zero(const StringMap& value) { return value.empty(); }
inline bool is_zero(const ResourceList& value) { return value.empty(); }
inline bool is_zero(const Time& value) { return value.is_zero(); }
inline bool is_zero(const MicroTime& value) { return value.is_zero(); }
inline bool is_zero(const Quantity&) { return false; }
inline bool is_zero(const Duration&) { return false; }
inline bool is_zero(const IntOrString&) { return false; }
template <class T>
bool is_zero(const std::optional<T>& value) {
  return !value.has_value();
}
template <class T>
bool is_zero(const std::vector<T>& value) {
  return value.empty();
}
template <class T>
bool is_zero(const std::map<std::string, T>& value) {
  return value.empty();
}
template <class T>
bool is_zero(const T& value) {
  return is_empty(value);
}

// Writing one value.

inline void write(json::Writer& writer, bool value) { writer.boolean(value); }
inline void write(json::Writer& writer, std::int32_t value) { writer.integer(value); }
inline void write(json::Writer& writer, std::int64_t value) { writer.integer(value); }
inline void write(json::Writer& writer, double value) { writer.number(value); }
inline void write(json::Writer& writer, const std::string& value) { writer.string(value); }
template <class T>
void write(json::Writer& writer, const std::optional<T>& value);
template <class T>
void write(json::Writer& writer, const std::vector<T>& value);
template <class T>
void write(json::Writer& writer, const std::map<std::string, T>& value);
template <class T>
void write(json::Writer& writer, const T& value) {
  encode(writer, value);
}

template <class T>
void write(json::Writer& writer, const std::optional<T>& value) {
  write(writer, *value);
}

template <class T>
void write(json::Writer& writer, const std::vector<T>& value) {
  writer.begin_array();
  for (const T& element : value) write(writer, element);
  writer.end_array();
}

template <class T>
void write(json::Writer& writer, const std::map<std::string, T>& value) {
  writer.begin_object();
  for (const auto& [key, element] : value) {
    writer.key(key);
    write(writer, element);
  }
  writer.end_object();
}

template <class T>
void member_always(json::Writer& writer, std::string_view key, const T& value) {
  writer.key(key);
  write(writer, value);
}
// A required member that is only carried is an object, even if nobody gave one.
inline void member_always(json::Writer& writer, std::string_view key, const json::Raw& value) {
  writer.key(key);
  if (value.empty()) {
    writer.raw("{}");
  } else {
    encode(writer, value);
  }
}

template <class T>
void member(json::Writer& writer, std::string_view key, const T& value) {
  if (!is_zero(value)) member_always(writer, key, value);
}

inline void type_members(json::Writer& writer, const KindInfo& info) {
  writer.key("apiVersion");
  writer.string(info.api_version());
  writer.key("kind");
  writer.string(info.kind);
}

}  // namespace basalt::api::codec
