// The part of ProcessNode that asks containers how they are.
#include <algorithm>
#include <csignal>

#include "base/strings.h"
#include "node/process_node.h"
#include "node/process_node_impl.h"

namespace basalt::node {
namespace {

constexpr std::size_t kOutputBytesMax = 1024;  // of a command, for the event; its message holds no more

std::chrono::seconds seconds_or(std::int32_t value, std::int32_t otherwise) {
  return std::chrono::seconds(value > 0 ? value : otherwise);
}

std::int32_t times_or(std::int32_t value, std::int32_t otherwise) { return value > 0 ? value : otherwise; }

std::string_view name_of(ProbeKind kind) {
  if (kind == ProbeKind::Startup) return "startup";
  return kind == ProbeKind::Liveness ? "liveness" : "readiness";
}

std::string_view title_of(ProbeKind kind) {
  if (kind == ProbeKind::Startup) return "Startup";
  return kind == ProbeKind::Liveness ? "Liveness" : "Readiness";
}

// Whether anything can be asked; a probe of a kind that is not known here counts as passed.
bool is_run(const std::optional<api::core::Probe>& probe) {
  return probe && (probe->exec || has_network_check(*probe));
}

CheckResult result_of(const ProcessExit& exit, std::string_view output) {
  if (exit.code == 0 && exit.signal == 0) return {Verdict::Passed, ""};
  std::string message(base::trim(output));
  if (message.empty()) message = "the command ended with exit code " + std::to_string(exit.code);
  return {Verdict::Failed, std::move(message)};
}

}  // namespace

// The probes of a container whose run has just begun.
void ProcessNode::begin_probes(PodWork& work, std::size_t index) {
  ContainerRun& run = work.machine.container(index);
  const std::pair<ProbeKind, const std::optional<api::core::Probe>&> all[] = {
      {ProbeKind::Startup, run.spec->startup_probe},
      {ProbeKind::Liveness, run.spec->liveness_probe},
      {ProbeKind::Readiness, run.spec->readiness_probe}};
  for (const auto& [kind, probe] : all) {
    if (!probe) continue;
    if (!is_run(probe)) {
      if (kind == ProbeKind::Startup) run.has_started = true;
      if (run.runs == 1) {
        tell(work, kube::EventType::Warning, "ProbeNotRun",
             "container " + run.name + ": the " + std::string(name_of(kind)) +
                 " probe is none of exec, httpGet, tcpSocket and grpc and counts as passed",
             &run);
      }
      continue;
    }
    auto state = std::make_shared<ProbeRun>();
    state->kind = kind;
    state->probe = &*probe;
    state->next = run.running_since + std::chrono::seconds(std::max(probe->initial_delay_seconds, 0));
    work.probes[index].push_back(std::move(state));
  }
  run.is_ready = run.has_started && !is_run(run.spec->readiness_probe);
  work.probed_runs[index] = run.runs;
}

void ProcessNode::run_probes(PodWork& work, rt::Instant& wake_at) {
  for (std::size_t i = 0; i < work.machine.containers().size(); ++i) {
    const ContainerRun& run = work.machine.containers()[i];
    if (run.state != RunState::Running) continue;
    if (work.probed_runs[i] != run.runs) begin_probes(work, i);
    // What is being ended already cannot be ended by a probe, but it may still serve.
    const bool is_ending = run.kill_at != rt::kNever || work.machine.stop_cause() != StopCause::None;
    for (const auto& probe : work.probes[i]) {
      if (probe->kind != ProbeKind::Startup && !run.has_started) continue;
      if (probe->kind == ProbeKind::Startup && run.has_started) continue;
      if (probe->kind != ProbeKind::Readiness && is_ending) continue;
      step_probe(work, i, probe, wake_at);
    }
  }
}

void ProcessNode::step_probe(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe,
                             rt::Instant& wake_at) {
  if (probe->is_on_hold) return;
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
    // Periods count from start to start; one that was too short for a slow answer is made up for once.
    probe->next = std::max(now, probe->started + seconds_or(probe->probe->period_seconds, 10));
    judge(work, index, *probe, wake_at);
    if (probe->is_on_hold) return;
  }
  if (now >= probe->next) start_probe(work, index, probe);
  wake_at = std::min(wake_at, probe->is_running ? probe->give_up_at : probe->next);
}

void ProcessNode::start_probe(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe) {
  {
    rt::MutexLock lock(mutex_);
    probe->has_result = false;
    ++probes_running_;
  }
  probe->is_running = true;
  probe->started = runtime_.now();
  probe->give_up_at = rt::kNever;
  const bool is_command = probe->probe->exec.has_value();
  const Done started = is_command ? start_command(work, index, probe) : start_check(work, index, probe);
  if (started.ok()) return;
  rt::MutexLock lock(mutex_);
  --probes_running_;
  probe->has_result = true;
  // A command that cannot be started tells about its container; that a check cannot be made does not.
  probe->result = {is_command ? Verdict::Failed : Verdict::Errored, started.error().message};
  probe->give_up_at = runtime_.now();
}

