#include "federation/matching.h"

#include <algorithm>
#include <tuple>

#include "api/gen/names.h"
#include "api/labels.h"
#include "json/reader.h"

namespace basalt::federation {
namespace {

using api::karmada::PropagationSpec;
using api::karmada::ResourceSelector;

constexpr std::string_view kJobApi = "batch.volcano.sh/v1alpha1";

int rank_of(const ResourceSelector& selector, const api::meta::ObjectMeta& job) {
  if (selector.api_version != kJobApi || selector.kind != "Job") return 0;
  if (!selector.namespace_.empty() && selector.namespace_ != job.namespace_) return 0;
  if (!selector.name.empty()) return selector.name == job.name ? 3 : 0;
  if (!selector.label_selector) return 1;
  const auto compiled = api::Selector::from(*selector.label_selector);
  return compiled.ok() && compiled->matches(job.labels) ? 2 : 0;
}

template <class Policy>
Claim best_of(const std::vector<std::shared_ptr<const Policy>>& policies, const api::meta::ObjectMeta& job) {
  const Policy* best = nullptr;
  std::shared_ptr<const Policy> kept;
  std::tuple<std::int32_t, int> best_rank{};
  for (const auto& policy : policies) {  // sorted by name: the first of equals wins
    const int rank = match_rank(policy->spec, job);
    if (rank == 0 || !policy->metadata.deletion_timestamp.is_zero()) continue;
    const std::tuple<std::int32_t, int> key{policy->spec.priority.value_or(0), rank};
    if (best != nullptr && key <= best_rank) continue;
    best = policy.get();
    kept = policy;
    best_rank = key;
  }
  if (best == nullptr) return {};
  return {best->metadata.namespace_, best->metadata.name, best->metadata.uid,
          std::shared_ptr<const PropagationSpec>(kept, &kept->spec)};
}

}  // namespace

void decode(json::Reader& reader, ClusterPropagationPolicy& value) {
  if (!reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    if (key == "metadata") {
      decode(reader, value.metadata);
    } else if (key == "spec") {
      decode(reader, value.spec);
    } else {
      reader.skip();
    }
  }
}

int match_rank(const PropagationSpec& spec, const api::meta::ObjectMeta& job) {
  int best = 0;
  for (const ResourceSelector& selector : spec.resource_selectors) best = std::max(best, rank_of(selector, job));
  return best;
}

Claim find_claim(const api::batch::Job& job, const std::vector<PolicyPtr>& policies,
                 const std::vector<ClusterPolicyPtr>& cluster_policies) {
  const std::string_view id = job.metadata.labels.get(api::keys::kKarmadaPolicyPermanentId);
  if (!id.empty()) {
    for (const auto& policy : policies) {
      if (policy->metadata.uid == id && match_rank(policy->spec, job.metadata) > 0)
        return {policy->metadata.namespace_, policy->metadata.name, policy->metadata.uid,
                std::shared_ptr<const PropagationSpec>(policy, &policy->spec)};
    }
    for (const auto& policy : cluster_policies) {
      if (policy->metadata.uid == id && match_rank(policy->spec, job.metadata) > 0)
        return {"", policy->metadata.name, policy->metadata.uid,
                std::shared_ptr<const PropagationSpec>(policy, &policy->spec)};
    }
  }
  Claim claim = best_of(policies, job.metadata);
  return claim.is_none() ? best_of(cluster_policies, job.metadata) : claim;
}

bool is_claimed_by(const api::batch::Job& job, const Claim& claim) {
  return job.metadata.labels.get(api::keys::kKarmadaPolicyPermanentId) == claim.id &&
         job.metadata.annotations.get(api::keys::kKarmadaPolicyName) == claim.name &&
         job.metadata.annotations.get(api::keys::kKarmadaPolicyNamespace) == claim.ns;
}

}  // namespace basalt::federation
