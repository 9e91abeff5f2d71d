#pragma once

#include <source_location>
#include <string>

namespace basalt::rt {

// "src/rt/gate.cc:25"
[[nodiscard]] std::string place_text(std::source_location where);

}  // namespace basalt::rt
