#include "controllers/hyperjob/plan.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "api/names.h"
#include "api/owner.h"
#include "base/strings.h"
#include "controllers/hyperjob/children.h"
#include "controllers/hyperjob/hash.h"

namespace basalt::controllers::hyperjob {
namespace {

using api::training::HyperJob;
namespace phases = api::batch::job_phase;

// A child of an earlier hyper job of the same name: garbage collection takes it away.
template <class T>
bool is_of_predecessor(const T& object, const HyperJob& hyper_job) {
  const auto* owner = api::controller_of(object.metadata);
  return owner != nullptr && owner->kind == HyperJob::kind_info().kind && owner->name == hyper_job.metadata.name;
}

std::optional<std::string> complaint_about_names(const HyperJob& hyper_job, const Group& group) {
  if (!api::is_label_value(hyper_job.metadata.name))
    return "the hyper job's name has " + std::to_string(hyper_job.metadata.name.size()) +
           " characters; it becomes a label value, which has at most 63. Make it again with a shorter name";
  if (!api::is_dns1123_label(group.name))
    return "name \"" + group.name + "\": " + base::join(api::dns1123_label_complaints(group.name), "; ");
  const std::string last =
      child_name(hyper_job.metadata.name, group.name, std::max<std::int64_t>(group.replicas - 1, 0));
  if (last.size() > kNameMax)
    return "the job's name " + last + " has " + std::to_string(last.size()) + " characters; at most " +
           std::to_string(kNameMax) + " are allowed. Choose shorter names";
  return std::nullopt;
}

class Planner {
 public:
  Planner(const HyperJob& hyper_job, const Observed& observed) : hyper_job_(hyper_job), observed_(observed) {}

  Plan run() {
    std::int64_t total = 0;
    for (const auto& entry : hyper_job_.spec.replicated_jobs) {
      add_group(entry);
      total += plan_.groups.back().replicas;
    }
    if (total > kChildrenMax) {
      plan_.problems.push_back({problem_reasons::kTooManyJobs, hyper_job_.metadata.name,
                                "the replicas of all entries are " + std::to_string(total) + " jobs; at most " +
                                    std::to_string(kChildrenMax) +
                                    " are made. Nothing is changed until there are fewer"});
      for (Group& group : plan_.groups) group.is_usable = false;
      return std::move(plan_);
    }
    for (std::size_t i = 0; i < plan_.groups.size(); ++i) add_children(i);
    add_stale();
    return std::move(plan_);
  }

 private:
  void add_group(const api::training::ReplicatedJob& entry) {
    Group group;
    group.name = entry.name;
    group.replicas = std::max<std::int64_t>(entry.replicas_or_default(), 0);
    group.clusters = entry.cluster_names;
    group.template_spec = entry.template_spec.value();
    auto hash = spec_hash(group.template_spec);
    std::optional<std::string> complaint = complaint_about_names(hyper_job_, group);
    if (!complaint && entry.replicas_or_default() < 0)
      complaint = "replicas is " + std::to_string(entry.replicas_or_default()) + "; give 0 or more";
    if (!complaint && !hash.ok()) complaint = hash.error().message;
    if (hash.ok()) group.template_hash = std::move(*hash);
    if (complaint) {
      group.is_usable = false;
      plan_.problems.push_back({problem_reasons::kInvalidSpec, "entry " + entry.name, std::move(*complaint)});
    }
    plan_.groups.push_back(std::move(group));
  }

  void add_children(std::size_t index) {
    const Group& group = plan_.groups[index];
    for (std::int64_t i = 0; i < group.replicas; ++i) {
      ChildPlan child;
      child.name = child_name(hyper_job_.metadata.name, group.name, i);
      child.group = index;
      child.index = i;
      wanted_.insert(child.name);
      if (!group.is_usable) continue;
      auto policy = spec_hash(policy_spec(child.name, group.clusters));
      child.policy_hash = policy.ok() ? std::move(*policy) : std::string();
      if (const auto job = observed_.jobs.find(child.name); job != observed_.jobs.end())
        child.job_uid = job->second->metadata.uid;
      if (!is_left_alone(child.name)) {
        child.job = job_step(child, group);
        child.policy = policy_step(child, group);
      }
      plan_.children.push_back(std::move(child));
    }
  }

  // It is over, so that nothing may touch it.
  [[nodiscard]] bool is_left_alone(const std::string& name) const {
    if (recorded_phase(hyper_job_.status, name) == phases::kCompleted || observed_.completed.contains(name))
      return true;
    const auto found = observed_.jobs.find(name);
    return found != observed_.jobs.end() && is_finished_phase(found->second->status.state.phase);
  }

