#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/duration.h"
#include "base/result.h"
#include "controllers/sharding/options.h"
#include "kube/leader_election.h"

namespace basalt::controllers {

// Feature gates that change what a controller does; others are accepted and change nothing.
struct FeatureGates {
  bool workload_support = true;          // PodGroups for ReplicaSets and StatefulSets
  bool queue_command_sync = true;        // Commands are carried out
  bool volcano_job_support = true;       // Jobs are watched
  bool cron_volcano_job_support = true;  // CronJobs are watched
  bool priority_class = true;            // PriorityClasses are watched
  bool scheduling_gates_queue_admission = false;
};
// "Name=true,Other=false". An unknown name is an error that suggests the nearest.
[[nodiscard]] Done set_feature_gates(FeatureGates& gates, std::string_view text);

// What becomes of a job that names a claim which does not exist.
enum class MissingClaim : std::uint8_t {
  Wait,      // it waits and says so
  EmptyDir,  // its pods get scratch space instead
};

struct ManagerOptions {
  std::int32_t workers_job = 3;
  std::int32_t workers_cronjob = 3;
  std::int32_t workers_podgroup = 5;
  std::int32_t workers_queue = 5;
  std::int32_t workers_gc = 1;
  // How long a command to a queue waits for something that may pass (5 ms, doubled so many times); negative: for ever.
  // Everything else that fails is tried again for ever.
  std::int32_t requeues_max = 15;
  std::vector<std::string> scheduler_names{"volcano"};
  std::vector<std::string> controllers{"*", "-sharding-controller"};
  bool inherit_owner_annotations = true;
  MissingClaim missing_claim = MissingClaim::Wait;
  FeatureGates gates;
  sharding::ShardingOptions sharding;
  // Queues that everything hangs on are made if they are missing (elsewhere the scheduler makes them).
  bool ensure_queues = true;
};

// A controller may be named once only.
[[nodiscard]] Done validate(const ManagerOptions& options);
// Whether the list selects this controller: the first entry that names it decides, "*" if none does.
[[nodiscard]] bool is_selected(const std::vector<std::string>& list, std::string_view controller);
// Whether an entry selects it by its name.
[[nodiscard]] bool is_named(const std::vector<std::string>& list, std::string_view controller);

}  // namespace basalt::controllers
