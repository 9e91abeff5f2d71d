#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_cronjob.h"
#include "api/gen/batch_job.h"
#include "kube/event_recorder.h"
#include "kube/time_zone.h"
#include "rt/time.h"

// What is to be done about a cron job. Pure.
namespace basalt::controllers::cronjob {

using JobPtr = std::shared_ptr<const api::batch::Job>;

inline constexpr std::string_view kBatchApiVersion = "batch.volcano.sh/v1alpha1";

struct CronEvent {
  kube::EventType type = kube::EventType::Normal;
  std::string_view reason;
  std::string message;
  // Not told again while it is the same; "" for what happens once.
  std::string once_for;
};

// What a pass looks at.
struct ObservedCronJob {
  const api::batch::CronJob* cron_job = nullptr;
  std::vector<JobPtr> jobs;  // all that it controls, and all of status.active that exist
  std::vector<JobPtr> gone;  // finished ones that it controlled and that were deleted since the last pass
  api::Time edited;          // when the schedule was changed last, if that is known: it counts from then on
  rt::WallTime now;
  kube::TimeZone zone;  // for cron jobs that name none
};

struct CronPlan {
  api::batch::CronJobStatus status;                  // as it is without the new job
  std::vector<CronEvent> events;                     // to be told once the status is written
  std::vector<JobPtr> beyond_history;                // finished ones that nobody wants to see any more
  std::vector<api::core::ObjectReference> replaced;  // they run, and make way for the new one
  std::optional<api::Time> start;                    // a job is to be made for this time
  std::optional<rt::Duration> look_again;
};

// A pass comes this much after the time it waits for.
inline constexpr std::chrono::milliseconds kCronMargin{100};
// Nobody waits longer than this for the next time: clocks may be set meanwhile.
inline constexpr std::chrono::hours kCronWaitMax{1};

[[nodiscard]] CronPlan plan_cron_job(const ObservedCronJob& observed);

[[nodiscard]] bool is_finished(const api::batch::Job& job);
// The time for which a cron job of this name made the job; none if somebody else made it.
[[nodiscard]] api::Time time_made_for(const api::batch::Job& job, std::string_view cron_job);
// The cron job that controls it, if one does.
[[nodiscard]] const api::meta::OwnerReference* cron_job_of(const api::batch::Job& job);
// One name for each minute: a job that was made for a time is never made again for it.
[[nodiscard]] std::string job_name_at(std::string_view cron_job, api::Time scheduled);
// An entry of status.active.
[[nodiscard]] api::core::ObjectReference reference_to(const api::batch::Job& job);

}  // namespace basalt::controllers::cronjob
