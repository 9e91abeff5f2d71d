#pragma once

#include "cli/commands.h"

namespace basalt::cli {

// `basalt scheduler`: flags that vc-scheduler takes as well have its names.
int run_scheduler(Invocation& invocation);

}  // namespace basalt::cli
