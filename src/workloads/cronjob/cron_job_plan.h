#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/event_recorder.h"
#include "kube/time_zone.h"
#include "rt/time.h"
#include "workloads/common/object.h"

namespace basalt::workloads {

// On a job: the time that it was made for, in the cron job's zone.
inline constexpr std::string_view kScheduledAnnotation = "batch.kubernetes.io/cronjob-scheduled-timestamp";

// What one pass does about a CronJob.
struct CronJobPlan {
  struct Event {
    kube::EventType type = kube::EventType::Normal;
    std::string reason;
    std::string message;
  };
  std::vector<ObjectPtr> beyond_history;  // finished jobs that nobody wants to see any more
  std::vector<ObjectPtr> replaced;        // run, and make way for the new one
  std::optional<api::Time> start;         // a job is to be made for this time
  json::Value status;                     // as it is without the new job
  std::vector<Event> events;
  std::optional<rt::Duration> look_again;
};

// Nobody waits longer than this for the next time: clocks may be set meanwhile.
inline constexpr std::chrono::hours kCronWaitMax{1};

// Pure. `jobs` are all that the cron job controls.
[[nodiscard]] CronJobPlan plan_cron_job(const Object& cron_job, const std::vector<ObjectPtr>& jobs, rt::WallTime now);

// One name for each minute: a job that was made for a time is never made again for it.
[[nodiscard]] std::string job_name_at(const Object& cron_job, api::Time scheduled);
// The job for a time.
[[nodiscard]] json::Value job_of_template(const Object& cron_job, api::Time scheduled);
// An entry of status.active.
[[nodiscard]] json::Value active_entry(const Object& job);
// The status once the job for this time is there.
[[nodiscard]] json::Value status_with(json::Value status, api::Time scheduled, const Object& job);

}  // namespace basalt::workloads
