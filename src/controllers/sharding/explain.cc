#include "controllers/sharding/explain.h"

namespace basalt::controllers::sharding {

std::vector<Verdict> explain_node(const RuleSet& rules, const NodeFacts& facts, ShardIndex incumbent) {
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < rules.rules.size(); ++i) {
    const Rule& rule = rules.rules[i];
    const int slack = incumbent == static_cast<ShardIndex>(i) ? rules.slack : 0;
    Verdict verdict;
    verdict.scheduler = rule.name;
    verdict.score = RuleSet::score_of(rule, facts, slack);
    verdict.is_accepted = verdict.score > kRefused;
    for (const Rule::Step& step : rule.steps)
      verdict.policies.emplace_back(step.policy->name(), step.policy->explain(facts));
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace basalt::controllers::sharding
