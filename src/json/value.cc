#include "json/value.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/check.h"
#include "base/kept_by_thread.h"

namespace basalt::json {
namespace {

constexpr std::size_t kScanMax = 24;

template <class Members>
auto lower_bound(Members& members, std::string_view key) {
  return std::lower_bound(members.begin(), members.end(), key,
                          [](const Member& member, std::string_view wanted) { return member.key < wanted; });
}

// A member that is being collected. `Key` owns its text or views it.
template <class Key>
struct Pending {
  Key key;
  Value value;
};

// Moves members into an object in the order of their keys; of equal keys the last one wins. `duplicate` gets the first
// key that came twice. Sorts pointers, not members, so that each member is moved once. `order` is scratch space.
template <class Key>
Object take_sorted(Pending<Key>* first, std::size_t count, std::vector<Pending<Key>*>& order,
                   std::optional<std::string>& duplicate) {
  std::vector<Member> sorted;
  sorted.reserve(count);
  const auto is_out_of_order = [](const auto& a, const auto& b) { return !(a.key < b.key); };
  if (std::adjacent_find(first, first + count, is_out_of_order) == first + count) {
    for (std::size_t i = 0; i < count; ++i) {
      sorted.push_back({std::string(std::move(first[i].key)), std::move(first[i].value)});
    }
    return Object::of_sorted(std::move(sorted));
  }
  order.clear();
  for (std::size_t i = 0; i < count; ++i) order.push_back(first + i);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const int compared = a->key.compare(b->key);
    return compared != 0 ? compared < 0 : a < b;
  });
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 < count && order[i]->key == order[i + 1]->key) {
      if (!duplicate) duplicate = std::string(order[i]->key);
      continue;
    }
    sorted.push_back({std::string(std::move(order[i]->key)), std::move(order[i]->value)});
  }
  return Object::of_sorted(std::move(sorted));
}

// What a Builder collects open containers in; kept up to a size.
struct BuilderStacks {
  static constexpr std::size_t kKeptMax = 256;  // members, elements

  std::vector<Pending<std::string_view>> members;
  std::vector<Value> elements;
  std::vector<Pending<std::string_view>*> order;

  [[nodiscard]] bool is_small() const { return members.capacity() <= kKeptMax && elements.capacity() <= kKeptMax; }
};

// Reads values by recursion, once per level, within the reader's depth limit. Members and elements are collected on
// stacks that all levels share, so that every container is allocated once, at its final size.
class Builder {
  using Kept = base::KeptByThread<Builder, BuilderStacks>;

 public:
  Builder(Reader& reader, bool duplicates_are_errors)
      : reader_(reader), duplicates_are_errors_(duplicates_are_errors), stacks_(Kept::take()) {
    members_.reserve(32);  // more are seldom open at once in an API object
  }
  ~Builder() {
    members_.clear();
    elements_.clear();
    order_.clear();
    if (stacks_.is_small()) Kept::give(std::move(stacks_));
  }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Value read() {
    switch (reader_.peek()) {
      case Kind::Null:
        reader_.consume_null();
        return {};
      case Kind::Bool:
        return Value(reader_.read_bool());
      case Kind::Number: {
        std::int64_t integer = 0;
        double number = 0;
        return reader_.read_number(integer, number) ? Value(integer) : Value(number);
      }
      case Kind::String:
        return Value(reader_.read_string_view());
      case Kind::Array:
        return read_array();
      case Kind::Object:
        return read_object();
      case Kind::Invalid:
        break;
    }
    return {};
  }

 private:
  Value read_array() {
    const std::size_t base = elements_.size();
    if (!reader_.begin_array()) return {};
    while (reader_.next_element()) elements_.push_back(read());
    const auto first = elements_.begin() + static_cast<std::ptrdiff_t>(base);
    Array array(std::make_move_iterator(first), std::make_move_iterator(elements_.end()));
    elements_.erase(first, elements_.end());
    return Value(std::move(array));
  }

  Value read_object() {
    const std::size_t base = members_.size();
    if (!reader_.begin_object()) return {};
    std::string_view key;
    while (reader_.next_member(key)) {
      // A view into the text lives as long as the text; one into the reader's scratch space does not.
      if (!reader_.is_in_text(key)) key = unescaped_keys_.emplace_back(key);
      members_.push_back({key, read()});
    }
    std::optional<std::string> duplicate;
    Object object = take_sorted(members_.data() + base, members_.size() - base, order_, duplicate);
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(base), members_.end());
    if (duplicate && duplicates_are_errors_) reader_.fail("duplicate key \"" + *duplicate + "\"");
    return Value(std::move(object));
  }

  Reader& reader_;
  const bool duplicates_are_errors_;
  BuilderStacks stacks_;
  std::vector<Pending<std::string_view>>& members_ = stacks_.members;
  std::vector<Value>& elements_ = stacks_.elements;
  std::vector<Pending<std::string_view>*>& order_ = stacks_.order;
  std::deque<std::string> unescaped_keys_;  // rare: keys of API objects have no escapes
};

