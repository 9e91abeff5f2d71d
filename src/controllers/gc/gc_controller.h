#pragma once

#include <memory>

#include "controllers/common/controller.h"
#include "rt/time.h"

namespace basalt::controllers::gc {

struct GcControllerOptions {
  int workers = 1;  // --worker-threads-for-gc
  // The longest pause between two tries. After an outage of the API server all is well within two of them.
  rt::Duration backoff_max = std::chrono::seconds(4);
  // The pause before a finished job without a finish time is looked at again; a change of the job comes sooner.
  rt::Duration no_finish_time_pause = std::chrono::minutes(1);
};

// The name is "gc-controller". See README.md.
[[nodiscard]] std::unique_ptr<Controller> make_gc_controller(ControllerContext& context,
                                                             GcControllerOptions options = {});

}  // namespace basalt::controllers::gc
