#include <algorithm>
#include <optional>
#include <utility>

#include "api/gen/names.h"
#include "base/strings.h"
#include "controllers/jobflow/flow_writes.h"
#include "controllers/jobflow/jobflow_controller.h"
#include "kube/typed.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::jobflow {
namespace {

using api::ObjectKey;
using api::batch::Job;
using api::flow::JobTemplate;
using rt::Outcome;

// Jobs come in groups; each would be a write of the whole list.
constexpr rt::Duration kGatherDelay = std::chrono::milliseconds(200);
// Names in a template's status: with the longest names a third of what an object may have. Of more, the first in order.
constexpr std::size_t kUsersMax = 2'000;

class JobTemplateController final : public Controller {
 public:
  JobTemplateController(ControllerContext& context, JobTemplateControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return api::controllers::kJobTemplate; }
  void start() override;
  void stop() override;

 private:
  void on_job(const kube::Change<Job>& change);
  Outcome reconcile(const ObjectKey& key, const rt::StopToken& stop);
  void log_outcome(const ObjectKey& key, const Outcome& outcome);

  // Fixed after construction.
  const JobTemplateControllerOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::Informer<JobTemplate>& templates_;
  kube::Informer<Job>& jobs_;

  rt::WorkQueue<ObjectKey> work_;                  // self-locking
  std::optional<rt::Workers<ObjectKey>> workers_;  // used only by the owner
};

JobTemplateController::JobTemplateController(ControllerContext& context, JobTemplateControllerOptions options)
    : options_(options),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", api::controllers::kJobTemplate}})),
      templates_(context.informers.job_templates()),
      jobs_(context.informers.jobs()),
      work_(runtime_, {.name = "jobtemplate", .backoff = {.cap = options_.backoff_max}},
            [](const ObjectKey& key) { return std::hash<std::string>()(key.ns); }) {
  templates_.add_handler([this](const kube::Change<JobTemplate>& change) {
    if (change.after) work_.add({change.after->metadata.namespace_, change.after->metadata.name});
  });
  jobs_.add_handler([this](const kube::Change<Job>& change) { on_job(change); });
}

void JobTemplateController::on_job(const kube::Change<Job>& change) {
  if (change.is_updated() && change.before->metadata.labels == change.after->metadata.labels) return;
  for (const auto& job : {change.before, change.after}) {
    if (!job) continue;
    // A namespace has no dot, so the rest is the template's name, dots and all.
    const auto origin = base::split_once(job->metadata.labels.get(api::keys::kCreatedByJobTemplate), '.');
    if (origin && origin->first == job->metadata.namespace_)
      work_.add_after({job->metadata.namespace_, std::string(origin->second)}, kGatherDelay);
  }
}

void JobTemplateController::start() {
  workers_.emplace(
      runtime_, work_, rt::WorkersOptions{.name = "jobtemplate", .count = options_.workers},
      [this](const ObjectKey& key, const rt::StopToken& stop) { return reconcile(key, stop); },
      [this](const ObjectKey& key, const Outcome& outcome, rt::Duration) { log_outcome(key, outcome); });
}

void JobTemplateController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
}

Outcome JobTemplateController::reconcile(const ObjectKey& key, const rt::StopToken& stop) {
  if (work_.take_overflowed()) {
    templates_.for_each([this](const JobTemplate& one) { work_.add({one.metadata.namespace_, one.metadata.name}); });
  }
  const auto job_template = templates_.get(key);
  if (!job_template || job_template->metadata.deletion_timestamp) return Outcome::done();
  std::vector<std::string> users;
  for (const auto& job : jobs_.by_index(indexes::kByTemplate, key.ns + "." + key.name)) {
    if (job->metadata.namespace_ == key.ns) users.push_back(job->metadata.name);
  }
  std::ranges::sort(users);
  if (users.size() > kUsersMax) users.resize(kUsersMax);
  if (users == job_template->status.job_depends_on_list) return Outcome::done();
  const auto written = client_.call(users_patch(*job_template, users), stop);
  if (written.ok() || written.error().is(Reason::NotFound)) return Outcome::done();
  return Outcome::failed(written.error().with_context("write status of job template " + key.to_string()));
}

void JobTemplateController::log_outcome(const ObjectKey& key, const Outcome& outcome) {
  if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
  const bool is_news = work_.retries(key) == 0 && !outcome.error->is(Reason::Conflict);
  log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "job template is tried again",
           {{"template", key.to_string()}, {"error", *outcome.error}});
}

}  // namespace

std::unique_ptr<Controller> make_job_template_controller(ControllerContext& context,
                                                         JobTemplateControllerOptions options) {
  return std::make_unique<JobTemplateController>(context, options);
}

}  // namespace basalt::controllers::jobflow