void append_pretty(std::string& out, const Value& value, std::size_t indent) {
  const auto new_line = [&out](std::size_t depth) {
    out.push_back('\n');
    out.append(2 * depth, ' ');
  };
  if (value.is_object() && !value.as_object().empty()) {
    char before = '{';
    for (const Member& member : value.as_object()) {
      out.push_back(before);
      before = ',';
      new_line(indent + 1);
      append_quoted(out, member.key);
      out.append(": ");
      append_pretty(out, member.value, indent + 1);
    }
    new_line(indent);
    out.push_back('}');
  } else if (value.is_array() && !value.as_array().empty()) {
    char before = '[';
    for (const Value& element : value.as_array()) {
      out.push_back(before);
      before = ',';
      new_line(indent + 1);
      append_pretty(out, element, indent + 1);
    }
    new_line(indent);
    out.push_back(']');
  } else {
    Writer writer(out);
    encode(writer, value);
  }
}

// Exact: an int64 beyond 2^53 is not taken for the double next to it.
bool equals(std::int64_t integer, double number) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (!(number >= -kTwoTo63 && number < kTwoTo63) || number != std::floor(number)) return false;
  return static_cast<std::int64_t>(number) == integer;
}

}  // namespace

Object::Object(std::initializer_list<std::pair<std::string_view, Value>> members) {
  std::vector<Member> copies;
  copies.reserve(members.size());
  for (const auto& [key, value] : members) copies.push_back({std::string(key), value});
  assign(std::move(copies));
}

const Value* Object::find(std::string_view key) const {
  // Objects are mostly small: comparing lengths and first letters in a row beats bisecting with whole comparisons.
  if (members_.size() <= kScanMax && !key.empty()) {
    const char first = key.front();
    for (const Member& member : members_) {
      if (member.key.size() == key.size() && member.key.front() == first && member.key == key) return &member.value;
    }
    return nullptr;
  }
  const auto at = lower_bound(members_, key);
  return at != members_.end() && at->key == key ? &at->value : nullptr;
}

Value* Object::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

Value& Object::operator[](std::string_view key) {
  auto at = lower_bound(members_, key);
  if (at == members_.end() || at->key != key) at = members_.insert(at, Member{std::string(key), Value()});
  return at->value;
}

Value& Object::set(std::string_view key, Value value) {
  Value& place = (*this)[key];
  place = std::move(value);
  return place;
}

bool Object::erase(std::string_view key) {
  const auto at = lower_bound(members_, key);
  if (at == members_.end() || at->key != key) return false;
  members_.erase(at);
  return true;
}

void Object::reserve(std::size_t count) { members_.reserve(count); }

bool Object::operator==(const Object& other) const { return members_ == other.members_; }

std::optional<std::string> Object::assign(std::vector<Member> members) {
  std::vector<Pending<std::string>> pending;
  pending.reserve(members.size());
  for (Member& member : members) pending.push_back({std::move(member.key), std::move(member.value)});
  std::vector<Pending<std::string>*> order;
  std::optional<std::string> duplicate;
  *this = take_sorted(pending.data(), pending.size(), order, duplicate);
  return duplicate;
}

Object Object::of_sorted(std::vector<Member> members) {
  BASALT_DCHECK(
      std::is_sorted(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.key < b.key; }));
  Object object;
  object.members_ = std::move(members);
  return object;
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  return kNames[static_cast<std::size_t>(type_)];
}

bool Value::as_bool() const {
  BASALT_CHECK(is_bool());
  return bool_;
}

std::int64_t Value::as_int() const {
  BASALT_CHECK(is_int());
  return int_;
}

double Value::as_double() const {
  BASALT_CHECK(is_number());
  return is_int() ? static_cast<double>(int_) : double_;
}

const std::string& Value::as_string() const {
  BASALT_CHECK(is_string());
  return string_;
}

const Array& Value::as_array() const {
  BASALT_CHECK(is_array());
  return array_;
}

