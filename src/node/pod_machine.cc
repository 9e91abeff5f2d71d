#include "node/pod_machine.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "base/check.h"

namespace basalt::node {
namespace {

constexpr std::string_view kAlways = "Always";
constexpr std::string_view kNever = "Never";
constexpr std::int32_t kInterruptedCode = 137;
constexpr std::int32_t kStartErrorCode = 128;  // as container runtimes report it

std::string_view state_name(RunState state) {
  constexpr std::array<std::string_view, 3> kNames = {"Waiting", "Running", "Terminated"};
  return kNames[static_cast<std::size_t>(state)];
}

std::int64_t int_at(const json::Value& value, std::string_view key) {
  const json::Value* found = value.find(key);
  return found != nullptr && found->is_int() ? found->as_int() : 0;
}

bool bool_at(const json::Value& value, std::string_view key) {
  const json::Value* found = value.find(key);
  return found != nullptr && found->is_bool() && found->as_bool();
}

json::Value to_json(const Termination& ended) {
  return json::Object{{"exitCode", std::int64_t{ended.exit_code}},
                      {"signal", std::int64_t{ended.signal}},
                      {"reason", ended.reason},
                      {"message", ended.message},
                      {"startedAt", ended.started_at.to_string()},
                      {"finishedAt", ended.finished_at.to_string()}};
}

Termination termination_from(const json::Value& value) {
  Termination ended;
  ended.exit_code = static_cast<std::int32_t>(int_at(value, "exitCode"));
  ended.signal = static_cast<std::int32_t>(int_at(value, "signal"));
  ended.reason = value.string_at({"reason"});
  ended.message = value.string_at({"message"});
  ended.started_at = api::Time::parse(value.string_at({"startedAt"})).value_or(api::Time());
  ended.finished_at = api::Time::parse(value.string_at({"finishedAt"})).value_or(api::Time());
  return ended;
}

}  // namespace

PodMachine::PodMachine(std::shared_ptr<const api::core::Pod> pod, RestartOptions options)
    : pod_(std::move(pod)), options_(options) {
  for (const api::core::Container& spec : pod_->spec.init_containers) {
    const bool sidecar = spec.restart_policy && *spec.restart_policy == kAlways;
    containers_.push_back(
        {.name = spec.name, .kind = sidecar ? ContainerKind::Sidecar : ContainerKind::Init, .spec = &spec});
  }
  for (const api::core::Container& spec : pod_->spec.containers)
    containers_.push_back({.name = spec.name, .kind = ContainerKind::Main, .spec = &spec});
}

rt::Duration PodMachine::grace() const {
  return std::chrono::seconds(pod_->spec.termination_grace_period_seconds.value_or(30));
}

bool PodMachine::restarts(const ContainerRun& run) const {
  if (run.never_again) return false;
  if (run.kind == ContainerKind::Sidecar) return true;
  const std::string& policy = pod_->spec.restart_policy;
  const bool failed = !run.ended || run.ended->exit_code != 0;
  if (run.kind == ContainerKind::Init) return failed && policy != kNever;
  return policy == kAlways || policy.empty() || (failed && policy != kNever);
}

bool PodMachine::is_over(const ContainerRun& run) const { return run.state == RunState::Terminated && !restarts(run); }

bool PodMachine::is_initialized() const {
  return std::all_of(containers_.begin(), containers_.end(), [](const ContainerRun& run) {
    if (run.kind == ContainerKind::Init) return run.succeeded();
    if (run.kind == ContainerKind::Sidecar) return run.has_started || run.state == RunState::Terminated;
    return true;
  });
}

bool PodMachine::has_running() const {
  return std::any_of(containers_.begin(), containers_.end(),
                     [](const ContainerRun& run) { return run.state == RunState::Running; });
}

bool PodMachine::has_begun() const {
  return std::any_of(containers_.begin(), containers_.end(), [](const ContainerRun& run) { return run.runs > 0; });
}

std::string_view PodMachine::phase() const {
  if (outcome_ == PodOutcome::Succeeded) return api::core::pod_phase::kSucceeded;
  if (outcome_ == PodOutcome::Failed) return api::core::pod_phase::kFailed;
  // Once every main container has begun the pod counts as running, also between two runs.
  const bool all_begun = std::all_of(containers_.begin(), containers_.end(), [](const ContainerRun& run) {
    return run.kind != ContainerKind::Main || run.runs > 0;
  });
  return all_begun ? api::core::pod_phase::kRunning : api::core::pod_phase::kPending;
}

void PodMachine::want(PodStep& step, std::size_t index, rt::Instant now) {
  const ContainerRun& run = containers_[index];
  if (run.restart_at <= now) {
    step.start.push_back(index);
  } else {
    step.wake_at = std::min(step.wake_at, run.restart_at);
  }
}

void PodMachine::end_one(PodStep& step, std::size_t index, rt::Instant now) {
  ContainerRun& run = containers_[index];
  if (run.state != RunState::Running) return;
  if (!run.was_asked) {
    run.was_asked = true;
    step.ask.push_back(index);
  }
  const rt::Instant kill_at = std::min(run.kill_at, stop_by_);
  if (now < kill_at) {
    step.wake_at = std::min(step.wake_at, kill_at);
  } else if (!run.was_killed) {
    run.was_killed = true;
    step.kill.push_back(index);
  }
}

void PodMachine::end_all(PodStep& step, rt::Instant now) {
  bool main_runs = false;
  for (std::size_t i = 0; i < containers_.size(); ++i) {
    if (containers_[i].kind == ContainerKind::Sidecar) continue;
    main_runs = main_runs || containers_[i].state == RunState::Running;
    end_one(step, i, now);
  }
  // Side cars serve the others to the end, but no longer than the grace.
  if (main_runs && now < stop_by_) return;
  for (std::size_t i = 0; i < containers_.size(); ++i) {
    if (containers_[i].kind == ContainerKind::Sidecar) end_one(step, i, now);
  }
}

void PodMachine::finish(PodStep& step, PodOutcome outcome, rt::Instant now) {
  pending_outcome_ = outcome;
  if (has_running()) {
    request_stop(StopCause::Finished, grace(), now);
    end_all(step, now);
    return;
  }
  outcome_ = outcome;
}

void PodMachine::step_init(PodStep& step, rt::Instant now, bool& complete, bool& failed) {
  // Side cars that are being restarted hold up nothing once the others have begun.
  const bool begun = std::any_of(containers_.begin(), containers_.end(), [](const ContainerRun& run) {
    return run.kind == ContainerKind::Main && run.runs > 0;
  });
  for (std::size_t i = 0; i < containers_.size() && containers_[i].kind != ContainerKind::Main; ++i) {
    const ContainerRun& run = containers_[i];
    if (run.kind == ContainerKind::Sidecar) {
      if (is_over(run)) failed = true;  // it cannot be started at all
      if (run.state != RunState::Running && !is_over(run)) want(step, i, now);
      if (run.kill_at != rt::kNever) end_one(step, i, now);
      if (run.has_started || begun) continue;
      complete = false;
      return;
    }
    if (run.succeeded() || begun) continue;
    complete = false;
    if (is_over(run)) {
      failed = true;
    } else if (run.state != RunState::Running) {
      want(step, i, now);
    }
    return;
  }
}

PodStep PodMachine::step(rt::Instant now) {
  PodStep step;
  if (outcome_ != PodOutcome::None) {
    if (has_running()) end_all(step, now);
    return step;
  }
  if (cause_ != StopCause::None) {
    if (has_running()) {
      end_all(step, now);
      return step;
    }
    if (cause_ == StopCause::Finished) {
      outcome_ = pending_outcome_;
      return step;
    }
    const bool all_succeeded = std::all_of(containers_.begin(), containers_.end(), [](const ContainerRun& run) {
      return run.kind != ContainerKind::Main || run.succeeded();
    });
    outcome_ = all_succeeded && cause_ != StopCause::DeadlineExceeded ? PodOutcome::Succeeded : PodOutcome::Failed;
    return step;
  }
  bool initialized = true;
  bool failed = false;
  step_init(step, now, initialized, failed);
  if (failed) {
    step.start.clear();
    finish(step, PodOutcome::Failed, now);
    return step;
  }
  if (!initialized) return step;
  bool all_over = true;
  bool all_succeeded = true;
  for (std::size_t i = 0; i < containers_.size(); ++i) {
    const ContainerRun& run = containers_[i];
    if (run.kind != ContainerKind::Main) continue;
    all_succeeded = all_succeeded && run.succeeded();
    if (is_over(run)) {
      failed = failed || run.never_again;
      continue;
    }
    all_over = false;
    if (run.state == RunState::Running) {
      if (run.kill_at != rt::kNever) end_one(step, i, now);
    } else {
      want(step, i, now);
    }
  }
  // What can never start would leave the others running for nothing.
  if (failed || all_over) {
    step.start.clear();
    finish(step, all_succeeded ? PodOutcome::Succeeded : PodOutcome::Failed, now);
  }
  return step;
}

void PodMachine::on_started(std::size_t index, ProcessId process, api::Time wall, rt::Instant now) {
  ContainerRun& run = containers_[index];
  run.state = RunState::Running;
  run.is_starting = false;
  ++run.runs;
  run.process = process;
  run.started_at = wall;
  run.running_since = now;
  run.has_started = !run.spec->startup_probe.has_value();
  run.is_ready = run.has_started && !run.spec->readiness_probe.has_value();
  run.was_asked = false;
  run.was_killed = false;
  run.kill_at = rt::kNever;
  run.kill_reason.clear();
}

void PodMachine::terminate(ContainerRun& run, Termination ended, rt::Instant now) {
  run.state = RunState::Terminated;
  run.process = kNoProcess;
  run.has_started = false;
  run.is_ready = false;
  run.kill_at = rt::kNever;
  run.ended = std::move(ended);
  if (!restarts(run)) return;
  if (now - run.running_since >= options_.backoff_reset) run.restarts_in_row = 0;
  const std::uint32_t failures = run.restarts_in_row++;
  if (failures == 0) {
    run.restart_at = now;
    return;
  }
  rt::Duration delay = options_.backoff_base;
  for (std::uint32_t i = 1; i < failures && delay < options_.backoff_cap; ++i) delay *= 2;
  run.restart_at = rt::saturating_add(now, std::min(delay, options_.backoff_cap));
}

void PodMachine::on_start_failed(std::size_t index, bool for_good, std::string message, api::Time wall,
                                 rt::Instant now) {
  ContainerRun& run = containers_[index];
  run.is_starting = false;
  ++run.runs;
  run.never_again = for_good;
  run.running_since = now;
  terminate(run,
            {.exit_code = kStartErrorCode,
             .reason = "StartError",
             .message = message,
             .started_at = wall,
             .finished_at = wall},
            now);
  if (!for_good) return;
  reason_ = "StartError";
  message_ = "container " + run.name + ": " + std::move(message);
}

void PodMachine::on_exit(std::size_t index, const ProcessExit& exit, api::Time wall, rt::Instant now) {
  ContainerRun& run = containers_[index];
  if (run.state != RunState::Running) return;
  terminate(run,
            {.exit_code = exit.code,
             .signal = exit.signal,
             .reason = exit.out_of_memory ? "OOMKilled" : (exit.code == 0 ? "Completed" : "Error"),
             .message = run.kill_reason,
             .started_at = run.started_at,
             .finished_at = wall},
            now);
}

void PodMachine::request_stop(StopCause cause, rt::Duration grace, rt::Instant now) {
  stop_by_ = std::min(stop_by_, rt::saturating_add(now, grace));
  if (cause_ != StopCause::None && cause_ != StopCause::Finished) return;
  cause_ = cause;
  if (cause == StopCause::DeadlineExceeded) {
    reason_ = "DeadlineExceeded";
    message_ = "Pod was active on the node longer than the specified deadline";
  }
}

void PodMachine::end_container(std::size_t index, std::string why, rt::Duration grace, rt::Instant now) {
  ContainerRun& run = containers_[index];
  if (run.state != RunState::Running || run.kill_at != rt::kNever) return;
  run.kill_reason = std::move(why);
  run.kill_at = rt::saturating_add(now, grace);
}

json::Value PodMachine::record() const {
  json::Array containers;
  for (const ContainerRun& run : containers_) {
    json::Object one{{"name", run.name},
                     {"state", state_name(run.is_starting ? RunState::Running : run.state)},
                     {"runs", std::int64_t{run.runs + (run.is_starting ? 1 : 0)}},
                     {"neverAgain", run.never_again},
                     {"startedAt", run.started_at.to_string()}};
    if (run.ended) one.set("ended", to_json(*run.ended));
    containers.emplace_back(std::move(one));
  }
  json::Object record{{"uid", pod_->metadata.uid},   {"namespace", pod_->metadata.namespace_},
                      {"name", pod_->metadata.name}, {"containers", std::move(containers)},
                      {"interrupted", interrupted_}, {"reason", reason_},
                      {"message", message_}};
  if (outcome_ != PodOutcome::None) record.set("phase", phase());
  return record;
}

void PodMachine::restore(const json::Value& record, api::Time wall) {
  if (record.string_at({"uid"}) != pod_->metadata.uid) return;
  const std::string_view phase = record.string_at({"phase"});
  if (phase == api::core::pod_phase::kSucceeded) outcome_ = PodOutcome::Succeeded;
  if (phase == api::core::pod_phase::kFailed) outcome_ = PodOutcome::Failed;
  reason_ = record.string_at({"reason"});
  message_ = record.string_at({"message"});
  interrupted_ = bool_at(record, "interrupted");
  const json::Value* list = record.find("containers");
  if (list == nullptr || !list->is_array()) return;
  for (const json::Value& one : list->as_array()) {
    const auto found = std::find_if(containers_.begin(), containers_.end(),
                                    [&](const ContainerRun& run) { return run.name == one.string_at({"name"}); });
    if (found == containers_.end()) continue;
    ContainerRun& run = *found;
    run.runs = static_cast<std::int32_t>(int_at(one, "runs"));
    run.never_again = bool_at(one, "neverAgain");
    run.started_at = api::Time::parse(one.string_at({"startedAt"})).value_or(api::Time());
    if (const json::Value* ended = one.find("ended"); ended != nullptr) run.ended = termination_from(*ended);
    const std::string_view state = one.string_at({"state"});
    if (state == "Terminated") {
      run.state = RunState::Terminated;
    } else if (state == "Running") {
      interrupt(run, wall);
    }
  }
}

void PodMachine::interrupt(ContainerRun& run, api::Time wall) {
  run.state = RunState::Terminated;
  run.ended = {.exit_code = kInterruptedCode,
               .signal = SIGKILL,
               .reason = "Interrupted",
               .message = "the node agent was stopped while the container ran",
               .started_at = run.started_at,
               .finished_at = wall};
  if (run.kind == ContainerKind::Main) interrupted_ = true;
}

void PodMachine::restore_from_status(api::Time wall) {
  for (const auto* list : {&pod_->status.init_container_statuses, &pod_->status.container_statuses}) {
    for (const auto& shown : *list) {
      const auto found = std::find_if(containers_.begin(), containers_.end(),
                                      [&](const ContainerRun& run) { return run.name == shown.name; });
      if (found == containers_.end()) continue;
      ContainerRun& run = *found;
      const auto& ended = shown.state.terminated ? shown.state.terminated : shown.last_state.terminated;
      if (ended) {
        run.state = RunState::Terminated;
        run.ended = {.exit_code = ended->exit_code,
                     .signal = ended->signal,
                     .reason = ended->reason,
                     .message = ended->message,
                     .started_at = ended->started_at,
                     .finished_at = ended->finished_at};
      }
      if (ended || shown.state.running) run.runs = shown.restart_count + 1;
      if (shown.state.running) {
        run.started_at = shown.state.running->started_at;
        interrupt(run, wall);
      }
    }
  }
}

}  // namespace basalt::node
