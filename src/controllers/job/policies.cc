#include "controllers/job/policies.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "api/gen/scheduling_podgroup.h"

namespace basalt::controllers::job {
namespace {

using api::batch::LifecyclePolicy;
using api::batch::TaskSpec;
namespace event = api::bus::event;

bool is_current(const ObservedPod& pod, const ObservedJob& observed) {
  return pod.task >= 0 && !pod.is_marked && pod.version >= observed.job->status.version &&
         pod.index < observed.job->spec.tasks[static_cast<std::size_t>(pod.task)].replicas;
}

JobEvent about_pod(std::string_view name, const ObservedPod& pod, std::string text) {
  return {.event = name,
          .task = pod.task,
          .pod = &pod,
          .index = pod.index,
          .subject = pod.uid,
          .partition = pod.partition,
          .exit_code = name == event::kPodFailed ? pod.exit_code : 0,
          .is_disruption = name == event::kPodEvicted || (name == event::kPodFailed && pod.is_disrupted),
          .text = std::move(text)};
}

void pod_events(const ObservedJob& observed, const std::vector<CompletedIndexes>& completed,
                std::vector<JobEvent>& events) {
  for (const ObservedPod& pod : observed.pods) {
    if (!is_current(pod, observed)) continue;
    if (pod.phase == PodPhase::Failed) {
      events.push_back(about_pod(event::kPodFailed, pod,
                                 "pod " + pod.name + " failed with exit code " + std::to_string(pod.exit_code) +
                                     (pod.failure.empty() ? "" : " (" + pod.failure + ")")));
    } else if (pod.is_terminating) {
      // Somebody else's deletion. It is told at its start, which a restarted controller sees as well; Volcano tells it
      // when the object is gone.
      if (pod.phase != PodPhase::Succeeded && !completed[static_cast<std::size_t>(pod.task)].contains(pod.index))
        events.push_back(about_pod(event::kPodEvicted, pod, "pod " + pod.name + " was deleted"));
    } else if (pod.phase == PodPhase::Pending) {
      events.push_back(about_pod(event::kPodPending, pod, "pod " + pod.name + " is pending"));
    }
  }
}

std::int32_t recorded_pods(const api::batch::JobStatus& status, const std::string& task) {
  const auto found = status.task_status_count.find(task);
  if (found == status.task_status_count.end()) return 0;
  std::int32_t sum = 0;
  for (const auto& [phase, count] : found->second.phase) sum += count;
  return sum;
}

// Pods that existed, by the recorded counters or by what the watch showed, and exist no more.
void missing_pod_events(const ObservedJob& observed, const std::vector<CompletedIndexes>& completed,
                        std::vector<JobEvent>& events) {
  const auto& job = *observed.job;
  for (std::size_t t = 0; t < job.spec.tasks.size(); ++t) {
    const TaskSpec& task = job.spec.tasks[t];
    const auto replicas = static_cast<std::size_t>(std::max(task.replicas, 0));
    std::vector<bool> present(replicas, false);
    std::vector<const ObservedPod*> pods(replicas, nullptr);
    std::size_t present_count = 0;
    for (const ObservedPod& pod : observed.pods) {
      if (pod.task != static_cast<std::int32_t>(t) || pod.index < 0 || pod.index >= task.replicas) continue;
      const auto at = static_cast<std::size_t>(pod.index);
      if (!present[at]) ++present_count;
      present[at] = true;
      pods[at] = &pod;
    }
    for (std::size_t i = 0; i < replicas; ++i) {
      if (!present[i] && completed[t].contains(static_cast<std::int32_t>(i))) {
        present[i] = true;
        ++present_count;
      }
    }
    std::set<std::int32_t> told;
    std::size_t explained = 0;  // missing for a reason that is ours
    for (const VanishedPod& gone : observed.memory.vanished) {
      if (gone.task != task.name || gone.index < 0 || gone.index >= task.replicas || gone.succeeded) continue;
      // A successor of the evicted pod that runs ends what was to be done about it.
      const ObservedPod* successor = pods[static_cast<std::size_t>(gone.index)];
      if (successor != nullptr && successor->phase != PodPhase::Pending) continue;
      if (gone.is_marked || gone.version < job.status.version) {
        if (!present[static_cast<std::size_t>(gone.index)]) ++explained;
        continue;
      }
      if (!told.insert(gone.index).second) continue;
      events.push_back({.event = event::kPodEvicted,
                        .task = static_cast<std::int32_t>(t),
                        .index = gone.index,
                        .subject = gone.uid,
                        .partition = gone.partition,
                        .is_disruption = !gone.failed_by_itself,
                        .text = "pod " + gone.name + " was deleted"});
    }
    const auto recorded = static_cast<std::size_t>(std::min(recorded_pods(job.status, task.name), task.replicas));
    std::size_t unexplained = recorded > present_count + explained ? recorded - present_count - explained : 0;
    for (std::size_t i = 0; i < replicas && unexplained > 0; ++i) {
      if (present[i]) continue;
      --unexplained;
      const auto index = static_cast<std::int32_t>(i);
      if (!told.insert(index).second) continue;
      const auto& policy = task.partition_policy;
      events.push_back(
          {.event = event::kPodEvicted,
           .task = static_cast<std::int32_t>(t),
           .index = index,
           .subject = "missing " + task.name + "-" + std::to_string(i),
           .partition = policy && policy->partition_size > 0 ? std::to_string(index / policy->partition_size) : "",
           .is_disruption = true,
           .text = "pod " + job.metadata.name + "-" + task.name + "-" + std::to_string(i) + " is gone"});
    }
  }
}

void task_events(const ObservedJob& observed, const std::vector<CompletedIndexes>& completed,
                 std::vector<JobEvent>& events) {
  const auto& job = *observed.job;
  for (std::size_t t = 0; t < job.spec.tasks.size(); ++t) {
    const TaskSpec& task = job.spec.tasks[t];
    if (task.replicas <= 0) continue;
    const auto position = static_cast<std::int32_t>(t);
    if (completed[t].size() >= task.replicas && completed[t].version() >= job.status.version) {
      events.push_back({.event = event::kTaskCompleted,
                        .task = position,
                        .subject = task.name,
                        .text = "all pods of task " + task.name + " succeeded"});
    }
    if (task.max_retry == -1) continue;
    std::int64_t restarts = 0;
    const ObservedPod* worst = nullptr;
    for (const ObservedPod& pod : observed.pods) {
      if (pod.task != position || !is_current(pod, observed) || pod.is_terminating) continue;
      if (pod.phase != PodPhase::Running && pod.phase != PodPhase::Pending) continue;
      restarts += pod.restarts;
      if (worst == nullptr || pod.restarts > worst->restarts) worst = &pod;
    }
    if (worst == nullptr || restarts < (task.max_retry == 0 ? 3 : task.max_retry)) continue;
    JobEvent failed =
        about_pod(event::kTaskFailed, *worst,
                  "the containers of task " + task.name + " were restarted " + std::to_string(restarts) + " times");
    failed.subject = task.name;
    events.push_back(std::move(failed));
  }
}

const PolicyMatch* first_match(const std::vector<LifecyclePolicy>& policies, const JobEvent& what, PolicyMatch& match) {
  for (const LifecyclePolicy& policy : policies) {
    const bool by_event = policy.event == what.event || policy.event == event::kAny ||
                          std::any_of(policy.events.begin(), policy.events.end(), [&](const std::string& name) {
                            return name == what.event || name == event::kAny;
                          });
    const bool by_code = policy.exit_code && *policy.exit_code != 0 && *policy.exit_code == what.exit_code;
    if (!by_code && !(by_event && (what.event != event::kPodPending || policy.timeout))) continue;
    match = {action_of(policy.action), policy.action,
             policy.timeout ? std::max(policy.timeout->value, rt::Duration::zero()) : rt::Duration::zero()};
    return &match;
  }
  return nullptr;
}

}  // namespace

std::vector<JobEvent> derive_events(const ObservedJob& observed, const std::vector<CompletedIndexes>& completed) {
  std::vector<JobEvent> events;
  pod_events(observed, completed, events);
  missing_pod_events(observed, completed, events);
  task_events(observed, completed, events);
  if (observed.pod_group && observed.pod_group->status.phase == api::scheduling::pod_group_phase::kUnknown &&
      observed.pod_group->metadata.uid != observed.memory.unknown_handled) {
    // The gang lost members. If none of them failed by itself, they were taken.
    const bool is_disruption = std::none_of(observed.pods.begin(), observed.pods.end(), [&](const ObservedPod& pod) {
      return is_current(pod, observed) && pod.failed_by_itself();
    });
    events.push_back({.event = event::kUnknown,
                      .subject = observed.pod_group->metadata.uid,
                      .is_disruption = is_disruption,
                      .text = "pod group " + observed.pod_group->metadata.name + " is Unknown"});
  }
  return events;
}

std::optional<PolicyMatch> resolve(const api::batch::JobSpec& spec, const JobEvent& what) {
  PolicyMatch match;
  if (what.task >= 0 && first_match(spec.tasks[static_cast<std::size_t>(what.task)].policies, what, match) != nullptr)
    return match;
  if (first_match(spec.policies, what, match) != nullptr) return match;
  return std::nullopt;
}

Target target_of(const ObservedJob& observed, const JobEvent& what, Action action) {
  Target target;
  if (what.task < 0) return target;
  const auto wanted = [&](const ObservedPod& pod) {
    if (pod.task != what.task) return false;
    switch (action) {
      case Action::RestartTask:
        return true;
      case Action::RestartPod:
        return pod.index == what.index;
      case Action::RestartPartition:
        return pod.partition == what.partition;
      default:
        return false;
    }
  };
  if (action == Action::RestartPartition && what.partition.empty()) return target;
  if (action == Action::RestartPod && what.index < 0) return target;
  for (const ObservedPod& pod : observed.pods) {
    if (wanted(pod)) target.pods.push_back(&pod);
  }
  if (action == Action::RestartPartition && target.pods.empty()) return target;
  target.task = what.task;
  const TaskSpec& task = observed.job->spec.tasks[static_cast<std::size_t>(what.task)];
  if (action == Action::RestartPod) {
    target.indexes.push_back(what.index);
  } else {
    const std::int32_t size = task.partition_policy ? task.partition_policy->partition_size : 0;
    for (std::int32_t i = 0; i < task.replicas; ++i) {
      if (action == Action::RestartTask || (size > 0 && std::to_string(i / size) == what.partition))
        target.indexes.push_back(i);
    }
  }
  return target;
}

Decisions decide(const ObservedJob& observed, const std::vector<JobEvent>& events, const PlanTime& time) {
  Decisions decisions;
  const Phase phase = phase_of(observed.job->status.state.phase);
  std::map<std::string_view, const ArmedDelay*> known;
  for (const ArmedDelay& delay : observed.memory.armed) known.emplace(delay.key, &delay);
  for (const JobEvent& what : events) {
    auto match = resolve(observed.job->spec, what);
    if (!match || step_of(phase, match->action).kind == Step::Kind::Sync) continue;
    if (is_targeted(match->action) && target_of(observed, what, match->action).is_empty()) continue;
    if (match->timeout <= rt::Duration::zero()) {
      decisions.due.push_back({what, std::move(*match)});
      continue;
    }
    const std::string key = std::string(what.event) + " " + match->action_text + " " + what.subject;
    const auto before = known.find(key);
    const bool is_new = before == known.end();
    const ArmedDelay delay = is_new ? ArmedDelay{key, time.now} : *before->second;
    rt::Duration waited = time.now - delay.since;
    // A pending pod says itself since when, so a restart of the controller starts no new delay.
    if (what.event == event::kPodPending && what.pod != nullptr)
      waited = std::max(waited, rt::Duration(time.wall - what.pod->created));
    if (waited >= match->timeout) {
      decisions.due.push_back({what, std::move(*match)});
      continue;
    }
    const rt::Duration left = match->timeout - waited;
    decisions.wake_after = decisions.wake_after ? std::min(*decisions.wake_after, left) : left;
    decisions.armed.push_back(delay);
    if (is_new) decisions.newly_armed.push_back({what, std::move(*match)});
  }
  return decisions;
}

}  // namespace basalt::controllers::job
