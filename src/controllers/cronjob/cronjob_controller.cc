#include "controllers/cronjob/cronjob_controller.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/gen/names.h"
#include "api/owner.h"
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
  return std::ranges::any_of(error.causes,
                             [](const Cause& cause) { return cause.type == reasons::kNamespaceTerminating; });
}

// Whether another try may do; else only a person can help.
bool may_pass(const Error& error) {
  return error.is_transient() || error.outcome_is_unknown() || error.is(Reason::Conflict) ||
         error.is(Reason::Cancelled);
}

// What is known of a cron job beyond its caches, in this life of the process.
struct Memory {
  std::string schedule;  // as it was seen last, with its zone
  api::Time edited;      // when it was seen to have changed
  // By reason: what was told last of the things that are told once.
  std::map<std::string, std::string, std::less<>> told;
  std::vector<JobPtr> gone;  // finished jobs that vanished
};

// What came of a time that was due.
struct Start {
  std::optional<Job> job;      // made now or before
  std::optional<Error> error;  // it is tried again
  bool is_refused = false;     // it was told, and is tried again after a while
};

class CronJobController final : public Controller {
 public:
  CronJobController(ControllerContext& context, CronJobControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return api::controllers::kCronJob; }
  void start() override;
  void stop() override;

 private:
  // Handlers: they only mark.
  void on_job(const kube::Change<Job>& change);
  void keep_gone(const ObjectKey& key, const JobPtr& job);

  // Workers.
  Outcome reconcile(const ObjectKey& key, const rt::StopToken& stop);
  Result<ObservedCronJob> observe(const ObjectKey& key, const CronJob& cron_job, const rt::StopToken& stop);
  // What memory knows of it goes to `observed`, and what it did not know is remembered.
  void remember(const ObjectKey& key, const api::batch::CronJobSpec& spec, ObservedCronJob& observed);
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
  // True if all went; false if some were refused, which was told.
  Result<bool> prune(const ObjectKey& key, const CronJob& cron_job, const std::vector<JobPtr>& jobs,
                     const rt::StopToken& stop);
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
  std::map<ObjectKey, Memory> memory_ BASALT_GUARDED_BY(mutex_);  // of cron jobs that exist
  std::size_t gone_count_ BASALT_GUARDED_BY(mutex_) = 0;          // in all of them

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
  cron_jobs_.add_handler([this](const kube::Change<CronJob>& change) { work_.add(key_of(change.object().metadata)); });
  jobs_.add_handler([this](const kube::Change<Job>& change) { on_job(change); });
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
  memory_[key].gone.push_back(job);
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
  remember(key, cron_job.spec, observed);
  // Where the status and the cache differ about what runs of ours, the cache may be behind.
  const auto& active = cron_job.status.active;
  for (JobPtr& job : observed.jobs) {
    const auto& meta = job->metadata;
    const bool is_listed = std::ranges::any_of(active, [&](const auto& entry) { return entry.uid == meta.uid; });
    if (is_listed || is_finished(*job) || meta.deletion_timestamp || !time_made_for(*job, key.name)) continue;
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

// A new schedule counts from now on: its times that have passed are not made up for.
void CronJobController::remember(const ObjectKey& key, const api::batch::CronJobSpec& spec, ObservedCronJob& observed) {
  const std::string schedule = spec.schedule + "\n" + spec.time_zone.value_or("");
  const rt::MutexLock lock(mutex_);
  Memory& memory = memory_[key];
  if (memory.schedule != schedule) {
    if (!memory.schedule.empty()) memory.edited = api::Time::from(observed.now);
    memory.schedule = schedule;
    memory.told.clear();
  }
  observed.edited = memory.edited;
  observed.gone = memory.gone;
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
  const auto pruned = prune(key, cron_job, plan.beyond_history, stop);
  if (!pruned.ok()) return Outcome::failed(pruned.error());
  if (started.error) return Outcome::failed(*std::move(started.error));
  // What is refused must not make the next time late.
  const rt::Duration next = plan.look_again.value_or(options_.refused_pause);
  if (started.is_refused || !*pruned) return Outcome::retry_after(std::min(next, options_.refused_pause));
  return plan.look_again ? Outcome::retry_after(*plan.look_again) : Outcome::done();
}

Start CronJobController::start_job(const ObjectKey& key, const CronJob& cron_job, const CronPlan& plan,
                                   CronJobStatus& status, const rt::StopToken& stop) {
  if (Done fresh = check_fresh(key, cron_job, stop); !fresh.ok()) return {.job = {}, .error = std::move(fresh).error()};
  for (const auto& entry : plan.replaced) {
    if (const Done removed = remove_job(key, entry.name, entry.uid, stop); !removed.ok()) {
      Error error = removed.error().with_context("could not replace job " + key.ns + "/" + entry.name);
      if (may_pass(error)) return {.job = {}, .error = std::move(error)};
      warn(cron_job, reasons::kFailedDelete, error.message, error.message);
      return {.job = {}, .error = {}, .is_refused = true};
    }
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
  if (may_pass(error)) return {.job = {}, .error = std::move(error)};
  warn(cron_job, is_of_terminating_namespace(error) ? reasons::kNamespaceTerminating : reasons::kFailedCreate,
       "Error creating job: " + error.message, error.message);
  return {.job = {}, .error = {}, .is_refused = true};
}

Start CronJobController::accept_existing(const ObjectKey& key, const CronJob& cron_job, const std::string& job,
                                         const rt::StopToken& stop) {
  auto found = kube::get_object<Job>(client_, {key.ns, job}, stop);
  if (!found.ok()) return {.job = {}, .error = found.error().with_context("read job " + key.ns + "/" + job)};
  if (api::is_controlled_by(found->metadata, cron_job.metadata.uid)) {
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
  const auto found = memory_.find(key);
  if (found == memory_.end()) return;
  gone_count_ -=
      std::erase_if(found->second.gone, [&](const JobPtr& job) { return std::ranges::find(jobs, job) != jobs.end(); });
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
  expectations_.note_delete(key, resource, uid, *deleted);
  return Ok{};
}

Result<bool> CronJobController::prune(const ObjectKey& key, const CronJob& cron_job, const std::vector<JobPtr>& jobs,
                                      const rt::StopToken& stop) {
  bool have_all_gone = true;
  for (const JobPtr& job : jobs) {
    const std::string& name = job->metadata.name;
    const Done removed = remove_job(key, name, job->metadata.uid, stop);
    if (removed.ok()) {
      events_.event(reference_of(cron_job), kube::EventType::Normal, reasons::kSuccessfulDelete,
                    "Deleted job " + base::quote(name));
      continue;
    }
    const Error& error = removed.error();
    if (may_pass(error)) return error;
    // The others go all the same.
    warn(cron_job, reasons::kFailedDelete, "Error deleting job " + base::quote(name) + ": " + error.message, name);
    have_all_gone = false;
  }
  return have_all_gone;
}

void CronJobController::tell(const CronJob& cron_job, const CronEvent& event) {
  if (!event.once_for.empty()) {
    const rt::MutexLock lock(mutex_);
    std::string& last = memory_[key_of(cron_job.metadata)].told[std::string(event.reason)];
    if (last == event.once_for) return;
    last = event.once_for;
  }
  if (event.type == kube::EventType::Warning) {
    log_.warn("warned of on a cron job",
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
  const auto found = memory_.find(key);
  if (found == memory_.end()) return;
  gone_count_ -= found->second.gone.size();
  memory_.erase(found);
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
