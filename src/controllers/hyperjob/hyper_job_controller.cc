#include "controllers/hyperjob/hyper_job_controller.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "api/owner.h"
#include "controllers/hyperjob/children.h"
#include "controllers/hyperjob/executor.h"
#include "controllers/hyperjob/plan.h"
#include "controllers/hyperjob/status.h"
#include "controllers/hyperjob/waiting.h"
#include "kube/expectations.h"
#include "kube/typed.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::hyperjob {
namespace {

using api::ObjectKey;
using api::batch::Job;
using api::karmada::Cluster;
using api::karmada::PropagationPolicy;
using api::karmada::ResourceBinding;
using api::training::HyperJob;
using rt::Outcome;
using HyperJobPtr = std::shared_ptr<const HyperJob>;

// A hyper job whose condition may change with time alone is looked at again.
constexpr rt::Duration kLookAgain = std::chrono::seconds(kSuspensionToldSeconds + 1);

template <class T>
std::optional<ObjectKey> owner_of(const T& child) {
  const auto* owner = api::controller_of(child.metadata);
  if (owner == nullptr || owner->kind != HyperJob::kind_info().kind ||
      !owner->api_version.starts_with("training.volcano.sh/"))
    return std::nullopt;
  return ObjectKey{child.metadata.namespace_, owner->name};
}

kube::EventRecorder::Options recorder_options(kube::Metrics& metrics) {
  kube::EventRecorder::Options options;
  options.component = api::components::kHyperJob;
  options.metrics = &metrics;
  return options;
}

class HyperJobController final : public Controller {
 public:
  HyperJobController(ControllerContext& context, HyperJobControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return kControllerName; }
  void start() override;
  void stop() override;

 private:
  // Handlers: they only remember and mark.
  void on_hyper_job(const kube::Change<HyperJob>& change);
  void on_job(const kube::Change<Job>& change);
  void on_policy(const kube::Change<PropagationPolicy>& change);
  void on_binding(const kube::Change<ResourceBinding>& change);
  void on_cluster(const kube::Change<Cluster>& change);
  void mark_waiting_for(const ObjectKey& child);

  // Workers.
  Outcome reconcile(const ObjectKey& key, const rt::StopToken& stop);
  Outcome reconcile_running(const ObjectKey& key, HyperJobPtr hyper_job, const rt::StopToken& stop);
  Outcome reconcile_terminal(const ObjectKey& key, const HyperJob& hyper_job, const rt::StopToken& stop);
  [[nodiscard]] Observed observe(const HyperJob& hyper_job);
  void add_waiting(const HyperJob& hyper_job, const Observed& observed, PassResult& pass) const;
  Done write_status(const ObjectKey& key, const HyperJob& hyper_job, const Observed& observed, const PassResult& pass,
                    const rt::StopToken& stop);
  void tell_end(const HyperJob& hyper_job, const api::training::HyperJobStatus& status);
  void remember_conflicts(const ObjectKey& key, const std::vector<Problem>& problems);
  void forget(const ObjectKey& key, const std::string& uid);
  [[nodiscard]] api::Time now() const { return api::Time::from(runtime_.wall_now()); }
  void look_at_all_again();
  void log_outcome(const ObjectKey& key, const Outcome& outcome);

  // Fixed after construction.
  const HyperJobControllerOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::Metrics& metrics_;
  kube::Informer<HyperJob>& hyper_jobs_;
  kube::Informer<Job>& jobs_;
  kube::Informer<PropagationPolicy>& policies_;
  kube::Informer<ResourceBinding>& bindings_;
  kube::Informer<Cluster>& clusters_;

  // Self-locking.
  kube::EventRecorder events_;
  rt::WorkQueue<ObjectKey> work_;
  kube::Expectations expectations_;
  Executor executor_;

  rt::Mutex mutex_;
  // Children that succeeded and are not recorded as such yet, by the hyper job's UID. The handler of a job's last
  // change fills it before the job can be missed.
  std::map<std::string, JobStates> completed_ BASALT_GUARDED_BY(mutex_);
  std::map<ObjectKey, std::set<ObjectKey>> waiting_for_name_ BASALT_GUARDED_BY(mutex_);  // child -> hyper jobs

