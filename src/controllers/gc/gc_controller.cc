#include "controllers/gc/gc_controller.h"

#include <optional>
#include <utility>

#include "api/gen/names.h"
#include "controllers/gc/ttl_plan.h"
#include "kube/typed.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::gc {
namespace {

using api::ObjectKey;
using api::batch::Job;
using rt::Outcome;

class GcController final : public Controller {
 public:
  GcController(ControllerContext& context, GcControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return api::controllers::kGc; }
  void start() override;
  void stop() override;

 private:
  Outcome reconcile(const ObjectKey& key, const rt::StopToken& stop);
  // Nothing if the job is to be deleted.
  std::optional<Outcome> hold_back(const ObjectKey& key, const Job& job);
  void look_at_all_again();
  void log_outcome(const ObjectKey& key, const Outcome& outcome);

  // Fixed after construction.
  const GcControllerOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::EventRecorder& events_;
  kube::Informer<Job>& jobs_;

  rt::WorkQueue<ObjectKey> work_;                  // self-locking
  std::optional<rt::Workers<ObjectKey>> workers_;  // used only by the owner
};

GcController::GcController(ControllerContext& context, GcControllerOptions options)
    : options_(options),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", api::controllers::kGc}})),
      events_(context.events),
      jobs_(context.informers.jobs()),
      work_(runtime_, {.name = "gc", .backoff = {.cap = options_.backoff_max}},
            [](const ObjectKey& key) { return std::hash<std::string>()(key.ns); }) {
  jobs_.add_handler([this](const kube::Change<Job>& change) {
    if (change.after && has_expiry(*change.after))
      work_.add({change.after->metadata.namespace_, change.after->metadata.name});
  });
}

void GcController::start() {
  workers_.emplace(
      runtime_, work_, rt::WorkersOptions{.name = "gc", .count = options_.workers},
      [this](const ObjectKey& key, const rt::StopToken& stop) { return reconcile(key, stop); },
      [this](const ObjectKey& key, const Outcome& outcome, rt::Duration) { log_outcome(key, outcome); });
}

void GcController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
}

Outcome GcController::reconcile(const ObjectKey& key, const rt::StopToken& stop) {
  if (work_.take_overflowed()) look_at_all_again();
  const auto cached = jobs_.get(key);
  if (!cached) return Outcome::done();
  if (const auto held = hold_back(key, *cached)) return *held;
  // The cache may be old: the job may have been restarted, given more time, or made again under its name.
  const auto fresh = kube::get_object<Job>(client_, key, stop);
  if (!fresh.ok()) return fresh.error().is(Reason::NotFound) ? Outcome::done() : Outcome::failed(fresh.error());
  if (const auto held = hold_back(key, *fresh)) return *held;
  // A restart after this read changes the version, and the job then stays.
  const auto deleted = kube::delete_object(client_, kube::resource_of<Job>(), key,
                                           {.uid = fresh->metadata.uid,
                                            .resource_version = fresh->metadata.resource_version,
                                            .propagation = kube::Propagation::Foreground},
                                           stop);
  if (!deleted.ok()) return Outcome::failed(deleted.error().with_context("delete job " + key.to_string()));
  log_.info("job deleted, because its time after finishing is over",
            {{"job", key.to_string()}, {"ttl_seconds", *fresh->spec.ttl_seconds_after_finished}});
  return Outcome::done();
}

std::optional<Outcome> GcController::hold_back(const ObjectKey& key, const Job& job) {
  const TtlPlan plan = plan_ttl(job, runtime_.wall_now());
  if (plan.finished_in_future) {
    log_.warn("job finished in the future by our clock; clocks differ, and its deletion waits",
              {{"job", key.to_string()}, {"finished", job.status.state.last_transition_time.to_string()}});
  }
  switch (plan.kind) {
    case TtlPlan::Kind::Nothing:
      return Outcome::done();
    case TtlPlan::Kind::Wait:
      return Outcome::retry_after(plan.delay);
    case TtlPlan::Kind::Delete:
      return std::nullopt;
    case TtlPlan::Kind::NoFinishTime:
      break;
  }
  Error error = Error::make(Reason::Invalid, "job " + key.to_string() +
                                                 " is finished, but status.state.lastTransitionTime is missing; it is "
                                                 "not deleted before that is set");
  error.retry_after = std::chrono::duration_cast<std::chrono::milliseconds>(options_.no_finish_time_pause);
  if (work_.retries(key) == 0) {
    events_.event({.api_version = "batch.volcano.sh/v1alpha1",
                   .kind = "Job",
                   .ns = key.ns,
                   .name = key.name,
                   .uid = job.metadata.uid,
                   .resource_version = job.metadata.resource_version},
                  kube::EventType::Warning, api::event_reasons::kJobStatusError, error.message);
  }
  return Outcome::failed(std::move(error));
}

void GcController::look_at_all_again() {
  jobs_.for_each([this](const Job& job) {
    if (has_expiry(job)) work_.add({job.metadata.namespace_, job.metadata.name});
  });
}

void GcController::log_outcome(const ObjectKey& key, const Outcome& outcome) {
  if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
  const bool is_news = work_.retries(key) == 0 && !outcome.error->is(Reason::Conflict);
  log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "deletion is tried again",
           {{"job", key.to_string()}, {"error", *outcome.error}});
}

}  // namespace

std::unique_ptr<Controller> make_gc_controller(ControllerContext& context, GcControllerOptions options) {
  return std::make_unique<GcController>(context, options);
}

}  // namespace basalt::controllers::gc
