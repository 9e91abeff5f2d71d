#include "cel/value.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/encoding.h"
#include "cel/time_values.h"

namespace basalt::cel {
namespace {

constexpr std::size_t kStringWeightBytes = 10;  // so many bytes are compared at the cost of one step

std::partial_ordering compare_int_double(std::int64_t a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= 9223372036854775808.0) return std::partial_ordering::less;
  if (b < -9223372036854775808.0) return std::partial_ordering::greater;
  const auto whole = static_cast<std::int64_t>(b);  // towards zero
  if (a != whole) return a <=> whole;
  return 0.0 <=> (b - static_cast<double>(whole));
}

std::partial_ordering compare_uint_double(std::uint64_t a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= 18446744073709551616.0) return std::partial_ordering::less;
  if (b < 0) return std::partial_ordering::greater;
  const auto whole = static_cast<std::uint64_t>(b);
  if (a != whole) return a <=> whole;
  return 0.0 <=> (b - static_cast<double>(whole));
}

std::partial_ordering reversed(std::partial_ordering order) {
  if (order == std::partial_ordering::less) return std::partial_ordering::greater;
  if (order == std::partial_ordering::greater) return std::partial_ordering::less;
  return order;
}

std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  if (const auto* x = a.get<std::int64_t>()) {
    if (const auto* y = b.get<std::int64_t>()) return *x <=> *y;
    if (const auto* y = b.get<std::uint64_t>())
      return *x < 0 ? std::partial_ordering::less : std::partial_ordering(static_cast<std::uint64_t>(*x) <=> *y);
    return compare_int_double(*x, *b.get<double>());
  }
  if (const auto* x = a.get<std::uint64_t>()) {
    if (const auto* y = b.get<std::uint64_t>()) return *x <=> *y;
    if (const auto* y = b.get<double>()) return compare_uint_double(*x, *y);
    return reversed(compare_numbers(b, a));
  }
  const double x = *a.get<double>();
  if (const auto* y = b.get<double>()) return x <=> *y;
  return reversed(compare_numbers(b, a));
}

bool lists_equal(const List& a, const List& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a.at(i) == b.at(i))) return false;
  }
  return true;
}

bool maps_equal(const Map& a, const Map& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto [key, value] = a.entry(i);
    const auto other = b.find(key);
    if (!other || !(value == *other)) return false;
  }
  return true;
}

Value read_text(const std::string& text, Shape::Reading reading) {
  switch (reading) {
    case Shape::Reading::Timestamp:
      if (const auto time = parse_timestamp(text)) return Value(Value::Data(*time));
      break;
    case Shape::Reading::Duration:
      if (const auto duration = parse_duration(text)) return Value(Value::Data(*duration));
      break;
    case Shape::Reading::Bytes:
      if (auto bytes = base::base64_decode(text)) return Value(Value::Data(Bytes{Text::of(std::move(*bytes))}));
      break;
    case Shape::Reading::Plain:
    case Shape::Reading::Double:
      break;
  }
  return Value(Value::Data(Text::in(text)));
}

}  // namespace

Result<Value> Extension::member(std::string_view name) const {
  return Error::invalid_input("no such key: " + std::string(name));
}

Result<Value> Extension::call(std::string_view, std::span<const Value>) const {
  return Error::invalid_input("no such overload");
}

Text Text::of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const std::string_view view = *owner;
  return {std::move(owner), view};
}

List::List(std::vector<Value> values) : values_(std::make_shared<const std::vector<Value>>(std::move(values))) {}

std::size_t List::size() const { return json_ != nullptr ? json_->size() : values_->size(); }

Value List::at(std::size_t index) const {
  return json_ != nullptr ? Value::of((*json_)[index], shape_) : (*values_)[index];
}

Map::Map(Entries entries) : entries_(std::make_shared<const Entries>(std::move(entries))) {}

std::size_t Map::size() const { return json_ != nullptr ? json_->size() : entries_->size(); }

