#pragma once

#include "cli/commands.h"

namespace basalt::cli {

// `basalt up`: a cluster in this process, until Ctrl-C, or in the background.
int run_up(Invocation& invocation);
// `basalt down`: ends the cluster of a folder.
int run_down(Invocation& invocation);
// `basalt status`: whether the cluster of a folder runs, and what it does.
int run_status(Invocation& invocation);

}  // namespace basalt::cli
