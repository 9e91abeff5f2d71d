#include "workloads/job/job_plan.h"

namespace basalt::workloads {
namespace {

bool is_fulfilled(const json::Value& rule, const IndexSet& succeeded) {
  const json::Value* listed = rule.find("succeededIndexes");
  const json::Value* count = rule.find("succeededCount");
  const bool has_list = listed != nullptr && listed->is_string();
  const bool has_count = count != nullptr && count->is_int();
  if (!has_list) return has_count && succeeded.size() >= count->as_int();
  const IndexSet wanted = IndexSet::parse(listed->as_string());
  return wanted.count_common(succeeded) >= (has_count ? count->as_int() : wanted.size());
}

}  // namespace

std::string judge_success(const json::Value& spec, const IndexSet& succeeded) {
  const json::Array& rules = list_at(spec, {"successPolicy", "rules"});
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (is_fulfilled(rules[i], succeeded)) return "Matched rules at index " + std::to_string(i);
  }
  return "";
}

}  // namespace basalt::workloads
