#pragma once

#include "apiserver/builtin/builtin_types.h"

namespace basalt::apiserver {

// Config maps and secrets: keys that can be file names, at most a megabyte, and no change once immutable.
[[nodiscard]] TypeList config_types();

}  // namespace basalt::apiserver