Value Map::member_value(const json::Member& member) const {
  const Shape* shape = shape_ == nullptr ? nullptr : shape_->member(member.key);
  if (shape == nullptr && shape_ != nullptr) shape = shape_->element();
  return Value::of(member.value, shape);
}

std::pair<Value, Value> Map::entry(std::size_t index) const {
  if (json_ == nullptr) return (*entries_)[index];
  const json::Member& member = *(json_->begin() + static_cast<std::ptrdiff_t>(index));
  return {Value(Value::Data(Text::in(member.key))), member_value(member)};
}

std::optional<Value> Map::find(const Value& key) const {
  if (json_ == nullptr) {
    for (const auto& [name, value] : *entries_) {
      if (name == key) return value;
    }
    return std::nullopt;
  }
  const Text* text = key.get<Text>();
  const json::Value* found = text == nullptr ? nullptr : json_->find(text->view);
  if (found == nullptr) return std::nullopt;
  const Shape* shape = shape_ == nullptr ? nullptr : shape_->member(text->view);
  if (shape == nullptr && shape_ != nullptr) shape = shape_->element();
  return Value::of(*found, shape);
}

std::optional<Value> Map::find_field(std::string_view name) const {
  auto found = find(Value(Value::Data(Text::in(name))));
  if (found || json_ == nullptr || name.find("__") == std::string_view::npos) return found;
  const std::string plain = unescape_field(name);
  return find(Value(Value::Data(Text::in(plain))));
}

Value Value::of(const json::Value& value, const Shape* shape) {
  if (value.is_null()) return Value();
  if (value.is_bool()) return of_bool(value.as_bool());
  const Shape::Reading reading = shape == nullptr ? Shape::Reading::Plain : shape->reading();
  if (value.is_int()) {
    if (reading == Shape::Reading::Double) return Value(Data(static_cast<double>(value.as_int())));
    return of_int(value.as_int());
  }
  if (value.is_double()) return Value(Data(value.as_double()));
  if (value.is_string()) return read_text(value.as_string(), reading);
  if (value.is_array()) return Value(Data(List(value.as_array(), shape == nullptr ? nullptr : shape->element())));
  return Value(Data(Map(value.as_object(), shape)));
}

std::string_view Value::type_name() const {
  constexpr std::array<std::string_view, 13> kNames = {"null_type",
                                                       "bool",
                                                       "int",
                                                       "uint",
                                                       "double",
                                                       "string",
                                                       "bytes",
                                                       "list",
                                                       "map",
                                                       "google.protobuf.Timestamp",
                                                       "google.protobuf.Duration",
                                                       "type",
                                                       "optional_type"};
  if (const Extension* extension = this->extension()) return extension->type_name();
  return kNames[data_.index()];
}

bool Value::operator==(const Value& other) const {
  if (is_number() && other.is_number()) return compare_numbers(*this, other) == std::partial_ordering::equivalent;
  if (data_.index() != other.data_.index()) return false;
  if (is_null()) return true;
  if (const auto* a = get<bool>()) return *a == *other.get<bool>();
  if (const auto* a = get<Text>()) return a->view == other.get<Text>()->view;
  if (const auto* a = get<Bytes>()) return a->text.view == other.get<Bytes>()->text.view;
  if (const auto* a = get<List>()) return lists_equal(*a, *other.get<List>());
  if (const auto* a = get<Map>()) return maps_equal(*a, *other.get<Map>());
  if (const auto* a = get<Timestamp>()) return *a == *other.get<Timestamp>();
  if (const auto* a = get<Duration>()) return *a == *other.get<Duration>();
  if (const auto* a = get<TypeName>()) return a->name == other.get<TypeName>()->name;
  if (const auto* a = get<Optional>()) {
    const Optional& b = *other.get<Optional>();
    return a->value == nullptr || b.value == nullptr ? a->value == b.value : *a->value == *b.value;
  }
  return extension()->type_name() == other.extension()->type_name() && extension()->equals(*other.extension());
}

