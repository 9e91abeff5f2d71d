#include "cel/evaluator.h"

#include <array>
#include <utility>

#include "base/strings.h"

namespace basalt::cel {
namespace {

constexpr std::size_t kArgumentsMax = 4;

std::string key_text(const Value& key) {
  if (const auto* text = key.get<Text>()) return std::string(text->view);
  if (const auto* number = key.get<std::int64_t>()) return std::to_string(*number);
  if (const auto* number = key.get<std::uint64_t>()) return std::to_string(*number);
  if (const auto* flag = key.get<bool>()) return *flag ? "true" : "false";
  return std::string(key.type_name());
}

Value some(Value value) { return Value(Value::Data(Optional{std::make_shared<const Value>(std::move(value))})); }
Value none() { return Value(Value::Data(Optional{})); }

// A whole number as a place in a list.
std::optional<std::int64_t> whole(const Value& value) {
  if (const auto* number = value.get<std::int64_t>()) return *number;
  if (const auto* number = value.get<std::uint64_t>()) {
    return *number > INT64_MAX ? std::nullopt : std::optional(static_cast<std::int64_t>(*number));
  }
  if (const auto* number = value.get<double>()) {
    if (!(*number > -9e15 && *number < 9e15)) return std::nullopt;
    const auto rounded = static_cast<std::int64_t>(*number);
    if (static_cast<double>(rounded) == *number) return rounded;
  }
  return std::nullopt;
}

bool may_be_key(const Value& key) {
  return key.get<Text>() || key.get<bool>() || key.get<std::int64_t>() || key.get<std::uint64_t>() || whole(key);
}

// The verdict of all, exists and exists_one while it grows, or the collection of map and filter.
struct Gathered {
  std::vector<Value> values;
  Map::Entries entries;
  std::size_t matches = 0;
  std::optional<Error> failure;  // of one element; another one may still decide
  bool decided = false;
};

Value result_of(Macro macro, Gathered& gathered) {
  switch (macro) {
    case Macro::All:
      return Value::of_bool(!gathered.decided);
    case Macro::Exists:
      return Value::of_bool(gathered.decided);
    case Macro::ExistsOne:
      return Value::of_bool(gathered.matches == 1);
    case Macro::TransformMap:
      return Value(Value::Data(Map(std::move(gathered.entries))));
    case Macro::Map:
    case Macro::Filter:
    case Macro::TransformList:
      break;
  }
  return Value::of_list(std::move(gathered.values));
}

}  // namespace

bool Evaluator::fail(Error error) {
  error_ = std::move(error);
  return false;
}

bool Evaluator::run(const Node& node, Value& out) {
  if (!cost_.take(1)) return fail(Cost::exhausted());
  switch (node.kind) {
    case Node::Kind::Literal:
      out = node.literal;
      return true;
    case Node::Kind::Global:
      out = globals_[node.index];
      return true;
    case Node::Kind::Local:
      out = locals_[node.index];
      return true;
    case Node::Kind::Select:
      return select(node, out);
    case Node::Kind::Has:
      return has(node, out);
    case Node::Kind::Index:
      return index(node, out);
    case Node::Kind::Call:
      return call(node, out);
    case Node::Kind::And:
    case Node::Kind::Or:
      return logical(node, out);
    case Node::Kind::Conditional: {
      if (!run(*node.children[0], out)) return false;
      const bool* condition = out.get<bool>();
      if (condition == nullptr) return fail(no_overload());
      return run(*node.children[*condition ? 1 : 2], out);
    }
    case Node::Kind::List:
      return list(node, out);
    case Node::Kind::Map:
      return map(node, out);
    case Node::Kind::Loop:
      return loop(node, out);
    case Node::Kind::OptionalMap:
      return optional_map(node, out);
  }
  return fail(no_overload());
}

bool Evaluator::select(const Node& node, Value& out) {
  Value object;
  return run(*node.children[0], object) && select_in(object, node, out);
}

bool Evaluator::select_in(const Value& object, const Node& node, Value& out) {
  if (const auto* optional = object.get<Optional>()) {
    if (optional->value == nullptr) {
      out = none();
      return true;
    }
    const auto* map = optional->value->get<Map>();
    if (map == nullptr) return fail(no_overload());
    auto found = map->find_field(node.name);
    out = found ? some(std::move(*found)) : none();
    return true;
  }
  if (const Extension* extension = object.extension()) {
    auto found = extension->member(node.name);
    if (!found.ok()) return fail(std::move(found).error());
    out = node.is_optional ? some(std::move(*found)) : std::move(*found);
    return true;
  }
  const auto* map = object.get<Map>();
  if (map == nullptr) return fail(no_overload());
  auto found = map->find_field(node.name);
  if (node.is_optional) {
    out = found ? some(std::move(*found)) : none();
    return true;
  }
  if (!found) return fail("no such key: " + node.name);
  out = std::move(*found);
  return true;
}

bool Evaluator::has(const Node& node, Value& out) {
  Value object;
  if (!run(*node.children[0], object)) return false;
  if (const auto* optional = object.get<Optional>()) {
    const auto* map = optional->value == nullptr ? nullptr : optional->value->get<Map>();
    out = Value::of_bool(map != nullptr && map->find_field(node.name).has_value());
    return true;
  }
  if (const Extension* extension = object.extension()) {
    out = Value::of_bool(extension->member(node.name).ok());
    return true;
  }
  const auto* map = object.get<Map>();
  if (map == nullptr) return fail(no_overload());
  out = Value::of_bool(map->find_field(node.name).has_value());
  return true;
}

bool Evaluator::index(const Node& node, Value& out) {
  Value object;
  Value key;
  if (!run(*node.children[0], object) || !run(*node.children[1], key)) return false;
  const auto* optional = object.get<Optional>();
  if (optional == nullptr) return index_in(object, key, node.is_optional, out);
  if (optional->value != nullptr) return index_in(*optional->value, key, true, out);
  out = none();
  return true;
}

bool Evaluator::index_in(const Value& object, const Value& key, bool is_optional, Value& out) {
  if (const auto* list = object.get<List>()) {
    const auto at = whole(key);
    if (!at) return fail(key.is_number() ? Error::invalid_input("unsupported index value in list") : no_overload());
    const bool is_inside = *at >= 0 && static_cast<std::uint64_t>(*at) < list->size();
    if (!is_inside && !is_optional) return fail("index out of bounds: " + std::to_string(*at));
    if (!is_inside) {
      out = none();
      return true;
    }
    Value found = list->at(static_cast<std::size_t>(*at));
    out = is_optional ? some(std::move(found)) : std::move(found);
    return true;
  }
  const auto* map = object.get<Map>();
  if (map == nullptr) return fail(no_overload());
  if (!map->is_json() && !cost_.take(map->size())) return fail(Cost::exhausted());
  auto found = map->find(key);
  if (!found && !is_optional) return fail("no such key: " + key_text(key));
  if (is_optional) {
    out = found ? some(std::move(*found)) : none();
  } else {
    out = std::move(*found);
  }
  return true;
}

bool Evaluator::call(const Node& node, Value& out) {
  std::array<Value, kArgumentsMax> arguments;
  BASALT_CHECK(node.children.size() <= kArgumentsMax);
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (!run(*node.children[i], arguments[i])) return false;
  }
  return invoke(node, std::span(arguments).first(node.children.size()), out);
}

