#include "controllers/job/status_builder.h"

#include <algorithm>

namespace basalt::controllers::job {

using api::batch::Job;
using api::batch::JobStatus;
using api::batch::TaskState;

namespace {

void count_one(JobStatus& status, const std::string& task, PodPhase phase) {
  status.task_status_count[task].phase[std::string(to_string(phase))] += 1;
  switch (phase) {
    case PodPhase::Pending:
      status.pending += 1;
      break;
    case PodPhase::Running:
      status.running += 1;
      break;
    case PodPhase::Succeeded:
      status.succeeded += 1;
      break;
    case PodPhase::Failed:
      status.failed += 1;
      break;
    case PodPhase::Unknown:
      status.unknown_count += 1;
      break;
  }
}

// Of a job that is over, only what was still alive changes. A pod that was told to go may end in time by itself and
// stay.
JobStatus with_final_results(JobStatus counted, const JobStatus& before) {
  const bool was_alive = before.pending + before.running + before.terminating + before.unknown_count > 0;
  const auto final_count = [&](std::int32_t now, std::int32_t then) { return was_alive ? std::max(now, then) : then; };
  counted.succeeded = final_count(counted.succeeded, before.succeeded);
  counted.failed = final_count(counted.failed, before.failed);
  if (!was_alive) {
    for (auto& [task, state] : counted.task_status_count)
      std::erase_if(state.phase,
                    [](const auto& entry) { return entry.first == "Succeeded" || entry.first == "Failed"; });
  }
  for (const auto& [task, state] : before.task_status_count) {
    for (const auto& [phase, count] : state.phase) {
      if (phase != "Succeeded" && phase != "Failed") continue;
      std::int32_t& now = counted.task_status_count[task].phase[phase];
      now = final_count(now, count);
    }
  }
  std::erase_if(counted.task_status_count, [](const auto& entry) { return entry.second.phase.empty(); });
  return counted;
}

}  // namespace

JobStatus count_pods(const Job& job, const std::vector<ObservedPod>& pods,
                     const std::vector<CompletedIndexes>& completed, const std::set<std::string>& going, bool is_over) {
  JobStatus status = job.status;
  status.task_status_count.clear();
  status.pending = status.running = status.succeeded = status.failed = status.terminating = status.unknown_count = 0;
  for (const ObservedPod& pod : pods) {
    const bool is_known = pod.task >= 0;
    if (!is_over && is_known && completed[static_cast<std::size_t>(pod.task)].contains(pod.index)) continue;
    if (pod.is_terminating || going.contains(pod.name)) {
      status.terminating += 1;
    } else if (is_known) {
      count_one(status, job.spec.tasks[static_cast<std::size_t>(pod.task)].name, pod.phase);
    }
  }
  if (is_over) return with_final_results(std::move(status), job.status);
  for (std::size_t t = 0; t < job.spec.tasks.size(); ++t) {
    const std::int32_t count = std::min(completed[t].size(), job.spec.tasks[t].replicas);
    if (count == 0) continue;
    status.succeeded += count;
    status.task_status_count[job.spec.tasks[t].name].phase["Succeeded"] += count;
  }
  return status;
}

void enter_phase(JobStatus& status, const Job& job, Phase phase, rt::WallTime now, std::string_view reason,
                 std::string_view message) {
  const std::string word(to_string(phase));
  const api::Time time = api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(now));
  status.state.phase = word;
  status.state.reason = std::string(reason);
  status.state.message = std::string(message);
  status.state.last_transition_time = time;
  std::erase_if(status.conditions, [&](const auto& condition) { return condition.status == word; });
  status.conditions.push_back({.status = word, .last_transition_time = time, .unknown = {}});
  if (wants_pods(phase) && phase != Phase::Restarting) {
    status.running_duration.reset();
  } else {
    status.running_duration = api::Duration(time - job.metadata.creation_timestamp);
  }
}

}  // namespace basalt::controllers::job