std::optional<std::partial_ordering> Value::compare(const Value& other) const {
  if (is_number() && other.is_number()) return compare_numbers(*this, other);
  if (data_.index() != other.data_.index()) return std::nullopt;
  if (const auto* a = get<bool>()) return *a <=> *other.get<bool>();
  if (const auto* a = get<Text>()) return a->view <=> other.get<Text>()->view;
  if (const auto* a = get<Bytes>()) return a->text.view <=> other.get<Bytes>()->text.view;
  if (const auto* a = get<Timestamp>()) return *a <=> *other.get<Timestamp>();
  if (const auto* a = get<Duration>()) return *a <=> *other.get<Duration>();
  return std::nullopt;
}

std::optional<json::Value> Value::to_json() const {
  if (is_null()) return json::Value();
  if (const auto* a = get<bool>()) return json::Value(*a);
  if (const auto* a = get<std::int64_t>()) return json::Value(*a);
  if (const auto* a = get<std::uint64_t>()) {
    if (*a <= INT64_MAX) return json::Value(static_cast<std::int64_t>(*a));
    return json::Value(static_cast<double>(*a));
  }
  if (const auto* a = get<double>()) return std::isfinite(*a) ? std::optional(json::Value(*a)) : std::nullopt;
  if (const auto* a = get<Text>()) return json::Value(a->view);
  if (const auto* a = get<Bytes>()) return json::Value(base::base64_encode(a->text.view));
  if (const auto* a = get<Timestamp>()) return json::Value(timestamp_text(*a));
  if (const auto* a = get<Duration>()) return json::Value(duration_text(*a));
  if (const auto* a = get<List>()) {
    json::Array array;
    for (std::size_t i = 0; i < a->size(); ++i) {
      auto item = a->at(i).to_json();
      if (!item) return std::nullopt;
      array.push_back(std::move(*item));
    }
    return json::Value(std::move(array));
  }
  if (const auto* a = get<Map>()) {
    json::Object object;
    for (std::size_t i = 0; i < a->size(); ++i) {
      const auto [key, value] = a->entry(i);
      auto item = value.to_json();
      if (!item || key.get<Text>() == nullptr) return std::nullopt;
      object.set(key.get<Text>()->view, std::move(*item));
    }
    return json::Value(std::move(object));
  }
  return std::nullopt;
}

std::uint64_t Value::weight(std::uint64_t max) const {
  if (const auto* a = get<Text>()) return std::min<std::uint64_t>(max, 1 + a->view.size() / kStringWeightBytes);
  if (const auto* a = get<Bytes>()) return std::min<std::uint64_t>(max, 1 + a->text.view.size() / kStringWeightBytes);
  std::uint64_t total = 1;
  if (const auto* a = get<List>()) {
    for (std::size_t i = 0; i < a->size() && total < max; ++i) total += a->at(i).weight(max - total);
  } else if (const auto* map = get<Map>()) {
    // Finding a key among values that were computed takes a walk through all of them.
    if (!map->is_json()) total = std::min<std::uint64_t>(max, 1 + map->size() * map->size());
    for (std::size_t i = 0; i < map->size() && total < max; ++i) total += 1 + map->entry(i).second.weight(max - total);
  }
  return std::min(total, max);
}

std::string unescape_field(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"__underscores__", "__"}, {"__dot__", "."}, {"__dash__", "-"}, {"__slash__", "/"}};
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    const std::string_view inner = name.substr(2, name.size() - 4);
    const bool is_word = std::ranges::all_of(inner, [](char c) { return c >= 'a' && c <= 'z'; });
    const bool is_escape = std::ranges::any_of(kEscapes, [&](const auto& escape) { return escape.first == name; });
    if (is_word && !is_escape) return std::string(inner);
  }
  std::string plain;
  while (!name.empty()) {
    bool replaced = false;
    for (const auto& [escape, text] : kEscapes) {
      if (!name.starts_with(escape)) continue;
      plain += text;
      name.remove_prefix(escape.size());
      replaced = true;
      break;
    }
    if (replaced) continue;
    plain += name.front();
    name.remove_prefix(1);
  }
  return plain;
}

}  // namespace basalt::cel
