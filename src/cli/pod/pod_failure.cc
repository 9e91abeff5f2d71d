#include "cli/pod/pod_failure.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "api/gen/core_pod.h"
#include "api/gen/names.h"
#include "base/sort.h"
#include "base/strings.h"

namespace basalt::cli {
namespace {

constexpr std::int32_t kSignalBase = 128;  // shells and runtimes add it to the number of the signal

std::string_view signal_name(std::int32_t number) {
  static constexpr std::array<std::pair<std::int32_t, std::string_view>, 9> kNames = {{{1, "SIGHUP"},
                                                                                       {2, "SIGINT"},
                                                                                       {3, "SIGQUIT"},
                                                                                       {4, "SIGILL"},
                                                                                       {6, "SIGABRT"},
                                                                                       {7, "SIGBUS"},
                                                                                       {9, "SIGKILL"},
                                                                                       {11, "SIGSEGV"},
                                                                                       {15, "SIGTERM"}}};
  for (const auto& [known, name] : kNames) {
    if (known == number) return name;
  }
  return "";
}

bool is_bad_waiting(const api::core::ContainerState& state) {
  return state.waiting && !state.waiting->reason.empty() && state.waiting->reason != "ContainerCreating" &&
         state.waiting->reason != "PodInitializing";
}

// Words that say more than that something ended.
bool is_telling(std::string_view reason) { return !reason.empty() && reason != "Error" && reason != "Completed"; }

class Reading {
 public:
  explicit Reading(const api::core::Pod& pod) : pod_(pod) {
    failure_.pod = pod.metadata.name;
    failure_.task = pod.metadata.annotations.get(api::keys::kTaskSpec);
    failure_.is_over = pod.status.phase == api::core::pod_phase::kFailed;
  }

  std::optional<PodFailure> run() {
    for (const auto& status : pod_.status.init_container_statuses) look_at(status, "init container ");
    for (const auto& status : pod_.status.container_statuses) look_at(status, "container ");
    if (!failure_.is_over && details_.empty()) return std::nullopt;
    // The pod's own word (DeadlineExceeded, Evicted) is the cause of what its containers say.
    if (failure_.is_over && is_telling(pod_.status.reason)) failure_.reason = pod_.status.reason;
    if (failure_.reason.empty()) failure_.reason = failure_.is_over ? "Error" : "Waiting";
    std::vector<std::string> parts;
    const std::string said(base::trim(pod_.status.message));
    const bool is_repeated = std::any_of(messages_.begin(), messages_.end(), [&said](const std::string& message) {
      return said.find(message) != std::string::npos;
    });
    if (!said.empty() && !is_repeated) parts.push_back(said);
    parts.insert(parts.end(), details_.begin(), details_.end());
    failure_.details = base::join(parts, "; ");
    return std::move(failure_);
  }

 private:
  void look_at(const api::core::ContainerStatus& status, std::string_view noun) {
    const bool waits = is_bad_waiting(status.state);
    const auto& end = status.state.terminated ? status.state.terminated : status.last_state.terminated;
    const bool ended_badly = end && end->exit_code != 0;
    if (!waits && !(ended_badly && (failure_.is_over || status.state.terminated || status.restart_count > 0))) return;
    std::vector<std::string> facts;
    if (ended_badly && is_telling(end->reason) && end->reason != pod_.status.reason) facts.push_back(end->reason);
    if (ended_badly) facts.push_back(exit_code_text(end->exit_code));
    if (waits && !ended_badly) facts.push_back(status.state.waiting->reason);
    if (status.restart_count > 0)
      facts.push_back("restarted " + std::to_string(status.restart_count) +
                      (status.restart_count == 1 ? " time" : " times"));
    std::string text = std::string(noun) + status.name + ": " + base::join(facts, ", ");
    const std::string why(base::trim(ended_badly && !end->message.empty() ? end->message
                                     : waits                              ? status.state.waiting->message
                                                                          : std::string()));
    if (!why.empty()) {
      text += " (" + why + ")";
      messages_.push_back(why);
    }
    details_.push_back(std::move(text));
    note_cause(status, waits, ended_badly);
  }

  // The first container that ended badly is the one to look at.
  void note_cause(const api::core::ContainerStatus& status, bool waits, bool ended_badly) {
    const auto& end = status.state.terminated ? status.state.terminated : status.last_state.terminated;
    const bool is_first = failure_.container.empty() && ended_badly;
    if (failure_.reason.empty() || is_first) {
      failure_.reason = waits ? status.state.waiting->reason : end->reason;
      if (failure_.reason.empty()) failure_.reason = "Error";
    }
    if (!is_first) return;
    failure_.container = status.name;
    failure_.is_restarted = !status.state.terminated && status.state.running.has_value();
    failure_.when = end->finished_at;
  }

  const api::core::Pod& pod_;
  PodFailure failure_;
  std::vector<std::string> details_;
  std::vector<std::string> messages_;
};

}  // namespace

std::string exit_code_text(std::int32_t code) {
  std::string text = "exit code " + std::to_string(code);
  if (code == 126) return text + " (the command cannot be executed)";
  if (code == 127) return text + " (command not found)";
  if (const std::string_view name = signal_name(code - kSignalBase); !name.empty())
    text += " (" + std::string(name) + ")";
  return text;
}

std::string PodFailure::sentence() const {
  std::string text = "pod " + pod + (task.empty() ? "" : " (task " + task + ")") + " " + reason;
  if (!details.empty()) text += ": " + details;
  return base::escape_controls(text);
}

std::optional<PodFailure> failure_of(const api::core::Pod& pod) { return Reading(pod).run(); }

void sort_failures(std::vector<PodFailure>& failures) {
  const auto rank = [](const PodFailure& failure) {
    // What has no time comes after what has one.
    return std::tuple(!failure.is_over, failure.when.is_zero(), failure.when, std::string_view(failure.pod));
  };
  base::stable_sort(failures, [&rank](const PodFailure& a, const PodFailure& b) { return rank(a) < rank(b); });
}

}  // namespace basalt::cli
