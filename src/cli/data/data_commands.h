#pragma once

#include "cli/client/command.h"

namespace basalt::cli {

// `basalt data ...`: claims on data and where it is, on the control plane of a federation.
[[nodiscard]] const CommandGroup& data_group();
int run_data(Invocation& invocation);

}  // namespace basalt::cli
