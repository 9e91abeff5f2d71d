// The disruption budget that a pod of ours may carry.

#include <algorithm>
#include <limits>

#include "api/gen/names.h"
#include "base/strings.h"
#include "webhooks/fields.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

// A positive number of pods, or a share of them between 1% and 99%.
std::string check_budget(std::string_view key, const std::string& value) {
  const std::string name(key);
  const auto number = base::parse_int64(value);
  const auto fits = [](std::int64_t n) {
    return n >= std::numeric_limits<std::int32_t>::min() && n <= std::numeric_limits<std::int32_t>::max();
  };
  if (number && fits(*number)) {
    if (*number > 0) return "";
    return "invalid value <" + shown(value) + "> for " + name + ", it must be a positive integer";
  }
  const std::string digits = base::replace_all(value, "%", "");
  const auto share = base::parse_int64(digits);
  if (!share) {
    return "invalid value strconv.Atoi: parsing " + shown(digits) + ": invalid syntax for " + name +
           "; write a number of pods such as \"2\" or a share such as \"50%\"";
  }
  if (*share > 0 && *share < 100) return "";
  return "invalid value <" + shown(value) + "> for " + name + ", it must be a valid percentage which between 1% ~ 99%";
}

}  // namespace

void validate_pod(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create) {
    answer.deny("expect operation to be 'CREATE'");
    return;
  }
  const json::Value& pod = *request.object;
  const auto& ours = context.options.scheduler_names;
  if (std::find(ours.begin(), ours.end(), text_at(spec_of(pod), "schedulerName")) == ours.end()) return;
  int count = 0;
  for (const std::string_view key : {api::keys::kJdbMinAvailable, api::keys::kJdbMaxUnavailable}) {
    const json::Value* value = pod.find_path({"metadata", "annotations", key});
    if (value == nullptr || !value->is_string()) continue;
    ++count;
    if (std::string complaint = check_budget(key, value->as_string()); !complaint.empty()) {
      answer.deny(std::move(complaint));
      return;
    }
  }
  if (count > 1) {
    answer.deny("not allow configure multiple annotations <[" + std::string(api::keys::kJdbMinAvailable) + " " +
                std::string(api::keys::kJdbMaxUnavailable) + "]> at same time");
  }
}

}  // namespace basalt::webhooks
