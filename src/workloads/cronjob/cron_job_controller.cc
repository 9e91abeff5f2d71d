#include "workloads/cronjob/cron_job_controller.h"

#include <algorithm>
#include <utility>

namespace basalt::workloads {

CronJobController::CronJobController(Context& context)
    : KeyedController(context, {.name = "cronjob", .kind = kCronJobKind, .resource = resources::kCronJobs},
                      context.caches.cron_jobs) {
  expectations_.connect(context.caches.jobs.core());
  context.caches.jobs.add_handler([this](const kube::Change<Object>& change) { add_owners(change); });
}

rt::Outcome CronJobController::reconcile(const Object& cron_job, const rt::StopToken& stop) {
  const auto jobs = context_.caches.jobs.by_index(indexes::kByOwner, cron_job.metadata.uid);
  const CronJobPlan plan = plan_cron_job(cron_job, jobs, context_.runtime.wall_now());
  if (Done done = carry_out(cron_job, plan, stop); !done.ok()) return rt::Outcome::failed(std::move(done).error());
  return done_or_after(plan.look_again);
}

Done CronJobController::carry_out(const Object& cron_job, const CronJobPlan& plan, const rt::StopToken& stop) {
  for (const CronJobPlan::Event& event : plan.events) tell(cron_job, event.type, event.reason, event.message);
  BASALT_TRY_DONE(delete_jobs(cron_job, plan.replaced, stop));
  json::Value status = plan.status;
  if (plan.start) {
    if (json::Value* active = status.find("active"); active != nullptr && active->is_array()) {
      std::erase_if(active->as_array(), [&](const json::Value& entry) {
        return std::any_of(plan.replaced.begin(), plan.replaced.end(),
                           [&](const ObjectPtr& job) { return entry.string_at({"uid"}) == job->metadata.uid; });
      });
    }
    BASALT_TRY(const Object job, create_job(cron_job, *plan.start, stop));
    status = status_with(std::move(status), *plan.start, job);
  }
  BASALT_TRY_DONE(writer_.write_status(cron_job.key(), resources::kCronJobs, cron_job, status, stop));
  // Only now: a job is the proof that its time was run until the status says so.
  return delete_jobs(cron_job, plan.beyond_history, stop);
}

Done CronJobController::delete_jobs(const Object& cron_job, const std::vector<ObjectPtr>& jobs,
                                    const rt::StopToken& stop) {
  std::vector<Writer::Target> targets;
  for (const ObjectPtr& job : jobs) targets.push_back({job->metadata.name, job->metadata.uid});
  BASALT_TRY_DONE(writer_.remove_all(cron_job.key(), resources::kJobs, targets, stop));
  for (const Writer::Target& target : targets)
    tell(cron_job, kube::EventType::Normal, "SuccessfulDelete", "Deleted job " + target.name);
  return Ok{};
}

Result<Object> CronJobController::create_job(const Object& cron_job, api::Time scheduled, const rt::StopToken& stop) {
  const std::string name = job_name_at(cron_job, scheduled);
  const auto created = writer_.create(cron_job.key(), resources::kJobs, job_of_template(cron_job, scheduled), stop);
  if (created.ok()) {
    tell(cron_job, kube::EventType::Normal, "SuccessfulCreate", "Created job " + name);
    return object_of(*created);
  }
  Error error = created.error();
  if (error.is(Reason::AlreadyExists)) {
    BASALT_TRY(const auto read, writer_.get(resources::kJobs, {cron_job.metadata.namespace_, name}, stop));
    BASALT_TRY(Object existing, object_of(read));
    if (existing.metadata.owner_uid == cron_job.metadata.uid) {
      writer_.note_seen(cron_job.key(), resources::kJobs, existing);
      return existing;
    }
  }
  if (!error.is_transient() && !error.is(Reason::Cancelled))
    tell(cron_job, kube::EventType::Warning, "FailedCreate", "Error creating job: " + error.message);
  return error.with_context("job " + name + " could not be made");
}

}  // namespace basalt::workloads
