// Operators: arithmetic with checks for overflow, equality and order, membership.

#include <cmath>

#include "cel/function.h"
#include "cel/time_values.h"

namespace basalt::cel {
namespace {

Error overflow(bool is_signed) {
  return Error::invalid_input(is_signed ? "integer overflow" : "unsigned integer overflow");
}
Error by_zero(std::string_view what) { return Error::invalid_input(std::string(what) + " by zero"); }

template <class Int>
Result<Value> whole_arithmetic(char op, Int a, Int b) {
  Int result = 0;
  bool overflows = false;
  switch (op) {
    case '+':
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case '-':
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case '*':
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    default:
      if (b == 0) return by_zero(op == '/' ? "division" : "modulus");
      if constexpr (std::is_signed_v<Int>) {
        if (a == INT64_MIN && b == -1) return overflow(true);
      }
      result = op == '/' ? a / b : a % b;
  }
  if (overflows) return overflow(std::is_signed_v<Int>);
  return Value(Value::Data(result));
}

Result<Value> double_arithmetic(char op, double a, double b) {
  switch (op) {
    case '+':
      return Value(Value::Data(a + b));
    case '-':
      return Value(Value::Data(a - b));
    case '*':
      return Value(Value::Data(a * b));
    case '/':
      return Value(Value::Data(a / b));
    default:
      return no_overload();
  }
}

Result<Value> arithmetic(const Call& call) {
  const char op = call.name[1];
  if (const auto *a = call.get<std::int64_t>(0), *b = call.get<std::int64_t>(1); a && b) {
    return whole_arithmetic(op, *a, *b);
  }
  if (const auto *a = call.get<std::uint64_t>(0), *b = call.get<std::uint64_t>(1); a && b) {
    return whole_arithmetic(op, *a, *b);
  }
  if (const auto *a = call.get<double>(0), *b = call.get<double>(1); a && b) return double_arithmetic(op, *a, *b);
  return no_overload();
}

Result<Value> concatenate(const Call& call, const List& a, const List& b) {
  BASALT_TRY_DONE(call.cost.spend(a.size() + b.size()));
  std::vector<Value> values;
  values.reserve(a.size() + b.size());
  for (const List* list : {&a, &b}) {
    for (std::size_t i = 0; i < list->size(); ++i) values.push_back(list->at(i));
  }
  return Value::of_list(std::move(values));
}

Result<Value> add(const Call& call) {
  if (call[0].is_number()) return arithmetic(call);
  if (const auto *a = call.get<Text>(0), *b = call.get<Text>(1); a && b) {
    BASALT_TRY_DONE(call.cost.spend((a->view.size() + b->view.size()) / 10));
    return Value::of_text(std::string(a->view).append(b->view));
  }
  if (const auto *a = call.get<Bytes>(0), *b = call.get<Bytes>(1); a && b) {
    BASALT_TRY_DONE(call.cost.spend((a->text.view.size() + b->text.view.size()) / 10));
    return Value(Value::Data(Bytes{Text::of(std::string(a->text.view).append(b->text.view))}));
  }
  if (const auto *a = call.get<List>(0), *b = call.get<List>(1); a && b) return concatenate(call, *a, *b);
  return add_times(call[0], call[1]);
}

Result<Value> subtract(const Call& call) {
  if (call[0].is_number()) return arithmetic(call);
  return subtract_times(call[0], call[1]);
}

Result<Value> negate(const Call& call) {
  if (const auto* a = call.get<std::int64_t>(0)) return whole_arithmetic<std::int64_t>('-', 0, *a);
  if (const auto* a = call.get<double>(0)) return Value(Value::Data(-*a));
  return no_overload();
}

Result<Value> invert(const Call& call) {
  if (const auto* a = call.get<bool>(0)) return Value::of_bool(!*a);
  return no_overload();
}

Done pay_for_comparison(const Call& call) {
  return call.cost.spend(std::min(call[0].weight(call.cost.left() + 1), call[1].weight(call.cost.left() + 1)));
}

Result<Value> equal(const Call& call) {
  BASALT_TRY_DONE(pay_for_comparison(call));
  return Value::of_bool((call[0] == call[1]) == (call.name == "_==_"));
}

Result<Value> order(const Call& call) {
  BASALT_TRY_DONE(pay_for_comparison(call));
  const auto compared = call[0].compare(call[1]);
  if (!compared) return no_overload();
  if (call.name == "_<_") return Value::of_bool(*compared < 0);
  if (call.name == "_<=_") return Value::of_bool(*compared <= 0);
  if (call.name == "_>_") return Value::of_bool(*compared > 0);
  return Value::of_bool(*compared >= 0);
}

Result<Value> is_in(const Call& call) {
  if (const auto* list = call.get<List>(1)) {
    const std::uint64_t weight = call[0].weight(call.cost.left() + 1);
    for (std::size_t i = 0; i < list->size(); ++i) {
      BASALT_TRY_DONE(call.cost.spend(weight));
      if (list->at(i) == call[0]) return Value::of_bool(true);
    }
    return Value::of_bool(false);
  }
  if (const auto* map = call.get<Map>(1)) {
    if (!map->is_json()) BASALT_TRY_DONE(call.cost.spend(map->size()));
    return Value::of_bool(map->find(call[0]).has_value());
  }
  return no_overload();
}

constexpr Function kOperatorFunctions[] = {
    {"_+_", false, 2, 2, add},
    {"_-_", false, 2, 2, subtract},
    {"_*_", false, 2, 2, arithmetic},
    {"_/_", false, 2, 2, arithmetic},
    {"_%_", false, 2, 2, arithmetic},
    {"-_", false, 1, 1, negate},
    {"!_", false, 1, 1, invert, "bool"},
    {"_==_", false, 2, 2, equal, "bool"},
    {"_!=_", false, 2, 2, equal, "bool"},
    {"_<_", false, 2, 2, order, "bool"},
    {"_<=_", false, 2, 2, order, "bool"},
    {"_>_", false, 2, 2, order, "bool"},
    {"_>=_", false, 2, 2, order, "bool"},
    {"@in", false, 2, 2, is_in, "bool"},
};

}  // namespace

std::span<const Function> operator_functions() { return kOperatorFunctions; }

}  // namespace basalt::cel
