#include "cel/check.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cel/parser.h"

namespace basalt::cel {
namespace {

constexpr std::string_view kDyn = "dyn";
constexpr std::string_view kDuration = "google.protobuf.Duration";
constexpr std::string_view kTimestamp = "google.protobuf.Timestamp";

struct Known {
  std::string_view type = kDyn;
  const Shape* shape = nullptr;  // of the value itself
  const Shape* items = nullptr;  // of the elements, where there is no shape of the whole

  [[nodiscard]] bool is_dyn() const { return type == kDyn; }
  [[nodiscard]] bool is_number() const { return type == "int" || type == "uint" || type == "double"; }
  [[nodiscard]] const Shape* element() const { return shape != nullptr ? shape->element() : items; }
};

Known of_shape(const Shape* shape) {
  if (shape == nullptr) return {};
  constexpr std::array<std::string_view, 11> kNames = {kDyn,     "object", "map",      "list",    "string", "int",
                                                       "double", "bool",   kTimestamp, kDuration, "bytes"};
  return {kNames[static_cast<std::size_t>(shape->type())], shape, nullptr};
}

bool adds(const Known& a, const Known& b) {
  if (a.type == b.type) {
    return a.is_number() || a.type == "string" || a.type == "bytes" || a.type == "list" || a.type == kDuration;
  }
  return (a.type == kTimestamp && b.type == kDuration) || (a.type == kDuration && b.type == kTimestamp);
}

bool subtracts(const Known& a, const Known& b) {
  if (a.type == b.type) return a.is_number() || a.type == kDuration || a.type == kTimestamp;
  return a.type == kTimestamp && b.type == kDuration;
}

bool fits(std::string_view op, const Known& a, const Known& b) {
  if (op == "@in") return b.is_dyn() || b.type == "list" || b.type == "map";
  if (a.is_dyn() || b.is_dyn()) return true;
  if (op == "_==_" || op == "_!=_") {
    return a.type == b.type || (a.is_number() && b.is_number()) || a.type == "null_type" || b.type == "null_type" ||
           (a.type == "object" && b.type == "map") || (a.type == "map" && b.type == "object");
  }
  if (op == "_+_") return adds(a, b);
  if (op == "_-_") return subtracts(a, b);
  if (op == "_*_" || op == "_/_" || op == "_%_") {
    return a.type == b.type && a.is_number() && (op != "_%_" || a.type != "double");
  }
  const bool has_order = a.is_number() || a.type == "string" || a.type == "bool" || a.type == "bytes" ||
                         a.type == kTimestamp || a.type == kDuration;
  return has_order && (a.type == b.type || (a.is_number() && b.is_number()));
}

class Checker {
 public:
  Checker(std::string_view text, std::span<const Variable> variables) : text_(text), variables_(variables) {}

  Known check(const Node& node) {
    if (error_) return {};
    switch (node.kind) {
      case Node::Kind::Literal:
        return {node.literal.type_name(), nullptr, nullptr};
      case Node::Kind::Global:
        return of_shape(variables_[node.index].shape);
      case Node::Kind::Local:
        return locals_[node.index];
      case Node::Kind::Select:
      case Node::Kind::Has:
        return select(node);
      case Node::Kind::Index: {
        const Known object = check(*node.children[0]);
        (void)check(*node.children[1]);
        return node.is_optional ? Known{"optional_type", nullptr, nullptr} : of_shape(object.element());
      }
      case Node::Kind::Call:
        return call(node);
      case Node::Kind::And:
      case Node::Kind::Or:
        return logical(node);
      case Node::Kind::Conditional:
        return conditional(node);
      case Node::Kind::List:
      case Node::Kind::Map:
        for (const NodeRef& child : node.children) (void)check(*child);
        return {node.kind == Node::Kind::List ? "list" : "map", nullptr, nullptr};
      case Node::Kind::Loop:
        return loop(node);
      case Node::Kind::OptionalMap: {
        (void)check(*node.children[0]);
        locals_.resize(node.index + 1);
        locals_[node.index] = {};
        (void)check(*node.children[1]);
        return {"optional_type", nullptr, nullptr};
      }
    }
    return {};
  }

  std::optional<Error> error() { return std::move(error_); }

 private:
  Known fail(const Node& node, std::string_view message) {
    if (!error_) error_ = error_at(text_, node.offset, message);
    return {};
  }
  Known no_fit(const Node& node, std::string_view name, std::initializer_list<Known> types) {
    std::vector<std::string_view> names;
    for (const Known& type : types) names.push_back(type.type);
    return fail(node, "found no matching overload for '" + std::string(name) + "' applied to '(" +
                          base::join(names, ", ") + ")'");
  }

