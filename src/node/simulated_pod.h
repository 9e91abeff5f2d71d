#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/string_map.h"
#include "api/time.h"
#include "base/result.h"
#include "json/reader.h"
#include "json/value.h"
#include "rt/time.h"

namespace basalt::node {

// How a simulated pod goes, by annotations of the pod (of the task's template, for a job):
namespace simulated_annotations {
inline constexpr std::string_view kStartDelay = "basalt.volcano.sh/start-delay";  // "200ms": from bound to Running
inline constexpr std::string_view kRunTime = "basalt.volcano.sh/run-time";        // "1m30s", or "forever"
inline constexpr std::string_view kExitCode = "basalt.volcano.sh/exit-code";      // 0 to 255
inline constexpr std::string_view kFailureProbability = "basalt.volcano.sh/failure-probability";  // 0 to 1
inline constexpr std::string_view kStopDelay = "basalt.volcano.sh/stop-delay";  // from the deletion mark to the end
}  // namespace simulated_annotations

struct SimulatedFate {
  rt::Duration start_delay{};
  rt::Duration run_time = std::chrono::seconds(1);  // kForever: until it is deleted
  std::int32_t exit_code = 0;
  double failure_probability = 0;  // of each run; one that fails by chance ends with the exit code, or 1 if that is 0
  rt::Duration stop_delay{};

  static constexpr rt::Duration kForever = rt::Duration::max();
};

// What is kept of every pod of the cluster.
struct SimulatedPod {
  struct Metadata {
    std::string name;
    std::string namespace_;
    std::string uid;
    std::string resource_version;
  } metadata;
  struct Container {
    std::string name;
    std::string image;
  };
  api::StringMap fate;  // the annotations above, if any
  bool is_deleted = false;
  std::string node_name;
  std::string restart_policy;
  std::vector<Container> containers;
  std::string phase;
  api::Time start_time;
  api::Time running_since;  // of the first container's current run
  std::int32_t restarts = 0;

  [[nodiscard]] bool is_finished() const { return phase == "Succeeded" || phase == "Failed"; }
};
void decode(json::Reader& reader, SimulatedPod& pod);

// The pod's own fate over `usual`. An error names the annotation.
[[nodiscard]] Result<SimulatedFate> fate_of(const SimulatedPod& pod, const SimulatedFate& usual);

// The code with which run number `restarts` of the pod ends. Chance is drawn from the pod's UID, so that a second
// agent comes to the same result.
[[nodiscard]] std::int32_t exit_code_of(const SimulatedPod& pod, const SimulatedFate& fate, std::int32_t restarts);
[[nodiscard]] bool restarts_after(std::string_view restart_policy, std::int32_t exit_code);

// Patches of the pod's status (strategic merge).
[[nodiscard]] std::string running_patch(const SimulatedPod& pod, std::int32_t restarts, std::int32_t last_exit_code,
                                        api::Time started, api::Time now);
[[nodiscard]] std::string finished_patch(const SimulatedPod& pod, std::int32_t restarts, std::int32_t exit_code,
                                         api::Time started, api::Time now);
// A pod whose annotations cannot be read.
[[nodiscard]] std::string refused_patch(const SimulatedPod& pod, std::string_view why);

}  // namespace basalt::node
