#include "controllers/jobflow/jobflow_controller.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "api/gen/names.h"
#include "api/owner.h"
#include "base/strings.h"
#include "controllers/jobflow/finished_jobs.h"
#include "controllers/jobflow/flow_planner.h"
#include "controllers/jobflow/flow_writes.h"
#include "kube/expectations.h"
#include "kube/typed.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::jobflow {
namespace {

using api::ObjectKey;
using api::batch::Job;
using api::flow::JobFlow;
using api::flow::JobTemplate;
using rt::Outcome;

// Changes of a job's pod counts alone are gathered for this long, so that a job of many pods does not cost its flow a
// write for every pod.
constexpr rt::Duration kCountsDelay = std::chrono::milliseconds(500);
// Before the next jobs of a wide flow: by then the cache shows what was made or deleted.
constexpr rt::Duration kMoreDelay = std::chrono::milliseconds(50);
constexpr std::string_view kFlowFailed = "JobFlowFailed";
// Of what a flow has to say in one event.
constexpr std::size_t kShownMax = 5;

const api::meta::OwnerReference* flow_of(const Job& job) {
  const auto* owner = api::controller_of(job.metadata);
  const bool is_flow =
      owner != nullptr && owner->kind == JobFlow::kind_info().kind && owner->api_version == kFlowApiVersion;
  return is_flow ? owner : nullptr;
}

std::string failure_text(const FlowPlan& plan) {
  std::vector<std::string> parts;
  for (const LostJob& job : plan.lost) {
    if (parts.size() == kShownMax) break;
    std::string text = "job " + job.name + " is " + job.phase;
    if (!job.why.empty()) text += " (" + job.why + ")";
    if (!job.exists) {
      text += " and is gone; make the flow anew to run it again";
    } else if (job.phase == api::batch::job_phase::kAborted) {
      text += "; resume it, or delete it to have it made again, and the flow goes on";
    } else {
      text += "; delete it to have it made again, and the flow goes on";
    }
    parts.push_back(std::move(text));
  }
  std::string all = base::join(parts, ". ");
  if (plan.lost.size() > kShownMax) all += ". And " + std::to_string(plan.lost.size() - kShownMax) + " more";
  return all;
}

class JobFlowController final : public Controller {
 public:
  JobFlowController(ControllerContext& context, JobFlowControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return api::controllers::kJobFlow; }
  void start() override;
  void stop() override;

 private:
  // Handlers: they only mark.
  void on_job(const kube::Change<Job>& change);
  void note_job(const kube::Change<Job>& change, const api::meta::OwnerReference* owner);
  void on_template(const kube::Change<JobTemplate>& change);

  // Workers.
  Outcome reconcile(const ObjectKey& key, const rt::StopToken& stop);
  // Nothing if a handler is about to be told of the end of a job.
  [[nodiscard]] std::optional<ObservedFlow> observe(const ObjectKey& key, const JobFlow& flow) const;
  Outcome carry_out(const ObjectKey& key, const JobFlow& flow, const FlowPlan& plan, const rt::StopToken& stop);
  Done write_status(const ObjectKey& key, const JobFlow& flow, const FlowPlan& plan, const rt::StopToken& stop);
  void tell_phase(const JobFlow& flow, const FlowPlan& plan);
  // An error if the flow is not what the cache says.
  Done check_fresh(const ObjectKey& key, const JobFlow& flow, const rt::StopToken& stop);
  // Done if the job is there, or is not to be there yet; `refused` is set if only a person can help.
  Done make_job(const ObjectKey& key, const JobFlow& flow, const std::string& step, std::optional<Error>& refused,
                const rt::StopToken& stop);
  Done accept_existing(const ObjectKey& key, const JobFlow& flow, const std::string& job, std::optional<Error>& refused,
                       const rt::StopToken& stop);
  Done remove_job(const ObjectKey& key, const Job& job, const rt::StopToken& stop);
  void tell_problems(const ObjectKey& key, const JobFlow& flow, const std::vector<std::string>& problems);
  void forget(const ObjectKey& key);
  void look_at_all_again();
  void log_outcome(const ObjectKey& key, const Outcome& outcome);

  // Fixed after construction.
  const JobFlowControllerOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::EventRecorder& events_;
  kube::Metrics& metrics_;
  kube::Informer<JobFlow>& flows_;
  kube::Informer<JobTemplate>& templates_;
  kube::Informer<Job>& jobs_;

