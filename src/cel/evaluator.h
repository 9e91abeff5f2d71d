#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cel/ast.h"
#include "cel/cost.h"

namespace basalt::cel {

// One evaluation. The error of a step is kept here and the step returns false, so that the frames of deep expressions
// stay small.
class Evaluator {
 public:
  Evaluator(std::span<const Value> globals, Cost& cost) : globals_(globals), cost_(cost) {}

  [[nodiscard]] bool run(const Node& node, Value& out);
  [[nodiscard]] Error take_error() { return std::move(*error_); }

 private:
  bool fail(Error error);
  bool fail(std::string message) { return fail(Error::invalid_input(std::move(message))); }
  bool select(const Node& node, Value& out);
  bool select_in(const Value& object, const Node& node, Value& out);
  bool has(const Node& node, Value& out);
  bool index(const Node& node, Value& out);
  bool index_in(const Value& object, const Value& key, bool is_optional, Value& out);
  bool call(const Node& node, Value& out);
  bool invoke(const Node& node, std::span<const Value> arguments, Value& out);
  bool logical(const Node& node, Value& out);
  bool list(const Node& node, Value& out);
  bool map(const Node& node, Value& out);
  bool loop(const Node& node, Value& out);
  bool walk(const Node& node, const Value& range, Value& out);
  bool optional_map(const Node& node, Value& out);

  const std::span<const Value> globals_;
  Cost& cost_;
  std::vector<Value> locals_;
  std::optional<Error> error_;
};

}  // namespace basalt::cel
