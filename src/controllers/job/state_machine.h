#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "api/gen/batch_job.h"

// The life of a job as a table: what each action does in each phase, and which rule then decides about the next phase.
// Pure; the tests enumerate it completely. Behaviour of Volcano 1.15 (pkg/controllers/job/state) except where marked.
namespace basalt::controllers::job {

enum class Phase : std::uint8_t {
  Pending,
  Running,
  Restarting,
  Aborting,
  Aborted,
  Completing,
  Completed,
  Terminating,
  Terminated,
  Failed,
};
inline constexpr std::array kAllPhases = {Phase::Pending,    Phase::Running,    Phase::Restarting, Phase::Aborting,
                                          Phase::Aborted,    Phase::Completing, Phase::Completed,  Phase::Terminating,
                                          Phase::Terminated, Phase::Failed};
[[nodiscard]] std::string_view to_string(Phase phase);
[[nodiscard]] Phase phase_of(std::string_view text);  // "" and unknown words are Pending

enum class Action : std::uint8_t {
  SyncJob,
  AbortJob,
  RestartJob,
  RestartTask,
  RestartPod,
  RestartPartition,
  TerminateJob,
  CompleteJob,
  ResumeJob,
  Other,  // EnqueueJob and every unknown word
};
inline constexpr std::array kAllActions = {
    Action::SyncJob,          Action::AbortJob,     Action::RestartJob,  Action::RestartTask, Action::RestartPod,
    Action::RestartPartition, Action::TerminateJob, Action::CompleteJob, Action::ResumeJob,   Action::Other};
[[nodiscard]] std::string_view to_string(Action action);
[[nodiscard]] Action action_of(std::string_view text);
[[nodiscard]] constexpr bool is_targeted(Action action) {
  return action == Action::RestartTask || action == Action::RestartPod || action == Action::RestartPartition;
}

// Completed, Failed, Terminated: there is no way out.
[[nodiscard]] constexpr bool is_terminal(Phase phase) {
  return phase == Phase::Completed || phase == Phase::Failed || phase == Phase::Terminated;
}
// Pending, Running, Restarting: pods are wanted. In all others they are only taken away.
[[nodiscard]] constexpr bool wants_pods(Phase phase) {
  return phase == Phase::Pending || phase == Phase::Running || phase == Phase::Restarting;
}

// What decides about the next phase, given the new counters.
enum class Rule : std::uint8_t { None, Pending, Running, Restarting, Drain };

enum class Retain : std::uint8_t {
  None,      // every pod goes
  Finished,  // pods that succeeded or failed stay
};

// What an action does in a phase.
struct Step {
  enum class Kind : std::uint8_t {
    Sync,        // bring the pods to the specification, count, apply the rule
    Kill,        // delete the pods that are not retained, and the pod group
    KillTarget,  // delete the pods of one task, one pod or one partition
  };
  Kind kind = Kind::Sync;
  Rule rule = Rule::None;
  Retain retain = Retain::Finished;
  std::optional<Phase> enters = std::nullopt;  // the phase that is written before anything is deleted
  bool counts_retry = false;                   // retryCount + 1
  bool counts_resume = false;                  // the retry is a resume: it does not spend maxRetry
  bool operator==(const Step&) const = default;
};
[[nodiscard]] Step step_of(Phase phase, Action action);

// spec.maxRetry; 0 cannot be expressed and stands for 3.
[[nodiscard]] std::int32_t max_retry_of(const api::batch::JobSpec& spec);
// Restarts that count against maxRetry: retryCount without the resumes and without the restarts for pods that the
// infrastructure took (status.controlledResources["resumes"] and ["disruptions"]).
// Differs: Volcano lets both spend the budget, so that three suspensions or preemptions fail a job.
[[nodiscard]] std::int32_t retries_spent(const api::batch::JobStatus& status);
[[nodiscard]] std::int32_t total_replicas(const api::batch::JobSpec& spec);

// The phase that follows from the counters in `status`; nothing if the job stays where it is.
[[nodiscard]] std::optional<Phase> apply_rule(Rule rule, Phase phase, const api::batch::JobSpec& spec,
                                              const api::batch::JobStatus& status);

// Keys of status.controlledResources that are ours; the map survives in Volcano's schema.
namespace records {
inline constexpr std::string_view kResumes = "resumes";             // how many of the retries were resumes
inline constexpr std::string_view kDisruptions = "disruptions";     // how many were for evicted or lost pods
inline constexpr std::string_view kRestart = "restart";             // "all <uid>" or "unfinished <uid>", see planner.h
inline constexpr std::string_view kFloor = "restarted-version";     // pods of older versions do not count any more
inline constexpr std::string_view kCommand = "command";             // UID of the last command that was carried out
inline constexpr std::string_view kCompletedPrefix = "completed-";  // + task: see completed_indexes.h
inline constexpr std::string_view kPluginPrefix = "plugin-";        // + plugin: its objects exist
inline constexpr std::string_view kPluginHash = "plugins-hash";     // of what the plugins' objects were made from
inline constexpr std::string_view kClaimPrefix = "volume-pvc-";     // + claim
inline constexpr std::string_view kEmptyDirPrefix = "volume-emptyDir-";
}  // namespace records

}  // namespace basalt::controllers::job