Done ProcessNode::start_command(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe) {
  ProcessSpec spec = work.specs[index];
  spec.argv = probe->probe->exec->command;
  spec.name += " (probe)";
  const rt::Duration timeout = seconds_or(probe->probe->timeout_seconds, 1);
  const rt::Instant give_up_at = runtime_.now() + timeout;
  const auto output = std::make_shared<std::string>();
  const auto started = host_.runner().start(
      spec,
      [output](OutputStream, std::string_view bytes) {
        output->append(bytes.substr(0, kOutputBytesMax - std::min(kOutputBytesMax, output->size())));
      },
      [this, probe, output, give_up_at, uid = work.pod->metadata.uid](const ProcessExit& exit) {
        CheckResult result = result_of(exit, *output);
        if (exit.signal == SIGKILL && runtime_.now() >= give_up_at)
          result.message = "the command did not end within its timeout and was killed";
        finish_probe(*probe, uid, std::move(result));
      });
  if (!started.ok()) return started.error();
  probe->process = started->id;
  probe->give_up_at = give_up_at;
  return Ok{};
}

Done ProcessNode::start_check(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe) {
  BASALT_TRY(NetworkCheck check,
             network_check(*probe->probe, *work.machine.containers()[index].spec, work.place.pod_ip));
  probe->cancel = std::make_unique<rt::StopSource>(runtime_, stop_.token());
  return host_.prober().start(std::move(check), seconds_or(probe->probe->timeout_seconds, 1), probe->cancel->token(),
                              [this, probe, uid = work.pod->metadata.uid](CheckResult result) {
                                finish_probe(*probe, uid, std::move(result));
                              });
}

void ProcessNode::finish_probe(ProbeRun& probe, const std::string& uid, CheckResult result) {
  {
    rt::MutexLock lock(mutex_);
    probe.has_result = true;
    probe.result = std::move(result);
  }
  queue_.add_after(uid, rt::Duration::zero());  // after the result, or the worker may look too early
  rt::MutexLock lock(mutex_);
  --probes_running_;  // last: who waits for it may then take the queue away
  exited_.notify_all();
}

void ProcessNode::cancel_probe(const ProbeRun& probe) {
  if (probe.cancel) {
    probe.cancel->request_stop();
  } else {
    host_.runner().signal(probe.process, SIGKILL);
  }
}

// Every result that is not a plain success, as kubelet tells it (pkg/kubelet/prober, v1.36).
void ProcessNode::tell_result(const PodWork& work, const ContainerRun& run, const ProbeRun& probe) {
  const CheckResult& result = probe.result;
  if (result.verdict == Verdict::Passed && result.message.empty()) return;
  const std::string_view what = result.verdict == Verdict::Passed   ? " probe warning: "
                                : result.verdict == Verdict::Failed ? " probe failed: "
                                                                    : " probe errored: ";
  tell(work, kube::EventType::Warning, result.verdict == Verdict::Passed ? "ProbeWarning" : "Unhealthy",
       std::string(title_of(probe.kind)) + std::string(what) + base::escape_controls(result.message), &run);
}

// The result is there, and nothing runs that could change it.
void ProcessNode::judge(PodWork& work, std::size_t index, ProbeRun& probe, rt::Instant& wake_at) {
  ContainerRun& run = work.machine.container(index);
  tell_result(work, run, probe);
  if (probe.result.verdict == Verdict::Errored) return;
  const bool succeeded = probe.result.verdict == Verdict::Passed;
  probe.successes = succeeded ? probe.successes + 1 : 0;
  probe.failures = succeeded ? 0 : probe.failures + 1;
  const bool is_good = probe.successes >= times_or(probe.probe->success_threshold, 1);
  const bool is_bad = probe.failures >= times_or(probe.probe->failure_threshold, 3);
  if (probe.kind == ProbeKind::Readiness) {
    if (is_good) run.is_ready = true;
    if (is_bad) run.is_ready = false;
    return;
  }
  if (probe.kind == ProbeKind::Startup && is_good) {
    run.has_started = true;
    run.is_ready = !is_run(run.spec->readiness_probe);
    wake_at = runtime_.now();  // the other probes, and who waits for a side car
  }
  if (!is_bad) return;
  probe.is_on_hold = true;
  const std::string kind(name_of(probe.kind));
  const bool restarts = run.kind == ContainerKind::Sidecar || work.pod->spec.restart_policy != "Never";
  tell(work, kube::EventType::Normal, "Killing",
       "Container " + run.name + " failed " + kind + " probe" + (restarts ? ", will be restarted" : ""), &run);
  const std::int64_t grace = probe.probe->termination_grace_period_seconds.value_or(
      work.pod->spec.termination_grace_period_seconds.value_or(30));
  work.machine.end_container(index, "container " + run.name + " failed its " + kind + " probe",
                             std::chrono::seconds(grace), runtime_.now());
  wake_at = runtime_.now();
}

}  // namespace basalt::node
