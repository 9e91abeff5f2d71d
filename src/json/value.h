#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::json {

class Value;
struct Member;

using Array = std::vector<Value>;

// Members sorted by key, always: lookups are binary searches, equality and output are canonical, and a tenant's object
// with many keys cannot make anything quadratic but insertion of single keys in the middle.
class Object {
 public:
  using const_iterator = std::vector<Member>::const_iterator;
  using iterator = std::vector<Member>::iterator;

  Object();
  Object(const Object& other);
  Object(Object&& other) noexcept;
  Object& operator=(const Object& other);
  Object& operator=(Object&& other) noexcept;
  ~Object();
  Object(std::initializer_list<std::pair<std::string_view, Value>> members);

  [[nodiscard]] bool empty() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] Value* find(std::string_view key);
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }
  Value& operator[](std::string_view key);  // inserts null if absent
  Value& set(std::string_view key, Value value);
  bool erase(std::string_view key);
  void clear();
  void reserve(std::size_t count);

  // Whoever changes a member through an iterator leaves its key alone: the order depends on it.
  [[nodiscard]] const_iterator begin() const;
  [[nodiscard]] const_iterator end() const;
  [[nodiscard]] iterator begin();
  [[nodiscard]] iterator end();

  bool operator==(const Object& other) const;

  // Takes members in any order; sorts them once. Returns the first duplicated key, if any (the last of a pair wins).
  std::optional<std::string> assign(std::vector<Member> members);
  // Takes members that are sorted and free of duplicates already.
  static Object of_sorted(std::vector<Member> members);
  // Removes every member for which the predicate holds, in one pass.
  template <class Predicate>
  std::size_t erase_if(Predicate predicate) {
    return std::erase_if(members_, predicate);
  }

 private:
  std::vector<Member> members_;
};

// A JSON value that can be changed: the currency of generic work (patches, defaulting, pruning, admission). Code that
// knows its types uses the generated structs instead. Integers that fit stay int64; other numbers are double.
// Copying, comparing, writing and destroying recurse once per level; readers and patches bound the depth (256 by
// default), so whoever builds values in a loop bounds it, too. A value is used by one thread at a time, or const.
class Value {
 public:
  Value() {}
  Value(std::nullptr_t) {}
  // Only a bool: a pointer that decays to one is a mistake that the compiler shall find.
  Value(std::same_as<bool> auto value) : type_(Type::Bool), bool_(value) {}
  Value(int value) : type_(Type::Int), int_(value) {}
  Value(std::int64_t value) : type_(Type::Int), int_(value) {}
  Value(double value) : type_(Type::Double), double_(value) {}
  Value(const char* value) : type_(Type::Text), string_(value) {}
  Value(std::string_view value) : type_(Type::Text), string_(value) {}
  Value(std::string value) : type_(Type::Text), string_(std::move(value)) {}
  Value(Array value) : type_(Type::List), array_(std::move(value)) {}
  Value(Object value) : type_(Type::Members), object_(std::move(value)) {}

  // What is moved from is null afterwards. A value may be assigned from a part of itself.
  Value(const Value& other) { copy_from(other); }
  Value(Value&& other) noexcept { move_from(other); }
  Value& operator=(const Value& other) { return *this = Value(other); }
  Value& operator=(Value&& other) noexcept {
    if (this == &other) return *this;
    Value old(std::move(*this));  // dies last: `other` may be a part of it
    move_from(other);
    return *this;
  }
  ~Value() { destroy(); }

  [[nodiscard]] bool is_null() const { return type_ == Type::Null; }
  [[nodiscard]] bool is_bool() const { return type_ == Type::Bool; }
  [[nodiscard]] bool is_int() const { return type_ == Type::Int; }
  [[nodiscard]] bool is_double() const { return type_ == Type::Double; }
  [[nodiscard]] bool is_number() const { return is_int() || is_double(); }
  [[nodiscard]] bool is_string() const { return type_ == Type::Text; }
  [[nodiscard]] bool is_array() const { return type_ == Type::List; }
  [[nodiscard]] bool is_object() const { return type_ == Type::Members; }
  // "null", "boolean", "integer", "number", "string", "array", "object"
  [[nodiscard]] std::string_view type_name() const;

