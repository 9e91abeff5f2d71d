#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/time.h"

namespace basalt::api::core {
struct Pod;
}

namespace basalt::cli {

// What went wrong in a pod, for people.
struct PodFailure {
  std::string pod;
  std::string task;  // of the job; "" if the pod does not say
  std::string
      reason;  // one word: DeadlineExceeded, OOMKilled, StartError, ImagePullBackOff, CrashLoopBackOff, Error, ...
  std::string details;        // "Pod was active too long; container main: exit code 143 (SIGTERM)"
  std::string container;      // whose log tells more; "" if none has begun
  bool is_over = false;       // the pod has Failed; else it may yet recover
  bool is_restarted = false;  // the log of the failure is that of the container before its restart
  api::Time when;             // the container's end; zero if nothing ended
  // "pod train-worker-0 (task worker) OOMKilled: container main: exit code 137 ..."
  [[nodiscard]] std::string sentence() const;
};

// Nothing for a pod in which nothing is wrong. Pure.
[[nodiscard]] std::optional<PodFailure> failure_of(const api::core::Pod& pod);
// Those that are over first, each part by time: the first to fail is most often the cause of the others.
void sort_failures(std::vector<PodFailure>& failures);

// "exit code 137 (SIGKILL)", "exit code 127 (command not found)", "exit code 3".
[[nodiscard]] std::string exit_code_text(std::int32_t code);

}  // namespace basalt::cli
