#pragma once

#include <string>

#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "kube/leader_election.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "scheduler/scheduler.h"

namespace basalt::scheduler {

struct RunOptions {
  SchedulerOptions scheduler;
  bool leader_elect = true;
  kube::LeaderElectionOptions election;
  std::string host;  // of the identity and the events; the machine's name
};

// The settings make sense; names the flag at fault.
[[nodiscard]] Done validate(const RunOptions& options);

// Runs the scheduler until `stop` is requested (success; the lease is released) or the leadership is lost (an error:
// the caller ends the process). Blocks. `elections` is the client of the lease, apart from the scheduler's own, so that
// a full pool does not cost the leadership. Two schedulers never bind at once: writes of one that lost the lease are
// refused before they leave.
[[nodiscard]] Done run_scheduler(rt::Runtime& runtime, kube::Client& client, kube::Client& elections, Logger log,
                                 kube::Metrics& metrics, const RunOptions& options, const rt::StopToken& stop);

}  // namespace basalt::scheduler
