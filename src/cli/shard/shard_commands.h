#pragma once

#include "cli/client/command.h"

namespace basalt::cli {

// `basalt shard ...`.
[[nodiscard]] const CommandGroup& shard_group();
int run_shard(Invocation& invocation);

}  // namespace basalt::cli
