#pragma once

#include <functional>
#include <memory>

#include "controllers/common/controller.h"
#include "controllers/job/planner.h"
#include "controllers/job/plugins/plugin.h"

namespace basalt::controllers::job {

struct JobControllerOptions {
  int workers = 3;  // --worker-threads
  int pods_in_flight = 64;
  PlanOptions plan;
  // Makes the key pairs of the ssh plugin, on a thread of its own. Tests put something faster here.
  std::function<Result<SshKeyPair>()> make_keys = make_ssh_key_pair;
  // --max-requeue-num is accepted for compatibility and has no effect: an error of the infrastructure ends no job.
  int max_requeue = 15;
};

// "job-controller": takes jobs of batch.volcano.sh through their lives. Caches used: jobs, commands, pods, pod groups,
// queues, claims, priority classes.
[[nodiscard]] std::unique_ptr<Controller> make_job_controller(ControllerContext& context,
                                                              JobControllerOptions options = {});

}  // namespace basalt::controllers::job
