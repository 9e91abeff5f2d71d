#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "cel/ast.h"
#include "cel/expression.h"

namespace basalt::cel {

// What can be found out without values: fields that a shape does not have, operations that no types of that kind allow.
// What is not known is taken to fit. Returns the type of the result, or "dyn".
[[nodiscard]] Result<std::string_view> check(const Node& root, std::string_view text,
                                             std::span<const Variable> variables);

}  // namespace basalt::cel
