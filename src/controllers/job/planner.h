#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/scheduling_podgroup.h"
#include "controllers/job/observed.h"
#include "controllers/job/plugins/plugin.h"
#include "controllers/job/pod_builder.h"
#include "controllers/job/pod_group_builder.h"
#include "controllers/job/policies.h"
#include "controllers/job/state_machine.h"
#include "kube/event_recorder.h"

// What to do about a job, computed from what is seen: pure, no clock, no client.
//
// The status is written before anything is deleted, with counters as they will be. So a crash at any point leaves a
// status that says what was meant: a phase that takes pods away, or, for a restart, the record
// controlledResources["restart"] = "<all|unfinished> <UID of the pod group that must go>". Pods of an older version
// than the status' are then deleted by whoever comes next. Targeted restarts and scaling down change no version; there
// the pods are marked first (volcano.sh/controller-out-of-sync), then the status is written, then they are deleted.
namespace basalt::controllers::job {

enum class MissingClaim : std::uint8_t { Wait, EmptyDir };

struct PlanOptions {
  MissingClaim missing_claim = MissingClaim::Wait;
  // Counters alone are written this long after they changed, and not more often than this. Long enough for the pods of
  // a small gang to start or end: then the new phase comes with the same write.
  rt::Duration counters_delay = std::chrono::milliseconds(300);
  rt::Duration counters_interval = std::chrono::seconds(2);
  // A success is recorded this long after it, so that those of a gang become one write, and those that follow it not
  // more often than this; at once if its pod goes, for then nobody else knows of it.
  rt::Duration record_delay = std::chrono::milliseconds(20);
  rt::Duration record_interval = std::chrono::seconds(1);
  // A text in which only numbers change is not written more often than the second of these. One that says something
  // else is written as often as the first, but less and less often (up to the second) if that goes on.
  rt::Duration reword_interval = std::chrono::seconds(1);
  rt::Duration message_interval = std::chrono::seconds(30);
};

struct PlannedPod {
  std::int32_t task = 0;
  std::int32_t index = 0;
  auto operator<=>(const PlannedPod&) const = default;
};
struct PodRef {
  std::string name;
  std::string uid;
  auto operator<=>(const PodRef&) const = default;
};
struct PlannedClaim {
  std::string name;
  json::Raw spec;
};
struct PlannedEvent {
  kube::EventType type = kube::EventType::Normal;
  std::string reason;
  std::string message;
  bool operator==(const PlannedEvent&) const = default;
};
struct PlannedCommand {
  std::string name;
  std::string uid;
  bool operator==(const PlannedCommand&) const = default;
};

// Carried out from top to bottom; the first failure ends the pass. What depends on the status comes after it.
struct JobPlan {
  std::string job_patch;  // a JSON patch of the job itself; if there is one, it is all of the plan
  std::vector<PodRef> marks;
  std::vector<PodRef> marks_last;               // the pods whose state called for it: still there if we crash before
  bool delete_plugin_objects_first = false;     // the job ends and nothing is alive
  std::optional<api::batch::JobStatus> status;  // to be written
  bool phase_changes = false;
  std::vector<PlannedEvent> events;               // if the status was written or needed no write
  std::vector<PlannedCommand> consumed_commands;  // to be deleted
  std::vector<PodRef> deletes;
  std::optional<PodRef> delete_pod_group;
  std::vector<PlannedClaim> claims;
  bool ensure_plugin_objects = false;
  std::string plugins_hash;
  std::optional<api::scheduling::PodGroup> create_pod_group;
  std::string pod_group_patch;  // of observed.pod_group
  std::vector<PlannedPod> creates;
  std::size_t creates_first = 0;  // so many of them the gang cannot start without; the others only follow these
  PodBuildOptions build_options;

  std::optional<rt::Duration> wake_after;
  JobMemory memory;  // what to remember if all went well
};

struct PlanInputs {
  PriorityOf priority_of;
  const PluginSet* plugins = nullptr;  // null if they could not be made: `plugin_error` says why
  std::string plugin_error;
};

[[nodiscard]] JobPlan plan_job(const ObservedJob& observed, const PlanInputs& inputs, const PlanTime& time,
                               const PlanOptions& options);

// Reasons in status.state of a job that waits.
namespace waiting {
inline constexpr std::string_view kQueueNotFound = "QueueNotFound";
inline constexpr std::string_view kQueueNotOpen = "QueueNotOpen";
inline constexpr std::string_view kPodGroupPending = "PodGroupPending";
inline constexpr std::string_view kDependencyNotReady = "DependencyNotReady";
inline constexpr std::string_view kClaimNotFound = "ClaimNotFound";
inline constexpr std::string_view kClaimError = "ClaimError";
inline constexpr std::string_view kPodCreateFailed = "PodCreateFailed";
inline constexpr std::string_view kPluginError = "PluginError";
inline constexpr std::string_view kPodGroupError = "PodGroupError";
inline constexpr std::string_view kNotAdmittedYet = "is not admitted by the scheduler yet";  // ends a message
[[nodiscard]] bool is_one(std::string_view reason);
}  // namespace waiting

// The name of the claim that the controller makes for volume number `volume`: always the same for the same job, so that
// a second try makes no second claim.
[[nodiscard]] std::string generated_claim_name(const api::batch::Job& job, std::size_t volume);
// Of everything that the plugins' objects are made from.
[[nodiscard]] std::string plugins_hash_of(const api::batch::Job& job, const PluginSet& plugins);

}  // namespace basalt::controllers::job
