#pragma once

#include <memory>
#include <string_view>

#include "controllers/common/controller.h"
#include "rt/time.h"

namespace basalt::controllers::hyperjob {

inline constexpr std::string_view kControllerName = "hyperjob-controller";

struct HyperJobControllerOptions {
  int workers = 3;
  // The longest pause between two tries.
  rt::Duration backoff_max = std::chrono::seconds(30);
  // Changes of the children's statuses are gathered for so long, then written once.
  rt::Duration gather = std::chrono::milliseconds(50);
};

// The name is "hyperjob-controller". It works on the API of a Karmada control plane: nothing of it is in the members.
// See README.md.
[[nodiscard]] std::unique_ptr<Controller> make_hyper_job_controller(ControllerContext& context,
                                                                    HyperJobControllerOptions options = {});

}  // namespace basalt::controllers::hyperjob
