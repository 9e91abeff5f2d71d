#pragma once

#include <span>
#include <vector>

#include "controllers/sharding/assignment.h"

namespace basalt::controllers::sharding {

// The owner of each input, in their order, computed from nothing by another way than Assignment: O(levels * nodes), by
// selection and without a sort. It is what the incremental engine is checked against.
[[nodiscard]] std::vector<ShardIndex> full_assignment(std::span<const Level> levels, std::size_t shards,
                                                      const NodeNames& names, std::span<const NodeInput> inputs);

}  // namespace basalt::controllers::sharding
