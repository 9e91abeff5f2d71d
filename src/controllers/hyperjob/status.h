#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/gen/training.h"
#include "api/time.h"
#include "controllers/hyperjob/plan.h"
#include "controllers/hyperjob/problems.h"

namespace basalt::controllers::hyperjob {

// What a pass adds to what the caches show.
struct PassResult {
  std::vector<std::string> created;  // jobs that the caches do not show yet
  std::vector<Problem> problems;
};

// The status of a hyper job that is not over, from its children. Only wanted children count that are ours and not being
// deleted, and those that succeeded: success is never taken back. Pure.
[[nodiscard]] api::training::HyperJobStatus aggregate_status(const api::training::HyperJob& hyper_job,
                                                             const Observed& observed, const PassResult& pass,
                                                             api::Time now);

// The members of the status that differ, as a merge patch; nothing if none does. Groups are compared by name.
[[nodiscard]] std::optional<std::string> status_patch(const api::training::HyperJobStatus& before,
                                                      const api::training::HyperJobStatus& after);

}  // namespace basalt::controllers::hyperjob
