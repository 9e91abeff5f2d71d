#pragma once

#include <vector>

#include "workloads/common/keyed_controller.h"
#include "workloads/cronjob/cron_job_plan.h"

namespace basalt::workloads {

// Makes core Jobs at the times of a schedule. See README.md.
class CronJobController final : public KeyedController {
 public:
  explicit CronJobController(Context& context);

 private:
  rt::Outcome reconcile(const Object& cron_job, const rt::StopToken& stop) override;
  Done carry_out(const Object& cron_job, const CronJobPlan& plan, const rt::StopToken& stop);
  Done delete_jobs(const Object& cron_job, const std::vector<ObjectPtr>& jobs, const rt::StopToken& stop);
  // The job for this time, made now or by an earlier life of this process.
  Result<Object> create_job(const Object& cron_job, api::Time scheduled, const rt::StopToken& stop);
};

}  // namespace basalt::workloads
