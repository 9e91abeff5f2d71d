#pragma once

#include <vector>

#include "api/duration.h"
#include "base/result.h"
#include "cli/client/host.h"
#include "cli/run/run_commands.h"

namespace basalt::cli {

// Follows hyper jobs to their end, one line at each change: the phase, and each child with its cluster. The result is
// the exit code: 0 if all completed, 1 if one failed, 5 if one was deleted, 124 after the timeout (0: none).
[[nodiscard]] Result<int> follow_hyper_jobs(Session& session, const std::vector<FollowedJob>& jobs,
                                            api::Duration timeout);

}  // namespace basalt::cli
