#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/job/completed_indexes.h"
#include "controllers/job/observed.h"
#include "controllers/job/state_machine.h"

namespace basalt::controllers::job {

// The job's status with the counters made anew: every pod counts once, by its phase, or as terminating if it is being
// deleted or its name is in `going`. Indexes that are recorded as completed count as Succeeded whether their pods exist
// or not. With `is_over` the finished pods stay as they were counted when the job ended, whatever is collected later.
[[nodiscard]] api::batch::JobStatus count_pods(const api::batch::Job& job, const std::vector<ObservedPod>& pods,
                                               const std::vector<CompletedIndexes>& completed,
                                               const std::set<std::string>& going, bool is_over);

// Moves the status to a phase: time, condition (newest last), reason, running time. Nothing else changes these.
void enter_phase(api::batch::JobStatus& status, const api::batch::Job& job, Phase phase, rt::WallTime now,
                 std::string_view reason, std::string_view message);

}  // namespace basalt::controllers::job
