#include "controllers/job/planner_impl.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "controllers/job/status_builder.h"

namespace basalt::controllers::job {

using api::batch::JobStatus;

void Planner::count_restart(JobStatus& status) const {
  if (!step_.counts_retry) return;
  status.retry_count += 1;
  if (!step_.counts_resume && !is_disruption_) return;
  const std::string_view key = step_.counts_resume ? records::kResumes : records::kDisruptions;
  const auto before = base::parse_int64(status.controlled_resources.get(key)).value_or(0);
  status.controlled_resources.set(key, std::to_string(before + 1));
}

void Planner::kill() {
  const bool spends_last = step_.counts_retry && !step_.counts_resume && !is_disruption_ &&
                           retries_spent(job_.status) + 1 >= max_retry_of(job_.spec);
  const Retain retain = spends_last ? Retain::Finished : step_.retain;
  for (const ObservedPod& pod : observed_.pods) {
    if (retain == Retain::None || !pod.is_finished() || pod.is_marked) go(pod);
  }
  if (step_.enters && retain == Retain::None) {
    for (CompletedIndexes& indexes : completed_) indexes.clear();
  }
  JobStatus status = counted();
  if (step_.enters) {
    status.version += 1;
    count_restart(status);
    enter_phase(status, job_, *step_.enters, time_.wall, to_string(action_), cause_);
    if (*step_.enters == Phase::Restarting) {
      const std::string group = observed_.pod_group ? observed_.pod_group->metadata.uid : "-";
      status.controlled_resources.set(records::kRestart, (retain == Retain::None ? "all " : "unfinished ") + group);
      if (retain == Retain::None) status.controlled_resources.set(records::kFloor, std::to_string(status.version));
    }
    plan_.memory.vanished.clear();
    plan_.memory.armed.clear();
  } else if (const auto next = apply_rule(step_.rule, phase_, job_.spec, status)) {
    enter_phase(status, job_, *next, time_.wall, job_.status.state.reason, job_.status.state.message);
  }
  end_pod_group();
  clean_plugins(status);
  write(std::move(status));
}

void Planner::end_pod_group() {
  if (!observed_.pod_group || !observed_.pod_group->metadata.deletion_timestamp.is_zero()) return;
  plan_.delete_pod_group = PodRef{observed_.pod_group->metadata.name, observed_.pod_group->metadata.uid};
}

void Planner::clean_plugins(JobStatus& status) {
  const Phase phase = phase_of(status.state.phase);
  if (!is_terminal(phase) && phase != Phase::Aborted) return;
  if (status.terminating + status.pending + status.running + status.unknown_count > 0) return;
  // Made just before the job ended, they are in no record yet.
  bool any = phase != phase_ && inputs_.plugins != nullptr && !inputs_.plugins->all().empty();
  const api::StringMap before = status.controlled_resources;
  for (const auto [key, value] : before) {
    if (!key.starts_with(records::kPluginPrefix) && key != records::kPluginHash) continue;
    status.controlled_resources.erase(key);
    any = true;
  }
  if (!any && plan_.memory.plugins_hash.empty()) return;
  plan_.memory.plugins_hash.clear();
  plan_.delete_plugin_objects_first = true;
}

void Planner::kill_target() {
  for (const Target& target : targets_) {
    for (const ObservedPod* pod : target.pods) {
      const bool is_cause = pod->phase == PodPhase::Failed || pod->is_terminating;
      if (!pod->is_marked) (is_cause ? plan_.marks_last : plan_.marks).push_back({pod->name, pod->uid});
      go(*pod);
    }
    for (const std::int32_t index : target.indexes) completed_[static_cast<std::size_t>(target.task)].remove(index);
  }
  for (std::vector<PodRef>* marks : {&plan_.marks, &plan_.marks_last}) {
    std::sort(marks->begin(), marks->end());
    marks->erase(std::unique(marks->begin(), marks->end()), marks->end());
  }
  JobStatus status = counted();
  count_restart(status);
  if (phase_ != Phase::Restarting) enter_phase(status, job_, Phase::Restarting, time_.wall, to_string(action_), cause_);
  write(std::move(status));
  // Nothing to take away and nothing to write: the pods are then made by a pass that nobody else would ask for.
  if (!plan_.status) wake(std::chrono::milliseconds(1));
}

}  // namespace basalt::controllers::job