  // The caller has checked the type; a mismatch is a broken invariant.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_int() const;
  [[nodiscard]] double as_double() const;  // of an int, too
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const Array& as_array() const;
  [[nodiscard]] Array& as_array();
  [[nodiscard]] const Object& as_object() const;
  [[nodiscard]] Object& as_object();

  // Null if this is not an object or has no such member.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] Value* find(std::string_view key);
  // Follows keys through objects; null where the way ends. For array elements use json/pointer.h.
  [[nodiscard]] const Value* find_path(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] Value* find_path(std::initializer_list<std::string_view> keys);
  // The string at that path, or "" if absent or no string.
  [[nodiscard]] std::string_view string_at(std::initializer_list<std::string_view> keys) const;
  // Makes objects along the way (replacing what is not an object) and returns the last, null if new.
  Value& ensure_path(std::initializer_list<std::string_view> keys);

  // Numbers compare by value (1 equals 1.0).
  bool operator==(const Value& other) const;

  struct ParseOptions {
    int depth_max = 256;                    // at most Reader::kDepthMax
    bool duplicate_keys_are_errors = true;  // else the last one wins, as Kubernetes does outside strict validation
  };
  static Result<Value> parse(std::string_view text) { return parse(text, ParseOptions()); }
  static Result<Value> parse(std::string_view text, ParseOptions options);
  [[nodiscard]] std::string to_text() const;         // compact, keys sorted
  [[nodiscard]] std::string to_pretty_text() const;  // two-space indent, keys sorted

  // Levels of nesting: 0 for a scalar, 1 for {} and [].
  [[nodiscard]] int depth() const;
  // Rough heap bytes held, for limits.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  enum class Type : std::uint8_t { Null, Bool, Int, Double, Text, List, Members };

  // A union and not std::variant: moves are inlined, and what was moved from holds nothing.
  void copy_from(const Value& other);
  void move_from(Value& other) noexcept;  // `this` holds nothing that must be destroyed
  void destroy() noexcept;

  Type type_ = Type::Null;
  union {
    bool bool_;
    std::int64_t int_;
    double double_;
    std::string string_;
    Array array_;
    Object object_;
  };
};

struct Member {
  std::string key;
  Value value;
  bool operator==(const Member&) const = default;
};

// Here, where Member is complete.
inline Object::Object() = default;
inline Object::Object(const Object& other) = default;
inline Object::Object(Object&& other) noexcept = default;
inline Object& Object::operator=(const Object& other) = default;
inline Object& Object::operator=(Object&& other) noexcept = default;
inline Object::~Object() = default;
inline bool Object::empty() const { return members_.empty(); }
inline std::size_t Object::size() const { return members_.size(); }
inline void Object::clear() { members_.clear(); }
inline Object::const_iterator Object::begin() const { return members_.begin(); }
inline Object::const_iterator Object::end() const { return members_.end(); }
inline Object::iterator Object::begin() { return members_.begin(); }
inline Object::iterator Object::end() { return members_.end(); }

inline void Value::move_from(Value& other) noexcept {
  type_ = other.type_;
  switch (type_) {
    case Type::Null:
      break;
    case Type::Bool:
      bool_ = other.bool_;
      break;
    case Type::Int:
      int_ = other.int_;
      break;
    case Type::Double:
      double_ = other.double_;
      break;
    case Type::Text:
      new (&string_) std::string(std::move(other.string_));
      other.string_.~basic_string();
      break;
    case Type::List:
      new (&array_) Array(std::move(other.array_));
      other.array_.~vector();
      break;
    case Type::Members:
      new (&object_) Object(std::move(other.object_));
      other.object_.~Object();
      break;
  }
  other.type_ = Type::Null;
}

inline void Value::destroy() noexcept {
  if (type_ < Type::Text) return;
  if (type_ == Type::Text) {
    string_.~basic_string();
  } else if (type_ == Type::List) {
    array_.~vector();
  } else {
    object_.~Object();
  }
  type_ = Type::Null;
}

void decode(Reader& reader, Value& value);
void encode(Writer& writer, const Value& value);

}  // namespace basalt::json
