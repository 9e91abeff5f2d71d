#pragma once

#include "cli/client/command.h"

namespace basalt::cli {

// `basalt jobflow ...` and `basalt jobtemplate ...`, and vcctl's of these names.
[[nodiscard]] const CommandGroup& job_flow_group();
[[nodiscard]] const CommandGroup& job_template_group();
int run_job_flow(Invocation& invocation);
int run_job_template(Invocation& invocation);

}  // namespace basalt::cli
