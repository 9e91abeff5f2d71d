#include "controllers/cronjob/cronjob_controller.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/gen/names.h"
#include "base/strings.h"
#include "controllers/cronjob/cron_plan.h"
#include "controllers/cronjob/cron_writes.h"
#include "kube/expectations.h"
#include "kube/typed.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::cronjob {
namespace {

using api::ObjectKey;
using api::batch::CronJob;
using api::batch::CronJobStatus;
using api::batch::Job;
using rt::Outcome;
namespace reasons = api::event_reasons;

// Finished jobs that vanished, kept until their cron jobs have them in the status. At the limit the time of the last
// success may be missed; nothing else depends on it.
constexpr std::size_t kGoneMax = 10'000;

ObjectKey key_of(const api::meta::ObjectMeta& meta) { return {meta.namespace_, meta.name}; }

bool is_of_terminating_namespace(const Error& error) {
  return std::ranges::any_of(error.causes, [](const Cause& cause) { return cause.type == "NamespaceTerminating"; });
}

// What came of a time that was due.
struct Start {
  std::optional<Job> job;      // made now or before
  std::optional<Error> error;  // it is tried again
};

class CronJobController final : public Controller {
 public:
  CronJobController(ControllerContext& context, CronJobControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return api::controllers::kCronJob; }
  void start() override;
  void stop() override;

 private:
  // Handlers: they only mark.
  void on_cron_job(const kube::Change<CronJob>& change);
  void on_job(const kube::Change<Job>& change);
  void keep_gone(const ObjectKey& key, const JobPtr& job);

  // Workers.
  Outcome reconcile(const ObjectKey& key, const rt::StopToken& stop);
  Result<ObservedCronJob> observe(const ObjectKey& key, const CronJob& cron_job, const rt::StopToken& stop);
  // Null if there is none of this name and UID.
  Result<JobPtr> read_job(const ObjectKey& job, const std::string& uid, const rt::StopToken& stop);
  Outcome carry_out(const ObjectKey& key, const ObservedCronJob& observed, const CronPlan& plan,
                    const rt::StopToken& stop);
  // Makes way, and makes the job; `status` follows.
  Start start_job(const ObjectKey& key, const CronJob& cron_job, const CronPlan& plan, CronJobStatus& status,
                  const rt::StopToken& stop);
  Start make_job(const ObjectKey& key, const CronJob& cron_job, api::Time scheduled, const rt::StopToken& stop);
  Start accept_existing(const ObjectKey& key, const CronJob& cron_job, const std::string& job,
                        const rt::StopToken& stop);
  // An error if the cron job is not what the cache says.
  Done check_fresh(const ObjectKey& key, const CronJob& cron_job, const rt::StopToken& stop);
  Done write_status(const ObjectKey& key, const CronJob& cron_job, const CronJobStatus& status,
                    const rt::StopToken& stop);
  Done remove_job(const ObjectKey& key, const std::string& name, const std::string& uid, const rt::StopToken& stop);
  Done prune(const ObjectKey& key, const CronJob& cron_job, const std::vector<JobPtr>& jobs, const rt::StopToken& stop);
  void tell(const CronJob& cron_job, const CronEvent& event);
  void warn(const CronJob& cron_job, std::string_view reason, const std::string& message, std::string once_for);
  void forget_gone(const ObjectKey& key, const std::vector<JobPtr>& jobs);
  void forget(const ObjectKey& key);
  void look_at_all_again();
  void log_outcome(const ObjectKey& key, const Outcome& outcome);

  // Fixed after construction.
  const CronJobControllerOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::EventRecorder& events_;
  kube::Informer<CronJob>& cron_jobs_;
  kube::Informer<Job>& jobs_;

  // Self-locking.
  rt::WorkQueue<ObjectKey> work_;
  kube::Expectations expectations_;

