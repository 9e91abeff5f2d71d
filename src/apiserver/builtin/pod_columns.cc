// `kubectl get pods`: the one word that sums up the states of a pod's containers (pkg/printers/internalversion, v1.36).

#include <algorithm>

#include "api/duration.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/pod_strategy.h"
#include "apiserver/registry/metadata.h"

namespace basalt::apiserver {
namespace {

struct Summary {
  std::string reason;
  std::int64_t containers = 0;
  std::int64_t ready = 0;
  std::int64_t restarts = 0;
  api::Time last_restart;
};

const json::Value* state_of(const json::Value& status, std::string_view name) {
  const json::Value* state = status.find_path({"state", name});
  return state == nullptr || state->is_null() ? nullptr : state;
}

// How a container ended: its reason, else the signal, else the exit code.
std::string ending_of(const json::Value& terminated) {
  if (const std::string_view reason = text_at(terminated, "reason"); !reason.empty()) return std::string(reason);
  if (const std::int64_t signal = int_at(terminated, "signal").value_or(0); signal != 0) {
    return "Signal:" + std::to_string(signal);
  }
  return "ExitCode:" + std::to_string(int_at(terminated, "exitCode").value_or(0));
}

void count_restarts(const json::Value& status, std::int64_t& restarts, api::Time& last) {
  restarts += int_at(status, "restartCount").value_or(0);
  const auto finished = api::Time::parse(status.string_at({"lastState", "terminated", "finishedAt"}));
  if (finished.ok()) last = std::max(last, *finished);
}

bool is_sidecar(const json::Value& pod, std::string_view name) {
  for (const json::Value& container : list_at(pod, {"spec", "initContainers"})) {
    if (text_at(container, "name") == name) return text_at(container, "restartPolicy") == "Always";
  }
  return false;
}

bool has_true_condition(const json::Value& pod, std::string_view type) {
  const json::Array& conditions = list_at(pod, {"status", "conditions"});
  return std::any_of(conditions.begin(), conditions.end(), [&](const json::Value& condition) {
    return text_at(condition, "type") == type && text_at(condition, "status") == "True";
  });
}

// True if an init container is still to finish; its state is the pod's then.
bool summarise_init_containers(const json::Value& pod, Summary& all, Summary& sidecars) {
  const json::Array& statuses = list_at(pod, {"status", "initContainerStatuses"});
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    const json::Value& status = statuses[i];
    const bool sidecar = is_sidecar(pod, text_at(status, "name"));
    count_restarts(status, all.restarts, all.last_restart);
    if (sidecar) count_restarts(status, sidecars.restarts, sidecars.last_restart);
    const json::Value* terminated = state_of(status, "terminated");
    if (terminated != nullptr && int_at(*terminated, "exitCode").value_or(0) == 0) continue;
    if (sidecar && flag_at(status, "started")) {
      if (flag_at(status, "ready")) ++all.ready;
      continue;
    }
    const json::Value* waiting = state_of(status, "waiting");
    const std::string_view why = waiting != nullptr ? text_at(*waiting, "reason") : "";
    if (terminated != nullptr) {
      all.reason = "Init:" + ending_of(*terminated);
    } else if (!why.empty() && why != "PodInitializing") {
      all.reason = "Init:" + std::string(why);
    } else {
      all.reason = "Init:" + std::to_string(i) + "/" + std::to_string(list_at(pod, {"spec", "initContainers"}).size());
    }
    return true;
  }
  return false;
}

void summarise_containers(const json::Value& pod, Summary& all) {
  bool has_running = false;
  std::string error;
  const json::Array& statuses = list_at(pod, {"status", "containerStatuses"});
  for (auto status = statuses.rbegin(); status != statuses.rend(); ++status) {
    count_restarts(*status, all.restarts, all.last_restart);
    const json::Value* waiting = state_of(*status, "waiting");
    const json::Value* terminated = state_of(*status, "terminated");
    if (waiting != nullptr && !text_at(*waiting, "reason").empty()) {
      all.reason = text_at(*waiting, "reason");
    } else if (terminated != nullptr) {
      all.reason = ending_of(*terminated);
      if (int_at(*terminated, "exitCode").value_or(0) != 0) error = all.reason;
    } else if (flag_at(*status, "ready") && state_of(*status, "running") != nullptr) {
      has_running = true;
      ++all.ready;
    }
  }
  if (all.reason != "Completed") return;
  if (has_running && has_true_condition(pod, "Ready")) {
    all.reason = "Running";
  } else if (!error.empty()) {
    all.reason = error;
  } else if (has_running) {
    all.reason = "NotReady";
  }
}

Summary summarise(const json::Value& pod) {
  Summary all;
  Summary sidecars;
  const std::string_view phase = pod.string_at({"status", "phase"});
  const std::string_view why = pod.string_at({"status", "reason"});
  all.reason = why.empty() ? phase : why;
  for (const json::Value& condition : list_at(pod, {"status", "conditions"})) {
    if (text_at(condition, "type") == "PodScheduled" && text_at(condition, "reason") == "SchedulingGated") {
      all.reason = "SchedulingGated";
    }
  }
  all.containers = static_cast<std::int64_t>(list_at(pod, {"spec", "containers"}).size());
  for (const json::Value& container : list_at(pod, {"spec", "initContainers"})) {
    if (text_at(container, "restartPolicy") == "Always") ++all.containers;
  }
  const bool is_initialising = summarise_init_containers(pod, all, sidecars);
  if (!is_initialising || has_true_condition(pod, "Initialized")) {
    all.restarts = sidecars.restarts;
    all.last_restart = sidecars.last_restart;
    summarise_containers(pod, all);
  }
  if (is_being_deleted(pod)) {
    if (why == "NodeLost") {
      all.reason = "Unknown";
    } else if (phase != "Succeeded" && phase != "Failed") {
      all.reason = "Terminating";
    }
  }
  return all;
}

std::string readiness_gates_cell(const json::Value& pod) {
  const json::Array& gates = list_at(pod, {"spec", "readinessGates"});
  if (gates.empty()) return "<none>";
  const auto open = std::count_if(gates.begin(), gates.end(), [&](const json::Value& gate) {
    return has_true_condition(pod, text_at(gate, "conditionType"));
  });
  return std::to_string(open) + "/" + std::to_string(gates.size());
}

}  // namespace

