#include <algorithm>

#include "workloads/job/job_plan.h"

namespace basalt::workloads {
namespace {

bool has_number(const json::Array& values, std::int64_t wanted) {
  return std::any_of(values.begin(), values.end(),
                     [&](const json::Value& value) { return value.is_int() && value.as_int() == wanted; });
}

// The container whose exit code the rule is about; null if there is none.
const Pod::Exit* matching_exit(const json::Value& rule, const Pod& pod) {
  const json::Value* codes = rule.find("onExitCodes");
  if (codes == nullptr) return nullptr;
  const std::string_view container = codes->string_at({"containerName"});
  const bool negates = codes->string_at({"operator"}) == "NotIn";
  for (const Pod::Exit& exit : pod.exits) {
    if (exit.code == 0 || (!container.empty() && exit.container != container)) continue;
    if (has_number(list_at(*codes, {"values"}), exit.code) != negates) return &exit;
  }
  return nullptr;
}

std::string_view matching_condition(const json::Value& rule, const Pod& pod) {
  for (const json::Value& pattern : list_at(rule, {"onPodConditions"})) {
    const std::string_view status = pattern.string_at({"status"});
    for (const Pod::Condition& condition : pod.conditions) {
      if (condition.type == pattern.string_at({"type"}) && condition.status == (status.empty() ? "True" : status))
        return condition.type;
    }
  }
  return {};
}

}  // namespace

FailureVerdict judge_failure(const Object& job, const Pod& pod) {
  const json::Array& rules = list_at(job.json, {"spec", "podFailurePolicy", "rules"});
  for (std::size_t i = 0; i < rules.size(); ++i) {
    std::string why;
    if (const Pod::Exit* exit = matching_exit(rules[i], pod)) {
      why = "container " + exit->container.str() + " of pod " + pod.metadata.name.str() + " ended with exit code " +
            std::to_string(exit->code);
    } else if (const auto condition = matching_condition(rules[i], pod); !condition.empty()) {
      why = "pod " + pod.metadata.name.str() + " has the condition " + std::string(condition);
    } else {
      continue;
    }
    const std::string_view action = rules[i].string_at({"action"});
    if (action == "Ignore") return {FailureAction::Ignore, {}};
    if (action == "FailIndex") return {FailureAction::FailIndex, {}};
    if (action == "FailJob") return {FailureAction::FailJob, why + ", to which rule " + std::to_string(i) + " applies"};
    return {};
  }
  return {};
}

}  // namespace basalt::workloads