  rt::Mutex mutex_;
  // By reason: what was told last of the things that are told once.
  std::map<ObjectKey, std::map<std::string, std::string, std::less<>>> told_ BASALT_GUARDED_BY(mutex_);
  std::map<ObjectKey, std::vector<JobPtr>> gone_ BASALT_GUARDED_BY(mutex_);
  std::size_t gone_count_ BASALT_GUARDED_BY(mutex_) = 0;
  std::map<ObjectKey, api::Time> edited_ BASALT_GUARDED_BY(mutex_);  // when the schedule was changed, in this life

  std::optional<rt::Workers<ObjectKey>> workers_;  // used only by the owner
};

CronJobController::CronJobController(ControllerContext& context, CronJobControllerOptions options)
    : options_(std::move(options)),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", api::controllers::kCronJob}})),
      events_(context.events),
      cron_jobs_(context.informers.cron_jobs()),
      jobs_(context.informers.jobs()),
      work_(runtime_, {.name = "cronjob", .backoff = {.cap = options_.backoff_max}},
            [](const ObjectKey& key) { return std::hash<std::string>()(key.ns); }),
      expectations_(runtime_, {.name = "cronjob", .metrics = &context.metrics},
                    [this](const ObjectKey& key) { work_.add(key); }) {
  expectations_.connect(cron_jobs_.core());
  expectations_.connect(jobs_.core());
  cron_jobs_.add_handler([this](const kube::Change<CronJob>& change) { on_cron_job(change); });
  jobs_.add_handler([this](const kube::Change<Job>& change) { on_job(change); });
}

void CronJobController::on_cron_job(const kube::Change<CronJob>& change) {
  const ObjectKey key = key_of(change.object().metadata);
  const auto schedule = [](const CronJob& one) { return std::tie(one.spec.schedule, one.spec.time_zone); };
  if (change.is_updated() && schedule(*change.before) != schedule(*change.after)) {
    // A new schedule counts from now on: its times that have passed are not made up for.
    const rt::MutexLock lock(mutex_);
    edited_[key] = api::Time::from(runtime_.wall_now());
  }
  work_.add(key);
}

void CronJobController::on_job(const kube::Change<Job>& change) {
  if (change.is_updated()) {
    const Job &before = *change.before, &after = *change.after;
    const bool is_minor = before.status.state.phase == after.status.state.phase &&
                          before.metadata.deletion_timestamp == after.metadata.deletion_timestamp &&
                          before.metadata.owner_references == after.metadata.owner_references;
    if (is_minor) return;
  }
  for (const JobPtr& job : {change.before, change.after}) {
    const auto* owner = job ? cron_job_of(*job) : nullptr;
    if (owner == nullptr) continue;
    const ObjectKey key{job->metadata.namespace_, owner->name};
    if (change.is_deleted() && is_finished(*job)) keep_gone(key, job);
    work_.add(key);
  }
}

void CronJobController::keep_gone(const ObjectKey& key, const JobPtr& job) {
  const rt::MutexLock lock(mutex_);
  if (gone_count_ >= kGoneMax) return;
  gone_[key].push_back(job);
  ++gone_count_;
}

void CronJobController::start() {
  workers_.emplace(
      runtime_, work_, rt::WorkersOptions{.name = "cronjob", .count = options_.workers},
      [this](const ObjectKey& key, const rt::StopToken& stop) { return reconcile(key, stop); },
      [this](const ObjectKey& key, const Outcome& outcome, rt::Duration) { log_outcome(key, outcome); });
}

void CronJobController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
}

Outcome CronJobController::reconcile(const ObjectKey& key, const rt::StopToken& stop) {
  if (work_.take_overflowed()) look_at_all_again();
  const auto cron_job = cron_jobs_.get(key);
  if (!cron_job || cron_job->metadata.deletion_timestamp) {
    forget(key);
    return Outcome::done();
  }
  if (const auto wait = expectations_.time_left(key)) return Outcome::retry_after(*wait);
  const auto observed = observe(key, *cron_job, stop);
  if (!observed.ok()) return Outcome::failed(observed.error());
  return carry_out(key, *observed, plan_cron_job(*observed), stop);
}

