#include "cel/expression.h"

#include <algorithm>
#include <vector>

#include "cel/check.h"
#include "cel/evaluator.h"
#include "cel/parser.h"

namespace basalt::cel {
namespace {

bool reads(const Node& node, std::string_view variable) {
  if (node.kind == Node::Kind::Global && node.name == variable) return true;
  return std::ranges::any_of(node.children, [&](const NodeRef& child) { return reads(*child, variable); });
}

}  // namespace

Expression::Expression() = default;
Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(Expression&&) noexcept = default;
Expression::~Expression() = default;

Result<Expression> Expression::compile(std::string_view text, std::span<const Variable> variables) {
  std::vector<std::string_view> names;
  for (const Variable& variable : variables) names.push_back(variable.name);
  Expression made;
  made.text_ = std::string(text);
  BASALT_TRY(made.root_, parse(made.text_, names));
  BASALT_TRY(made.result_type_, check(*made.root_, made.text_, variables));
  return made;
}

Result<Value> Expression::evaluate(std::span<const Value> values, Cost& cost) const {
  Evaluator evaluator(values, cost);
  Value result;
  if (!evaluator.run(*root_, result)) return evaluator.take_error();
  return result;
}

bool Expression::uses(std::string_view variable) const { return reads(*root_, variable); }

}  // namespace basalt::cel
