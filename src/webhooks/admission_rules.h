#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "webhooks/resource_groups.h"
#include "webhooks/review.h"
#include "webhooks/rule_context.h"

namespace basalt::webhooks {

// The rules for use inside a process: objects in, changed objects or an error out, without a server and without JSON
// text. Thread-safe; the view outlives it. An adapter to the embedded API server's AdmissionHook is a few lines:
//
//   bool handles(r)      { return rules.handles(group, plural, operation) && r.subresource.empty(); }
//   Done mutate(r, o)    { return rules.mutate(to_request(r), o, r.warnings); }
//   Done validate(r, o)  { auto q = to_request(r); q.object = o; return rules.validate(q, r.warnings); }
class AdmissionRules {
 public:
  AdmissionRules(RuleOptions options, const ClusterView& cluster);

  // Resource groups for pods (the content of `--admission-conf`); none by default.
  Done set_resource_groups(std::string_view yaml);

  // Whether there is any rule for this write.
  [[nodiscard]] bool handles(std::string_view group, std::string_view resource, Operation operation) const;
  // Writes the defaults into the object. `request.object` is not looked at. A denial is BadRequest, code 400.
  Done mutate(ReviewRequest request, json::Value& object, std::vector<std::string>& warnings) const;
  Done validate(const ReviewRequest& request, std::vector<std::string>& warnings) const;

 private:
  [[nodiscard]] RuleContext context() const;

  const RuleOptions options_;
  const ClusterView& cluster_;
  ResourceGroups groups_;
  bool has_groups_ = false;
};

// A denial as an error: BadRequest with the answer's message and causes, or what the answer says of itself.
[[nodiscard]] Error to_error(const ReviewAnswer& answer);

}  // namespace basalt::webhooks