Result<ObservedCronJob> CronJobController::observe(const ObjectKey& key, const CronJob& cron_job,
                                                   const rt::StopToken& stop) {
  ObservedCronJob observed;
  observed.cron_job = &cron_job;
  observed.now = runtime_.wall_now();
  observed.zone = options_.zone;
  observed.jobs = jobs_.by_index(indexes::kByController, cron_job.metadata.uid);
  {
    const rt::MutexLock lock(mutex_);
    if (const auto found = gone_.find(key); found != gone_.end()) observed.gone = found->second;
    if (const auto found = edited_.find(key); found != edited_.end()) observed.edited = found->second;
  }
  // Where the status and the cache differ about what runs, the cache may be behind.
  const auto& active = cron_job.status.active;
  for (JobPtr& job : observed.jobs) {
    const auto& meta = job->metadata;
    const bool is_listed = std::ranges::any_of(active, [&](const auto& entry) { return entry.uid == meta.uid; });
    if (is_listed || is_finished(*job) || meta.deletion_timestamp) continue;
    BASALT_TRY(job, read_job({key.ns, meta.name}, meta.uid, stop));
  }
  std::erase(observed.jobs, nullptr);
  for (const auto& entry : active) {
    const auto is_it = [&](const JobPtr& job) { return job->metadata.uid == entry.uid; };
    if (std::ranges::any_of(observed.jobs, is_it) || std::ranges::any_of(observed.gone, is_it)) continue;
    BASALT_TRY(JobPtr job, read_job({key.ns, entry.name}, entry.uid, stop));
    if (job) observed.jobs.push_back(std::move(job));
  }
  return observed;
}

Result<JobPtr> CronJobController::read_job(const ObjectKey& job, const std::string& uid, const rt::StopToken& stop) {
  auto found = kube::get_object<Job>(client_, job, stop);
  if (found.ok()) return found->metadata.uid == uid ? std::make_shared<const Job>(*std::move(found)) : JobPtr();
  if (found.error().is(Reason::NotFound)) return JobPtr();
  return found.error().with_context("read job " + job.to_string());
}

Outcome CronJobController::carry_out(const ObjectKey& key, const ObservedCronJob& observed, const CronPlan& plan,
                                     const rt::StopToken& stop) {
  const CronJob& cron_job = *observed.cron_job;
  CronJobStatus status = plan.status;
  Start started;
  if (plan.start) started = start_job(key, cron_job, plan, status, stop);
  if (started.error && started.error->is(Reason::Cancelled)) return Outcome::failed(*std::move(started.error));
  if (started.job) {
    status.last_schedule_time = *plan.start;
    const bool is_listed =
        std::ranges::any_of(status.active, [&](const auto& entry) { return entry.uid == started.job->metadata.uid; });
    if (!is_listed && !is_finished(*started.job)) status.active.push_back(reference_to(*started.job));
  }
  if (const Done written = write_status(key, cron_job, status, stop); !written.ok())
    return Outcome::failed(written.error());
  forget_gone(key, observed.gone);
  for (const CronEvent& event : plan.events) tell(cron_job, event);
  // Only now: a job is the proof that its time was run until the status says so.
  if (const Done pruned = prune(key, cron_job, plan.beyond_history, stop); !pruned.ok())
    return Outcome::failed(pruned.error());
  if (started.error) return Outcome::failed(*std::move(started.error));
  return plan.look_again ? Outcome::retry_after(*plan.look_again) : Outcome::done();
}

