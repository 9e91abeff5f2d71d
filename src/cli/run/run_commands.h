#pragma once

#include <string>
#include <vector>

#include "api/duration.h"
#include "cli/client/command.h"

namespace basalt::cli {

// `basalt run -f FILE`: submits, follows, ends with the job's outcome.
[[nodiscard]] const ClientCommand& run_command();
int run_run(Invocation& invocation);

struct RunOptions {
  std::vector<std::string> files;
  std::string ns;  // "" = as the files say, else that of the context
  bool detach = false;
  bool replace = false;
  bool delete_after = false;
  bool logs = true;
  bool dry_run = false;
  api::Duration timeout{};  // 0 = none
  std::int64_t log_pods_max = 32;
};
[[nodiscard]] Result<int> run_manifests(Session& session, const RunOptions& options);

// What follows jobs that exist: `basalt run` after it has submitted, and `basalt watch`.
struct FollowOptions {
  bool logs = true;
  api::Duration timeout{};            // 0 = none
  rt::Instant deadline = rt::kNever;  // if the time began before the following
  std::size_t log_pods_max = 32;
  bool may_delete = false;  // whether Ctrl-C offers to delete
};
struct FollowedJob {
  std::string ns;
  std::string name;
  std::string uid;
};
[[nodiscard]] Result<int> follow_jobs(Session& session, const std::vector<FollowedJob>& jobs,
                                      const FollowOptions& options);

}  // namespace basalt::cli
