#pragma once

#include <string>

#include "api/gen/batch_cronjob.h"
#include "kube/client.h"
#include "kube/event_recorder.h"

// What the controller of this folder sends. Pure.
namespace basalt::controllers::cronjob {

// The body of the job for a time.
[[nodiscard]] std::string job_body(const api::batch::CronJob& cron_job, api::Time scheduled);
// Replaces the whole status, if the cron job is still as it was read.
[[nodiscard]] kube::Request status_update(const api::batch::CronJob& cron_job, const api::batch::CronJobStatus& status);
[[nodiscard]] kube::ObjectReference reference_of(const api::batch::CronJob& cron_job);

}  // namespace basalt::controllers::cronjob
