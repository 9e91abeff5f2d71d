#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace basalt::cel {

class Value;

// How JSON is to be read below some place, where a schema says more than JSON itself does: a date-time is a timestamp,
// a number without a fraction is a double all the same. Immutable; lives longer than every value made with it.
class Shape {
 public:
  enum class Reading : std::uint8_t { Plain, Double, Timestamp, Duration, Bytes };
  enum class Type : std::uint8_t { Any, Object, Map, List, String, Int, Double, Bool, Timestamp, Duration, Bytes };

  virtual ~Shape() = default;
  [[nodiscard]] virtual Reading reading() const { return Reading::Plain; }
  [[nodiscard]] virtual Type type() const { return Type::Any; }
  // Of a member of an object (by its name in JSON), of the values of a map, of the elements of a list. Null: unknown.
  [[nodiscard]] virtual const Shape* member(std::string_view name) const = 0;
  [[nodiscard]] virtual const Shape* element() const = 0;
  // Of an object: whether there may be members that `member` does not know.
  [[nodiscard]] virtual bool is_open() const { return true; }
};

// A value with members and methods of its own: quantities, addresses, the variables of a policy. Immutable for its
// users; shared.
class Extension {
 public:
  virtual ~Extension() = default;
  [[nodiscard]] virtual std::string_view type_name() const = 0;
  // Errors say "no such key: ..." and "no such overload".
  [[nodiscard]] virtual Result<Value> member(std::string_view name) const;
  [[nodiscard]] virtual Result<Value> call(std::string_view method, std::span<const Value> arguments) const;
  [[nodiscard]] virtual bool equals(const Extension& other) const { return this == &other; }
};

// A text that is owned, shared, or lies in a JSON value that lives longer.
struct Text {
  std::shared_ptr<const std::string> owner;
  std::string_view view;

  static Text of(std::string text);
  static Text in(std::string_view text) { return {nullptr, text}; }
};

struct Bytes {
  Text text;
};

struct TypeName {
  std::string_view name;  // a constant
};

// Seconds and nanoseconds since 1970, of the years 1 to 9999.
struct Timestamp {
  std::int64_t seconds = 0;
  std::int32_t nanos = 0;
  auto operator<=>(const Timestamp&) const = default;
};

struct Duration {
  std::int64_t nanos = 0;
  auto operator<=>(const Duration&) const = default;
};

// Elements of JSON, read when they are asked for, or values.
class List {
 public:
  explicit List(std::vector<Value> values);
  List(const json::Array& array, const Shape* element) : json_(&array), shape_(element) {}
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] Value at(std::size_t index) const;

 private:
  const json::Array* json_ = nullptr;
  const Shape* shape_ = nullptr;
  std::shared_ptr<const std::vector<Value>> values_;
};

// Members of JSON or entries; an object of JSON is a map with keys that are strings.
class Map {
 public:
  using Entries = std::vector<std::pair<Value, Value>>;
  explicit Map(Entries entries);
  Map(const json::Object& object, const Shape* shape) : json_(&object), shape_(shape) {}
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::pair<Value, Value> entry(std::size_t index) const;
  [[nodiscard]] std::optional<Value> find(const Value& key) const;
  // By the name of a field, which may be written with Kubernetes' escapes ("__dash__", "__namespace__").
  [[nodiscard]] std::optional<Value> find_field(std::string_view name) const;
  [[nodiscard]] bool is_json() const { return json_ != nullptr; }

 private:
  [[nodiscard]] Value member_value(const json::Member& member) const;

  const json::Object* json_ = nullptr;
  const Shape* shape_ = nullptr;
  std::shared_ptr<const Entries> entries_;
};

// optional.of(x) or optional.none()
struct Optional {
  std::shared_ptr<const Value> value;
};

// A value of the expression language. Cheap to copy: parts are shared. What was made of JSON points into it, so the
// JSON must live longer.
class Value {
 public:
  using ExtensionRef = std::shared_ptr<const Extension>;
  using Data = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, Text, Bytes, List, Map,
                            Timestamp, Duration, TypeName, Optional, ExtensionRef>;

  Value() = default;  // null
  Value(Data data) : data_(std::move(data)) {}
  static Value of_text(std::string text) { return Value(Data(Text::of(std::move(text)))); }
  static Value of_int(std::int64_t value) { return Value(Data(value)); }
  static Value of_bool(bool value) { return Value(Data(value)); }
  static Value of_list(std::vector<Value> values) { return Value(Data(List(std::move(values)))); }
  static Value of(const json::Value& value, const Shape* shape = nullptr);

  template <class T>
  [[nodiscard]] const T* get() const {
    return std::get_if<T>(&data_);
  }
  [[nodiscard]] bool is_null() const { return data_.index() == 0; }
  [[nodiscard]] bool is_number() const { return get<std::int64_t>() || get<std::uint64_t>() || get<double>(); }
  [[nodiscard]] const Extension* extension() const {
    const auto* ref = get<ExtensionRef>();
    return ref == nullptr ? nullptr : ref->get();
  }
  // As type() names it.
  [[nodiscard]] std::string_view type_name() const;

  // Numbers by value whatever their type; values of different types are not equal. Recurses as deep as the value is.
  [[nodiscard]] bool operator==(const Value& other) const;
  // Nothing if the two have no order (or one is NaN: `unordered`).
  [[nodiscard]] std::optional<std::partial_ordering> compare(const Value& other) const;

  // Durations and timestamps become strings. Nothing for what has no JSON form (types, extensions, NaN, keys that are
  // no strings).
  [[nodiscard]] std::optional<json::Value> to_json() const;
  // A count of what it holds, for the cost of comparing it: at least 1, and at most `max`.
  [[nodiscard]] std::uint64_t weight(std::uint64_t max) const;

 private:
  Data data_;
};

// "a__dash__b" -> "a-b", "__namespace__" -> "namespace".
[[nodiscard]] std::string unescape_field(std::string_view name);

}  // namespace basalt::cel