  [[nodiscard]] Step job_step(const ChildPlan& child, const Group& group) const {
    if (const auto other = observed_.others.find(child.name); other != observed_.others.end())
      return is_of_predecessor(*other->second, hyper_job_) ? Step::Wait : Step::Conflict;
    const auto found = observed_.jobs.find(child.name);
    if (found == observed_.jobs.end()) return Step::Create;
    const auto& metadata = found->second->metadata;
    if (!metadata.deletion_timestamp.is_zero()) return Step::Wait;
    if (metadata.labels.get(api::keys::kTemplateSpecHash) != group.template_hash) return Step::Check;
    const bool is_labelled = metadata.labels.get(api::keys::kHyperJobName) == hyper_job_.metadata.name &&
                             metadata.labels.get(api::keys::kReplicatedJobName) == group.name;
    return is_labelled ? Step::Nothing : Step::Label;
  }

  [[nodiscard]] Step policy_step(const ChildPlan& child, const Group& group) const {
    if (const auto other = observed_.other_policies.find(child.name); other != observed_.other_policies.end())
      return is_of_predecessor(*other->second, hyper_job_) ? Step::Wait : Step::Conflict;
    const auto found = observed_.policies.find(child.name);
    if (found == observed_.policies.end()) return Step::Create;
    const auto& policy = *found->second;
    if (!policy.metadata.deletion_timestamp.is_zero()) return Step::Wait;
    if (!policy_matches(policy.spec, child.name, group.clusters)) return Step::Repair;
    const bool is_labelled = policy.metadata.labels.get(api::keys::kHyperJobName) == hyper_job_.metadata.name &&
                             policy.metadata.labels.get(api::keys::kPropagationPolicyHash) == child.policy_hash;
    return is_labelled ? Step::Nothing : Step::Label;
  }

  void add_stale() {
    for (const auto& [name, job] : observed_.jobs) {
      if (!wanted_.contains(name) && job->metadata.deletion_timestamp.is_zero())
        plan_.stale_jobs.push_back({name, job->metadata.uid});
    }
    for (const auto& [name, policy] : observed_.policies) {
      if (!wanted_.contains(name) && policy->metadata.deletion_timestamp.is_zero())
        plan_.stale_policies.push_back({name, policy->metadata.uid});
    }
  }

  const HyperJob& hyper_job_;
  const Observed& observed_;
  Plan plan_;
  std::set<std::string> wanted_;
};

bool is_write(Step step) {
  return step == Step::Create || step == Step::Label || step == Step::Check || step == Step::Repair;
}

}  // namespace

std::string_view to_string(Step step) {
  switch (step) {
    case Step::Nothing:
      return "nothing";
    case Step::Create:
      return "create";
    case Step::Label:
      return "label";
    case Step::Check:
      return "check";
    case Step::Repair:
      return "repair";
    case Step::Wait:
      return "wait";
    case Step::Conflict:
      return "conflict";
  }
  return "";
}

bool Plan::has_writes() const {
  return !stale_jobs.empty() || !stale_policies.empty() ||
         std::any_of(children.begin(), children.end(),
                     [](const ChildPlan& child) { return is_write(child.policy) || is_write(child.job); });
}

bool is_terminal(const api::training::HyperJobStatus& status) {
  return api::is_condition_true(status.conditions, api::condition_types::kCompleted) ||
         api::is_condition_true(status.conditions, api::condition_types::kFailed);
}

bool is_finished_phase(std::string_view phase) {
  return phase == phases::kCompleted || phase == phases::kFailed || phase == phases::kAborted ||
         phase == phases::kTerminated;
}

std::string_view recorded_phase(const api::training::HyperJobStatus& status, std::string_view child) {
  for (const auto& group : status.replicated_jobs_status) {
    if (const auto found = group.job_states.find(std::string(child)); found != group.job_states.end())
      return found->second.phase;
  }
  return {};
}

std::int32_t split_count(const api::training::HyperJobSpec& spec) {
  std::int64_t total = 0;
  for (const auto& entry : spec.replicated_jobs) total += std::max<std::int32_t>(entry.replicas_or_default(), 0);
  return static_cast<std::int32_t>(std::min<std::int64_t>(total, std::numeric_limits<std::int32_t>::max()));
}

Plan plan_children(const HyperJob& hyper_job, const Observed& observed) { return Planner(hyper_job, observed).run(); }

}  // namespace basalt::controllers::hyperjob
