#include "controllers/hyperjob/executor.h"

#include <utility>

#include "api/gen/names.h"
#include "api/owner.h"
#include "controllers/hyperjob/children.h"
#include "controllers/hyperjob/job_update.h"

namespace basalt::controllers::hyperjob {
namespace {

using api::ObjectKey;
using api::batch::Job;
using api::karmada::PropagationPolicy;
using api::training::HyperJob;
namespace reasons = api::event_reasons;

// A failure that lasts longer than so many tries is written on the object, even if the next try may mend it.
constexpr std::uint32_t kFailuresTold = 4;
constexpr kube::CallAllOptions kFanOut{.in_flight_max = 32};
constexpr std::string_view kFieldManager = "hyperjob-controller";

kube::Request create_request(const kube::Resource& resource, const std::string& ns, const json::Value& body) {
  return {.verb = kube::Verb::Create,
          .resource = resource,
          .ns = ns,
          .body = body.to_text(),
          .field_manager = std::string(kFieldManager)};
}

json::Object labels_of(const HyperJob& owner, const ChildPlan& child, const Group* group) {
  json::Object labels{{api::keys::kHyperJobName, owner.metadata.name}};
  if (group != nullptr) {
    labels.set(api::keys::kReplicatedJobName, group->name);
    labels.set(api::keys::kTemplateSpecHash, group->template_hash);
  } else {
    labels.set(api::keys::kPropagationPolicyHash, child.policy_hash);
  }
  return labels;
}

struct Target {
  kube::Resource resource;
  ObjectKey key;
  std::string uid;               // the patch is for this very object
  std::string resource_version;  // "" if it does not matter
};

kube::Request patch_request(const Target& target, json::Object labels, const json::Value* spec) {
  json::Object metadata{{"uid", target.uid}, {"labels", std::move(labels)}};
  if (!target.resource_version.empty()) metadata.set("resourceVersion", target.resource_version);
  json::Object body{{"metadata", std::move(metadata)}};
  if (spec != nullptr) body.set("spec", *spec);
  return {.verb = kube::Verb::Patch,
          .resource = target.resource,
          .ns = target.key.ns,
          .name = target.key.name,
          .body = json::Value(std::move(body)).to_text(),
          .patch_type = kube::PatchType::Merge,
          .field_manager = std::string(kFieldManager)};
}

std::string owner_text(const api::meta::ObjectMeta& metadata) {
  const auto* owner = api::controller_of(metadata);
  return owner == nullptr ? "nobody" : owner->kind + " " + owner->name;
}

bool has_work(Step step) { return step == Step::Label || step == Step::Repair || step == Step::Check; }

}  // namespace

struct Executor::Pass {
  const HyperJob& hyper_job;
  const Plan& plan;
  const std::uint32_t failures;
  const rt::StopToken& stop;
  const ObjectKey key{hyper_job.metadata.namespace_, hyper_job.metadata.name};
  Executed done{};
  std::set<std::string> without_policy{};  // children whose policy could not be made
  std::map<std::string, Refusal> refused{};

