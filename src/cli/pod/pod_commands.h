#pragma once

#include <string>

#include "cli/client/command.h"

namespace basalt::api::core {
struct Pod;
}

namespace basalt::cli {

// `basalt pod ...`, `vcctl pod ...`.
[[nodiscard]] const CommandGroup& pod_group();
int run_pod(Invocation& invocation);

// What kubectl prints of a pod.
struct PodSummary {
  std::string ready;  // "1/2"
  std::string status;
  std::string restarts;  // "3", "3 (5m ago)"
};
[[nodiscard]] PodSummary summarize(const api::core::Pod& pod, rt::WallTime now);

struct PodFilter {
  std::string ns;
  std::string job;
  std::string queue;
  bool all_namespaces = false;
  std::string output;
};
[[nodiscard]] Result<int> list_pods(Session& session, const PodFilter& filter);

}  // namespace basalt::cli