  // Self-locking.
  FinishedJobs finished_;
  rt::WorkQueue<ObjectKey> work_;
  kube::Expectations expectations_;

  mutable rt::Mutex mutex_;
  std::map<ObjectKey, std::string> told_ BASALT_GUARDED_BY(mutex_);  // the last problems told, of flows that have some

  std::optional<rt::Workers<ObjectKey>> workers_;  // used only by the owner
};

JobFlowController::JobFlowController(ControllerContext& context, JobFlowControllerOptions options)
    : options_(options),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", api::controllers::kJobFlow}})),
      events_(context.events),
      metrics_(context.metrics),
      flows_(context.informers.job_flows()),
      templates_(context.informers.job_templates()),
      jobs_(context.informers.jobs()),
      work_(runtime_, {.name = "jobflow", .backoff = {.cap = options_.backoff_max}},
            [](const ObjectKey& key) { return std::hash<std::string>()(key.ns); }),
      expectations_(runtime_, {.name = "jobflow", .metrics = &metrics_},
                    [this](const ObjectKey& key) { work_.add(key); }) {
  expectations_.connect(flows_.core());
  expectations_.connect(jobs_.core());
  flows_.add_handler([this](const kube::Change<JobFlow>& change) {
    work_.add({change.object().metadata.namespace_, change.object().metadata.name});
  });
  jobs_.add_handler([this](const kube::Change<Job>& change) { on_job(change); });
  templates_.add_handler([this](const kube::Change<JobTemplate>& change) { on_template(change); });
}

void JobFlowController::on_job(const kube::Change<Job>& change) {
  const auto* owner = flow_of(change.object());
  note_job(change, owner);
  if (owner == nullptr) return;
  const ObjectKey key{change.object().metadata.namespace_, owner->name};
  const bool is_minor = change.is_updated() && change.before->status.state.phase == change.after->status.state.phase;
  if (is_minor) {
    work_.add_after(key, kCountsDelay);
  } else {
    work_.add(key);
  }
}

void JobFlowController::note_job(const kube::Change<Job>& change, const api::meta::OwnerReference* owner) {
  const auto& meta = change.object().metadata;
  if (owner == nullptr) return finished_.note_gone(meta.uid);
  const ObjectKey key{meta.namespace_, owner->name};
  if (!change.is_deleted()) return finished_.note_alive(key, owner->uid, meta.uid);
  const JobFate fate = meaning_of(change.before->status.state.phase).fate;
  const bool is_end = fate == JobFate::Done || fate == JobFate::Lost;
  is_end ? finished_.keep(key, change.before) : finished_.note_gone(meta.uid);
}

void JobFlowController::on_template(const kube::Change<JobTemplate>& change) {
  const auto& meta = change.object().metadata;
  // Its status changes with every job. Only what is or is not there matters to flows.
  if (change.is_updated() && change.before->spec == change.after->spec) return;
  for (const auto& flow : flows_.by_index(indexes::kByTemplate, meta.namespace_ + "." + meta.name))
    work_.add({flow->metadata.namespace_, flow->metadata.name});
}

void JobFlowController::start() {
  workers_.emplace(
      runtime_, work_, rt::WorkersOptions{.name = "jobflow", .count = options_.workers},
      [this](const ObjectKey& key, const rt::StopToken& stop) { return reconcile(key, stop); },
      [this](const ObjectKey& key, const Outcome& outcome, rt::Duration) { log_outcome(key, outcome); });
}

void JobFlowController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
}

Outcome JobFlowController::reconcile(const ObjectKey& key, const rt::StopToken& stop) {
  if (work_.take_overflowed()) look_at_all_again();
  const auto flow = flows_.get(key);
  if (!flow || flow->metadata.deletion_timestamp) {
    forget(key);
    return Outcome::done();
  }
  if (const auto wait = expectations_.time_left(key)) return Outcome::retry_after(*wait);
  if (!parse_flow_phase(flow->status.state.phase)) {
    tell_problems(key, *flow, {"status.state.phase " + base::quote(flow->status.state.phase) + " is not known here"});
    return Outcome::done();
  }
  const auto observed = observe(key, *flow);
  if (!observed) return Outcome::done();  // that handler marks the flow again
  const FlowPlan plan = plan_flow(*observed);
  // What is known is written down before anything is done about it: a job that completed and is deleted meanwhile is
  // not made again after a crash.
  const Done is_current = plan.has_news                                ? write_status(key, *flow, plan, stop)
                          : plan.create.empty() && plan.remove.empty() ? Done(Ok{})
                                                                       : check_fresh(key, *flow, stop);
  if (!is_current.ok()) return Outcome::failed(is_current.error());
  finished_.forget(key, observed->gone);
  return carry_out(key, *flow, plan, stop);
}

