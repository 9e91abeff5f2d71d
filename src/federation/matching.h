#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/karmada_policy.h"
#include "api/gen/meta.h"
#include "api/kind_info.h"

namespace basalt::federation {

// A policy for objects of all namespaces: the same specification as a PropagationPolicy, without a namespace of its
// own.
struct ClusterPropagationPolicy {
  static constexpr api::KindInfo kKindInfo{"policy.karmada.io",
                                           "v1alpha1",
                                           "ClusterPropagationPolicy",
                                           "clusterpropagationpolicies",
                                           "clusterpropagationpolicy",
                                           false,
                                           false};
  static constexpr const api::KindInfo& kind_info() { return kKindInfo; }
  api::meta::ObjectMeta metadata;
  api::karmada::PropagationSpec spec;
};
void decode(json::Reader& reader, ClusterPropagationPolicy& value);

using PolicyPtr = std::shared_ptr<const api::karmada::PropagationPolicy>;
using ClusterPolicyPtr = std::shared_ptr<const ClusterPropagationPolicy>;

// The policy that has a job, of either kind.
struct Claim {
  std::string ns;  // "" for a policy of all namespaces
  std::string name;
  std::string id;  // the policy's UID
  std::shared_ptr<const api::karmada::PropagationSpec> spec;
  [[nodiscard]] bool is_none() const { return spec == nullptr; }
  [[nodiscard]] bool is_cluster_wide() const { return spec != nullptr && ns.empty(); }
};

// How closely a policy means a job: 0 not at all, 1 by kind, 2 by labels, 3 by name.
[[nodiscard]] int match_rank(const api::karmada::PropagationSpec& spec, const api::meta::ObjectMeta& job);

// Which policy has the job. One that claimed it keeps it for as long as it exists and means it. Else a policy of the
// namespace comes before one of all namespaces; among those the higher priority, the closer match, the first name.
// Pure.
[[nodiscard]] Claim find_claim(const api::batch::Job& job, const std::vector<PolicyPtr>& policies,
                               const std::vector<ClusterPolicyPtr>& cluster_policies);
// Whether the job's labels and annotations say so already.
[[nodiscard]] bool is_claimed_by(const api::batch::Job& job, const Claim& claim);

}  // namespace basalt::federation