  std::optional<rt::Workers<ObjectKey>> workers_;  // used only by the owner
};

HyperJobController::HyperJobController(ControllerContext& context, HyperJobControllerOptions options)
    : options_(options),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", kControllerName}})),
      metrics_(context.metrics),
      hyper_jobs_(context.informers.hyper_jobs()),
      jobs_(context.informers.jobs()),
      policies_(context.informers.propagation_policies()),
      bindings_(context.informers.resource_bindings()),
      clusters_(context.informers.clusters()),
      events_(runtime_, client_, log_, recorder_options(context.metrics)),
      work_(runtime_, {.name = "hyperjob", .backoff = {.cap = options_.backoff_max}},
            [](const ObjectKey& key) { return std::hash<std::string>()(key.ns); }),
      expectations_(
          runtime_,
          {.expiry = std::chrono::seconds(30), .name = std::string(kControllerName), .metrics = &context.metrics},
          [this](const ObjectKey& key) { work_.add(key); }),
      executor_(context, events_, expectations_) {
  expectations_.connect(hyper_jobs_.core());
  expectations_.connect(jobs_.core());
  expectations_.connect(policies_.core());
  hyper_jobs_.add_handler([this](const auto& change) { on_hyper_job(change); });
  jobs_.add_handler([this](const auto& change) { on_job(change); });
  policies_.add_handler([this](const auto& change) { on_policy(change); });
  bindings_.add_handler([this](const auto& change) { on_binding(change); });
  clusters_.add_handler([this](const auto& change) { on_cluster(change); });
}

void HyperJobController::start() {
  events_.start();
  workers_.emplace(
      runtime_, work_, rt::WorkersOptions{.name = "hyperjob", .count = options_.workers},
      [this](const ObjectKey& key, const rt::StopToken& stop) { return reconcile(key, stop); },
      [this](const ObjectKey& key, const Outcome& outcome, rt::Duration) { log_outcome(key, outcome); });
}

void HyperJobController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
  events_.stop();
}

void HyperJobController::on_hyper_job(const kube::Change<HyperJob>& change) {
  const auto& metadata = change.object().metadata;
  if (change.is_deleted()) {
    const rt::MutexLock lock(mutex_);
    completed_.erase(metadata.uid);
  }
  work_.add({metadata.namespace_, metadata.name});
}

void HyperJobController::on_job(const kube::Change<Job>& change) {
  const Job& job = change.object();
  const auto owner = owner_of(job);
  if (!owner) return mark_waiting_for({job.metadata.namespace_, job.metadata.name});
  if (change.after && job.status.state.phase == api::batch::job_phase::kCompleted &&
      job.metadata.deletion_timestamp.is_zero()) {
    const rt::MutexLock lock(mutex_);
    completed_[api::controller_of(job.metadata)->uid][job.metadata.name] = job.status.state;
  }
  if (change.is_deleted()) {
    // An orphan's success is of no use any more.
    const auto hyper_job = hyper_jobs_.get(*owner);
    const std::string& uid = api::controller_of(job.metadata)->uid;
    if (!hyper_job || hyper_job->metadata.uid != uid) {
      const rt::MutexLock lock(mutex_);
      completed_.erase(uid);
    }
  }
  const bool is_only_status = change.is_updated() && change.before->metadata.labels == job.metadata.labels &&
                              change.before->metadata.deletion_timestamp == job.metadata.deletion_timestamp &&
                              change.before->metadata.owner_references == job.metadata.owner_references;
  if (!is_only_status) {
    work_.add(*owner);
  } else if (change.before->status != job.status) {
    work_.add_after(*owner, options_.gather);
  }
}

void HyperJobController::on_policy(const kube::Change<PropagationPolicy>& change) {
  const PropagationPolicy& policy = change.object();
  if (const auto owner = owner_of(policy)) {
    work_.add(*owner);
  } else {
    mark_waiting_for({policy.metadata.namespace_, policy.metadata.name});
  }
}

void HyperJobController::on_binding(const kube::Change<ResourceBinding>& change) {
  const ResourceBinding& binding = change.object();
  const auto job = jobs_.get({binding.metadata.namespace_, binding.spec.resource.name});
  if (!job) return;
  if (const auto owner = owner_of(*job)) work_.add_after(*owner, options_.gather);
}

void HyperJobController::on_cluster(const kube::Change<Cluster>& change) {
  if (!change.is_updated()) look_at_all_again();
}

// Somebody else's object changed, or went: whoever waits for its name looks again.
void HyperJobController::mark_waiting_for(const ObjectKey& child) {
  std::set<ObjectKey> waiting;
  {
    const rt::MutexLock lock(mutex_);
    const auto found = waiting_for_name_.find(child);
    if (found != waiting_for_name_.end()) waiting = found->second;
  }
  for (const ObjectKey& key : waiting) work_.add(key);
}

