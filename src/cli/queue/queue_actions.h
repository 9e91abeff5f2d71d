#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/client/host.h"

namespace basalt::cli {

// PodGroups of one queue, counted by phase.
struct QueueCounts {
  std::int64_t inqueue = 0;
  std::int64_t pending = 0;
  std::int64_t running = 0;
  std::int64_t unknown = 0;
  std::int64_t completed = 0;
};
[[nodiscard]] Result<std::map<std::string, QueueCounts>> count_pod_groups(Session& session);

struct NewQueue {
  std::string name = "test";
  std::int32_t weight = 1;
  std::string state = "Open";  // accepted, without effect: the queue controller owns the state
  std::string parent;
  std::string capability;
  std::string deserved;
  std::string guarantee;
  std::int32_t priority = 0;
  std::optional<bool> reclaimable;
};
[[nodiscard]] Result<int> create_queue(Session& session, const NewQueue& queue);
[[nodiscard]] Result<int> delete_queue(Session& session, const std::string& name);

struct QueueOperation {
  std::string name;
  std::int32_t weight = 0;
  std::string action;
};
[[nodiscard]] Result<int> operate_queue(Session& session, const QueueOperation& operation);

struct QueueTable {
  std::string name;  // one queue; all if empty
  std::string output;
  bool is_vqueues = false;  // without the columns Parent and Completed
};
[[nodiscard]] Result<int> show_queues(Session& session, const QueueTable& table);

}  // namespace basalt::cli