std::optional<ObservedFlow> JobFlowController::observe(const ObjectKey& key, const JobFlow& flow) const {
  ObservedFlow observed;
  observed.flow = &flow;
  observed.now = api::Time::from(runtime_.wall_now());
  observed.jobs = jobs_.by_index(indexes::kByController, flow.metadata.uid);
  if (finished_.misses(key, flow.metadata.uid, observed.jobs)) return std::nullopt;
  observed.gone = finished_.of(key);
  std::erase_if(observed.gone, [&](const auto& entry) {
    const auto* owner = flow_of(*entry.second);
    return owner == nullptr || owner->uid != flow.metadata.uid;
  });
  std::set<std::string_view> own;
  for (const JobPtr& job : observed.jobs) own.insert(job->metadata.name);
  for (const auto& step : flow.spec.flows) {
    std::string name = job_name_of(flow.metadata.name, step.name);
    if (own.contains(name)) continue;
    if (jobs_.get({key.ns, name})) observed.foreign.insert(std::move(name));
    if (const auto found = templates_.get({key.ns, step.name}))
      observed.templates[step.name] = {.exists = true, .expires = makes_expiring_jobs(*found)};
  }
  return observed;
}

Done JobFlowController::write_status(const ObjectKey& key, const JobFlow& flow, const FlowPlan& plan,
                                     const rt::StopToken& stop) {
  const auto written = client_.call(status_update(flow, plan.status), stop);
  if (!written.ok()) return written.error().with_context("write status of job flow " + key.to_string());
  expectations_.note_write(key, kube::resource_of<JobFlow>(), kube::resource_version_of(*written));
  if (plan.status.state.phase != flow.status.state.phase) tell_phase(flow, plan);
  return Ok{};
}

// Only after the phase was written: a conflict neither counts twice nor tells twice.
void JobFlowController::tell_phase(const JobFlow& flow, const FlowPlan& plan) {
  const std::string key = flow.metadata.namespace_ + "/" + flow.metadata.name;
  const kube::MetricLabels labels = {{"jobflow_namespace", flow.metadata.namespace_}};
  log_.info("job flow changed its phase",
            {{"flow", key}, {"from", flow.status.state.phase}, {"to", plan.status.state.phase}});
  if (plan.phase == FlowPhase::Succeed) {
    metrics_.counter("volcano_jobflow_succeed_phase_count", "Job flows that succeeded", labels).add();
  } else if (plan.phase == FlowPhase::Failed) {
    metrics_.counter("volcano_jobflow_failed_phase_count", "Job flows that failed", labels).add();
    events_.event(reference_of(flow), kube::EventType::Warning, kFlowFailed, failure_text(plan));
  }
}

Done JobFlowController::check_fresh(const ObjectKey& key, const JobFlow& flow, const rt::StopToken& stop) {
  BASALT_TRY(const JobFlow fresh, kube::get_object<JobFlow>(client_, key, stop));
  if (fresh.metadata.resource_version == flow.metadata.resource_version) return Ok{};
  return Error::make(Reason::Conflict, "job flow " + key.to_string() + " is newer than the cache");
}

Outcome JobFlowController::carry_out(const ObjectKey& key, const JobFlow& flow, const FlowPlan& plan,
                                     const rt::StopToken& stop) {
  for (const JobPtr& job : plan.remove) {
    if (const Done done = remove_job(key, *job, stop); !done.ok()) return Outcome::failed(done.error());
  }
  std::optional<Error> refused;
  for (const std::string& step : plan.create) {
    if (const Done done = make_job(key, flow, step, refused, stop); !done.ok()) return Outcome::failed(done.error());
  }
  std::vector<std::string> problems = plan.problems;
  if (refused) problems.push_back(refused->message);
  tell_problems(key, flow, problems);
  if (refused) {
    refused->retry_after = std::chrono::duration_cast<std::chrono::milliseconds>(options_.refused_pause);
    return Outcome::failed(*std::move(refused));
  }
  if (plan.waits_for_foreign) return Outcome::retry_after(options_.refused_pause);
  return plan.has_more ? Outcome::retry_after(kMoreDelay) : Outcome::done();
}

