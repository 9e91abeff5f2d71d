// Functions of lists and sets, and what optional values can do.

#include "cel/function.h"
#include "cel/time_values.h"

namespace basalt::cel {
namespace {

const Function* adder() {
  static const Function* const kAdd = find_function("_+_", false);
  return kAdd;
}

Result<Value> is_sorted(const Call& call) {
  const auto* list = call.get<List>(0);
  if (list == nullptr) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(list->size()));
  for (std::size_t i = 1; i < list->size(); ++i) {
    const auto order = list->at(i - 1).compare(list->at(i));
    if (!order) return no_overload();
    if (*order > 0) return Value::of_bool(false);
  }
  return Value::of_bool(true);
}

Result<Value> sum(const Call& call) {
  const auto* list = call.get<List>(0);
  if (list == nullptr) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(list->size()));
  if (list->size() == 0) return Value::of_int(0);
  Value total = list->at(0);
  if (!total.is_number() && total.get<Duration>() == nullptr) return no_overload();
  for (std::size_t i = 1; i < list->size(); ++i) {
    const Value pair[] = {std::move(total), list->at(i)};
    BASALT_TRY(total, adder()->run(Call{"_+_", pair, call.cost}));
  }
  return total;
}

Result<Value> extreme(const Call& call) {
  const auto* list = call.get<List>(0);
  if (list == nullptr) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(list->size()));
  if (list->size() == 0) return Error::invalid_input(std::string(call.name) + " called on empty list");
  Value best = list->at(0);
  for (std::size_t i = 0; i < list->size(); ++i) {
    Value item = list->at(i);
    const auto order = item.compare(best);
    if (!order) return no_overload();
    if (call.name == "min" ? *order < 0 : *order > 0) best = std::move(item);
  }
  return best;
}

Result<Value> index_of(const Call& call) {
  if (call.text(0)) return text_index_of(call);
  const auto* list = call.get<List>(0);
  if (list == nullptr || call.size() != 2) return no_overload();
  const std::uint64_t weight = call[1].weight(call.cost.left() + 1);
  const bool from_end = call.name == "lastIndexOf";
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::size_t at = from_end ? list->size() - 1 - i : i;
    BASALT_TRY_DONE(call.cost.spend(weight));
    if (list->at(at) == call[1]) return Value::of_int(static_cast<std::int64_t>(at));
  }
  return Value::of_int(-1);
}

Result<bool> has_item(const Call& call, const List& list, const Value& item) {
  const std::uint64_t weight = item.weight(call.cost.left() + 1);
  for (std::size_t i = 0; i < list.size(); ++i) {
    BASALT_TRY_DONE(call.cost.spend(weight));
    if (list.at(i) == item) return true;
  }
  return false;
}

Result<bool> has_all(const Call& call, const List& list, const List& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    BASALT_TRY(const bool has, has_item(call, list, items.at(i)));
    if (!has) return false;
  }
  return true;
}

Result<Value> compare_sets(const Call& call) {
  const auto* a = call.get<List>(0);
  const auto* b = call.get<List>(1);
  if (a == nullptr || b == nullptr) return no_overload();
  if (call.name == "sets.intersects") {
    for (std::size_t i = 0; i < b->size(); ++i) {
      BASALT_TRY(const bool has, has_item(call, *a, b->at(i)));
      if (has) return Value::of_bool(true);
    }
    return Value::of_bool(false);
  }
  BASALT_TRY(const bool contains, has_all(call, *a, *b));
  if (call.name == "sets.contains" || !contains) return Value::of_bool(contains);
  BASALT_TRY(const bool contained, has_all(call, *b, *a));
  return Value::of_bool(contained);
}

Result<Value> make_optional(const Call& call) {
  if (call.name == "optional.none") return Value(Value::Data(Optional{}));
  if (call.name == "optional.ofNonZeroValue") {
    const Value& value = call[0];
    const auto* text = value.get<Text>();
    const auto* list = value.get<List>();
    const auto* map = value.get<Map>();
    const bool is_zero = value.is_null() || (text != nullptr && text->view.empty()) ||
                         (list != nullptr && list->size() == 0) || (map != nullptr && map->size() == 0) ||
                         (value.get<bool>() != nullptr && !*value.get<bool>()) ||
                         (value.is_number() && value == Value::of_int(0));
    if (is_zero) return Value(Value::Data(Optional{}));
  }
  return Value(Value::Data(Optional{std::make_shared<const Value>(call[0])}));
}

Result<Value> use_optional(const Call& call) {
  const auto* optional = call.get<Optional>(0);
  if (optional == nullptr) return no_overload();
  const bool has = optional->value != nullptr;
  if (call.name == "hasValue") return Value::of_bool(has);
  if (call.name == "orValue") return has ? *optional->value : call[1];
  if (call.name == "or") {
    if (call.get<Optional>(1) == nullptr) return no_overload();
    return has ? call[0] : call[1];
  }
  if (!has) return Error::invalid_input("optional.none() dereference");
  return *optional->value;
}

constexpr Function kListFunctions[] = {
    {"isSorted", true, 0, 0, is_sorted, "bool"},
    {"sum", true, 0, 0, sum},
    {"min", true, 0, 0, extreme},
    {"max", true, 0, 0, extreme},
    {"indexOf", true, 1, 2, index_of, "int"},
    {"lastIndexOf", true, 1, 2, index_of, "int"},
    {"sets.contains", false, 2, 2, compare_sets, "bool"},
    {"sets.equivalent", false, 2, 2, compare_sets, "bool"},
    {"sets.intersects", false, 2, 2, compare_sets, "bool"},
    {"optional.of", false, 1, 1, make_optional, "optional_type"},
    {"optional.ofNonZeroValue", false, 1, 1, make_optional, "optional_type"},
    {"optional.none", false, 0, 0, make_optional, "optional_type"},
    {"hasValue", true, 0, 0, use_optional, "bool"},
    {"value", true, 0, 0, use_optional},
    {"or", true, 1, 1, use_optional, "optional_type"},
    {"orValue", true, 1, 1, use_optional},
};

}  // namespace

std::span<const Function> list_functions() { return kListFunctions; }

}  // namespace basalt::cel