bool Evaluator::invoke(const Node& node, std::span<const Value> arguments, Value& out) {
  const Extension* extension = node.function->is_method ? arguments[0].extension() : nullptr;
  Result<Value> result = extension != nullptr ? extension->call(node.name, arguments.subspan(1))
                         : node.function->run == nullptr
                             ? Result<Value>(no_overload())
                             : node.function->run(Call{node.name, arguments, cost_, node.regex.get()});
  if (!result.ok()) return fail(std::move(result).error());
  out = std::move(*result);
  return true;
}

bool Evaluator::logical(const Node& node, Value& out) {
  const bool deciding = node.kind == Node::Kind::Or;
  std::optional<Error> failure;
  for (const NodeRef& child : node.children) {
    if (!run(*child, out)) {
      if (cost_.is_exceeded()) return false;
      if (!failure) failure = std::move(error_);
      continue;
    }
    const bool* value = out.get<bool>();
    if (value == nullptr) {
      if (!failure) failure = no_overload();
    } else if (*value == deciding) {
      return true;
    }
  }
  if (failure) return fail(std::move(*failure));
  out = Value::of_bool(!deciding);
  return true;
}

bool Evaluator::list(const Node& node, Value& out) {
  std::vector<Value> values;
  values.reserve(node.children.size());
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    Value value;
    if (!run(*node.children[i], value)) return false;
    if (node.optional_children[i]) {
      const auto* optional = value.get<Optional>();
      if (optional == nullptr) return fail(no_overload());
      if (optional->value != nullptr) values.push_back(*optional->value);
    } else {
      values.push_back(std::move(value));
    }
  }
  out = Value::of_list(std::move(values));
  return true;
}

