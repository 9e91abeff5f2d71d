#pragma once

#include "cli/commands.h"

namespace basalt::cli {

// `basalt controllers`, also `vc-controller-manager`.
int run_controllers(Invocation& invocation);

}  // namespace basalt::cli
