#pragma once

#include <string>
#include <utility>
#include <vector>

#include "controllers/sharding/facts.h"
#include "controllers/sharding/rules.h"

namespace basalt::controllers::sharding {

// What one scheduler's chain says about a node.
struct Verdict {
  std::string scheduler;
  bool is_accepted = false;                                   // by all filters
  double score = 0;                                           // if accepted
  std::vector<std::pair<std::string, std::string>> policies;  // name, what it says
};

// In the order in which schedulers choose. `incumbent` is the scheduler that has the node (its range is widened by the
// hysteresis), kNoShard if nobody has.
[[nodiscard]] std::vector<Verdict> explain_node(const RuleSet& rules, const NodeFacts& facts, ShardIndex incumbent);

}  // namespace basalt::controllers::sharding
