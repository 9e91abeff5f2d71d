#pragma once

#include "cli/client/command.h"

namespace basalt::cli {

// `basalt job ...`, `vcctl job ...`.
[[nodiscard]] const CommandGroup& job_group();
int run_job(Invocation& invocation);

// The stand-alone names of vcctl's job commands.
[[nodiscard]] std::span<const ClientCommand> stand_alone_job_commands();
int run_vsub(Invocation& invocation);
int run_vjobs(Invocation& invocation);
int run_vcancel(Invocation& invocation);
int run_vsuspend(Invocation& invocation);
int run_vresume(Invocation& invocation);

}  // namespace basalt::cli
