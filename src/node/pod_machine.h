#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/core_pod.h"
#include "api/time.h"
#include "base/result.h"
#include "json/value.h"
#include "node/process_runner.h"
#include "rt/time.h"

namespace basalt::node {

// How often and how soon containers are restarted; kubelet's numbers.
struct RestartOptions {
  rt::Duration backoff_base = std::chrono::seconds(10);  // after the first restart, which is immediate
  rt::Duration backoff_cap = std::chrono::seconds(300);
  rt::Duration backoff_reset = std::chrono::minutes(10);  // a run of this length begins the count anew
};

enum class RunState : std::uint8_t { Waiting, Running, Terminated };

// One run that is over.
struct Termination {
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::string reason;  // Completed, Error, StartError, Interrupted, ...
  std::string message;
  api::Time started_at;
  api::Time finished_at;

  bool operator==(const Termination&) const = default;
};

enum class ContainerKind : std::uint8_t { Init, Sidecar, Main };

struct ContainerRun {
  std::string name;
  ContainerKind kind = ContainerKind::Main;
  const api::core::Container* spec = nullptr;  // in the machine's pod

  RunState state = RunState::Waiting;
  std::int32_t runs = 0;  // begun so far
  api::Time started_at;
  std::optional<Termination> ended;  // the newest run that is over: the current state, or the last one
  bool never_again = false;          // restarting it cannot help
  bool has_started = false;          // its startup probe, if any, has passed
  bool is_ready = false;
  ProcessId process = kNoProcess;
  std::uint32_t restarts_in_row = 0;
  rt::Instant running_since{};
  rt::Instant restart_at{};
  std::string kill_reason;   // why we ended it, for the message
  bool is_starting = false;  // recorded as running, because it may be by the time we die
  bool was_asked = false;    // has got SIGTERM
  bool was_killed = false;   // has got SIGKILL
  rt::Instant kill_at = rt::kNever;

  [[nodiscard]] std::int32_t restart_count() const { return runs > 0 ? runs - 1 : 0; }
  [[nodiscard]] bool succeeded() const { return state == RunState::Terminated && ended && ended->exit_code == 0; }
};

// Why a pod's containers are being ended.
enum class StopCause : std::uint8_t { None, Finished, Deleted, DeadlineExceeded, Gone };

enum class PodOutcome : std::uint8_t { None, Succeeded, Failed };

// What is to be done now; indexes into containers().
struct PodStep {
  std::vector<std::size_t> start;
  std::vector<std::size_t> ask;   // SIGTERM
  std::vector<std::size_t> kill;  // SIGKILL
  rt::Instant wake_at = rt::kNever;
};

// The life of one pod's containers on its node: which to start, stop and restart, and what the pod's phase is. Pure:
// time comes in, orders come out; tests walk through it without processes. One owner, one thread at a time.
//
// Init containers run one after another; a side car (an init container that restarts always) only has to have started
// before the next. Then the others run together. Side cars end after them. A pod with an outcome never starts anything.
class PodMachine {
 public:
  PodMachine(std::shared_ptr<const api::core::Pod> pod, RestartOptions options);
  PodMachine(const PodMachine&) = delete;
  PodMachine& operator=(const PodMachine&) = delete;

  [[nodiscard]] const api::core::Pod& pod() const { return *pod_; }
  [[nodiscard]] const std::vector<ContainerRun>& containers() const { return containers_; }
  [[nodiscard]] ContainerRun& container(std::size_t index) { return containers_[index]; }
  [[nodiscard]] PodOutcome outcome() const { return outcome_; }
  [[nodiscard]] StopCause stop_cause() const { return cause_; }
  [[nodiscard]] std::string_view phase() const;
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  [[nodiscard]] bool is_initialized() const;
  [[nodiscard]] bool has_running() const;
  [[nodiscard]] bool was_interrupted() const { return interrupted_; }
  [[nodiscard]] bool has_begun() const;  // any container ever ran

  // Whether a container that has ended is started again, by the pod's restart policy.
  [[nodiscard]] bool restarts(const ContainerRun& run) const;

  // What to do now. The caller carries it out and reports with the functions below; then asks again until there is
  // nothing to start.
  [[nodiscard]] PodStep step(rt::Instant now);

  void on_started(std::size_t index, ProcessId process, api::Time wall, rt::Instant now);
  // `for_good`: trying again cannot help, so the pod fails.
  void on_start_failed(std::size_t index, bool for_good, std::string message, api::Time wall, rt::Instant now);
  void on_exit(std::size_t index, const ProcessExit& exit, api::Time wall, rt::Instant now);
  // All is to end within `grace`; of several calls the shortest counts. Gone is Deleted without anybody to tell.
  void request_stop(StopCause cause, rt::Duration grace, rt::Instant now);
  // One container is to end (a failed liveness probe) and then goes the way of its restart policy.
  void end_container(std::size_t index, std::string why, rt::Duration grace, rt::Instant now);
  // The API shows the pod as finished: nothing is ever started.
  void set_outcome(PodOutcome outcome) { outcome_ = outcome; }

  // What must survive the agent. restore() takes a record of the same pod: containers that ran then were interrupted.
  [[nodiscard]] json::Value record() const;
  void restore(const json::Value& record, api::Time wall);
  // The same from the pod's own status, where there is no record: what it shows as ended stays ended.
  void restore_from_status(api::Time wall);

 private:
  [[nodiscard]] bool is_over(const ContainerRun& run) const;  // ended and will not be restarted
  void want(PodStep& step, std::size_t index, rt::Instant now);
  void end_all(PodStep& step, rt::Instant now);
  void end_one(PodStep& step, std::size_t index, rt::Instant now);
  void step_init(PodStep& step, rt::Instant now, bool& complete, bool& failed);
  void finish(PodStep& step, PodOutcome outcome, rt::Instant now);
  void terminate(ContainerRun& run, Termination ended, rt::Instant now);
  void interrupt(ContainerRun& run, api::Time wall);
  [[nodiscard]] rt::Duration grace() const;

  // Fixed after construction.
  const std::shared_ptr<const api::core::Pod> pod_;
  const RestartOptions options_;

  std::vector<ContainerRun> containers_;  // init containers first
  PodOutcome outcome_ = PodOutcome::None;
  PodOutcome pending_outcome_ = PodOutcome::None;  // what it will be when the side cars have ended
  StopCause cause_ = StopCause::None;
  rt::Instant stop_by_ = rt::kNever;
  std::string reason_;
  std::string message_;
  bool interrupted_ = false;
};

}  // namespace basalt::node