Start CronJobController::start_job(const ObjectKey& key, const CronJob& cron_job, const CronPlan& plan,
                                   CronJobStatus& status, const rt::StopToken& stop) {
  if (Done fresh = check_fresh(key, cron_job, stop); !fresh.ok()) return {.job = {}, .error = std::move(fresh).error()};
  for (const auto& entry : plan.replaced) {
    if (const Done removed = remove_job(key, entry.name, entry.uid, stop); !removed.ok())
      return {.job = {}, .error = removed.error().with_context("could not replace job " + key.ns + "/" + entry.name)};
    std::erase_if(status.active, [&](const auto& one) { return one.uid == entry.uid; });
    warn(cron_job, reasons::kReplaceConcurrent,
         "Replaced job " + entry.name + ", which was still running when the next was due", {});
  }
  return make_job(key, cron_job, *plan.start, stop);
}

Start CronJobController::make_job(const ObjectKey& key, const CronJob& cron_job, api::Time scheduled,
                                  const rt::StopToken& stop) {
  const std::string job = job_name_at(key.name, scheduled);
  const auto made = client_.call({.verb = kube::Verb::Create,
                                  .resource = kube::resource_of<Job>(),
                                  .ns = key.ns,
                                  .body = job_body(cron_job, scheduled)},
                                 stop);
  if (made.ok()) {
    auto read = kube::decode_object<Job>(*made);
    if (!read.ok()) return {.job = {}, .error = read.error().with_context("read what was created: job " + job)};
    expectations_.note_write(key, kube::resource_of<Job>(), read->metadata.resource_version);
    events_.event(reference_of(cron_job), kube::EventType::Normal, reasons::kSuccessfulCreate,
                  "Created job " + job + " for CronJob " + key.to_string());
    return {.job = *std::move(read), .error = {}};
  }
  if (made.error().is(Reason::AlreadyExists)) return accept_existing(key, cron_job, job, stop);
  Error error = made.error().with_context("create job " + key.ns + "/" + job);
  if (error.is_transient() || error.outcome_is_unknown() || error.is(Reason::Conflict) || error.is(Reason::Cancelled))
    return {.job = {}, .error = std::move(error)};
  warn(cron_job, is_of_terminating_namespace(error) ? reasons::kNamespaceTerminating : reasons::kFailedCreate,
       "Error creating job: " + error.message, error.message);
  error.retry_after = std::chrono::duration_cast<std::chrono::milliseconds>(options_.refused_pause);
  return {.job = {}, .error = std::move(error)};
}

Start CronJobController::accept_existing(const ObjectKey& key, const CronJob& cron_job, const std::string& job,
                                         const rt::StopToken& stop) {
  auto found = kube::get_object<Job>(client_, {key.ns, job}, stop);
  if (!found.ok()) return {.job = {}, .error = found.error().with_context("read job " + key.ns + "/" + job)};
  const auto* owner = cron_job_of(*found);
  if (owner != nullptr && owner->uid == cron_job.metadata.uid) {
    expectations_.note_write(key, kube::resource_of<Job>(), found->metadata.resource_version);
    return {.job = *std::move(found), .error = {}};
  }
  warn(cron_job, reasons::kForeignJob,
       "Job " + job + " exists and does not belong to this cron job; this run is left out. Delete or rename that job",
       job);
  return {};
}

Done CronJobController::check_fresh(const ObjectKey& key, const CronJob& cron_job, const rt::StopToken& stop) {
  BASALT_TRY(const CronJob fresh, kube::get_object<CronJob>(client_, key, stop));
  if (fresh.metadata.resource_version == cron_job.metadata.resource_version) return Ok{};
  return Error::make(Reason::Conflict, "cron job " + key.to_string() + " is newer than the cache");
}

Done CronJobController::write_status(const ObjectKey& key, const CronJob& cron_job, const CronJobStatus& status,
                                     const rt::StopToken& stop) {
  if (status == cron_job.status) return Ok{};
  const auto written = client_.call(status_update(cron_job, status), stop);
  if (!written.ok()) return written.error().with_context("write status of cron job " + key.to_string());
  expectations_.note_write(key, kube::resource_of<CronJob>(), kube::resource_version_of(*written));
  return Ok{};
}

