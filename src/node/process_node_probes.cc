// The part of ProcessNode that asks containers how they are.
#include <algorithm>
#include <csignal>

#include "node/process_node.h"
#include "node/process_node_impl.h"

namespace basalt::node {
namespace {

std::chrono::seconds seconds_or(std::int32_t value, std::int32_t otherwise) {
  return std::chrono::seconds(value > 0 ? value : otherwise);
}

std::int32_t times_or(std::int32_t value, std::int32_t otherwise) { return value > 0 ? value : otherwise; }

std::string_view name_of(ProbeKind kind) {
  if (kind == ProbeKind::Startup) return "startup";
  return kind == ProbeKind::Liveness ? "liveness" : "readiness";
}

}  // namespace

// The probes of a container whose run has just begun. Those that no process can do count as passed.
void ProcessNode::begin_probes(PodWork& work, std::size_t index) {
  ContainerRun& run = work.machine.container(index);
  const std::pair<ProbeKind, const std::optional<api::core::Probe>&> all[] = {
      {ProbeKind::Startup, run.spec->startup_probe},
      {ProbeKind::Liveness, run.spec->liveness_probe},
      {ProbeKind::Readiness, run.spec->readiness_probe}};
  for (const auto& [kind, probe] : all) {
    if (!probe) continue;
    if (!probe->exec) {
      if (kind == ProbeKind::Startup) run.has_started = true;
      if (run.runs == 1) {
        tell(work, kube::EventType::Warning, "ProbeNotRun",
             "container " + run.name + ": process nodes run exec probes only; the " + std::string(name_of(kind)) +
                 " probe counts as passed");
      }
      continue;
    }
    auto state = std::make_shared<ProbeRun>();
    state->kind = kind;
    state->probe = &*probe;
    state->next = runtime_.now() + std::chrono::seconds(std::max(probe->initial_delay_seconds, 0));
    work.probes[index].push_back(std::move(state));
  }
  const bool waits = run.spec->readiness_probe && run.spec->readiness_probe->exec;
  run.is_ready = run.has_started && !waits;
  work.probed_runs[index] = run.runs;
}

void ProcessNode::run_probes(PodWork& work, rt::Instant& wake_at) {
  for (std::size_t i = 0; i < work.machine.containers().size(); ++i) {
    const ContainerRun& run = work.machine.containers()[i];
    if (run.state != RunState::Running) continue;
    if (work.probed_runs[i] != run.runs) begin_probes(work, i);
    for (const auto& probe : work.probes[i]) {
      if (probe->kind != ProbeKind::Startup && !run.has_started) continue;
      if (probe->kind == ProbeKind::Startup && run.has_started) continue;
      step_probe(work, i, probe, wake_at);
    }
  }
}

void ProcessNode::step_probe(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe,
                             rt::Instant& wake_at) {
  const rt::Instant now = runtime_.now();
  if (probe->is_running) {
    bool has_result = false;
    {
      rt::MutexLock lock(mutex_);
      has_result = probe->has_result;
    }
    if (!has_result) {
      if (now >= probe->give_up_at) host_.runner().signal(probe->process, SIGKILL);  // its exit will wake us
      wake_at = std::min(wake_at, now >= probe->give_up_at ? rt::kNever : probe->give_up_at);
      return;
    }
    probe->is_running = false;
    probe->next = now + seconds_or(probe->probe->period_seconds, 10);
    judge(work, index, *probe, wake_at);
  }
  if (now >= probe->next) start_probe(work, index, probe);
  wake_at = std::min(wake_at, probe->is_running ? probe->give_up_at : probe->next);
}

void ProcessNode::start_probe(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe) {
  ProcessSpec spec = work.specs[index];
  spec.argv = probe->probe->exec->command;
  spec.name += " (probe)";
  {
    rt::MutexLock lock(mutex_);
    probe->has_result = false;
    ++probes_running_;
  }
  const auto started = host_.runner().start(
      spec, [](OutputStream, std::string_view) {},
      [this, probe, uid = work.pod->metadata.uid](const ProcessExit& exit) {
        {
          rt::MutexLock lock(mutex_);
          probe->has_result = true;
          probe->succeeded = exit.code == 0 && exit.signal == 0;
        }
        queue_.add_after(uid, rt::Duration::zero());  // after the result, or the worker may look too early
        rt::MutexLock lock(mutex_);
        --probes_running_;  // last: who waits for it may then take the queue away
        exited_.notify_all();
      });
  probe->is_running = true;
  if (started.ok()) {
    probe->process = started->id;
    probe->give_up_at = runtime_.now() + seconds_or(probe->probe->timeout_seconds, 1);
    return;
  }
  rt::MutexLock lock(mutex_);
  --probes_running_;
  probe->has_result = true;
  probe->succeeded = false;
  probe->give_up_at = runtime_.now();
}

void ProcessNode::judge(PodWork& work, std::size_t index, ProbeRun& probe, rt::Instant& wake_at) {
  ContainerRun& run = work.machine.container(index);
  probe.successes = probe.succeeded ? probe.successes + 1 : 0;
  probe.failures = probe.succeeded ? 0 : probe.failures + 1;
  const bool is_good = probe.successes >= times_or(probe.probe->success_threshold, 1);
  const bool is_bad = probe.failures >= times_or(probe.probe->failure_threshold, 3);
  if (probe.kind == ProbeKind::Readiness) {
    if (is_good) run.is_ready = true;
    if (is_bad) run.is_ready = false;
    return;
  }
  if (probe.kind == ProbeKind::Startup && is_good) {
    run.has_started = true;
    const bool waits = run.spec->readiness_probe && run.spec->readiness_probe->exec;
    run.is_ready = !waits;
    wake_at = runtime_.now();  // the other probes, and who waits for a side car
  }
  if (!is_bad) return;
  const std::string why = "container " + run.name + " failed its " + std::string(name_of(probe.kind)) + " probe";
  tell(work, kube::EventType::Warning, "Unhealthy", why);
  const std::int64_t grace = probe.probe->termination_grace_period_seconds.value_or(
      work.pod->spec.termination_grace_period_seconds.value_or(30));
  work.machine.end_container(index, why, std::chrono::seconds(grace), runtime_.now());
  wake_at = runtime_.now();
}

}  // namespace basalt::node