  [[nodiscard]] const std::string& ns() const { return hyper_job.metadata.namespace_; }
  [[nodiscard]] const Group& group_of(const ChildPlan& child) const { return plan.groups[child.group]; }
};

Executor::Executor(ControllerContext& context, kube::EventRecorder& events, kube::Expectations& expectations)
    : client_(context.client),
      log_(context.log.with({{"controller", "hyperjob-controller"}})),
      events_(events),
      expectations_(expectations),
      metrics_(context.metrics) {}

Executed Executor::carry_out(const HyperJob& hyper_job, const Plan& plan, std::uint32_t failures,
                             const rt::StopToken& stop) {
  Pass pass{hyper_job, plan, failures, stop};
  pass.done.pass.problems = plan.problems;
  create_policies(pass);
  mend_policies(pass);
  create_jobs(pass);
  mend_jobs(pass);
  delete_stale(pass, ChildKind::Job, plan.stale_jobs);
  delete_stale(pass, ChildKind::Policy, plan.stale_policies);
  const rt::MutexLock lock(mutex_);
  if (pass.refused.empty()) {
    refused_.erase(pass.key);
  } else {
    refused_[pass.key] = std::move(pass.refused);
  }
  return std::move(pass.done);
}

void Executor::forget(const ObjectKey& key) {
  const rt::MutexLock lock(mutex_);
  refused_.erase(key);
}

void Executor::create_policies(Pass& pass) {
  std::vector<kube::Request> requests;
  std::vector<const ChildPlan*> children;
  for (const ChildPlan& child : pass.plan.children) {
    if (child.policy == Step::Conflict) add_conflict(pass, ChildKind::Policy, child.name, "");
    if (child.policy == Step::Wait && child.job == Step::Create) pass.without_policy.insert(child.name);
    // A name that somebody else has for the job would only give us a policy without use.
    if (child.policy != Step::Create || child.job == Step::Conflict || child.job == Step::Wait) continue;
    const Group& group = pass.group_of(child);
    requests.push_back(
        create_request(kube::resource_of<PropagationPolicy>(), pass.ns(),
                       policy_body(pass.hyper_job, {.name = child.name, .group = group.name, .hash = child.policy_hash},
                                   policy_spec(child.name, group.clusters))));
    children.push_back(&child);
  }
  const auto answers = client_.call_all(requests, kFanOut, pass.stop);
  for (std::size_t i = 0; i < answers.size(); ++i) take_created(pass, ChildKind::Policy, *children[i], answers[i]);
}

void Executor::create_jobs(Pass& pass) {
  std::vector<kube::Request> requests;
  std::vector<const ChildPlan*> children;
  for (const ChildPlan& child : pass.plan.children) {
    if (child.job == Step::Conflict) add_conflict(pass, ChildKind::Job, child.name, "");
    // A job without its policy could be claimed by another policy, and would stay with it.
    if (child.job != Step::Create || pass.without_policy.contains(child.name)) continue;
    const Group& group = pass.group_of(child);
    requests.push_back(
        create_request(kube::resource_of<Job>(), pass.ns(),
                       job_body(pass.hyper_job, {.name = child.name, .group = group.name, .hash = group.template_hash},
                                job_spec_of_template(group.template_spec))));
    children.push_back(&child);
  }
  const auto answers = client_.call_all(requests, kFanOut, pass.stop);
  for (std::size_t i = 0; i < answers.size(); ++i) take_created(pass, ChildKind::Job, *children[i], answers[i]);
}

void Executor::mend_policies(Pass& pass) {
  for (const ChildPlan& child : pass.plan.children) {
    if (!has_work(child.policy)) continue;
    const auto live = kube::get_object<PropagationPolicy>(client_, {pass.ns(), child.name}, pass.stop);
    if (!live.ok()) {
      if (!live.error().is(Reason::NotFound)) add_failure(pass, reasons::kFailedUpdatePolicy, child.name, live.error());
      continue;  // the cache will tell that it is gone
    }
    if (!api::is_controlled_by(live->metadata, pass.hyper_job.metadata.uid)) continue;
    const auto& clusters = pass.group_of(child).clusters;
    const bool is_right = policy_matches(live->spec, child.name, clusters);
    if (!is_right && !placement_matches(live->spec.placement, clusters) && !may_move(pass, child)) continue;
    const json::Value spec = policy_spec_patch(child.name, clusters);
    const Target target{kube::resource_of<PropagationPolicy>(),
                        {pass.ns(), child.name},
                        live->metadata.uid,
                        live->metadata.resource_version};
    take_written(
        pass, ChildKind::Policy, child.name,
        client_.call(patch_request(target, labels_of(pass.hyper_job, child, nullptr), is_right ? nullptr : &spec),
                     pass.stop));
  }
}

// A change of the placement moves a job that is over as well, and it would run again. The cache may be behind.
bool Executor::may_move(Pass& pass, const ChildPlan& child) {
  const auto job = kube::get_object<Job>(client_, {pass.ns(), child.name}, pass.stop);
  if (job.ok()) return !is_finished_phase(job->status.state.phase);
  if (job.error().is(Reason::NotFound)) return true;
  add_failure(pass, reasons::kFailedUpdatePolicy, child.name, job.error());
  return false;
}

void Executor::mend_jobs(Pass& pass) {
  for (const ChildPlan& child : pass.plan.children) {
    if (has_work(child.job)) check_job(pass, child, pass.group_of(child));
  }
}

void Executor::check_job(Pass& pass, const ChildPlan& child, const Group& group) {
  const ObjectKey key{pass.ns(), child.name};
  if (const auto path = known_refusal(pass, child, group)) return add_refusal(pass, child, *path, false);
  auto response = client_.call(
      {.verb = kube::Verb::Get, .resource = kube::resource_of<Job>(), .ns = key.ns, .name = key.name}, pass.stop);
  if (!response.ok()) {
    if (!response.error().is(Reason::NotFound))
      add_failure(pass, reasons::kFailedUpdateJob, child.name, response.error());
    return;
  }
  auto live = json::Value::parse(*response->body);
  const auto metadata = kube::decode_object<Job>(*response);
  if (!live.ok() || !metadata.ok()) {
    add_failure(pass, reasons::kFailedUpdateJob, child.name, live.ok() ? metadata.error() : live.error());
    return;
  }
  if (!api::is_controlled_by(metadata->metadata, pass.hyper_job.metadata.uid)) return;
  if (is_finished_phase(metadata->status.state.phase)) return;
  const json::Value* spec = live->find("spec");
  JobUpdate update;
  if (child.job == Step::Check) update = plan_job_update(group.template_spec, spec != nullptr ? *spec : json::Value());
  if (update.kind == JobUpdate::Kind::Refused) {
    pass.refused[metadata->metadata.uid] = {group.template_hash, update.path};
    return add_refusal(pass, child, update.path, true);
  }
  const Target target{kube::resource_of<Job>(), key, metadata->metadata.uid, metadata->metadata.resource_version};
  const json::Value* patch = update.kind == JobUpdate::Kind::Allowed ? &update.patch : nullptr;
  take_written(pass, ChildKind::Job, child.name,
               client_.call(patch_request(target, labels_of(pass.hyper_job, child, &group), patch), pass.stop));
}

void Executor::delete_stale(Pass& pass, ChildKind kind, const std::vector<StaleChild>& stale) {
  const bool is_job = kind == ChildKind::Job;
  const kube::Resource resource = is_job ? kube::resource_of<Job>() : kube::resource_of<PropagationPolicy>();
  for (const StaleChild& child : stale) {
    const auto deleted =
        kube::delete_object(client_, resource, {pass.ns(), child.name},
                            {.uid = child.uid, .propagation = kube::Propagation::Background}, pass.stop);
    if (!deleted.ok() && !deleted.error().is(Reason::Conflict)) {
      add_failure(pass, is_job ? reasons::kFailedDeleteJob : reasons::kFailedDeletePolicy, child.name, deleted.error());
      continue;
    }
    if (!deleted.ok()) continue;  // another object has the name by now
    count(kind, "delete");
    expectations_.note_delete(pass.key, resource, child.uid, *deleted);
    event(pass.hyper_job, kube::EventType::Normal, is_job ? reasons::kDeletedJob : reasons::kDeletedPolicy,
          std::string("Deleted ") + (is_job ? "VCJob " : "PropagationPolicy ") + child.name);
  }
}

void Executor::take_created(Pass& pass, ChildKind kind, const ChildPlan& child, const Result<kube::Response>& answer) {
  const bool is_job = kind == ChildKind::Job;
  if (answer.ok()) {
    count(kind, "create");
    expectations_.note_write(pass.key, is_job ? kube::resource_of<Job>() : kube::resource_of<PropagationPolicy>(),
                             kube::resource_version_of(*answer));
    if (is_job) pass.done.pass.created.push_back(child.name);
    event(pass.hyper_job, kube::EventType::Normal, is_job ? reasons::kCreatedJob : reasons::kCreatedPolicy,
          std::string("Created ") + (is_job ? "VCJob " : "PropagationPolicy ") + child.name);
    return;
  }
  if (answer.error().is(Reason::AlreadyExists)) return take_existing(pass, kind, child);
  if (!is_job) pass.without_policy.insert(child.name);
  add_failure(pass, is_job ? reasons::kFailedCreateJob : reasons::kFailedCreatePolicy, child.name, answer.error());
}

// The name is taken: by ourselves, if the cache is behind, or by somebody else.
void Executor::take_existing(Pass& pass, ChildKind kind, const ChildPlan& child) {
  const bool is_job = kind == ChildKind::Job;
  const kube::Resource resource = is_job ? kube::resource_of<Job>() : kube::resource_of<PropagationPolicy>();
  const auto response =
      client_.call({.verb = kube::Verb::Get, .resource = resource, .ns = pass.ns(), .name = child.name}, pass.stop);
  struct Head {
    api::meta::ObjectMeta metadata;
  } head;
  if (response.ok()) {
    if (is_job) {
      if (auto job = kube::decode_object<Job>(*response); job.ok()) head.metadata = std::move(job->metadata);
    } else if (auto policy = kube::decode_object<PropagationPolicy>(*response); policy.ok()) {
      head.metadata = std::move(policy->metadata);
    }
  }
  if (response.ok() && api::is_controlled_by(head.metadata, pass.hyper_job.metadata.uid)) {
    expectations_.note_write(pass.key, resource, head.metadata.resource_version);
    return;
  }
  if (!is_job) pass.without_policy.insert(child.name);
  if (!response.ok()) {
    // Gone again: the next pass makes it.
    const Error error = response.error().is(Reason::NotFound)
                            ? Error::make(Reason::Conflict, child.name + " was being deleted when it was to be made")
                            : response.error();
    return add_failure(pass, is_job ? reasons::kFailedCreateJob : reasons::kFailedCreatePolicy, child.name, error);
  }
  add_conflict(pass, kind, child.name, owner_text(head.metadata));
}

void Executor::take_written(Pass& pass, ChildKind kind, const std::string& child,
                            const Result<kube::Response>& answer) {
  const bool is_job = kind == ChildKind::Job;
  if (!answer.ok()) {
    if (answer.error().is(Reason::NotFound)) return;
    return add_failure(pass, is_job ? reasons::kFailedUpdateJob : reasons::kFailedUpdatePolicy, child, answer.error());
  }
  count(kind, "update");
  expectations_.note_write(pass.key, is_job ? kube::resource_of<Job>() : kube::resource_of<PropagationPolicy>(),
                           kube::resource_version_of(*answer));
  event(pass.hyper_job, kube::EventType::Normal, is_job ? reasons::kUpdatedJob : reasons::kUpdatedPolicy,
        std::string("Updated ") + (is_job ? "VCJob " : "PropagationPolicy ") + child);
}

void Executor::add_conflict(Pass& pass, ChildKind kind, const std::string& child, const std::string& holder) {
  const std::string what = kind == ChildKind::Job ? "a Job" : "a PropagationPolicy";
  const std::string message = what + " of this name exists and is controlled by " +
                              (holder.empty() ? "somebody else" : holder) +
                              "; delete it, or give the hyper job or its entry another name";
  pass.done.pass.problems.push_back({problem_reasons::kNameConflict, child, message});
  if (pass.failures == 0)
    event(pass.hyper_job, kube::EventType::Warning, reasons::kNameConflict, child + ": " + message);
  if (!pass.done.error) pass.done.error = Error::make(Reason::AlreadyExists, child + ": " + message);
}

void Executor::add_failure(Pass& pass, std::string_view event_reason, const std::string& child, const Error& error) {
  if (!pass.done.error || pass.done.error->is(Reason::Conflict)) pass.done.error = error.with_context(child);
  if (error.is(Reason::Conflict) || error.is(Reason::Cancelled)) return;
  event(pass.hyper_job, kube::EventType::Warning, event_reason, child + ": " + error.message);
  if (!error.is_transient() || pass.failures >= kFailuresTold)
    pass.done.pass.problems.push_back({problem_reasons::kChildRefused, child, error.message});
}

// Asking again about the same change of the same job would only cost.
std::optional<std::string> Executor::known_refusal(Pass& pass, const ChildPlan& child, const Group& group) {
  const rt::MutexLock lock(mutex_);
  const auto of_key = refused_.find(pass.key);
  if (of_key == refused_.end()) return std::nullopt;
  const auto found = of_key->second.find(child.job_uid);
  if (found == of_key->second.end() || found->second.hash != group.template_hash) return std::nullopt;
  pass.refused[child.job_uid] = found->second;
  return found->second.path;
}

void Executor::add_refusal(Pass& pass, const ChildPlan& child, const std::string& path, bool is_news) {
  const std::string message = path +
                              " of the template changed, which the Job API does not allow; the job keeps its old "
                              "template. Take the change back, or set the entry's replicas to 0 and then up again";
  pass.done.pass.problems.push_back({problem_reasons::kTemplateImmutable, child.name, message});
  if (is_news) event(pass.hyper_job, kube::EventType::Warning, reasons::kFailedUpdateJob, child.name + ": " + message);
}

void Executor::event(const HyperJob& hyper_job, kube::EventType type, std::string_view reason,
                     const std::string& message) {
  events_.event({.api_version = "training.volcano.sh/v1alpha1",
                 .kind = "HyperJob",
                 .ns = hyper_job.metadata.namespace_,
                 .name = hyper_job.metadata.name,
                 .uid = hyper_job.metadata.uid,
                 .resource_version = hyper_job.metadata.resource_version},
                type, reason, message);
}

void Executor::count(ChildKind kind, std::string_view verb) {
  metrics_
      .counter("volcano_hyperjob_child_writes_total", "Writes of jobs and propagation policies that succeeded.",
               {{"kind", kind == ChildKind::Job ? "Job" : "PropagationPolicy"}, {"verb", std::string(verb)}})
      .add();
}

}  // namespace basalt::controllers::hyperjob
