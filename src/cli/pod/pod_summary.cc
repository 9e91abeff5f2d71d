#include <algorithm>

#include "api/conditions.h"
#include "api/gen/core_container.h"
#include "api/gen/core_pod.h"
#include "api/gen/names.h"
#include "cli/client/table.h"
#include "cli/pod/pod_commands.h"

namespace basalt::cli {
namespace {

using api::core::ContainerStateTerminated;
using api::core::Pod;

// "Error", "Signal:9", "ExitCode:3".
std::string end_of(const ContainerStateTerminated& end) {
  if (!end.reason.empty()) return end.reason;
  if (end.signal != 0) return "Signal:" + std::to_string(end.signal);
  return "ExitCode:" + std::to_string(end.exit_code);
}

class Summary {
 public:
  explicit Summary(const Pod& pod) : pod_(pod) {}

  PodSummary make(rt::WallTime now) {
    status_ = pod_.status.reason.empty() ? pod_.status.phase : pod_.status.reason;
    const auto* scheduled = api::find_condition(pod_.status.conditions, api::condition_types::kPodScheduled);
    if (scheduled != nullptr && scheduled->reason == api::condition_reasons::kSchedulingGated)
      status_ = scheduled->reason;
    total_ = pod_.spec.containers.size();
    for (const auto& container : pod_.spec.init_containers) total_ += container.restart_policy == "Always" ? 1 : 0;
    const bool is_initialising = walk_init_containers();
    if (!is_initialising || api::is_condition_true(pod_.status.conditions, "Initialized")) walk_containers();
    if (pod_.metadata.deletion_timestamp) {
      if (pod_.status.reason == "NodeLost") {
        status_ = "Unknown";
      } else if (pod_.status.phase != api::core::pod_phase::kSucceeded &&
                 pod_.status.phase != api::core::pod_phase::kFailed) {
        status_ = "Terminating";
      }
    }
    std::string restarts = std::to_string(restarts_);
    if (restarts_ > 0 && last_restart_) restarts += " (" + age_of(last_restart_, now) + " ago)";
    return {std::to_string(ready_) + "/" + std::to_string(total_), status_, restarts};
  }

 private:
  bool restarts_always(std::string_view name) const {
    return std::any_of(
        pod_.spec.init_containers.begin(), pod_.spec.init_containers.end(),
        [name](const auto& container) { return container.name == name && container.restart_policy == "Always"; });
  }

  void note_last_end(const api::core::ContainerStatus& container) {
    if (container.last_state.terminated)
      last_restart_ = std::max(last_restart_, container.last_state.terminated->finished_at);
  }

  // True if an init container is still at work.
  bool walk_init_containers() {
    const auto& statuses = pod_.status.init_container_statuses;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      const auto& container = statuses[i];
      const bool is_restartable = restarts_always(container.name);
      restarts_ += container.restart_count;
      note_last_end(container);
      if (is_restartable) {
        restartable_restarts_ += container.restart_count;
        restartable_last_restart_ = last_restart_;
      }
      const auto& end = container.state.terminated;
      if (end && end->exit_code == 0) continue;
      if (is_restartable && container.started.value_or(false)) {
        ready_ += container.ready ? 1 : 0;
        continue;
      }
      if (end) {
        status_ = "Init:" + end_of(*end);
      } else if (container.state.waiting && !container.state.waiting->reason.empty() &&
                 container.state.waiting->reason != "PodInitializing") {
        status_ = "Init:" + container.state.waiting->reason;
      } else {
        status_ = "Init:" + std::to_string(i) + "/" + std::to_string(pod_.spec.init_containers.size());
      }
      return true;
    }
    return false;
  }

  void walk_containers() {
    restarts_ = restartable_restarts_;
    last_restart_ = restartable_last_restart_;
    bool has_running = false;
    const auto& statuses = pod_.status.container_statuses;
    for (auto container = statuses.rbegin(); container != statuses.rend(); ++container) {
      restarts_ += container->restart_count;
      note_last_end(*container);
      const auto& state = container->state;
      if (state.waiting && !state.waiting->reason.empty()) {
        status_ = state.waiting->reason;
      } else if (state.terminated) {
        status_ = end_of(*state.terminated);
      } else if (container->ready && state.running) {
        has_running = true;
        ++ready_;
      }
    }
    if (status_ == "Completed" && has_running)
      status_ = api::is_condition_true(pod_.status.conditions, api::condition_types::kReady) ? "Running" : "NotReady";
  }

  const Pod& pod_;
  std::string status_;
  std::size_t total_ = 0;
  std::size_t ready_ = 0;
  std::int64_t restarts_ = 0;
  std::int64_t restartable_restarts_ = 0;
  api::Time last_restart_;
  api::Time restartable_last_restart_;
};

}  // namespace

PodSummary summarize(const Pod& pod, rt::WallTime now) { return Summary(pod).make(now); }

}  // namespace basalt::cli
