#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "controllers/sharding/rules.h"
#include "json/value.h"
#include "rt/time.h"

namespace basalt::controllers::sharding {

struct PolicyEntry {
  std::string name;
  std::int64_t weight = 1;
  json::Value arguments;
};

struct SchedulerEntry {
  std::string name;
  std::string type;
  std::vector<PolicyEntry> policies;
  int partitions = 1;
};

// A configuration that has been read and checked. Where a document is silent, the flags' values stay.
struct Configuration {
  std::vector<SchedulerEntry> schedulers;
  std::optional<rt::Duration> sync_period;
  std::optional<bool> node_event_trigger;
  double utilization_threshold = 0.5;  // a change since the last publication that is not left to the periodic one
  bool write_status = true;            // nodesToAdd, nodesToRemove and lastUpdateTime
  rt::Duration handover_grace{};       // 0: a scheduler that is gone keeps its nodes in use
  std::int64_t object_bytes_max = 1'200'000;     // etcd refuses 1.5 MiB
  std::int64_t fan_out_bytes_max = 100'000'000;  // a second, over all schedulers that watch
  std::shared_ptr<const RuleSet> rules;
  std::vector<std::string> warnings;  // what was ignored, and forms that are deprecated
};

inline constexpr std::size_t kSchedulersMax = 100;
inline constexpr std::size_t kPoliciesMax = 32;
inline constexpr std::int64_t kWeightMax = 1'000'000;
inline constexpr int kPartitionsMax = 1000;

// The document `sharding.yaml` of the ConfigMap. Keys may be written in camel case (as Volcano's) or with dashes (as
// in the design document). Anything that is not understood refuses the whole document, but for shardSyncPeriod, which
// is then left out with a warning.
[[nodiscard]] Result<Configuration> read_document(std::string_view yaml);
// The values of --scheduler-configs. One bad entry refuses them all.
[[nodiscard]] Result<Configuration> read_scheduler_flags(std::span<const std::string> entries);
// The pair that the flags have by default.
[[nodiscard]] Configuration built_in_configuration();

// "volcano" or, with partitions, "volcano-3".
[[nodiscard]] std::string shard_object_name(const Rule& rule, int partition, int partitions);

}  // namespace basalt::controllers::sharding