Outcome HyperJobController::reconcile(const ObjectKey& key, const rt::StopToken& stop) {
  if (work_.take_overflowed()) look_at_all_again();
  const HyperJobPtr hyper_job = hyper_jobs_.get(key);
  if (!hyper_job) {
    forget(key, "");
    return Outcome::done();
  }
  // Its children are removed by garbage collection.
  if (!hyper_job->metadata.deletion_timestamp.is_zero()) return Outcome::done();
  // Our own writes come first; the cache that shows the last of them wakes the key.
  if (const auto left = expectations_.time_left(key)) return Outcome::retry_after(*left);
  if (is_terminal(hyper_job->status)) return reconcile_terminal(key, *hyper_job, stop);
  return reconcile_running(key, hyper_job, stop);
}

Outcome HyperJobController::reconcile_running(const ObjectKey& key, HyperJobPtr hyper_job, const rt::StopToken& stop) {
  Observed observed = observe(*hyper_job);
  Plan plan = plan_children(*hyper_job, observed);
  if (plan.has_writes()) {
    // The cache may be older than what an earlier process did and saw: a child that is over is not made again, and one
    // that was asked for a moment ago is not deleted.
    auto fresh = kube::get_object<HyperJob>(client_, key, stop);
    if (!fresh.ok()) return fresh.error().is(Reason::NotFound) ? Outcome::done() : Outcome::failed(fresh.error());
    if (fresh->metadata.uid != hyper_job->metadata.uid || !fresh->metadata.deletion_timestamp.is_zero())
      return Outcome::done();  // the cache will say so and mark the key
    if (is_terminal(fresh->status)) return Outcome::done();
    if (fresh->metadata.resource_version != hyper_job->metadata.resource_version) {
      hyper_job = std::make_shared<const HyperJob>(std::move(*fresh));
      observed = observe(*hyper_job);
      plan = plan_children(*hyper_job, observed);
    }
  }
  Executed executed = executor_.carry_out(*hyper_job, plan, work_.retries(key), stop);
  remember_conflicts(key, executed.pass.problems);
  add_waiting(*hyper_job, observed, executed.pass);
  const Done written = write_status(key, *hyper_job, observed, executed.pass, stop);
  if (executed.error) return Outcome::failed(std::move(*executed.error));
  if (!written.ok()) return Outcome::failed(written.error());
  const bool is_waiting = std::any_of(observed.jobs.begin(), observed.jobs.end(),
                                      [](const auto& job) { return job.second->status.state.phase.empty(); });
  return is_waiting ? Outcome::retry_after(kLookAgain) : Outcome::done();
}

// Over is over: nothing runs again, whatever becomes of the specification or the children.
Outcome HyperJobController::reconcile_terminal(const ObjectKey& key, const HyperJob& hyper_job,
                                               const rt::StopToken& stop) {
  forget(key, hyper_job.metadata.uid);
  if (hyper_job.status.observed_generation == hyper_job.metadata.generation) return Outcome::done();
  const auto written =
      kube::patch_status(client_, kube::resource_of<HyperJob>(), key,
                         "{\"observedGeneration\":" + std::to_string(hyper_job.metadata.generation) + "}",
                         hyper_job.metadata.resource_version, stop);
  if (!written.ok()) {
    if (written.error().is(Reason::NotFound)) return Outcome::done();
    return Outcome::failed(written.error());
  }
  expectations_.note_write(key, kube::resource_of<HyperJob>(), kube::resource_version_of(*written));
  executor_.event(hyper_job, kube::EventType::Warning, api::event_reasons::kHyperJobFinished,
                  "the hyper job is over; changes of its specification have no effect. Make a new one");
  return Outcome::done();
}

Observed HyperJobController::observe(const HyperJob& hyper_job) {
  Observed observed;
  const std::string& uid = hyper_job.metadata.uid;
  const std::string& ns = hyper_job.metadata.namespace_;
  for (auto& job : jobs_.by_index(indexes::kByController, uid)) {
    if (job->metadata.namespace_ == ns) observed.jobs.emplace(job->metadata.name, job);
  }
  for (auto& policy : policies_.by_index(indexes::kByController, uid)) {
    if (policy->metadata.namespace_ == ns) observed.policies.emplace(policy->metadata.name, policy);
  }
  std::set<std::string> wanted;
  std::int64_t left = kChildrenMax;
  for (const auto& entry : hyper_job.spec.replicated_jobs) {
    for (std::int64_t i = 0; i < entry.replicas_or_default() && left > 0; ++i, --left)
      wanted.insert(child_name(hyper_job.metadata.name, entry.name, i));
  }
  for (const std::string& child : wanted) {
    if (!observed.jobs.contains(child)) {
      if (auto job = jobs_.get({ns, child})) observed.others.emplace(child, std::move(job));
    }
    if (!observed.policies.contains(child)) {
      if (auto policy = policies_.get({ns, child})) observed.other_policies.emplace(child, std::move(policy));
    }
  }
  const rt::MutexLock lock(mutex_);
  if (const auto found = completed_.find(uid); found != completed_.end()) {
    // What is no longer wanted may be wanted again one day, and then it starts anew.
    std::erase_if(found->second, [&wanted](const auto& child) { return !wanted.contains(child.first); });
    observed.completed = found->second;
    if (found->second.empty()) completed_.erase(found);
  }
  return observed;
}

