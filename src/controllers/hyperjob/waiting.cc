#include "controllers/hyperjob/waiting.h"

#include <algorithm>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "base/strings.h"

namespace basalt::controllers::hyperjob {

using api::karmada::ResourceBinding;

std::optional<Problem> waiting_problem(const ResourceBinding& binding, std::string_view job_uid, api::Time now) {
  if (binding.spec.resource.uid != job_uid) return std::nullopt;
  const std::string& job = binding.spec.resource.name;
  const auto* scheduled = api::find_condition(binding.status.conditions, api::condition_types::kScheduled);
  if (scheduled != nullptr && scheduled->status == "False" && binding.spec.clusters.empty())
    return Problem{problem_reasons::kNotScheduled, job,
                   "no cluster takes it: " + scheduled->reason + ": " + scheduled->message};
  if (binding.spec.suspension && binding.spec.suspension->scheduling.value_or(false) &&
      (now - binding.metadata.creation_timestamp).count() >= kSuspensionToldSeconds)
    return Problem{problem_reasons::kHeldBack, job,
                   "its binding is suspended (spec.suspension.scheduling); whoever suspended it has not released it. "
                   "With volcano-global that is the dispatcher, which waits for room in the queue"};
  for (const auto& item : binding.status.aggregated_status) {
    if (!item.applied && !item.applied_message.empty())
      return Problem{problem_reasons::kMemberRefused, job,
                     "cluster " + item.cluster_name + " does not take it: " + item.applied_message};
  }
  return std::nullopt;
}

std::vector<Problem> unknown_clusters(const api::training::HyperJobSpec& spec,
                                      const std::function<bool(std::string_view)>& is_known) {
  std::vector<Problem> problems;
  for (const auto& entry : spec.replicated_jobs) {
    std::vector<std::string> unknown;
    for (const std::string& cluster : entry.cluster_names) {
      if (!is_known(cluster)) unknown.push_back(cluster);
    }
    if (unknown.empty()) continue;
    const bool none_left = unknown.size() == entry.cluster_names.size();
    problems.push_back({problem_reasons::kUnknownCluster, "entry " + entry.name,
                        "clusterNames has " + base::join(unknown, ", ") + ", and there is no such cluster" +
                            (none_left ? "; its jobs cannot be placed" : "")});
  }
  return problems;
}

}  // namespace basalt::controllers::hyperjob
