#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/core_node.h"
#include "api/gen/core_pod.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/gen/scheduling_queue.h"
#include "api/resource_list.h"
#include "api/time.h"
#include "cli/pod/pod_failure.h"
#include "json/value.h"
#include "rt/time.h"

// Why a job waits: read from its objects, computed without a clock or a client, so that every case is a test.

namespace basalt::cli {

// What was read. Pointers and lists may be empty: each absence means something.
struct ExplainInput {
  std::optional<api::batch::Job> job;  // none for a pod group that no job owns
  std::optional<api::scheduling::PodGroup> group;
  std::vector<api::core::Pod> pods;
  // The queue of the job first, then the ones above it. Empty: the queue does not exist.
  std::vector<api::scheduling::Queue> queues;
  bool knows_queues = true;  // false: the user may not read them
  std::string queue_name;
  std::vector<api::scheduling::PodGroup> other_groups;
  bool groups_are_cut = false;                     // there are more than were read
  std::map<std::string, std::int64_t> priorities;  // by class
  std::vector<std::string> missing_priorities;     // classes that the job names and that do not exist
  std::vector<api::core::Node> nodes;              // empty: not known
  api::ResourceList in_use;                        // of the whole cluster
  std::string server_problem;                      // what the server says of itself; "" if it is well
  rt::WallTime now{};
};

// One resource at one gate.
struct GateLine {
  std::string resource;
  api::Quantity requested;
  api::Quantity in_use;
  api::Quantity limit;
  [[nodiscard]] api::Quantity free() const;
  [[nodiscard]] api::Quantity lacking() const;  // 0 if it fits
};
struct Gate {
  std::string name;  // "queue \"team-a\"", "cluster"
  std::vector<GateLine> lines;
  [[nodiscard]] bool is_shut() const;
};

// What the scheduler itself found short on the nodes or in the queue, in its own words.
struct Shortage {
  std::string resource;
  std::string requested;
  std::string free;
  std::string lacking;
};

struct Waiting {
  std::string name;
  std::optional<std::int64_t> priority;  // nothing if only the name is known
  api::Time since;
};

// A pod in trouble, or one that nobody places.
struct PodProblem {
  PodFailure failure;
  std::vector<std::string> last_lines;  // of its log; the caller reads them
};

struct Explanation {
  std::string subject;  // "job default/train"
  std::string phase;
  api::Time since;  // of the phase
  bool is_waiting = false;
  bool is_over = false;
  std::string reason;   // one word
  std::string message;  // one sentence
  api::Time reason_since;
  std::int64_t min_member = 0;
  std::int64_t pods_existing = 0;
  std::int64_t pods_placed = 0;
  std::vector<Shortage> shortages;
  std::string holder;       // "namespace/name" of the group that has most of what is short
  std::int64_t fitted = 0;  // pods of the gang for which the scheduler found room
  std::vector<Gate> gates;
  std::string queue;
  std::size_t position = 0;  // 1 = next; 0 = does not stand in a queue
  std::size_t waiting_in_queue = 0;
  bool position_is_a_minimum = false;
  bool position_is_rough = false;  // the scheduler's word of a while ago
  std::vector<Waiting> ahead;      // the next ones first, a few of them
  std::vector<PodProblem> pod_problems;
  std::size_t pod_problems_more = 0;
  std::vector<std::string> dependencies;  // "task b waits for task a"
  std::vector<std::string> remedies;
};

// Whether the scheduler has written on the pod group why it waits, with numbers and the place in the queue: then nodes
// and other groups need not be read.
[[nodiscard]] bool is_explained_by_scheduler(const api::scheduling::PodGroup& group);

[[nodiscard]] Explanation explain(const ExplainInput& input);
[[nodiscard]] json::Value to_json(const Explanation& explanation);

// What a gang asks for that counts against nodes and queues: without the names that only quotas count.
[[nodiscard]] api::ResourceList countable(const api::ResourceList& resources);

}  // namespace basalt::cli
