#include "controllers/job/planner_impl.h"

#include <algorithm>
#include <utility>

#include "api/gen/names.h"
#include "api/gen/scheduling_queue.h"
#include "base/strings.h"
#include "json/writer.h"

namespace basalt::controllers::job {

namespace group_phase = api::scheduling::pod_group_phase;

bool Planner::group_is_admitted() const {
  const auto& group = observed_.pod_group;
  return group && !group->status.phase.empty() && group->status.phase != group_phase::kPending && !group_is_going();
}

bool Planner::group_is_going() const {
  const auto& group = observed_.pod_group;
  return group && (!group->metadata.deletion_timestamp.is_zero() || group->metadata.uid == restarted_group());
}

bool Planner::initiate() {
  if (!has_queue()) return false;
  if (patch_job()) return false;
  const bool has_claims = check_claims();
  const bool has_plugins = check_plugins();
  if (!has_claims && phase_ == Phase::Pending) return false;
  check_group();
  return has_claims && has_plugins && !observed_needs_group();
}

bool Planner::observed_needs_group() const { return !observed_.pod_group; }

bool Planner::has_queue() {
  if (!observed_.queue) {
    wait(waiting::kQueueNotFound, "queue " + base::quote(job_.spec.queue) + " does not exist; create it",
         api::event_reasons::kPodGroupError);
    // A job that has its group goes on: the scheduler decides then.
    return observed_.pod_group != nullptr;
  }
  plan_.build_options.forwarding = !observed_.queue->spec.extend_clusters.empty();
  return true;
}

bool Planner::patch_job() {
  std::string patch;
  json::Writer writer(patch);
  bool any = false;
  writer.begin_array();
  const auto begin = [&](std::string_view op, const std::string& path) {
    writer.begin_object();
    writer.key("op");
    writer.string(op);
    writer.key("path");
    writer.string(path);
    writer.key("value");
  };
  begin("test", "/metadata/uid");
  writer.string(job_.metadata.uid);
  writer.end_object();
  if (plan_.build_options.forwarding && job_.metadata.annotations.get(api::keys::kJobForwarding) != "true") {
    any = true;
    if (job_.metadata.annotations.empty()) {
      begin("add", "/metadata/annotations");
      writer.begin_object();
      writer.key(api::keys::kJobForwarding);
      writer.string("true");
      writer.end_object();
    } else {
      begin("add", "/metadata/annotations/" + base::replace_all(api::keys::kJobForwarding, "/", "~1"));
      writer.string("true");
    }
    writer.end_object();
  }
  for (std::size_t i = 0; i < job_.spec.volumes.size(); ++i) {
    const auto& volume = job_.spec.volumes[i];
    if (!volume.volume_claim_name.empty() || volume.volume_claim.empty()) continue;
    any = true;
    const std::string path = "/spec/volumes/" + std::to_string(i);
    begin("test", path + "/mountPath");
    writer.string(volume.mount_path);
    writer.end_object();
    begin("add", path + "/volumeClaimName");
    writer.string(generated_claim_name(job_, i));
    writer.end_object();
  }
  writer.end_array();
  if (!any) return false;
  plan_.job_patch = std::move(patch);
  return true;
}

bool Planner::check_claims() {
  bool all = true;
  for (std::size_t i = 0; i < job_.spec.volumes.size(); ++i) {
    const auto& volume = job_.spec.volumes[i];
    const std::string& name = volume.volume_claim_name;
    if (name.empty()) continue;  // an emptyDir: the pod builder's
    // Pods of one job do not mount different things: what was a scratch volume stays one.
    const bool is_scratch = job_.status.controlled_resources.contains(std::string(records::kEmptyDirPrefix) + name);
    const auto found = observed_.claims.find(name);
    if (found != observed_.claims.end() && found->second.exists && !is_scratch) continue;
    if (!volume.volume_claim.empty()) {
      plan_.claims.push_back({name, volume.volume_claim});
    } else if (is_scratch || options_.missing_claim == MissingClaim::EmptyDir) {
      plan_.build_options.empty_dir_claims.push_back(name);
    } else {
      wait(waiting::kClaimNotFound,
           "persistent volume claim " + base::quote(name) + " (spec.volumes[" + std::to_string(i) +
               "]) does not exist; create it and the job goes on",
           api::event_reasons::kPvcError);
      all = false;
    }
  }
  return all;
}

bool Planner::check_plugins() {
  if (inputs_.plugins == nullptr) {
    wait(waiting::kPluginError, inputs_.plugin_error, api::event_reasons::kPluginError);
    return false;
  }
  if (inputs_.plugins->all().empty()) return true;
  plan_.plugins_hash = plugins_hash_of(job_, *inputs_.plugins);
  const bool is_recorded = job_.status.controlled_resources.get(records::kPluginHash) == plan_.plugins_hash;
  if (is_recorded || observed_.memory.plugins_hash == plan_.plugins_hash) {
    plan_.ensure_plugin_objects = should_verify();
    return true;
  }
  plan_.ensure_plugin_objects = true;
  return true;  // made before the pods, in the same pass
}

bool Planner::should_verify() {
  constexpr rt::Duration kPatience = std::chrono::minutes(1);
  bool any_waits = false;
  for (const ObservedPod& pod : observed_.pods) {
    if (pod.phase != PodPhase::Pending || pod.is_terminating) continue;
    const rt::Duration age = time_.wall - pod.created;
    if (age >= kPatience) {
      any_waits = true;
    } else {
      wake(kPatience - age);
    }
  }
  if (!any_waits) return false;
  const rt::Duration since = observed_.memory.verified ? time_.now - *observed_.memory.verified : kPatience;
  if (since < kPatience) {
    wake(kPatience - since);
    return false;
  }
  plan_.memory.verified = time_.now;
  wake(kPatience);
  return true;
}

// Of everything that the comparison of the group with the job depends on: its templates need not be read in every pass.
// Empty if something else takes part, such as the values of priority classes.
std::string Planner::group_versions() const {
  if (!observed_.pod_group || job_.metadata.generation == 0) return "";
  const bool has_priorities = std::ranges::any_of(job_.spec.tasks, [](const api::batch::TaskSpec& task) {
    return task.template_.text().find("priorityClassName") != std::string_view::npos;
  });
  const auto& group = observed_.pod_group->metadata;
  if (has_priorities || group.resource_version.empty()) return "";
  return std::to_string(job_.metadata.generation) + " " + group.uid + " " + group.resource_version;
}

void Planner::check_group() {
  if (group_is_going()) {
    end_pod_group();
    return;
  }
  const std::string versions = group_versions();
  if (!versions.empty() && versions == observed_.memory.group_checked) return;
  auto wanted = build_pod_group(job_, inputs_.priority_of);
  if (!wanted.ok()) {
    wait(waiting::kPodGroupError, wanted.error().message, api::event_reasons::kPodGroupError);
    return;
  }
  if (observed_.pod_group) {
    plan_.pod_group_patch = pod_group_patch(*observed_.pod_group, *wanted);
    if (plan_.pod_group_patch.empty()) plan_.memory.group_checked = versions;
  } else {
    plan_.create_pod_group = std::move(wanted).value();
  }
}

void Planner::wait_for_problem() {
  const std::string& reason = observed_.memory.problem_reason;
  for (const std::string_view known : {waiting::kClaimError, waiting::kPluginError, waiting::kPodGroupError}) {
    if (reason == known) wait(known, observed_.memory.problem_message, "");
  }
}

void Planner::wait_for_group() {
  if (observed_.queue && observed_.queue->status.state != api::scheduling::queue_state::kOpen) {
    const std::string& state = observed_.queue->status.state;
    wait(waiting::kQueueNotOpen,
         "queue " + base::quote(job_.spec.queue) + " is " + (state.empty() ? std::string("not open yet") : state) +
             "; it admits no pod group until it is Open",
         "");
    return;
  }
  if (const auto* condition = condition_of_group()) {
    wait(waiting::kPodGroupPending,
         "PodGroup " + job_.metadata.namespace_ + ":" + job_.metadata.name + " " +
             base::to_lower_ascii(condition->type) + ", reason: " + condition->message,
         api::event_reasons::kPodGroupPending);
  } else {
    wait(waiting::kPodGroupPending, "pod group " + pod_group_name(job_) + " " + std::string(waiting::kNotAdmittedYet),
         "");
  }
}

const api::scheduling::PodGroupCondition* Planner::condition_of_group() const {
  const api::scheduling::PodGroupCondition* newest = nullptr;
  if (!observed_.pod_group) return nullptr;
  for (const auto& condition : observed_.pod_group->status.conditions) {
    if (condition.status != "True") continue;
    if (newest == nullptr || condition.last_transition_time >= newest->last_transition_time) newest = &condition;
  }
  const bool is_good = newest != nullptr && newest->type == api::scheduling::pod_group_condition_type::kScheduled;
  return is_good ? nullptr : newest;
}

}  // namespace basalt::controllers::job
