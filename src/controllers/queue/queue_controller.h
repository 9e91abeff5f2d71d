#pragma once

#include <memory>
#include <string>

#include "controllers/common/controller.h"
#include "rt/time.h"

namespace basalt::controllers::queue {

struct QueueControllerOptions {
  int workers = 5;  // --worker-threads-for-queue
  // --max-requeue-num. A command that only waits for the parent queue to open is refused after the time that so many
  // retries take (5 ms, doubled each time: 164 s for 15); negative: never. Everything else is tried for ever.
  int retries_max = 15;
  bool sync_commands = true;          // feature gate QueueCommandSync
  bool create_missing_queues = true;  // root and the default queue, which else only Volcano's scheduler creates
  std::string default_queue = "default";
  // The longest pause between two tries. After an outage of the API server all is well within two of them.
  rt::Duration backoff_max = std::chrono::seconds(4);
};

// The name is "queue-controller". See README.md.
[[nodiscard]] std::unique_ptr<Controller> make_queue_controller(ControllerContext& context,
                                                                QueueControllerOptions options = {});

// How long a command waits for something that may pass; the largest duration if for ever.
[[nodiscard]] rt::Duration command_wait_max(int retries_max);

}  // namespace basalt::controllers::queue
