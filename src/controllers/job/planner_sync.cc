#include "controllers/job/planner_impl.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "controllers/job/status_builder.h"

namespace basalt::controllers::job {

using api::batch::JobStatus;
using api::batch::TaskSpec;

void Planner::sync() {
  const bool can_create = initiate();
  if (!plan_.job_patch.empty()) {
    JobPlan only_patch;
    only_patch.job_patch = std::move(plan_.job_patch);
    only_patch.memory = observed_.memory;
    plan_ = std::move(only_patch);
    return;
  }
  wait_for_problem();
  const bool is_admitted = group_is_admitted();
  if (!is_admitted && !waiting_) wait_for_group();
  for (const ObservedPod& pod : observed_.pods) {
    if (is_restarted(pod)) {
      go(pod);
    } else if (!is_wanted(pod) || pod.is_marked) {
      if (!pod.is_marked && !pod.is_terminating) plan_.marks.push_back({pod.name, pod.uid});
      go(pod);
    }
  }
  if (can_create && is_admitted) create_missing();
  if (is_admitted && phase_ == Phase::Pending && !waiting_ && condition_of_group() != nullptr) wait_for_group();
  JobStatus status = counted();
  status.min_available = job_.spec.min_available;
  record_resources(status);
  auto next = apply_rule(step_.rule, phase_, job_.spec, status);
  // A restart is under way as long as pods are still to be deleted for it; else a mark might be taken for a new one.
  if (phase_ == Phase::Restarting && next == Phase::Pending && !plan_.deletes.empty()) next.reset();
  if (next) {
    enter_phase(status, job_, *next, time_.wall, "", result_text(*next, status));
    if (is_terminal(*next)) {
      plan_.creates.clear();
      drop_completed(status);
      end_pod_group();
      clean_plugins(status);
    }
  } else {
    state_waiting(status);
  }
  write(std::move(status));
}

std::string Planner::result_text(Phase next, const JobStatus& status) const {
  if (next == Phase::Failed && phase_ == Phase::Restarting)
    return "failed " + std::to_string(retries_spent(status)) + " times, which is all that maxRetry allows";
  if (!is_terminal(next)) return "";
  std::string text = std::to_string(status.succeeded) + " of " + std::to_string(total_replicas(job_.spec)) +
                     " pods succeeded, " + std::to_string(status.failed) + " failed";
  const auto failed =
      std::ranges::find_if(observed_.pods, [](const ObservedPod& pod) { return pod.phase == PodPhase::Failed; });
  if (failed != observed_.pods.end()) text += " (" + failed->name + ": " + failure_text(*failed) + ")";
  return text;
}

bool Planner::dependency_is_ready(const std::string& name) const {
  for (std::size_t t = 0; t < job_.spec.tasks.size(); ++t) {
    const TaskSpec& task = job_.spec.tasks[t];
    if (task.name != name) continue;
    std::int32_t ready = completed_[t].size();
    for (const ObservedPod& pod : observed_.pods) {
      if (pod.task == static_cast<std::int32_t>(t) && pod.phase == PodPhase::Running && pod.is_ready &&
          !pod.is_marked && !pod.is_terminating && is_wanted(pod) && !completed_[t].contains(pod.index))
        ++ready;
    }
    return ready >= task.min_available.value_or(task.replicas);
  }
  return false;
}

bool Planner::may_start(const TaskSpec& task) {
  if (!task.depends_on || task.depends_on->name.empty()) return true;
  const auto& names = task.depends_on->name;
  const auto ready = [this](const std::string& name) { return dependency_is_ready(name); };
  const bool any = names.size() > 1 && task.depends_on->iteration == api::batch::dependency_iteration::kAny;
  if (any ? std::any_of(names.begin(), names.end(), ready) : std::all_of(names.begin(), names.end(), ready))
    return true;
  wait(waiting::kDependencyNotReady,
       "task " + task.name + " waits for " + (any ? "one of " : "") + "task " + base::join(names, ", "), "");
  return false;
}

void Planner::create_missing() {
  // What no gang starts without comes first, of every task: should a quota or a slow server let only some of the pods
  // through, it is not spent on the spare ones.
  std::vector<PlannedPod> spare;
  for (std::size_t t = 0; t < job_.spec.tasks.size(); ++t) {
    const TaskSpec& task = job_.spec.tasks[t];
    std::vector<bool> taken(static_cast<std::size_t>(std::max(task.replicas, 0)), false);
    for (const ObservedPod& pod : observed_.pods) {
      if (pod.task == static_cast<std::int32_t>(t) && is_wanted(pod)) taken[static_cast<std::size_t>(pod.index)] = true;
    }
    std::vector<PlannedPod> missing;
    for (std::int32_t i = 0; i < task.replicas; ++i) {
      if (!taken[static_cast<std::size_t>(i)] && !completed_[t].contains(i))
        missing.push_back({static_cast<std::int32_t>(t), i});
    }
    if (missing.empty() || !may_start(task)) continue;
    const std::int64_t there = task.replicas - static_cast<std::int64_t>(missing.size());
    const std::int64_t needed = std::clamp<std::int64_t>(task.min_available.value_or(task.replicas) - there, 0,
                                                         static_cast<std::int64_t>(missing.size()));
    plan_.creates.insert(plan_.creates.end(), missing.begin(), missing.begin() + needed);
    spare.insert(spare.end(), missing.begin() + needed, missing.end());
  }
  plan_.creates_first = plan_.creates.size();
  plan_.creates.insert(plan_.creates.end(), spare.begin(), spare.end());
  if (!plan_.creates.empty() && observed_.memory.problem_reason == waiting::kPodCreateFailed)
    wait(waiting::kPodCreateFailed, observed_.memory.problem_message, "");
}

}  // namespace basalt::controllers::job
