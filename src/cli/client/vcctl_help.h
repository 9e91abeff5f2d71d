#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace basalt::cli {

// The help of a command as vcctl lays it out, for scripts that compare it: "vcctl", "vcctl job", "vcctl job list".
// Flags that only Basalt has are not in it. Nothing for what vcctl does not have.
[[nodiscard]] std::optional<std::string> vcctl_help(std::string_view command);

}  // namespace basalt::cli
