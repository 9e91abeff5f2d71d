#pragma once

#include <memory>

#include "controllers/common/controller.h"
#include "kube/time_zone.h"
#include "rt/time.h"

namespace basalt::controllers::cronjob {

struct CronJobControllerOptions {
  int workers = 3;
  kube::TimeZone zone;  // of cron jobs that name none
  // The longest pause between two tries. After an outage of the API server all is well within two of them.
  rt::Duration backoff_max = std::chrono::seconds(4);
  // The pause after something that only a person can help: a job that admission refuses.
  rt::Duration refused_pause = std::chrono::seconds(30);
};

// The name is "cronjob-controller". See README.md.
[[nodiscard]] std::unique_ptr<Controller> make_cron_job_controller(ControllerContext& context,
                                                                   CronJobControllerOptions options = {});

}  // namespace basalt::controllers::cronjob
