#include "node/pod_status.h"

namespace basalt::node {
namespace {

constexpr std::string_view kScheduled = "PodScheduled";

json::Value terminated(const PodMachine& machine, const ContainerRun& run, const Termination& ended) {
  json::Object state{{"exitCode", std::int64_t{ended.exit_code}}, {"reason", ended.reason}};
  if (ended.signal != 0) state.set("signal", std::int64_t{ended.signal});
  if (!ended.message.empty()) state.set("message", ended.message);
  if (ended.started_at) state.set("startedAt", ended.started_at.to_string());
  if (ended.finished_at) state.set("finishedAt", ended.finished_at.to_string());
  state.set("containerID",
            "process://" + machine.pod().metadata.uid + "/" + run.name + "/" + std::to_string(run.restart_count()));
  return json::Object{{"terminated", std::move(state)}};
}

json::Value waiting(std::string_view reason, std::string_view message) {
  json::Object state{{"reason", reason}};
  if (!message.empty()) state.set("message", message);
  return json::Object{{"waiting", std::move(state)}};
}

json::Value container_status(const PodMachine& machine, const ContainerRun& run, const WaitNote& note) {
  const bool is_running = run.state == RunState::Running;
  json::Object status{{"name", run.name},
                      {"image", run.spec->image},
                      {"imageID", ""},
                      {"ready", run.kind == ContainerKind::Init ? run.succeeded() : is_running && run.is_ready},
                      {"started", is_running && run.has_started},
                      {"restartCount", std::int64_t{run.restart_count()}}};
  if (run.runs > 0) {
    status.set("containerID",
               "process://" + machine.pod().metadata.uid + "/" + run.name + "/" + std::to_string(run.restart_count()));
  }
  const bool may_restart = machine.outcome() == PodOutcome::None && machine.stop_cause() == StopCause::None;
  const bool will_restart = may_restart && run.state == RunState::Terminated && machine.restarts(run);
  if (is_running) {
    status.set("state", json::Object{{"running", json::Object{{"startedAt", run.started_at.to_string()}}}});
    if (run.ended) status.set("lastState", terminated(machine, run, *run.ended));
  } else if (run.state == RunState::Terminated && !will_restart) {
    status.set("state", terminated(machine, run, *run.ended));
    status.set("lastState", json::Object());
  } else if (will_restart) {
    const std::string message = note.message.empty() ? "waiting before it is restarted: container " + run.name +
                                                           " ended with code " + std::to_string(run.ended->exit_code)
                                                     : note.message;
    status.set("state", waiting(note.reason.empty() ? "CrashLoopBackOff" : note.reason, message));
    status.set("lastState", terminated(machine, run, *run.ended));
  } else {
    const bool initializing = run.kind == ContainerKind::Main && !machine.is_initialized() && note.reason.empty();
    status.set("state",
               waiting(initializing ? "PodInitializing" : (note.reason.empty() ? "ContainerCreating" : note.reason),
                       note.message));
  }
  return status;
}

struct Observation {
  std::string_view type;
  bool holds = false;
  std::string_view reason;
  std::string message;
};

json::Value condition(const Observation& seen, ConditionTimes& times, api::Time now) {
  const std::string_view status = seen.holds ? "True" : "False";
  auto& [known, since] = times[std::string(seen.type)];
  if (known != status || since.is_zero()) since = now;
  known = status;
  json::Object object{
      {"type", seen.type}, {"status", status}, {"lastProbeTime", nullptr}, {"lastTransitionTime", since.to_string()}};
  // Absent members of a patch stay as they are, so what no longer holds is removed.
  object.set("reason", seen.reason.empty() ? json::Value(nullptr) : json::Value(seen.reason));
  object.set("message", seen.message.empty() ? json::Value(nullptr) : json::Value(seen.message));
  return object;
}

json::Array conditions(const PodMachine& machine, ConditionTimes& times, api::Time now) {
  std::string unready;
  std::string uninitialized;
  for (const ContainerRun& run : machine.containers()) {
    const bool fine = run.kind == ContainerKind::Init
                          ? run.succeeded()
                          : run.state == RunState::Running && (run.kind == ContainerKind::Main ? run.is_ready : true);
    std::string& list = run.kind == ContainerKind::Main ? unready : uninitialized;
    if (!fine) list += (list.empty() ? "" : " ") + run.name;
  }
  const bool done = machine.outcome() == PodOutcome::Succeeded;
  const bool failed = machine.outcome() == PodOutcome::Failed;
  const bool initialized = done || machine.is_initialized();
  const bool ready = !done && !failed && initialized && unready.empty();
  const std::string_view why = done ? "PodCompleted" : (failed ? "PodFailed" : "ContainersNotReady");
  const std::string detail = done ? "" : "containers with unready status: [" + unready + "]";
  json::Array list;
  list.push_back(
      condition({"Initialized", initialized, initialized ? (done ? "PodCompleted" : "") : "ContainersNotInitialized",
                 initialized ? "" : "containers with incomplete status: [" + uninitialized + "]"},
                times, now));
  list.push_back(condition({"Ready", ready, ready ? "" : why, ready ? "" : detail}, times, now));
  list.push_back(condition({"ContainersReady", ready, ready ? "" : why, ready ? "" : detail}, times, now));
  if (machine.was_interrupted()) {
    list.push_back(
        condition({"DisruptionTarget", true, "TerminationByKubelet", "the node agent was stopped while the pod ran"},
                  times, now));
  }
  return list;
}

}  // namespace

ConditionTimes condition_times(const api::core::Pod& pod) {
  ConditionTimes times;
  for (const auto& one : pod.status.conditions) times[one.type] = {one.status, one.last_transition_time};
  return times;
}

json::Value pod_status(const PodMachine& machine, const PodPlace& place, api::Time start_time, const WaitNote& note,
                       ConditionTimes& times, api::Time now) {
  json::Array inits;
  json::Array mains;
  for (const ContainerRun& run : machine.containers())
    (run.kind == ContainerKind::Main ? mains : inits).push_back(container_status(machine, run, note));
  json::Array list = conditions(machine, times, now);
  bool scheduled = false;
  for (const auto& one : machine.pod().status.conditions) scheduled = scheduled || one.type == kScheduled;
  if (!scheduled) list.push_back(condition({kScheduled, true, "", ""}, times, now));
  json::Object status{{"phase", machine.phase()},
                      {"conditions", std::move(list)},
                      {"hostIP", place.host_ip},
                      {"hostIPs", json::Array{json::Object{{"ip", place.host_ip}}}},
                      {"podIP", place.pod_ip},
                      {"podIPs", json::Array{json::Object{{"ip", place.pod_ip}}}},
                      {"startTime", start_time.to_string()},
                      {"containerStatuses", std::move(mains)}};
  if (!inits.empty()) status.set("initContainerStatuses", std::move(inits));
  if (!machine.reason().empty()) status.set("reason", machine.reason());
  if (!machine.message().empty()) status.set("message", machine.message());
  return status;
}

}  // namespace basalt::node
