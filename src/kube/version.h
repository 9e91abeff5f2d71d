#pragma once

#include <string_view>

namespace basalt::kube {

// Of the project, in the user agent. CMakeLists.txt holds the same number; a test compares them.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace basalt::kube