void HyperJobController::add_waiting(const HyperJob& hyper_job, const Observed& observed, PassResult& pass) const {
  for (Problem& problem : unknown_clusters(
           hyper_job.spec, [this](std::string_view name) { return clusters_.get({"", std::string(name)}) != nullptr; }))
    pass.problems.push_back(std::move(problem));
  for (const auto& [name, job] : observed.jobs) {
    if (is_finished_phase(job->status.state.phase)) continue;
    const auto binding = bindings_.get({job->metadata.namespace_, binding_name(name)});
    if (!binding) continue;
    if (auto problem = waiting_problem(*binding, job->metadata.uid, now()))
      pass.problems.push_back(std::move(*problem));
  }
}

Done HyperJobController::write_status(const ObjectKey& key, const HyperJob& hyper_job, const Observed& observed,
                                      const PassResult& pass, const rt::StopToken& stop) {
  const auto status = aggregate_status(hyper_job, observed, pass, now());
  const auto patch = status_patch(hyper_job.status, status);
  if (!patch) return Ok{};
  const auto written = kube::patch_status(client_, kube::resource_of<HyperJob>(), key, *patch,
                                          hyper_job.metadata.resource_version, stop);
  if (!written.ok()) {
    if (written.error().is(Reason::NotFound)) return Ok{};
    return written.error().with_context("write the status of hyper job " + key.to_string());
  }
  expectations_.note_write(key, kube::resource_of<HyperJob>(), kube::resource_version_of(*written));
  {
    const rt::MutexLock lock(mutex_);
    const auto found = completed_.find(hyper_job.metadata.uid);
    if (found != completed_.end()) {
      for (const auto& [name, state] : observed.completed) found->second.erase(name);
      if (found->second.empty()) completed_.erase(found);
    }
  }
  if (is_terminal(status)) tell_end(hyper_job, status);
  return Ok{};
}

void HyperJobController::tell_end(const HyperJob& hyper_job, const api::training::HyperJobStatus& status) {
  const auto* completed = api::find_condition(status.conditions, api::condition_types::kCompleted);
  const bool is_success = completed != nullptr && completed->status == "True";
  const auto* condition =
      is_success ? completed : api::find_condition(status.conditions, api::condition_types::kFailed);
  executor_.event(hyper_job, is_success ? kube::EventType::Normal : kube::EventType::Warning,
                  is_success ? api::event_reasons::kHyperJobCompleted : api::event_reasons::kHyperJobFailed,
                  condition->message);
  metrics_
      .counter("volcano_hyperjob_finished_total", "Hyper jobs that came to their end.",
               {{"result", is_success ? "Completed" : "Failed"}})
      .add();
  log_.info("hyper job is over",
            {{"hyperjob", hyper_job.metadata.namespace_ + "/" + hyper_job.metadata.name}, {"how", condition->message}});
}

void HyperJobController::remember_conflicts(const ObjectKey& key, const std::vector<Problem>& problems) {
  const rt::MutexLock lock(mutex_);
  for (auto child = waiting_for_name_.begin(); child != waiting_for_name_.end();) {
    child->second.erase(key);
    child = child->second.empty() ? waiting_for_name_.erase(child) : std::next(child);
  }
  for (const Problem& problem : problems) {
    if (problem.reason == problem_reasons::kNameConflict) waiting_for_name_[{key.ns, problem.about}].insert(key);
  }
}

void HyperJobController::forget(const ObjectKey& key, const std::string& uid) {
  if (uid.empty()) expectations_.forget(key);
  executor_.forget(key);
  remember_conflicts(key, {});
  const rt::MutexLock lock(mutex_);
  completed_.erase(uid);
}

void HyperJobController::look_at_all_again() {
  hyper_jobs_.for_each(
      [this](const HyperJob& hyper_job) { work_.add({hyper_job.metadata.namespace_, hyper_job.metadata.name}); });
}

void HyperJobController::log_outcome(const ObjectKey& key, const Outcome& outcome) {
  if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
  const bool is_news = work_.retries(key) == 0 && !outcome.error->is(Reason::Conflict);
  log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "hyper job is tried again",
           {{"hyperjob", key.to_string()}, {"error", *outcome.error}});
}

}  // namespace

std::unique_ptr<Controller> make_hyper_job_controller(ControllerContext& context, HyperJobControllerOptions options) {
  return std::make_unique<HyperJobController>(context, options);
}

}  // namespace basalt::controllers::hyperjob
