#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "controllers/sharding/assignment.h"
#include "controllers/sharding/facts.h"
#include "controllers/sharding/policies/policy.h"

namespace basalt::controllers::sharding {

inline constexpr int kPartitionsAuto = 0;  // as many as the size of an object asks for

// One scheduler's chain, ready to be asked.
struct Rule {
  struct Step {
    PolicyPtr policy;
    double weight = 1;
  };
  std::string name;  // of the NodeShard, or of its partitions: name-0, name-1, ...
  std::string type;
  std::vector<Step> steps;
  Limits limits;
  int partitions = 1;
};

// All schedulers in order of priority. Immutable; any thread.
struct RuleSet {
  std::vector<Rule> rules;
  Catalog catalog;
  int slack = 0;  // hysteresis in percent points
  bool uses_forecast = false;

  // Where the schedulers' levels come first, in order, then those that fill up minima.
  [[nodiscard]] std::vector<Level> levels(std::size_t nodes) const;
  // One score for each of levels().
  void evaluate(const NodeFacts& facts, ShardIndex incumbent, std::span<double> scores) const;
  [[nodiscard]] std::size_t level_count() const;
  // Sum of weighted scores; kRefused if a filter refuses.
  [[nodiscard]] static double score_of(const Rule& rule, const NodeFacts& facts, int slack);
};

}  // namespace basalt::controllers::sharding
