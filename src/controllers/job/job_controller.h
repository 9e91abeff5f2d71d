#pragma once

#include <memory>

#include "controllers/common/controller.h"
#include "controllers/job/planner.h"

namespace basalt::controllers::job {

struct JobControllerOptions {
  int workers = 3;  // --worker-threads
  int pods_in_flight = 64;
  PlanOptions plan;
  // --max-requeue-num is accepted for compatibility and has no effect: an error of the infrastructure ends no job.
  int max_requeue = 15;
};

// "job-controller": takes jobs of batch.volcano.sh through their lives. Caches used: jobs, commands, pods, pod groups,
// queues, claims, priority classes.
[[nodiscard]] std::unique_ptr<Controller> make_job_controller(ControllerContext& context,
                                                              JobControllerOptions options = {});

}  // namespace basalt::controllers::job
