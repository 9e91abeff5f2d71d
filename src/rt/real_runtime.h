#pragma once

#include <memory>

#include "rt/runtime.h"

namespace basalt::rt {

// The operating system's threads, clocks and randomness.
[[nodiscard]] std::unique_ptr<Runtime> make_real_runtime();

}  // namespace basalt::rt