bool Evaluator::map(const Node& node, Value& out) {
  Map::Entries entries;
  for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
    Value key;
    Value value;
    if (!run(*node.children[i], key) || !run(*node.children[i + 1], value)) return false;
    if (!may_be_key(key)) return fail("unsupported key type: " + std::string(key.type_name()));
    if (!cost_.take(entries.size())) return fail(Cost::exhausted());
    for (const auto& [other, _] : entries) {
      if (other == key) return fail("Failed with repeated key: " + key_text(key));
    }
    if (node.optional_children[i / 2]) {
      const auto* optional = value.get<Optional>();
      if (optional == nullptr) return fail(no_overload());
      if (optional->value == nullptr) continue;
      value = Value(*optional->value);
    }
    entries.emplace_back(std::move(key), std::move(value));
  }
  out = Value(Value::Data(Map(std::move(entries))));
  return true;
}

bool Evaluator::loop(const Node& node, Value& out) {
  Value range;
  if (!run(*node.children[0], range)) return false;
  if (range.get<List>() == nullptr && range.get<Map>() == nullptr) return fail(no_overload());
  const std::size_t depth = locals_.size();
  locals_.resize(node.index + (node.has_two_variables ? 2u : 1u));
  const bool ok = walk(node, range, out);
  locals_.resize(depth);
  return ok;
}

bool Evaluator::walk(const Node& node, const Value& range, Value& out) {
  const auto* list = range.get<List>();
  const auto* map = range.get<Map>();
  const std::size_t size = list != nullptr ? list->size() : map->size();
  const bool absorbs = node.macro == Macro::All || node.macro == Macro::Exists;
  const bool has_condition = node.children.size() == 3;
  Gathered gathered;
  for (std::size_t i = 0; i < size && !gathered.decided; ++i) {
    Value first;
    if (map != nullptr) {
      auto [key, value] = map->entry(i);
      if (node.has_two_variables) locals_[node.index + 1] = std::move(value);
      first = std::move(key);
    } else {
      first = node.has_two_variables ? Value::of_int(static_cast<std::int64_t>(i)) : list->at(i);
      if (node.has_two_variables) locals_[node.index + 1] = list->at(i);
    }
    locals_[node.index] = first;
    if (has_condition) {
      if (!run(*node.children[1], out)) return false;
      if (out.get<bool>() == nullptr) return fail(no_overload());
      if (!*out.get<bool>()) continue;
    }
    if (!run(*node.children.back(), out)) {
      if (!absorbs || cost_.is_exceeded()) return false;
      if (!gathered.failure) gathered.failure = std::move(error_);
      continue;
    }
    if (node.macro == Macro::Map || node.macro == Macro::TransformList) {
      gathered.values.push_back(std::move(out));
      continue;
    }
    if (node.macro == Macro::TransformMap) {
      gathered.entries.emplace_back(std::move(first), std::move(out));
      continue;
    }
    const bool* holds = out.get<bool>();
    if (holds == nullptr) {
      if (!absorbs) return fail(no_overload());
      if (!gathered.failure) gathered.failure = no_overload();
      continue;
    }
    gathered.decided = absorbs && *holds == (node.macro == Macro::Exists);
    if (*holds && node.macro == Macro::ExistsOne) ++gathered.matches;
    if (*holds && node.macro == Macro::Filter) gathered.values.push_back(std::move(first));
  }
  if (gathered.failure && !gathered.decided) return fail(std::move(*gathered.failure));
  out = result_of(node.macro, gathered);
  return true;
}

bool Evaluator::optional_map(const Node& node, Value& out) {
  Value object;
  if (!run(*node.children[0], object)) return false;
  const auto* optional = object.get<Optional>();
  if (optional == nullptr) return fail(no_overload());
  if (optional->value == nullptr) {
    out = none();
    return true;
  }
  const std::size_t depth = locals_.size();
  locals_.resize(node.index + 1);
  locals_[node.index] = *optional->value;
  const bool ok = run(*node.children[1], out);
  locals_.resize(depth);
  if (ok) out = some(std::move(out));
  return ok;
}

}  // namespace basalt::cel
