#include "controllers/manager/options.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "controllers/manager/kubernetes_gates.h"
#include "controllers/manager/registry.h"

namespace basalt::controllers {
namespace {

// Gates of Volcano's other processes, and the two groups: accepted so that one command line serves all.
constexpr std::string_view kOtherGates[] = {"PodDisruptionBudgetsSupport", "ResourceTopology", "CSIStorage", "AllAlpha",
                                            "AllBeta"};

// Volcano's controllers that are not part of this program: command lines that name them go on working.
constexpr std::string_view kOtherControllers[] = {"hyperNode-controller", "colocation-config-controller"};

bool* gate_of(FeatureGates& gates, std::string_view name) {
  if (name == "WorkLoadSupport") return &gates.workload_support;
  if (name == "QueueCommandSync") return &gates.queue_command_sync;
  if (name == "VolcanoJobSupport") return &gates.volcano_job_support;
  if (name == "CronVolcanoJobSupport") return &gates.cron_volcano_job_support;
  if (name == "PriorityClass") return &gates.priority_class;
  if (name == "SchedulingGatesQueueAdmission") return &gates.scheduling_gates_queue_admission;
  return nullptr;
}

constexpr std::string_view kGates[] = {"WorkLoadSupport",       "QueueCommandSync", "VolcanoJobSupport",
                                       "CronVolcanoJobSupport", "PriorityClass",    "SchedulingGatesQueueAdmission"};

}  // namespace

Done set_feature_gates(FeatureGates& gates, std::string_view text) {
  for (const std::string_view item : base::split(text, ',')) {
    if (base::trim(item).empty()) continue;
    const auto pair = base::split_once(item, '=');
    if (!pair)
      return Error::invalid_input("feature gate " + base::quote(item) + " has no value: write " + std::string(item) +
                                  "=true or =false");
    const std::string_view name = base::trim(pair->first);
    const std::string_view value = base::trim(pair->second);
    if (value != "true" && value != "false")
      return Error::invalid_input("feature gate " + std::string(name) + " takes true or false, not " +
                                  base::quote(value));
    if (bool* gate = gate_of(gates, name); gate != nullptr) {
      *gate = value == "true";
      continue;
    }
    const bool is_known = std::ranges::find(kOtherGates, name) != std::end(kOtherGates) ||
                          std::ranges::binary_search(kKubernetesGates, name);
    if (!is_known)
      return Error::invalid_input("there is no feature gate " + std::string(name) + base::did_you_mean(name, kGates));
  }
  return Ok{};
}

Done validate(const ManagerOptions& options) {
  std::set<std::string_view> seen;
  std::vector<std::string_view> known;
  for (const RegisteredController& controller : registered_controllers()) known.push_back(controller.name);
  for (const std::string_view entry : options.controllers) {
    if (entry == "*") continue;
    const std::string_view name = entry.starts_with("+") || entry.starts_with("-") ? entry.substr(1) : entry;
    if (!seen.insert(name).second)
      return Error::invalid_input("--controllers names " + std::string(name) +
                                  " twice: a controller cannot have both prefixes");
    if (std::ranges::find(known, name) != known.end() ||
        std::ranges::find(kOtherControllers, name) != std::end(kOtherControllers))
      continue;
    return Error::invalid_input("--controllers: there is no controller " + base::quote(name) + "; known are *, " +
                                base::join(known, ", ") + ", with + or - before them, and Volcano's " +
                                base::join(kOtherControllers, ", ") + ", which change nothing here" +
                                base::did_you_mean(name, known));
  }
  for (const auto& [flag, count] : {std::pair("--worker-threads", options.workers_job),
                                    std::pair("--worker-threads-for-podgroup", options.workers_podgroup),
                                    std::pair("--worker-threads-for-queue", options.workers_queue),
                                    std::pair("--worker-threads-for-gc", options.workers_gc)}) {
    if (count < 1 || count > 1000)
      return Error::invalid_input(std::string(flag) + " is " + std::to_string(count) + ": give 1 to 1000");
  }
  if (options.scheduler_names.empty()) return Error::invalid_input("--scheduler-name is empty: give at least one");
  return Ok{};
}

bool is_selected(const std::vector<std::string>& list, std::string_view controller) {
  if (list.empty()) return true;
  bool has_star = false;
  for (const std::string_view entry : list) {
    if (entry == controller || (entry.starts_with("+") && entry.substr(1) == controller)) return true;
    if (entry.starts_with("-") && entry.substr(1) == controller) return false;
    has_star |= entry == "*";
  }
  return has_star;
}

bool is_named(const std::vector<std::string>& list, std::string_view controller) {
  for (const std::string_view entry : list) {
    if (entry == controller || (entry.starts_with("+") && entry.substr(1) == controller)) return true;
  }
  return false;
}

}  // namespace basalt::controllers
