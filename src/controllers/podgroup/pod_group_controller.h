#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controllers/common/controller.h"
#include "rt/time.h"

namespace basalt::controllers::podgroup {

struct PodGroupControllerOptions {
  int workers = 5;                                         // --worker-threads-for-podgroup
  std::vector<std::string> scheduler_names = {"volcano"};  // --scheduler-name: pods of these are ours
  bool inherit_owner_annotations = true;                   // --inherit-owner-annotations
  bool workload_support = true;                            // feature gate WorkLoadSupport
  // The longest pause between two tries. After an outage of the API server all is well within two of them.
  rt::Duration backoff_max = std::chrono::seconds(4);
  // The pause after a refusal (a closed queue, a name that the schema forbids): only a person can help.
  rt::Duration refused_pause = std::chrono::seconds(30);
};

// The name is "pg-controller". See README.md.
[[nodiscard]] std::unique_ptr<Controller> make_pod_group_controller(ControllerContext& context,
                                                                    PodGroupControllerOptions options = {});

}  // namespace basalt::controllers::podgroup
