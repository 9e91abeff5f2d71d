#pragma once

#include "cli/commands.h"

namespace basalt::cli {

// `basalt node`: a node that runs containers' commands as processes, or simulated nodes, against any API server.
int run_node(Invocation& invocation);

}  // namespace basalt::cli
