// Members of a hyper node, which are named, selected by labels or matched by a pattern.

#include <re2/re2.h>

#include "webhooks/fields.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

constexpr std::size_t kPatternBytesMax = 4'096;
constexpr std::int64_t kPatternMemoryMax = 1 << 20;

std::string pattern_complaint(const std::string& pattern) {
  if (pattern.size() > kPatternBytesMax) return "it is longer than " + std::to_string(kPatternBytesMax) + " bytes";
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemoryMax);
  const RE2 compiled(pattern, options);
  return compiled.ok() ? "" : compiled.error();
}

}  // namespace

void validate_hyper_node(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create && request.operation != Operation::Update) return;
  const json::Value& spec = spec_of(*request.object);
  if (request.old_object != nullptr && request.operation == Operation::Update && spec == spec_of(*request.old_object)) {
    return;
  }
  Problems problems;
  const json::Array& members = list_at(spec, "members");
  if (members.empty()) problems.add("spec.members", "member must have at least one member", "FieldValueRequired");
  if (members.size() > context.options.members_max) {
    problems.too_many("spec.members", members.size(), context.options.members_max);
  } else {
    for (std::size_t i = 0; i < members.size() && !problems.is_full(); ++i) {
      const json::Value* pattern = members[i].find_path({"selector", "regexMatch", "pattern"});
      if (pattern == nullptr || !pattern->is_string() || pattern->as_string().empty()) continue;
      if (const std::string complaint = pattern_complaint(pattern->as_string()); !complaint.empty()) {
        problems.invalid("spec.members[" + std::to_string(i) + "].selector.regexMatch.pattern", shown(*pattern),
                         "member regexMatch pattern is invalid: " + complaint);
      }
    }
  }
  problems.deny_if_any(answer);
}

}  // namespace basalt::webhooks
