#pragma once

#include <string>

#include "base/log.h"
#include "base/result.h"
#include "controllers/manager/options.h"
#include "kube/client.h"
#include "kube/leader_election.h"
#include "kube/metrics.h"
#include "rt/mutex.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::controllers {

class ControllerManager;

// What the health endpoints say of a run. Made by the caller before it and kept until after it. Any thread.
class RunHealth {
 public:
  // An error while this process is to act and cannot yet: it names the caches that are not filled. A replica that waits
  // for the lease is ready, because nothing more is expected of it.
  [[nodiscard]] Done ready() const;
  void follow(const ControllerManager* manager);  // null: nobody

 private:
  mutable rt::Mutex mutex_;
  const ControllerManager* manager_ BASALT_GUARDED_BY(mutex_) = nullptr;
};

struct RunOptions {
  ManagerOptions manager;
  bool leader_elect = true;
  kube::LeaderElectionOptions election;
  std::string host;             // of the identity; the machine's name
  RunHealth* health = nullptr;  // told which controllers to speak of
};

// Runs the controllers until `stop` is requested (success; the lease is released) or the leadership is lost (an error:
// the caller ends the process). Blocks. `elections` is the client of the lease, apart from the controllers' own, so
// that a full pool does not cost the leadership.
[[nodiscard]] Done run_controllers(rt::Runtime& runtime, kube::Client& client, kube::Client& elections, Logger log,
                                   kube::Metrics& metrics, const RunOptions& options, const rt::StopToken& stop);

}  // namespace basalt::controllers
