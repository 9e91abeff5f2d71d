#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cel/cost.h"
#include "cel/value.h"

namespace basalt::cel {

struct Node;

// A variable that an expression may use, and what is known of it.
struct Variable {
  std::string_view name;
  const Shape* shape = nullptr;
};

// An expression of the Common Expression Language with the functions that Kubernetes adds, compiled once. Immutable;
// evaluated from many threads at once.
class Expression {
 public:
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;
  ~Expression();

  // Errors name what is wrong and show the place: syntax, names that nobody declared, arguments that cannot fit, fields
  // that a shape does not have.
  static Result<Expression> compile(std::string_view text, std::span<const Variable> variables);

  // With the values of the variables, in the order they were declared in. The result may point into them.
  [[nodiscard]] Result<Value> evaluate(std::span<const Value> values, Cost& cost) const;

  [[nodiscard]] const std::string& text() const { return text_; }
  // "bool", "string", ...; "dyn" if it is known only when it is evaluated.
  [[nodiscard]] std::string_view result_type() const { return result_type_; }
  // Whether it reads that variable.
  [[nodiscard]] bool uses(std::string_view variable) const;

 private:
  Expression();
  std::string text_;
  std::string_view result_type_;
  std::unique_ptr<Node> root_;
};

}  // namespace basalt::cel
