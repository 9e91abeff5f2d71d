#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/datadependency.h"
#include "api/gen/karmada_binding.h"
#include "api/gen/karmada_cluster.h"
#include "base/result.h"
#include "cli/client/host.h"
#include "cli/client/objects.h"

// What the control plane shows of claims and of what they steer. Reading is here; the rest is pure.

namespace basalt::cli {

using Claim = api::datadependency::DataSourceClaim;
using DataSource = api::datadependency::DataSource;
using api::karmada::ResourceBinding;

struct DataModel {
  std::vector<Listed<Claim>> claims;
  std::map<std::string, DataSource> sources;         // by name
  std::map<std::string, ResourceBinding> bindings;   // by workload: "<apiVersion>/<kind>/<namespace>/<name>"
  std::optional<std::vector<std::string>> clusters;  // names; nothing if they cannot be read
};

struct DataModelOptions {
  std::string ns;  // "" = all
  std::string selector;
};
// Without Karmada's kinds, or the right to read them, the rest is still worth showing.
[[nodiscard]] Result<DataModel> read_data_model(Session& session, const DataModelOptions& options);

[[nodiscard]] std::string workload_of(const Claim& claim);        // the key of `bindings`
[[nodiscard]] std::string short_workload_of(const Claim& claim);  // "Job/train"
[[nodiscard]] const DataSource* source_of(const DataModel& model, const Claim& claim);
[[nodiscard]] const ResourceBinding* binding_of(const DataModel& model, const Claim& claim);
[[nodiscard]] std::vector<std::string> clusters_of(const ResourceBinding& binding);
[[nodiscard]] bool is_gated(const ResourceBinding& binding);  // suspended by the data dependency controller
// "Bound", or why not: the reason of the condition.
[[nodiscard]] std::string state_of(const Claim& claim);

// One line of the heat map.
struct DataUse {
  std::string source;  // the object's name
  std::string system;
  std::string type;
  std::string name;
  std::size_t claims = 0;
  std::size_t workloads = 0;
  std::map<std::string, std::size_t> namespaces;  // by whom: claims
  std::vector<std::string> near;                  // where the data is
  std::map<std::string, std::size_t> used_from;   // workloads by cluster
  std::size_t waiting = 0;                        // workloads without a cluster
  std::string freshness;                          // reason of the condition Fresh
};
// The most used first. Claims that are not bound count under the data that they name.
[[nodiscard]] std::vector<DataUse> uses_of(const DataModel& model);

struct ClaimReason {
  std::string what;
  std::string help;  // "" if nothing is to be done
};
// Why the workload of a claim waits, or that it does not.
[[nodiscard]] std::vector<ClaimReason> reasons_of(const DataModel& model, const Claim& claim);

}  // namespace basalt::cli
