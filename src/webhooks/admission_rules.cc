#include "webhooks/admission_rules.h"

#include "json/patch.h"

namespace basalt::webhooks {

Error to_error(const ReviewAnswer& answer) {
  const Reason reason = answer.reason.empty() ? Reason::BadRequest : reason_from_string(answer.reason);
  Error error = Error::make(reason, answer.message);
  if (answer.code != 0) error.code = answer.code;
  error.causes = answer.causes;
  return error;
}

AdmissionRules::AdmissionRules(RuleOptions options, const ClusterView& cluster)
    : options_(std::move(options)), cluster_(cluster) {}

Done AdmissionRules::set_resource_groups(std::string_view yaml) {
  BASALT_TRY_DONE(groups_.replace(yaml));
  has_groups_ = true;
  return Ok{};
}

RuleContext AdmissionRules::context() const { return {options_, cluster_, has_groups_ ? &groups_ : nullptr, {}}; }

bool AdmissionRules::handles(std::string_view group, std::string_view resource, Operation operation) const {
  for (const bool is_mutating : {true, false}) {
    const Hook* hook = find_hook(group, resource, is_mutating);
    if (hook != nullptr && hook->takes(operation)) return true;
  }
  return false;
}

Done AdmissionRules::mutate(ReviewRequest request, json::Value& object, std::vector<std::string>& warnings) const {
  const Hook* hook = find_hook(request.group, request.resource, true);
  if (hook == nullptr || !hook->takes(request.operation)) return Ok{};
  request.object = &object;
  ReviewAnswer answer = review(*hook, context(), request);
  for (std::string& warning : answer.warnings) warnings.push_back(std::move(warning));
  if (!answer.allowed) return to_error(answer);
  if (answer.patch.empty()) return Ok{};
  BASALT_TRY(object, json::apply_json_patch(std::move(object), json::Value(std::move(answer.patch))));
  return Ok{};
}

Done AdmissionRules::validate(const ReviewRequest& request, std::vector<std::string>& warnings) const {
  const Hook* hook = find_hook(request.group, request.resource, false);
  if (hook == nullptr || !hook->takes(request.operation)) return Ok{};
  ReviewAnswer answer = review(*hook, context(), request);
  for (std::string& warning : answer.warnings) warnings.push_back(std::move(warning));
  if (!answer.allowed) return to_error(answer);
  return Ok{};
}

}  // namespace basalt::webhooks
