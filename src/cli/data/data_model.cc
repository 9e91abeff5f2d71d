#include "cli/data/data_model.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "base/strings.h"

namespace basalt::cli {
namespace {

constexpr std::string_view kGated = "datadependency.volcano.sh/gated";

std::string key_of(const std::string& api_version, const std::string& kind, const std::string& ns,
                   const std::string& name) {
  return api_version + "/" + kind + "/" + ns + "/" + name;
}

bool is_suspended(const ResourceBinding& binding) {
  return binding.spec.suspension && binding.spec.suspension->scheduling.value_or(false);
}

std::string shown(const std::vector<std::string>& names) { return names.empty() ? "none" : base::join(names, ", "); }

// What helps against a reason of the condition Bound.
std::string help_for(std::string_view reason, const Claim& claim) {
  if (reason == "Resolving") return "nothing: the answer comes by itself";
  if (reason == "DataSourceNotFound")
    return "check spec.dataSourceName, or create " + claim.spec.data_source_name + " in " + claim.spec.system +
           "; it is looked for again by itself";
  if (reason == "NoClusterMapping")
    return "add the location to locationMapping in the configuration of the plugin " + claim.spec.system;
  if (reason == "InvalidDataSourceName") return "write spec.dataSourceName as the system names its data";
  if (reason == "InvalidWorkloadRef") return "name apiVersion, kind and name of a workload of the claim's namespace";
  return "check the configuration and the log of the plugin " + claim.spec.system + "; it is tried again by itself";
}

ClaimReason about_binding(const DataModel& model, const Claim& claim, const ResourceBinding& binding) {
  const std::vector<std::string> clusters = clusters_of(binding);
  if (!clusters.empty()) return {"the workload is in " + shown(clusters), ""};
  if (is_gated(binding)) {
    std::vector<std::string> waiting;
    for (const auto& [other, bytes] : model.claims) {
      if (workload_of(other) == workload_of(claim) && other.status.phase != api::datadependency::claim_phase::kBound)
        waiting.push_back(other.metadata.name);
    }
    if (!waiting.empty())
      return {"the workload is held back until all its claims are bound; not bound: " + shown(waiting),
              "run 'basalt data explain' for these, or delete a claim that is not needed"};
    return {"the workload is held back: no cluster is near the data of all its claims",
            "drop a claim, or bring the data together"};
  }
  if (is_suspended(binding))
    return {"the binding is suspended by somebody else",
            "whoever set spec.suspension.scheduling has to release it (volcano-global: the dispatcher)"};
  const auto* scheduled = api::find_condition(binding.status.conditions, api::condition_types::kScheduled);
  if (scheduled != nullptr && scheduled->status == "False")
    return {"no cluster takes the workload: " + scheduled->reason + ": " + scheduled->message,
            "check that a cluster near the data is ready, allowed by the policy and has room"};
  return {"no cluster has been chosen yet", "check that Karmada's scheduler runs"};
}

}  // namespace

std::string workload_of(const Claim& claim) {
  const auto& workload = claim.spec.workload;
  return key_of(workload.api_version, workload.kind, claim.metadata.namespace_, workload.name);
}

std::string short_workload_of(const Claim& claim) { return claim.spec.workload.kind + "/" + claim.spec.workload.name; }

const DataSource* source_of(const DataModel& model, const Claim& claim) {
  const auto found = model.sources.find(claim.status.bound_data_source);
  return found == model.sources.end() ? nullptr : &found->second;
}

const ResourceBinding* binding_of(const DataModel& model, const Claim& claim) {
  const auto found = model.bindings.find(workload_of(claim));
  return found == model.bindings.end() ? nullptr : &found->second;
}

std::vector<std::string> clusters_of(const ResourceBinding& binding) {
  std::vector<std::string> names;
  for (const auto& target : binding.spec.clusters) names.push_back(target.name);
  return names;
}

bool is_gated(const ResourceBinding& binding) {
  return is_suspended(binding) && binding.metadata.annotations.get(kGated) == "true";
}

std::string state_of(const Claim& claim) {
  if (!claim.metadata.deletion_timestamp.is_zero()) return "Deleting";
  if (claim.status.phase == api::datadependency::claim_phase::kBound) return claim.status.phase;
  const auto* bound = api::find_condition(claim.status.conditions, "Bound");
  return bound == nullptr || bound->reason.empty() ? std::string("Pending") : bound->reason;
}

Result<DataModel> read_data_model(Session& session, const DataModelOptions& options) {
  DataModel model;
  BASALT_TRY(model.claims, list_objects<Claim>(session, {.ns = options.ns, .label_selector = options.selector}));
  if (auto sources = list_objects<DataSource>(session, {}); sources.ok()) {
    for (auto& [source, bytes] : *sources) {
      std::string name = source.metadata.name;
      model.sources.emplace(std::move(name), std::move(source));
    }
  }
  if (auto bindings = list_objects<ResourceBinding>(session, {.ns = options.ns}); bindings.ok()) {
    for (auto& [binding, bytes] : *bindings) {
      const auto& resource = binding.spec.resource;
      std::string key = key_of(resource.api_version, resource.kind, binding.metadata.namespace_, resource.name);
      model.bindings.emplace(std::move(key), std::move(binding));
    }
  }
  if (auto clusters = list_objects<api::karmada::Cluster>(session, {}); clusters.ok()) {
    model.clusters.emplace();
    for (const auto& [cluster, bytes] : *clusters) model.clusters->push_back(cluster.metadata.name);
  }
  return model;
}

std::vector<DataUse> uses_of(const DataModel& model) {
  std::map<std::string, DataUse> uses;
  std::map<std::string, std::set<std::string>> workloads;
  for (const auto& [name, source] : model.sources) {
    DataUse& use = uses[name];
    use.source = name;
    use.system = source.spec.system;
    use.type = source.spec.type;
    use.name = source.spec.name;
    use.near = source.spec.locality.cluster_names;
    if (const auto* fresh = api::find_condition(source.status.conditions, "Fresh")) use.freshness = fresh->reason;
  }
  for (const auto& [claim, bytes] : model.claims) {
    const bool is_bound = source_of(model, claim) != nullptr;
    const auto& spec = claim.spec;
    std::string id = is_bound ? claim.status.bound_data_source
                              : "\t" + spec.system + "\t" + spec.data_source_type + "\t" + spec.data_source_name;
    DataUse& use = uses[id];
    if (!is_bound) {
      use.system = spec.system;
      use.type = spec.data_source_type;
      use.name = spec.data_source_name;
      use.freshness = state_of(claim);
    }
    ++use.claims;
    ++use.namespaces[claim.metadata.namespace_];
    if (!workloads[id].insert(workload_of(claim)).second) continue;  // two claims of one workload
    ++use.workloads;
    const ResourceBinding* binding = binding_of(model, claim);
    const std::vector<std::string> clusters = binding == nullptr ? std::vector<std::string>() : clusters_of(*binding);
    if (clusters.empty()) ++use.waiting;
    for (const std::string& cluster : clusters) ++use.used_from[cluster];
  }
  std::vector<DataUse> sorted;
  for (auto& [id, use] : uses) sorted.push_back(std::move(use));
  std::ranges::sort(sorted, [](const DataUse& a, const DataUse& b) {
    return std::tuple(b.workloads, b.claims, std::string_view(a.name), std::string_view(a.source)) <
           std::tuple(a.workloads, a.claims, std::string_view(b.name), std::string_view(b.source));
  });
  return sorted;
}

std::vector<ClaimReason> reasons_of(const DataModel& model, const Claim& claim) {
  std::vector<ClaimReason> reasons;
  const auto* bound = api::find_condition(claim.status.conditions, "Bound");
  if (bound == nullptr) {
    reasons.push_back({"no controller has looked at the claim",
                       "run 'basalt controllers --controllers=datadependency-controller' against this API server"});
    return reasons;
  }
  if (bound->status != "True")
    reasons.push_back({bound->reason + ": " + bound->message, help_for(bound->reason, claim)});
  if (const DataSource* source = source_of(model, claim)) {
    const auto& near = source->spec.locality.cluster_names;
    reasons.push_back({"the data is near " + shown(near), ""});
    if (model.clusters) {
      for (const std::string& name : near) {
        if (std::ranges::find(*model.clusters, name) != model.clusters->end()) continue;
        reasons.push_back({"cluster " + name + " is not registered" +
                               base::did_you_mean(
                                   name, std::vector<std::string_view>(model.clusters->begin(), model.clusters->end())),
                           "register it, or correct the mapping"});
      }
    }
    if (const auto* fresh = api::find_condition(source->status.conditions, "Fresh"); fresh && fresh->status != "True")
      reasons.push_back({"that is the last good answer, known before " + fresh->last_transition_time.to_string() +
                             ": " + fresh->reason + ": " + fresh->message,
                         "put the system right; nothing is moved meanwhile"});
  }
  const ResourceBinding* binding = binding_of(model, claim);
  if (binding == nullptr) {
    reasons.push_back({"Karmada has no binding for " + short_workload_of(claim),
                       "create the workload, and a PropagationPolicy that means it"});
    return reasons;
  }
  reasons.push_back(about_binding(model, claim, *binding));
  const auto* placed = api::find_condition(claim.status.conditions, "PlacementInjected");
  if (placed != nullptr && placed->status != "True" && placed->reason != "WaitingForBinding")
    reasons.push_back(
        {placed->reason + ": " + placed->message,
         placed->reason == "NoFeasibleCluster" ? "allow a cluster near the data in the policy, or register one" : ""});
  return reasons;
}

}  // namespace basalt::cli