Done JobFlowController::make_job(const ObjectKey& key, const JobFlow& flow, const std::string& step,
                                 std::optional<Error>& refused, const rt::StopToken& stop) {
  // As it is now, not as the cache has it: an edit counts from the moment it was made.
  const auto job_template = kube::get_object<JobTemplate>(client_, {key.ns, step}, stop);
  if (!job_template.ok()) {
    // The cache will say so, too, and the flow is looked at again when the template comes.
    if (job_template.error().is(Reason::NotFound)) return Ok{};
    return job_template.error().with_context("read job template " + key.ns + "/" + step);
  }
  const std::string job = job_name_of(key.name, step);
  const auto made = client_.call({.verb = kube::Verb::Create,
                                  .resource = kube::resource_of<Job>(),
                                  .ns = key.ns,
                                  .body = job_body(flow, *job_template)},
                                 stop);
  if (made.ok()) {
    expectations_.note_write(key, kube::resource_of<Job>(), kube::resource_version_of(*made));
    events_.event(reference_of(flow), kube::EventType::Normal, api::event_reasons::kCreated,
                  "create a job named " + job + "!");
    return Ok{};
  }
  if (made.error().is(Reason::AlreadyExists)) return accept_existing(key, flow, job, refused, stop);
  Error error = made.error().with_context("create job " + key.ns + "/" + job);
  const bool may_pass = error.is_transient() || error.outcome_is_unknown() || error.is(Reason::Conflict);
  if (may_pass || error.is(Reason::Cancelled)) return error;
  refused = std::move(error);
  return Ok{};
}

Done JobFlowController::accept_existing(const ObjectKey& key, const JobFlow& flow, const std::string& job,
                                        std::optional<Error>& refused, const rt::StopToken& stop) {
  BASALT_TRY(const Job found, kube::get_object<Job>(client_, {key.ns, job}, stop));
  if (api::is_controlled_by(found.metadata, flow.metadata.uid)) {
    expectations_.note_write(key, kube::resource_of<Job>(), found.metadata.resource_version);
    return Ok{};
  }
  refused = Error::make(Reason::AlreadyExists, "job " + key.ns + "/" + job +
                                                   " exists and does not belong to this flow; delete it or rename the "
                                                   "flow");
  return Ok{};
}

Done JobFlowController::remove_job(const ObjectKey& key, const Job& job, const rt::StopToken& stop) {
  const ObjectKey job_key{job.metadata.namespace_, job.metadata.name};
  const auto deleted = kube::delete_object(client_, kube::resource_of<Job>(), job_key, {.uid = job.metadata.uid}, stop);
  if (!deleted.ok()) return deleted.error().with_context("delete job " + job_key.to_string());
  log_.info("job deleted, because its flow succeeded", {{"flow", key.to_string()}, {"job", job_key.to_string()}});
  return Ok{};
}

void JobFlowController::tell_problems(const ObjectKey& key, const JobFlow& flow,
                                      const std::vector<std::string>& problems) {
  std::string text;
  for (std::size_t i = 0; i < std::min(problems.size(), kShownMax); ++i) text += (i == 0 ? "" : "; ") + problems[i];
  if (problems.size() > kShownMax) text += "; and " + std::to_string(problems.size() - kShownMax) + " more";
  {
    const rt::MutexLock lock(mutex_);
    if (text.empty()) {
      told_.erase(key);
      return;
    }
    if (std::string& last = told_[key]; last == text) {
      return;
    } else {
      last = text;
    }
  }
  log_.warn("job flow cannot go on", {{"flow", key.to_string()}, {"why", text}});
  events_.event(reference_of(flow), kube::EventType::Warning, api::event_reasons::kSyncJobFlow, text);
}

void JobFlowController::forget(const ObjectKey& key) {
  finished_.forget_all(key);
  expectations_.forget(key);
  const rt::MutexLock lock(mutex_);
  told_.erase(key);
}

void JobFlowController::look_at_all_again() {
  flows_.for_each([this](const JobFlow& flow) { work_.add({flow.metadata.namespace_, flow.metadata.name}); });
}

void JobFlowController::log_outcome(const ObjectKey& key, const Outcome& outcome) {
  if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
  const bool is_news = work_.retries(key) == 0 && !outcome.error->is(Reason::Conflict);
  log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "job flow is tried again",
           {{"flow", key.to_string()}, {"error", *outcome.error}});
}

}  // namespace

std::unique_ptr<Controller> make_job_flow_controller(ControllerContext& context, JobFlowControllerOptions options) {
  return std::make_unique<JobFlowController>(context, options);
}

}  // namespace basalt::controllers::jobflow
