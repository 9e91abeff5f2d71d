#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cel/ast.h"

namespace basalt::cel {

// Limits: 100,000 bytes of text, 50 levels of brackets, 100 levels of operations. A text beyond them is an error that
// says so. Differs: Kubernetes allows 250 levels.
inline constexpr std::size_t kTextBytesMax = 100'000;
inline constexpr int kBracketsDepthMax = 50;
inline constexpr int kNodesDepthMax = 100;

// Errors show the place: `ERROR: <input>:1:5: undeclared reference to 'x' (in container '')` and the line.
[[nodiscard]] Result<NodeRef> parse(std::string_view text, std::span<const std::string_view> variables);

// A message with its place in the text.
[[nodiscard]] Error error_at(std::string_view text, std::size_t offset, std::string_view message);

}  // namespace basalt::cel
