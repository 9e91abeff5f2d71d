#pragma once

#include "cli/client/command.h"

namespace basalt::cli {

// `basalt hyperjob ...`: on the control plane of a federation.
[[nodiscard]] const CommandGroup& hyper_job_group();
int run_hyper_job(Invocation& invocation);

}  // namespace basalt::cli
