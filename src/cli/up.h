#pragma once

#include "cli/commands.h"

namespace basalt::cli {

// `basalt up`: a cluster in this process, until Ctrl-C.
int run_up(Invocation& invocation);

}  // namespace basalt::cli