Array& Value::as_array() {
  BASALT_CHECK(is_array());
  return array_;
}

const Object& Value::as_object() const {
  BASALT_CHECK(is_object());
  return object_;
}

Object& Value::as_object() {
  BASALT_CHECK(is_object());
  return object_;
}

const Value* Value::find(std::string_view key) const { return is_object() ? object_.find(key) : nullptr; }

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

const Value* Value::find_path(std::initializer_list<std::string_view> keys) const {
  const Value* at = this;
  for (const std::string_view key : keys) {
    at = at->find(key);
    if (at == nullptr) return nullptr;
  }
  return at;
}

Value* Value::find_path(std::initializer_list<std::string_view> keys) {
  return const_cast<Value*>(std::as_const(*this).find_path(keys));
}

std::string_view Value::string_at(std::initializer_list<std::string_view> keys) const {
  const Value* const found = find_path(keys);
  return found != nullptr && found->is_string() ? std::string_view(found->as_string()) : std::string_view();
}

Value& Value::ensure_path(std::initializer_list<std::string_view> keys) {
  Value* at = this;
  for (const std::string_view key : keys) {
    if (!at->is_object()) *at = Object();
    at = &at->as_object()[key];
  }
  return *at;
}

void Value::copy_from(const Value& other) {
  switch (other.type_) {
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
      new (&string_) std::string(other.string_);
      break;
    case Type::List:
      new (&array_) Array(other.array_);
      break;
    case Type::Members:
      new (&object_) Object(other.object_);
      break;
  }
  type_ = other.type_;
}

bool Value::operator==(const Value& other) const {
  if (type_ != other.type_) {
    if (is_int() && other.is_double()) return equals(int_, other.double_);
    return is_double() && other.is_int() && equals(other.int_, double_);
  }
  switch (type_) {
    case Type::Null:
      return true;
    case Type::Bool:
      return bool_ == other.bool_;
    case Type::Int:
      return int_ == other.int_;
    case Type::Double:
      return double_ == other.double_;
    case Type::Text:
      return string_ == other.string_;
    case Type::List:
      return array_ == other.array_;
    case Type::Members:
      return object_ == other.object_;
  }
  return false;
}

Result<Value> Value::parse(std::string_view text, ParseOptions options) {
  Reader::Options reader_options;
  reader_options.depth_max = options.depth_max;
  Reader reader(text, reader_options);
  Value value = Builder(reader, options.duplicate_keys_are_errors).read();
  if (Done done = reader.finish(); !done.ok()) return std::move(done).error();
  return value;
}

std::string Value::to_text() const { return json::to_text(*this); }

std::string Value::to_pretty_text() const {
  std::string out;
  append_pretty(out, *this, 0);
  return out;
}

int Value::depth() const {
  int below = 0;
  if (is_array()) {
    for (const Value& element : as_array()) below = std::max(below, element.depth());
    return below + 1;
  }
  if (is_object()) {
    for (const Member& member : as_object()) below = std::max(below, member.value.depth());
    return below + 1;
  }
  return 0;
}

std::size_t Value::memory_bytes() const {
  const auto heap_of = [](const std::string& text) {
    return text.capacity() > std::string().capacity() ? text.capacity() + 1 : 0;
  };
  std::size_t bytes = 0;
  if (is_string()) {
    bytes = heap_of(as_string());
  } else if (is_array()) {
    bytes = as_array().capacity() * sizeof(Value);
    for (const Value& element : as_array()) bytes += element.memory_bytes();
  } else if (is_object()) {
    for (const Member& member : as_object()) {
      bytes += sizeof(Member) + heap_of(member.key) + member.value.memory_bytes();
    }
  }
  return bytes;
}

void decode(Reader& reader, Value& value) { value = Builder(reader, false).read(); }

void encode(Writer& writer, const Value& value) {
  if (value.is_object()) {
    writer.begin_object();
    for (const Member& member : value.as_object()) {
      writer.key(member.key);
      encode(writer, member.value);
    }
    writer.end_object();
  } else if (value.is_array()) {
    writer.begin_array();
    for (const Value& element : value.as_array()) encode(writer, element);
    writer.end_array();
  } else if (value.is_string()) {
    writer.string(value.as_string());
  } else if (value.is_int()) {
    writer.integer(value.as_int());
  } else if (value.is_double()) {
    writer.number(value.as_double());
  } else if (value.is_bool()) {
    writer.boolean(value.as_bool());
  } else {
    writer.null();
  }
}

}  // namespace basalt::json
