#include "controllers/job/planner_impl.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "api/gen/names.h"
#include "base/strings.h"

namespace basalt::controllers::job {

namespace group_phase = api::scheduling::pod_group_phase;

void Planner::choose() {
  step_ = step_of(phase_, Action::SyncJob);
  if (choose_command()) return;
  if (!wants_pods(phase_)) {
    plan_.memory.armed.clear();
    std::erase_if(plan_.memory.vanished, [](const VanishedPod& gone) { return !gone.succeeded; });
    if (is_terminal(phase_)) plan_.memory.vanished.clear();
    return;
  }
  const std::vector<JobEvent> events = derive_events(observed_, completed_);
  const Decisions decisions = decide(observed_, events, time_);
  plan_.memory.armed = decisions.armed;
  wake(decisions.wake_after);
  for (const Decision& armed : decisions.newly_armed) {
    tell(kube::EventType::Normal, api::event_reasons::kExecuteAction,
         "Execute action " + armed.match.action_text + " after " + api::Duration(armed.match.timeout).to_string() +
             " (" + std::string(armed.event.event) + ": " + armed.event.text + ")");
  }
  remember(decisions);
  if (decisions.due.empty()) {
    resume_interrupted();
    return;
  }
  const Decision& first = decisions.due.front();
  step_ = step_of(phase_, first.match.action);
  action_ = first.match.action;
  cause_ = std::string(first.event.event) + ": " + first.event.text;
  tell(kube::EventType::Normal, api::event_reasons::kExecuteAction,
       "Start to execute action " + first.match.action_text + " (" + cause_ + ")");
  is_disruption_ = std::ranges::all_of(decisions.due, [this](const Decision& due) {
    return due.event.is_disruption || !step_of(phase_, due.match.action).counts_retry;
  });
  if (step_.kind != Step::Kind::KillTarget) return;
  // Several pods that failed at once are one restart.
  for (const Decision& due : decisions.due) {
    if (is_targeted(due.match.action)) targets_.push_back(target_of(observed_, due.event, due.match.action));
  }
}

void Planner::remember(const Decisions& decisions) {
  auto& memory = plan_.memory;
  std::set<std::string_view> waiting;
  for (const ArmedDelay& delay : decisions.armed)
    waiting.insert(std::string_view(delay.key).substr(delay.key.rfind(' ') + 1));
  // One action a pass: what it does not answer has its turn in the next.
  for (const Decision& due : decisions.due) {
    if (is_targeted(decisions.due.front().match.action) && !is_targeted(due.match.action))
      waiting.insert(due.event.subject);
  }
  const std::vector<CompletedIndexes> recorded = completed_records(job_);
  std::erase_if(memory.vanished, [&](const VanishedPod& gone) {
    if (!gone.succeeded) {
      if (waiting.contains(gone.uid)) return false;
      explained_.push_back(gone);
      return true;
    }
    if (gone.is_marked) return true;
    for (std::size_t t = 0; t < job_.spec.tasks.size(); ++t) {
      if (job_.spec.tasks[t].name == gone.task) return recorded[t].contains(gone.index);
    }
    return true;
  });
  const bool is_unknown = observed_.pod_group && observed_.pod_group->status.phase == group_phase::kUnknown;
  memory.unknown_handled = is_unknown ? observed_.pod_group->metadata.uid : "";
  if (is_unknown && waiting.contains(observed_.pod_group->metadata.uid)) memory.unknown_handled.clear();
}

void Planner::resume_interrupted() {
  if (phase_ == Phase::Restarting) return;
  std::map<std::int32_t, Target> by_task;
  bool any_failed = false;
  bool any_taken = false;
  for (const ObservedPod& pod : observed_.pods) {
    if (!is_wanted(pod) || !pod.is_marked || pod.is_terminating || is_restarted(pod)) continue;
    Target& target = by_task[pod.task];
    target.task = pod.task;
    target.pods.push_back(&pod);
    target.indexes.push_back(pod.index);
    any_failed |= pod.failed_by_itself();
    any_taken |= pod.is_disrupted;
  }
  if (by_task.empty()) return;
  is_disruption_ = any_taken && !any_failed;
  action_ = Action::RestartPod;
  step_ = step_of(phase_, action_);
  cause_ = "pods were marked for a restart that was interrupted";
  for (auto& [task, target] : by_task) targets_.push_back(std::move(target));
  tell(kube::EventType::Normal, api::event_reasons::kExecuteAction,
       "Start to execute action " + std::string(to_string(action_)) + " (" + cause_ + ")");
}

bool Planner::choose_command() {
  const std::string_view done = job_.status.controlled_resources.get(records::kCommand);
  for (const auto& command : observed_.commands) {
    const PlannedCommand reference{command->metadata.name, command->metadata.uid};
    if (command->metadata.uid == done) {  // carried out before a crash; only its deletion is left
      plan_.consumed_commands.push_back(reference);
      continue;
    }
    const std::string what = "command " + command->metadata.name + " (" + command->action + ")";
    if (!command->target->uid.empty() && command->target->uid != job_.metadata.uid) {
      refuse(reference, what + " is for an earlier job of this name, with UID " + command->target->uid);
      continue;
    }
    const Action action = action_of(command->action);
    if (action == Action::Other) {
      refuse(reference, what +
                            " names no action of jobs; use AbortJob, ResumeJob, RestartJob, TerminateJob or "
                            "CompleteJob");
      continue;
    }
    if (is_targeted(action)) {
      refuse(reference, what + " needs a task or pod, which a command cannot name; use a policy");
      continue;
    }
    const Step step = step_of(phase_, action);
    if (!step.enters && action != Action::SyncJob) {
      refuse(reference, what + " has no effect on a job that is " + std::string(to_string(phase_)));
      continue;
    }
    plan_.consumed_commands.push_back(reference);
    tell(kube::EventType::Normal, api::event_reasons::kCommandIssued,
         "Start to execute command " + command->action + ", and clean it up to make sure executed not more than once.");
    if (!step.enters) continue;  // a look at the job, which this pass is
    step_ = step;
    action_ = action;
    cause_ = "CommandIssued: " + command->metadata.name;
    command_uid_ = command->metadata.uid;
    tell(kube::EventType::Normal, api::event_reasons::kExecuteAction, "Start to execute action " + command->action);
    return true;
  }
  return false;
}

void Planner::refuse(const PlannedCommand& command, std::string why) {
  plan_.consumed_commands.push_back(command);
  tell(kube::EventType::Warning, api::event_reasons::kCommandIssued, "Refused: " + std::move(why));
}

}  // namespace basalt::controllers::job
