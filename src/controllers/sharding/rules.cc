#include "controllers/sharding/rules.h"

#include <algorithm>

namespace basalt::controllers::sharding {

double RuleSet::score_of(const Rule& rule, const NodeFacts& facts, int slack) {
  for (const Rule::Step& step : rule.steps) {
    if (step.policy->distance(facts, slack) != 0) return kRefused;
  }
  double sum = 0;
  for (const Rule::Step& step : rule.steps) {
    if (step.policy->has_score()) sum += step.weight * step.policy->score(facts);
  }
  return sum;
}

std::size_t RuleSet::level_count() const {
  return rules.size() + static_cast<std::size_t>(std::count_if(rules.begin(), rules.end(),
                                                               [](const Rule& rule) { return rule.limits.fill; }));
}

std::vector<Level> RuleSet::levels(std::size_t nodes) const {
  std::vector<Level> levels;
  levels.reserve(level_count());
  for (std::size_t i = 0; i < rules.size(); ++i)
    levels.push_back({static_cast<ShardIndex>(i), false, rules[i].limits.max_of(nodes)});
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Limits& limits = rules[i].limits;
    if (limits.fill)
      levels.push_back({static_cast<ShardIndex>(i), true, std::min(limits.min_of(nodes), limits.max_of(nodes))});
  }
  return levels;
}

void RuleSet::evaluate(const NodeFacts& facts, ShardIndex incumbent, std::span<double> scores) const {
  std::size_t fill = rules.size();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const int widened = incumbent == static_cast<ShardIndex>(i) ? slack : 0;
    scores[i] = score_of(rules[i], facts, widened);
    if (!rules[i].limits.fill) continue;
    // Nodes near the range are borrowed first; those that some filter refuses whatever the distance never.
    int distance = 0;
    for (const Rule::Step& step : rules[i].steps) {
      distance = std::max(distance, step.policy->distance(facts, widened));
    }
    scores[fill++] = distance >= Policy::kNever ? kRefused : -static_cast<double>(distance);
  }
}

}  // namespace basalt::controllers::sharding
