#pragma once

#include "cli/client/command.h"

namespace basalt::cli {

// `basalt queue ...`, `vcctl queue ...`.
[[nodiscard]] const CommandGroup& queue_group();
int run_queue(Invocation& invocation);

[[nodiscard]] const ClientCommand& vqueues_command();
int run_vqueues(Invocation& invocation);

}  // namespace basalt::cli
