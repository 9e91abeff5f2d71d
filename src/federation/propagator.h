#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/karmada_binding.h"
#include "api/gen/karmada_cluster.h"
#include "api/object_key.h"
#include "base/log.h"
#include "federation/ledger.h"
#include "federation/matching.h"
#include "federation/member.h"
#include "kube/client.h"
#include "kube/expectations.h"
#include "kube/informer.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "rt/workers.h"

namespace basalt::federation {

using JobPtr = std::shared_ptr<const api::batch::Job>;
using BindingPtr = std::shared_ptr<const api::karmada::ResourceBinding>;

// The index of policies that HostCaches::policies has: by the job that a selector names, "*" for those that name none.
inline constexpr std::string_view kPolicyTargets = "targets";
[[nodiscard]] inline std::string policy_target(std::string_view ns, std::string_view job) {
  return std::string(ns) + "/" + (job.empty() ? "*" : std::string(job));
}

struct HostCaches {
  kube::Informer<api::batch::Job>& jobs;
  kube::Informer<api::karmada::PropagationPolicy>& policies;
  kube::Informer<ClusterPropagationPolicy>& cluster_policies;
  kube::Informer<api::karmada::ResourceBinding>& bindings;
  kube::Informer<api::karmada::Cluster>& clusters;
};

using Members = std::map<std::string, std::unique_ptr<Member>>;

struct PropagatorOptions {
  // An unfinished job of a cluster that is away for so long is placed anew. Karmada's own default.
  rt::Duration eviction_after = std::chrono::minutes(5);
  rt::Duration look_again = std::chrono::seconds(2);  // at a member that cannot be reached, or has no room
};

// Takes one job of the host all the way: policy, binding, members, status back. Level-triggered: every pass starts from
// the caches and does what is missing. Thread-safe; one job is with one worker at a time.
class Propagator {
 public:
  Propagator(rt::Runtime& runtime, kube::Client& host, const Logger& log, HostCaches caches, Members& members,
             kube::Expectations& expectations, Ledger& ledger, const PropagatorOptions& options);

  rt::Outcome reconcile(const api::ObjectKey& key, const rt::StopToken& stop);

 private:
  struct Pass;  // what one pass knows

  Done remove_from_members(Pass& pass, const std::vector<std::string>& kept);
  Done claim(Pass& pass);
  Done bind(Pass& pass);
  [[nodiscard]] bool needs_choice(const Pass& pass, std::string_view placement_text) const;
  [[nodiscard]] bool is_lost(const std::string& cluster) const;
  [[nodiscard]] std::vector<Candidate> candidates() const;
  Done write_binding(Pass& pass, const Choice& choice, const std::string& placement);
  Done apply_to_members(Pass& pass);
  Done apply(Pass& pass, Member& member, const api::karmada::TargetCluster& target);
  Done create_in(Pass& pass, Member& member, const json::Value& wanted);
  Done send_dependencies(Pass& pass, Member& member);
  Done update_in(Pass& pass, Member& member, const json::Value& wanted);
  Done collect(Pass& pass);
  Done write_binding_status(Pass& pass, std::vector<api::karmada::AggregatedStatusItem> items, bool all_applied);
  Result<const json::Value*> host_text(Pass& pass);

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& host_;
  const Logger log_;
  const HostCaches caches_;
  Members& members_;
  kube::Expectations& expectations_;
  Ledger& ledger_;
  const PropagatorOptions options_;
};

[[nodiscard]] std::string binding_name(std::string_view job);
[[nodiscard]] bool is_finished(std::string_view phase);
// What one replica asks for, as a binding carries it.
[[nodiscard]] api::ResourceList request_of(const api::karmada::ResourceBinding& binding);

}  // namespace basalt::federation
