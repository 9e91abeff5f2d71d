#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "webhooks/cluster_view.h"

namespace basalt::webhooks {

struct ReviewUser;
class ResourceGroups;

struct RuleOptions {
  std::vector<std::string> scheduler_names{"volcano"};  // ours; the first is the default of jobs
  int queue_depth_max = 5;                              // below root
  bool root_queue_is_protected = true;                  // its resource fields cannot be changed
  bool queue_with_pods_is_kept = false;                 // refuse to delete a queue that has allocated pods
  bool scheduling_gates_queue_admission = false;        // the feature gate of that name
  // What a tenant may ask of one review. The schema has no such limits; objects beyond them are refused with a sentence
  // that names the limit.
  std::size_t tasks_max = 1'000;
  std::size_t policies_max = 200;   // of one list
  std::size_t volumes_max = 500;    // of one job
  std::size_t flows_max = 2'000;    // of one job flow, and replicated jobs of a hyper job
  std::size_t edges_max = 50'000;   // dependencies of one object in all
  std::size_t members_max = 5'000;  // of one hyper node
  // What claims on data add to a write of a ResourceBinding: a merge patch, or nothing. `before` is null for a new one.
  // An error means "not now". Whoever watches the claims sets it; without it bindings pass as they are. Thread-safe.
  std::function<Result<std::optional<json::Value>>(const json::Value& binding, const json::Value* before)>
      binding_patch = {};
};

// A question about a pod template that only the API server can answer. May wait; called after all rules held.
class TemplateProbe {
 public:
  virtual ~TemplateProbe() = default;
  // An error is a refusal; a transient one means "not now".
  virtual Done check(const ReviewUser& user, const std::string& ns, const json::Value& pod_template) = 0;
};

// What rules may look at. Borrowed; lives longer than the review.
struct RuleContext {
  const RuleOptions& options;
  const ClusterView& cluster;
  const ResourceGroups* resource_groups = nullptr;  // null: no file was given
  std::vector<TemplateProbe*> template_probes;
};

}  // namespace basalt::webhooks
