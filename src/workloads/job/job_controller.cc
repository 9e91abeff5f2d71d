#include "workloads/job/job_controller.h"

#include <optional>
#include <utility>

#include "workloads/common/claim.h"
#include "workloads/common/pod_template.h"
#include "workloads/cronjob/cron_job_plan.h"

namespace basalt::workloads {
namespace {

constexpr std::string_view kManager = "kubernetes.io/job-controller";
constexpr std::string_view kIndexVariable = "JOB_COMPLETION_INDEX";

// Every container learns its index from the pod's annotation.
void add_index_variable(json::Value& pod) {
  for (const std::string_view list : {"containers", "initContainers"}) {
    json::Value* containers = pod.find_path({"spec", list});
    if (containers == nullptr || !containers->is_array()) continue;
    for (json::Value& container : containers->as_array()) {
      json::Value& variables = container.ensure_path({"env"});
      if (!variables.is_array()) variables = json::Array();
      bool is_set = false;
      for (const json::Value& variable : variables.as_array()) is_set |= variable.string_at({"name"}) == kIndexVariable;
      if (is_set) continue;
      json::Value variable = json::Object{{"name", kIndexVariable}};
      variable.ensure_path({"valueFrom", "fieldRef", "fieldPath"}) =
          "metadata.annotations['" + std::string(kCompletionIndexAnnotation) + "']";
      variables.as_array().push_back(std::move(variable));
    }
  }
}

json::Value without_finalizer() {
  json::Value body;
  body.ensure_path({"metadata", "$deleteFromPrimitiveList/finalizers"}) = json::Array{kJobTrackingFinalizer};
  return body;
}

json::Value with_finalizer() {
  json::Value body;
  body.ensure_path({"metadata", "finalizers"}) = json::Array{kJobTrackingFinalizer};
  return body;
}

}  // namespace

json::Value job_pod(const Object& job, const JobPlan::Create& create) {
  json::Value pod = pod_of_template(object_at(job.json, {"spec", "template"}), kJobKind, job);
  json::Value& finalizers = pod.ensure_path({"metadata", "finalizers"});
  if (!finalizers.is_array()) finalizers = json::Array();
  finalizers.as_array().emplace_back(kJobTrackingFinalizer);
  std::string prefix = job.metadata.name + "-";
  if (create.index) {
    const std::string index = std::to_string(*create.index);
    prefix += index + "-";
    pod.ensure_path({"metadata", "annotations", kCompletionIndexAnnotation}) = index;
    pod.ensure_path({"metadata", "labels", kCompletionIndexAnnotation}) = index;
    if (create.failures_before)
      pod.ensure_path({"metadata", "annotations", kIndexFailuresAnnotation}) = std::to_string(*create.failures_before);
    if (pod.string_at({"spec", "hostname"}).empty())
      pod.ensure_path({"spec", "hostname"}) = job.metadata.name + "-" + index;
    add_index_variable(pod);
  }
  pod.ensure_path({"metadata", "generateName"}) = prefix;
  return pod;
}

JobController::JobController(Context& context)
    : KeyedController(context, {.name = "job", .kind = kJobKind, .resource = resources::kJobs}, context.caches.jobs) {
  expectations_.connect(context.caches.pods.core());
  context.caches.pods.add_handler([this](const kube::Change<Pod>& change) {
    add_owners(change);
    // Whoever carries our finalizer is our business even if its job is gone.
    if (change.after && change.after->is_tracked && change.after->metadata.owner_kind == kJobKind.kind)
      add({change.after->metadata.namespace_.str(), change.after->metadata.owner_name.str()});
    if (change.after && change.after->metadata.owner_uid.empty() && !change.after->is_being_deleted())
      add_adopters(change.after->metadata.namespace_, change.after->metadata.labels);
  });
}

rt::Outcome JobController::reconcile(const Object& job, const rt::StopToken& stop) {
  const std::string_view manager = job.json.string_at({"spec", "managedBy"});
  if (!manager.empty() && manager != kManager) return rt::Outcome::done();
  if (Done done = release_orphans(job.key(), job.metadata.uid, stop); !done.ok())
    return rt::Outcome::failed(std::move(done).error());
  const auto selector = selector_at(job.json, {"spec", "selector"});
  if (!selector.ok()) return rt::Outcome::failed_for_good(selector.error().with_context("spec.selector"));
  const ClaimRequest request{job, kJobKind, resources::kJobs, resources::kPods, *selector, with_finalizer()};
  const auto pods = claim(context_.caches.pods, writer_, request, stop);
  if (!pods.ok()) return rt::Outcome::failed(pods.error());
  const JobPlan plan = plan_job(job, *pods, context_.runtime.wall_now());
  if (Done done = carry_out(job, plan, stop); !done.ok()) return rt::Outcome::failed(std::move(done).error());
  return done_or_after(plan.look_again);
}

rt::Outcome JobController::gone(const api::ObjectKey& key, const rt::StopToken& stop) {
  Done done = release_orphans(key, {}, stop);
  return done.ok() ? rt::Outcome::done() : rt::Outcome::failed(std::move(done).error());
}

Done JobController::release_orphans(const api::ObjectKey& key, std::string_view job_uid, const rt::StopToken& stop) {
  std::vector<PodPtr> orphans;
  for (PodPtr& pod : context_.caches.pods.by_index(indexes::kTracked, key.ns + "/" + key.name)) {
    if (pod->metadata.owner_uid != job_uid && pod->metadata.owner_kind == kJobKind.kind)
      orphans.push_back(std::move(pod));
  }
  if (orphans.empty()) return Ok{};
  // The job may only be missing in the cache.
  const auto read = writer_.get(resources::kJobs, key, stop);
  if (!read.ok() && !read.error().is(Reason::NotFound)) return read.error();
  if (read.ok()) {
    BASALT_TRY(const Object fresh, object_of(*read));
    std::erase_if(orphans, [&](const PodPtr& pod) { return pod->metadata.owner_uid == fresh.metadata.uid; });
  }
  return release(key, orphans, stop);
}

bool JobController::is_noted(const Object& job) const {
  if (job.metadata.owner_kind != kCronJobKind.kind) return true;
  const auto owner = context_.caches.cron_jobs.get({job.metadata.namespace_, job.metadata.owner_name});
  if (!owner || owner->metadata.uid != job.metadata.owner_uid) return true;
  const auto scheduled = api::Time::parse(annotation_of(job.json, kScheduledAnnotation));
  return !scheduled.ok() || time_at(owner->json, {"status", "lastScheduleTime"}) >= *scheduled;
}

Done JobController::carry_out(const Object& job, const JobPlan& plan, const rt::StopToken& stop) {
  const api::ObjectKey key = job.key();
  if (plan.expires && !is_noted(job))
    return Error::make(Reason::ServiceUnavailable, "its cron job has not noted it yet");
  if (plan.expires) {
    // Only in the version that was seen: a job that changed at this moment is looked at again.
    kube::Request request;
    request.verb = kube::Verb::Delete;
    request.resource = resources::kJobs;
    request.ns = key.ns;
    request.name = key.name;
    request.precondition_uid = job.metadata.uid;
    request.precondition_resource_version = job.metadata.resource_version;
    request.propagation = kube::Propagation::Foreground;
    const auto deleted = context_.client.call(request, stop);
    if (!deleted.ok() && !deleted.error().is(Reason::NotFound)) return deleted.error();
    return Ok{};
  }
  BASALT_TRY_DONE(writer_.write_status(key, resources::kJobs, job, plan.status, stop));
  for (const JobPlan::Event& event : plan.events) tell(job, event.type, event.reason, event.message);
  BASALT_TRY_DONE(release(key, plan.releases, stop));
  BASALT_TRY_DONE(release(key, plan.deletes, stop));
  std::vector<Writer::Target> targets;
  for (const auto* list : {&plan.deletes, &plan.kills}) {
    for (const PodPtr& pod : *list) targets.push_back({pod->metadata.name.str(), pod->metadata.uid.str()});
  }
  BASALT_TRY_DONE(writer_.remove_all(key, resources::kPods, targets, stop));
  for (const Writer::Target& target : targets)
    tell(job, kube::EventType::Normal, "SuccessfulDelete", "Deleted pod: " + target.name);
  return create_pods(job, plan.creates, stop);
}

Done JobController::release(const api::ObjectKey& key, const std::vector<PodPtr>& pods, const rt::StopToken& stop) {
  std::vector<Writer::Patch> patches;
  for (const PodPtr& pod : pods) {
    if (!pod->is_tracked) continue;
    patches.push_back({.target = {pod->metadata.name.str(), pod->metadata.uid.str()},
                       .body = without_finalizer(),
                       .type = kube::PatchType::StrategicMerge});
  }
  return writer_.patch_all(key, resources::kPods, patches, stop);
}

Done JobController::create_pods(const Object& job, const std::vector<JobPlan::Create>& creates,
                                const rt::StopToken& stop) {
  if (creates.empty()) return Ok{};
  std::vector<json::Value> pods;
  for (const JobPlan::Create& create : creates) {
    json::Value& pod = pods.emplace_back(job_pod(job, create));
    const std::string prefix(pod.string_at({"metadata", "generateName"}));
    pod.ensure_path({"metadata", "name"}) = generated_name(context_.runtime, prefix);
  }
  const auto results = writer_.create_all(job.key(), resources::kPods, pods, stop);
  std::optional<Error> error;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string name(pods[i].string_at({"metadata", "name"}));
    if (results[i].ok()) {
      tell(job, kube::EventType::Normal, "SuccessfulCreate", "Created pod: " + name);
    } else if (!error || error->is(Reason::Cancelled)) {
      error = results[i].error();
    }
  }
  if (!error) return Ok{};
  if (!error->is_transient() && !error->is(Reason::AlreadyExists) && !error->is(Reason::Cancelled))
    tell(job, kube::EventType::Warning, "FailedCreate", "Error creating: " + error->message);
  return error->with_context("a pod could not be made");
}

}  // namespace basalt::workloads