  Known select(const Node& node) {
    const Known object = check(*node.children[0]);
    const Known bool_result{"bool", nullptr, nullptr};
    const auto result = [&](const Shape* shape) {
      if (node.kind == Node::Kind::Has) return bool_result;
      return node.is_optional ? Known{"optional_type", nullptr, nullptr} : of_shape(shape);
    };
    const bool has_members = object.is_dyn() || object.type == "object" || object.type == "map" ||
                             object.type == "optional_type" || object.type.find('.') != std::string_view::npos;
    if (!has_members) {
      return fail(node, "type '" + std::string(object.type) + "' does not support field selection");
    }
    if (object.shape == nullptr) return result(object.items);
    const Shape* member = object.shape->member(node.name);
    if (member == nullptr) member = object.shape->member(unescape_field(node.name));
    if (member == nullptr && object.type == "map") member = object.shape->element();
    if (member == nullptr && object.type == "object" && !object.shape->is_open()) {
      return fail(node, "undefined field '" + node.name + "'");
    }
    return result(member);
  }

  Known call(const Node& node) {
    std::vector<Known> types;
    for (const NodeRef& child : node.children) types.push_back(check(*child));
    if (error_) return {};
    const Function& function = *node.function;
    if (function.name == "!_" && !types[0].is_dyn() && types[0].type != "bool") return no_fit(node, "!_", {types[0]});
    if (!function.receiver.empty() && !types[0].is_dyn() && types[0].type != function.receiver) {
      return no_fit(node, function.name, {types[0]});
    }
    const bool is_operator = types.size() == 2 && (function.name.starts_with("_") || function.name == "@in");
    if (is_operator && !fits(function.name, types[0], types[1])) {
      return no_fit(node, function.name, {types[0], types[1]});
    }
    if (is_operator && function.result == kDyn) return arithmetic(types[0], types[1]);
    if (function.name == "-_") return types[0].is_number() ? types[0] : Known{};
    return {function.result, nullptr, nullptr};
  }

  static Known arithmetic(const Known& a, const Known& b) {
    if (a.is_dyn() || b.is_dyn()) return {};
    if (a.type == kTimestamp && b.type == kTimestamp) return {kDuration, nullptr, nullptr};
    return {a.type == kDuration ? b.type : a.type, nullptr, nullptr};
  }

  Known logical(const Node& node) {
    for (const NodeRef& child : node.children) {
      const Known operand = check(*child);
      if (!operand.is_dyn() && operand.type != "bool") {
        return no_fit(node, node.kind == Node::Kind::And ? "_&&_" : "_||_", {operand});
      }
    }
    return {"bool", nullptr, nullptr};
  }

  Known conditional(const Node& node) {
    const Known condition = check(*node.children[0]);
    if (!condition.is_dyn() && condition.type != "bool") return no_fit(node, "_?_:_", {condition});
    const Known yes = check(*node.children[1]);
    const Known no = check(*node.children[2]);
    if (yes.type != no.type) return {};
    return {yes.type, yes.shape == no.shape ? yes.shape : nullptr, nullptr};
  }

  Known loop(const Node& node) {
    const Known range = check(*node.children[0]);
    const bool is_range = range.is_dyn() || range.type == "list" || range.type == "map" || range.type == "object";
    if (!is_range) {
      return fail(node, "expression of type '" + std::string(range.type) +
                            "' cannot be range of a comprehension (must be list, map, or dynamic)");
    }
    const bool is_list = range.type == "list";
    const Known element = of_shape(range.element());
    const Known key = range.is_dyn() ? Known{} : Known{is_list ? "int" : kDyn, nullptr, nullptr};
    locals_.resize(node.index + 2);
    locals_[node.index] = node.has_two_variables ? key : (is_list ? element : Known{});
    locals_[node.index + 1] = element;
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      const Known part = check(*node.children[i]);
      const bool is_condition =
          i + 1 < node.children.size() ||
          (node.macro != Macro::Map && node.macro != Macro::TransformList && node.macro != Macro::TransformMap);
      if (is_condition && !part.is_dyn() && part.type != "bool") return no_fit(node, node.name, {part});
    }
    if (node.macro == Macro::TransformMap) return {"map", nullptr, nullptr};
    if (node.macro == Macro::Filter) return {"list", nullptr, is_list ? range.element() : nullptr};
    if (node.macro == Macro::Map || node.macro == Macro::TransformList) return {"list", nullptr, nullptr};
    return {"bool", nullptr, nullptr};
  }

  const std::string_view text_;
  const std::span<const Variable> variables_;
  std::vector<Known> locals_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::string_view> check(const Node& root, std::string_view text, std::span<const Variable> variables) {
  Checker checker(text, variables);
  const Known result = checker.check(root);
  if (auto error = checker.error()) return std::move(*error);
  return result.type;
}

}  // namespace basalt::cel
