#pragma once

#include <string>

#include "base/result.h"
#include "cli/client/host.h"

namespace basalt::cli {

struct ShardTable {
  std::string name;  // one NodeShard; all if empty
  std::string output;
};
[[nodiscard]] Result<int> list_shards(Session& session, const ShardTable& table);
[[nodiscard]] Result<int> view_shard(Session& session, const ShardTable& table);

// Where the sharding controller reads its configuration and writes its status.
struct ShardingPlace {
  std::string ns = "volcano-system";
  std::string config_map = "volcano-sharding-configmap";
};
// Who has the node, and what each scheduler's policies say about it.
[[nodiscard]] Result<int> explain_shard_node(Session& session, const ShardingPlace& place, const std::string& node);
// What the controller says about itself.
[[nodiscard]] Result<int> show_sharding_status(Session& session, const ShardingPlace& place);

}  // namespace basalt::cli
