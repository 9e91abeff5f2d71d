#include "controllers/job/observed.h"

#include <algorithm>

#include "api/gen/names.h"
#include "base/strings.h"
#include "controllers/job/state_machine.h"

namespace basalt::controllers::job {
namespace {

using api::core::PodProjection;
namespace keys = api::keys;

std::optional<std::int32_t> parse_int32(std::string_view text) {
  const auto value = base::parse_int64(text);
  if (!value || *value < INT32_MIN || *value > INT32_MAX) return std::nullopt;
  return static_cast<std::int32_t>(*value);
}

PodPhase phase_of_pod(std::string_view text) {
  if (text == "Pending") return PodPhase::Pending;
  if (text == "Running") return PodPhase::Running;
  if (text == "Succeeded") return PodPhase::Succeeded;
  if (text == "Failed") return PodPhase::Failed;
  // A pod that nobody has touched yet has no phase for a moment.
  return text.empty() ? PodPhase::Pending : PodPhase::Unknown;
}

// The label, or what follows the last dash of the name.
std::int32_t index_of(const PodProjection& pod) {
  if (const auto index = parse_int32(pod.metadata.labels.get(keys::kTaskIndex))) return *index;
  const std::string_view name = pod.metadata.name;
  return parse_int32(name.substr(name.rfind('-') + 1)).value_or(-1);
}

// Why a pod failed, if it says more than that it did: DeadlineExceeded, OOMKilled, StartError, Evicted.
std::string failure_word(const PodProjection& pod) {
  const auto is_telling = [](std::string_view word) { return !word.empty() && word != "Error" && word != "Completed"; };
  if (is_telling(pod.status.reason)) return pod.status.reason.str();
  for (const auto& status : pod.status.container_statuses) {
    if (status.state.terminated && is_telling(status.state.terminated->reason))
      return status.state.terminated->reason.str();
  }
  return "";
}

// Not the pod's own doing. Kubernetes says so with the condition DisruptionTarget (preemption, drain, taints, a lost
// node, pressure on the node). It does not set it when a pod is evicted for exceeding its own limits; kubelets before
// 1.22 say nothing but "Evicted", without any condition, which is taken as the node's trouble. A pod that somebody
// deletes reports Failed as its containers are stopped.
bool is_disrupted(const PodProjection& pod) {
  if (pod.status.phase == "Failed" && !pod.metadata.deletion_timestamp.is_zero()) return true;
  for (const auto& condition : pod.status.conditions) {
    if (condition.type == "DisruptionTarget" && condition.status == "True") return true;
  }
  const std::string_view reason = pod.status.reason;
  if (reason == "Evicted") return pod.status.conditions.empty();
  for (const std::string_view known : {"NodeLost", "Preempting", "Shutdown", "NodeShutdown", "Terminated"}) {
    if (reason == known) return true;
  }
  return false;
}

bool is_marked(const PodProjection& pod) { return pod.metadata.annotations.contains(keys::kControllerOutOfSync); }

}  // namespace

std::string_view to_string(PodPhase phase) {
  switch (phase) {
    case PodPhase::Pending:
      return "Pending";
    case PodPhase::Running:
      return "Running";
    case PodPhase::Succeeded:
      return "Succeeded";
    case PodPhase::Failed:
      return "Failed";
    case PodPhase::Unknown:
      return "Unknown";
  }
  return "Unknown";
}

std::string failure_text(const ObservedPod& pod) {
  std::string text = pod.failure;
  if (pod.exit_code != 0) text += (text.empty() ? "" : ", ") + ("exit code " + std::to_string(pod.exit_code));
  return text.empty() ? "no reason given" : text;
}

std::optional<ObservedPod> observe_pod(const PodProjection& pod, const api::batch::Job& job) {
  const auto task = pod.metadata.annotations.find(keys::kTaskSpec);
  const auto version = parse_int32(pod.metadata.annotations.get(keys::kJobVersion));
  if (!task || !version) return std::nullopt;
  ObservedPod seen;
  seen.name = pod.metadata.name.str();
  seen.uid = pod.metadata.uid.str();
  for (std::size_t i = 0; i < job.spec.tasks.size(); ++i) {
    if (job.spec.tasks[i].name == *task) seen.task = static_cast<std::int32_t>(i);
  }
  seen.index = index_of(pod);
  seen.version = *version;
  seen.partition = std::string(pod.metadata.labels.get(keys::kPartitionId));
  seen.phase = phase_of_pod(pod.status.phase);
  if (!pod.status.container_statuses.empty() && pod.status.container_statuses[0].state.terminated)
    seen.exit_code = pod.status.container_statuses[0].state.terminated->exit_code;
  if (seen.phase == PodPhase::Failed) seen.failure = failure_word(pod);
  for (const auto& status : pod.status.container_statuses) seen.restarts += status.restart_count;
  for (const auto& status : pod.status.init_container_statuses) seen.restarts += status.restart_count;
  seen.is_ready = std::all_of(pod.status.container_statuses.begin(), pod.status.container_statuses.end(),
                              [](const auto& status) { return status.ready; });
  seen.is_marked = is_marked(pod);
  seen.is_terminating = !pod.metadata.deletion_timestamp.is_zero();
  seen.is_disrupted = is_disrupted(pod);
  seen.created = std::chrono::time_point_cast<rt::Duration>(pod.metadata.creation_timestamp.to_time_point());
  return seen;
}

std::optional<VanishedPod> observe_vanished(const PodProjection& pod) {
  const auto task = pod.metadata.annotations.find(keys::kTaskSpec);
  const auto version = parse_int32(pod.metadata.annotations.get(keys::kJobVersion));
  if (!task || !version) return std::nullopt;
  VanishedPod gone;
  gone.task = std::string(*task);
  gone.name = pod.metadata.name.str();
  gone.uid = pod.metadata.uid.str();
  gone.index = index_of(pod);
  gone.version = *version;
  gone.partition = std::string(pod.metadata.labels.get(keys::kPartitionId));
  gone.is_marked = is_marked(pod);
  gone.succeeded = pod.status.phase == "Succeeded";
  gone.failed_by_itself = pod.status.phase == "Failed" && !is_disrupted(pod);
  return gone;
}

void sort_pods(std::vector<ObservedPod>& pods) {
  std::sort(pods.begin(), pods.end(), [](const ObservedPod& a, const ObservedPod& b) {
    return std::tie(a.task, a.index, a.name) < std::tie(b.task, b.index, b.name);
  });
}

std::vector<CompletedIndexes> completed_records(const api::batch::Job& job) {
  std::vector<CompletedIndexes> all;
  all.reserve(job.spec.tasks.size());
  for (const auto& task : job.spec.tasks) {
    const auto text = job.status.controlled_resources.get(std::string(records::kCompletedPrefix) + task.name);
    all.push_back(CompletedIndexes::parse(text));
    all.back().truncate(task.replicas);
  }
  return all;
}

}  // namespace basalt::controllers::job
