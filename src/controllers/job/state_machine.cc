#include "controllers/job/state_machine.h"

#include <algorithm>

#include "api/gen/bus.h"
#include "base/strings.h"

namespace basalt::controllers::job {
namespace {

using api::batch::JobSpec;
using api::batch::JobStatus;
using api::batch::TaskSpec;

constexpr Step sync(Rule rule) { return {.kind = Step::Kind::Sync, .rule = rule}; }
constexpr Step drain() { return {.kind = Step::Kind::Kill, .rule = Rule::Drain}; }
constexpr Step rest() { return {.kind = Step::Kind::Kill, .rule = Rule::None}; }
constexpr Step enter(Phase phase) { return {.kind = Step::Kind::Kill, .enters = phase}; }
constexpr Step restart() {
  return {.kind = Step::Kind::Kill, .retain = Retain::None, .enters = Phase::Restarting, .counts_retry = true};
}
constexpr Step resume() {
  return {.kind = Step::Kind::Kill, .enters = Phase::Restarting, .counts_retry = true, .counts_resume = true};
}
constexpr Step restart_target() {
  return {.kind = Step::Kind::KillTarget, .enters = Phase::Restarting, .counts_retry = true};
}

// Pending and Running differ in the rule only.
Step step_of_active(Action action, Rule rule) {
  switch (action) {
    case Action::RestartJob:
      return restart();
    case Action::RestartTask:
    case Action::RestartPod:
    case Action::RestartPartition:
      return restart_target();
    case Action::AbortJob:
      return enter(Phase::Aborting);
    case Action::CompleteJob:
      return enter(Phase::Completing);
    case Action::TerminateJob:
      return enter(Phase::Terminating);
    case Action::SyncJob:
    case Action::ResumeJob:
    case Action::Other:
      break;
  }
  return sync(rule);
}

// Differs: Volcano kills every pod on Abort, Terminate, Complete, Resume and unknown actions here, and stays in
// Restarting. We honour the first three, and the others are no reason to run finished pods again.
Step step_of_restarting(Action action) {
  switch (action) {
    case Action::RestartJob:
      return {.kind = Step::Kind::Kill, .retain = Retain::None, .enters = Phase::Restarting};
    case Action::RestartTask:
    case Action::RestartPod:
    case Action::RestartPartition:
      return {.kind = Step::Kind::KillTarget, .enters = Phase::Restarting};
    case Action::AbortJob:
      return enter(Phase::Aborting);
    case Action::CompleteJob:
      return enter(Phase::Completing);
    case Action::TerminateJob:
      return enter(Phase::Terminating);
    case Action::SyncJob:
    case Action::ResumeJob:
    case Action::Other:
      break;
  }
  return sync(Rule::Restarting);
}

std::int32_t task_minimum(const TaskSpec& task) { return task.min_available.value_or(task.replicas); }

std::int32_t succeeded_of(const JobStatus& status, const std::string& task) {
  const auto found = status.task_status_count.find(task);
  if (found == status.task_status_count.end()) return 0;
  const auto count = found->second.phase.find("Succeeded");
  return count == found->second.phase.end() ? 0 : count->second;
}

// All pods are finished: did it go well?
Phase result_of(const JobSpec& spec, const JobStatus& status) {
  std::int64_t minimums = 0;
  for (const TaskSpec& task : spec.tasks) minimums += task_minimum(task);
  if (spec.min_available >= minimums) {
    for (const TaskSpec& task : spec.tasks) {
      if (!task.min_available || !status.task_status_count.contains(task.name)) continue;
      if (succeeded_of(status, task.name) < *task.min_available) return Phase::Failed;
    }
  }
  if (spec.min_success && status.succeeded < *spec.min_success) return Phase::Failed;
  return status.succeeded >= spec.min_available ? Phase::Completed : Phase::Failed;
}

std::optional<Phase> running_rule(const JobSpec& spec, const JobStatus& status) {
  const std::int32_t replicas = total_replicas(spec);
  if (replicas == 0) return std::nullopt;
  if (spec.min_success && status.succeeded >= *spec.min_success) return Phase::Completed;
  if (status.succeeded + status.failed == replicas) return result_of(spec, status);
  if (status.pending > replicas - spec.min_available) return Phase::Pending;
  return std::nullopt;
}

std::optional<Phase> restarting_rule(const JobSpec& spec, const JobStatus& status) {
  if (retries_spent(status) >= max_retry_of(spec)) return Phase::Failed;
  if (total_replicas(spec) - status.terminating >= status.min_available) return Phase::Pending;
  return std::nullopt;
}

std::optional<Phase> drain_rule(Phase phase, const JobStatus& status) {
  if (status.terminating + status.pending + status.running + status.unknown_count > 0) return std::nullopt;
  switch (phase) {
    case Phase::Aborting:
      return Phase::Aborted;
    case Phase::Completing:
      return Phase::Completed;
    case Phase::Terminating:
      return Phase::Terminated;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string_view to_string(Phase phase) {
  namespace words = api::batch::job_phase;
  switch (phase) {
    case Phase::Pending:
      return words::kPending;
    case Phase::Running:
      return words::kRunning;
    case Phase::Restarting:
      return words::kRestarting;
    case Phase::Aborting:
      return words::kAborting;
    case Phase::Aborted:
      return words::kAborted;
    case Phase::Completing:
      return words::kCompleting;
    case Phase::Completed:
      return words::kCompleted;
    case Phase::Terminating:
      return words::kTerminating;
    case Phase::Terminated:
      return words::kTerminated;
    case Phase::Failed:
      return words::kFailed;
  }
  return words::kPending;
}

Phase phase_of(std::string_view text) {
  for (const Phase phase : kAllPhases) {
    if (to_string(phase) == text) return phase;
  }
  return Phase::Pending;
}

std::string_view to_string(Action action) {
  namespace words = api::bus::action;
  switch (action) {
    case Action::SyncJob:
      return words::kSyncJob;
    case Action::AbortJob:
      return words::kAbortJob;
    case Action::RestartJob:
      return words::kRestartJob;
    case Action::RestartTask:
      return words::kRestartTask;
    case Action::RestartPod:
      return words::kRestartPod;
    case Action::RestartPartition:
      return words::kRestartPartition;
    case Action::TerminateJob:
      return words::kTerminateJob;
    case Action::CompleteJob:
      return words::kCompleteJob;
    case Action::ResumeJob:
      return words::kResumeJob;
    case Action::Other:
      return "Other";
  }
  return words::kSyncJob;
}

Action action_of(std::string_view text) {
  for (const Action action : kAllActions) {
    if (action != Action::Other && to_string(action) == text) return action;
  }
  return Action::Other;
}

Step step_of(Phase phase, Action action) {
  switch (phase) {
    case Phase::Pending:
      return step_of_active(action, Rule::Pending);
    case Phase::Running:
      return step_of_active(action, Rule::Running);
    case Phase::Restarting:
      return step_of_restarting(action);
    case Phase::Aborting:
      return action == Action::ResumeJob ? resume() : drain();
    case Phase::Aborted:
      return action == Action::ResumeJob ? resume() : rest();
    case Phase::Completing:
    case Phase::Terminating:
      return drain();
    case Phase::Completed:
    case Phase::Terminated:
    case Phase::Failed:
      return rest();
  }
  return rest();
}

std::int32_t max_retry_of(const JobSpec& spec) { return spec.max_retry == 0 ? 3 : spec.max_retry; }

std::int32_t retries_spent(const JobStatus& status) {
  std::int64_t spent = status.retry_count;
  for (const std::string_view free : {records::kResumes, records::kDisruptions}) {
    const auto count = base::parse_int64(status.controlled_resources.get(free)).value_or(0);
    if (count > 0) spent -= std::min<std::int64_t>(count, status.retry_count);
  }
  return static_cast<std::int32_t>(spent);
}

std::int32_t total_replicas(const JobSpec& spec) {
  std::int32_t sum = 0;
  for (const TaskSpec& task : spec.tasks) sum += task.replicas;
  return sum;
}

std::optional<Phase> apply_rule(Rule rule, Phase phase, const JobSpec& spec, const JobStatus& status) {
  switch (rule) {
    case Rule::None:
      return std::nullopt;
    case Rule::Pending:
      if (spec.min_available <= status.running + status.succeeded + status.failed) return Phase::Running;
      return std::nullopt;
    case Rule::Running:
      return running_rule(spec, status);
    case Rule::Restarting:
      return restarting_rule(spec, status);
    case Rule::Drain:
      return drain_rule(phase, status);
  }
  return std::nullopt;
}

}  // namespace basalt::controllers::job
