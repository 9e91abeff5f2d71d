#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/bus.h"
#include "api/gen/core_podcache.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/gen/scheduling_queue.h"
#include "controllers/job/completed_indexes.h"
#include "rt/time.h"

namespace basalt::controllers::job {

enum class PodPhase : std::uint8_t { Pending, Running, Succeeded, Failed, Unknown };
[[nodiscard]] std::string_view to_string(PodPhase phase);

// One pod of the job, read once.
struct ObservedPod {
  std::string name;
  std::string uid;
  std::int32_t task = -1;  // position in spec.tasks; -1 if the job has no such task
  std::int32_t index = -1;
  std::int32_t version = 0;  // of the job when the pod was made
  std::string partition;     // "" without partitions
  PodPhase phase = PodPhase::Pending;
  std::int32_t exit_code = 0;  // of the first container
  std::string failure;         // of a failed pod, one word that says more than "Error"; "" if there is none
  std::int32_t restarts = 0;   // of all containers
  bool is_ready = false;       // every container is
  bool is_marked = false;      // by us, to be deleted
  bool is_terminating = false;
  bool is_disrupted = false;  // taken by the infrastructure: preempted, evicted, its node lost or shut down
  rt::WallTime created{};
  [[nodiscard]] bool is_finished() const { return phase == PodPhase::Succeeded || phase == PodPhase::Failed; }
  [[nodiscard]] bool failed_by_itself() const { return phase == PodPhase::Failed && !is_disrupted; }
};

// A pod whose deletion the watch showed. Kept until the planner has drawn its conclusion.
struct VanishedPod {
  std::string task;
  std::string name;
  std::string uid;
  std::int32_t index = -1;
  std::int32_t version = 0;
  std::string partition;
  bool is_marked = false;
  bool succeeded = false;
  bool failed_by_itself = false;
};

// A policy with a timeout that matched: when it will act, unless the reason goes away.
struct ArmedDelay {
  std::string key;  // event, action and UID of what it is about
  rt::Instant since{};
};

// What the controller remembers of a job beside the API, by UID. Losing it (a restart) loses no pod and no action: it
// only saves work, and holds what a watch told about objects that are gone.
struct JobMemory {
  std::string uid;
  std::vector<VanishedPod> vanished;
  std::vector<ArmedDelay> armed;
  std::string unknown_handled;  // UID of the pod group whose Unknown was answered
  std::string plugins_hash;     // objects of the plugins that are known to be there
  std::string group_checked;    // versions of the job and its pod group that are known to go together
  std::string problem_reason;   // why pods or objects could not be made the last time; "" if they could
  std::string problem_message;
  std::optional<rt::Instant> written;   // last status write
  std::optional<rt::Instant> changed;   // since when counters differ from what is written
  std::optional<rt::Instant> learned;   // since when a success is known that is not recorded
  std::optional<rt::Instant> recorded;  // last write with a pod that had newly succeeded
  std::optional<rt::Instant> reworded;  // last write of a message that said something else, not only other numbers
  int rewordings = 0;                   // one soon after another
  std::optional<rt::Instant> verified;  // last look whether the plugins' objects are still there
};

struct ObservedClaim {
  bool exists = false;
  std::string owner_uid;  // of its controller
};

// All that the planner looks at: one job and what belongs to it, from caches only.
struct ObservedJob {
  std::shared_ptr<const api::batch::Job> job;
  std::vector<ObservedPod> pods;                                   // by task, then index; those of unknown tasks first
  std::shared_ptr<const api::scheduling::PodGroup> pod_group;      // controlled by this job; null if there is none
  std::shared_ptr<const api::scheduling::Queue> queue;             // null if there is none
  std::vector<std::shared_ptr<const api::bus::Command>> commands;  // about this job's name, oldest first
  std::map<std::string, ObservedClaim> claims;                     // those that the job's volumes name
  JobMemory memory;
};

// "OOMKilled, exit code 137", "exit code 3"; "no reason given" if nothing is known.
[[nodiscard]] std::string failure_text(const ObservedPod& pod);
// Of a pod that the job controls. Nothing if it does not carry what every pod of a job carries.
[[nodiscard]] std::optional<ObservedPod> observe_pod(const api::core::PodProjection& pod, const api::batch::Job& job);
// The same for one that is gone; does not need the job.
[[nodiscard]] std::optional<VanishedPod> observe_vanished(const api::core::PodProjection& pod);
void sort_pods(std::vector<ObservedPod>& pods);
// The records of the job's tasks, in the order of spec.tasks, without indexes that do not exist any more.
[[nodiscard]] std::vector<CompletedIndexes> completed_records(const api::batch::Job& job);

}  // namespace basalt::controllers::job