// They are in the status now.
void CronJobController::forget_gone(const ObjectKey& key, const std::vector<JobPtr>& jobs) {
  const rt::MutexLock lock(mutex_);
  const auto found = gone_.find(key);
  if (found == gone_.end()) return;
  gone_count_ -=
      std::erase_if(found->second, [&](const JobPtr& job) { return std::ranges::find(jobs, job) != jobs.end(); });
  if (found->second.empty()) gone_.erase(found);
}

Done CronJobController::remove_job(const ObjectKey& key, const std::string& name, const std::string& uid,
                                   const rt::StopToken& stop) {
  const kube::Resource resource = kube::resource_of<Job>();
  const auto deleted = kube::delete_object(client_, resource, {key.ns, name},
                                           {.uid = uid, .propagation = kube::Propagation::Background}, stop);
  if (!deleted.ok()) {
    // Another job bears the name now: this one is gone.
    if (deleted.error().is(Reason::Conflict)) return Ok{};
    return deleted.error().with_context("delete job " + key.ns + "/" + name);
  }
  // With a finalizer it stays for a while, and its mark is what we wait for.
  const auto identity = kube::identity_of(*deleted->body);
  if (identity.ok() && identity->is_being_deleted) {
    expectations_.note_write(key, resource, identity->resource_version);
  } else {
    expectations_.note_delete(key, resource, uid);
  }
  return Ok{};
}

Done CronJobController::prune(const ObjectKey& key, const CronJob& cron_job, const std::vector<JobPtr>& jobs,
                              const rt::StopToken& stop) {
  for (const JobPtr& job : jobs) {
    const std::string& name = job->metadata.name;
    if (const Done removed = remove_job(key, name, job->metadata.uid, stop); !removed.ok()) {
      if (!removed.error().is_transient())
        warn(cron_job, reasons::kFailedDelete,
             "Error deleting job " + base::quote(name) + ": " + removed.error().message, name);
      return removed.error();
    }
    events_.event(reference_of(cron_job), kube::EventType::Normal, reasons::kSuccessfulDelete,
                  "Deleted job " + base::quote(name));
  }
  return Ok{};
}

void CronJobController::tell(const CronJob& cron_job, const CronEvent& event) {
  if (!event.once_for.empty()) {
    const rt::MutexLock lock(mutex_);
    std::string& last = told_[key_of(cron_job.metadata)][std::string(event.reason)];
    if (last == event.once_for) return;
    last = event.once_for;
  }
  if (event.type == kube::EventType::Warning) {
    log_.warn("cron job",
              {{"cronjob", key_of(cron_job.metadata).to_string()}, {"reason", event.reason}, {"what", event.message}});
  }
  events_.event(reference_of(cron_job), event.type, event.reason, event.message);
}

void CronJobController::warn(const CronJob& cron_job, std::string_view reason, const std::string& message,
                             std::string once_for) {
  tell(cron_job, {kube::EventType::Warning, reason, message, std::move(once_for)});
}

void CronJobController::forget(const ObjectKey& key) {
  expectations_.forget(key);
  const rt::MutexLock lock(mutex_);
  told_.erase(key);
  edited_.erase(key);
  if (const auto found = gone_.find(key); found != gone_.end()) {
    gone_count_ -= found->second.size();
    gone_.erase(found);
  }
}

void CronJobController::look_at_all_again() {
  cron_jobs_.for_each([this](const CronJob& cron_job) { work_.add(key_of(cron_job.metadata)); });
}

void CronJobController::log_outcome(const ObjectKey& key, const Outcome& outcome) {
  if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
  const bool is_news = work_.retries(key) == 0 && !outcome.error->is(Reason::Conflict);
  log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "cron job is tried again",
           {{"cronjob", key.to_string()}, {"error", *outcome.error}});
}

}  // namespace

std::unique_ptr<Controller> make_cron_job_controller(ControllerContext& context, CronJobControllerOptions options) {
  return std::make_unique<CronJobController>(context, std::move(options));
}

}  // namespace basalt::controllers::cronjob