json::Array pod_cells(const json::Value& pod, api::Time now) {
  const Summary summary = summarise(pod);
  std::string restarts = std::to_string(summary.restarts);
  if (summary.restarts != 0 && summary.last_restart) {
    restarts += " (" + api::human_duration(now - summary.last_restart) + " ago)";
  }
  const json::Array& ips = list_at(pod, {"status", "podIPs"});
  const std::string_view ip = ips.empty() ? pod.string_at({"status", "podIP"}) : text_at(ips[0], "ip");
  return {metadata_text(pod, "name"),
          std::to_string(summary.ready) + "/" + std::to_string(summary.containers),
          summary.reason,
          restarts,
          age_of(pod, now),
          or_none(ip),
          or_none(pod.string_at({"spec", "nodeName"})),
          or_none(pod.string_at({"status", "nominatedNodeName"})),
          readiness_gates_cell(pod)};
}

std::vector<PrinterColumn> pod_columns() {
  return {name_column(),
          column("Ready", "string", "Containers that are ready, of all that run together."),
          column("Status", "string", "What the containers' states amount to."),
          column("Restarts", "string", "How often containers were started again, and when it last happened."),
          age_column(),
          column("IP", "string", "The address of the pod.", 1),
          column("Node", "string", "The node that the pod is bound to.", 1),
          column("Nominated Node", "string", "The node where others make room for the pod.", 1),
          column("Readiness Gates", "string", "Conditions that are met, of those that readiness waits for.", 1)};
}

}  // namespace basalt::apiserver
