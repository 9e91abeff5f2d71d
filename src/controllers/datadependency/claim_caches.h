#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/datadependency.h"
#include "base/log.h"
#include "controllers/datadependency/placement.h"
#include "controllers/datadependency/views.h"
#include "json/value.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::controllers::datadependency {

using Claim = api::datadependency::DataSourceClaim;
using Source = api::datadependency::DataSource;
using ClaimPtr = std::shared_ptr<const Claim>;
using SourcePtr = std::shared_ptr<const Source>;

namespace indexes {
inline constexpr std::string_view kByWorkload = "workload";
inline constexpr std::string_view kByIdentity = "identity";
inline constexpr std::string_view kBySource = "source";
}  // namespace indexes

[[nodiscard]] kube::InformerOptions<Claim> claim_cache_options();
[[nodiscard]] kube::InformerOptions<Source> source_cache_options();
[[nodiscard]] kube::InformerOptions<ClusterView> cluster_cache_options();

// All claims of a workload that steer it, with where their data is.
[[nodiscard]] std::vector<ClaimOnWorkload> claims_on(const kube::Informer<Claim>& claims,
                                                     const kube::Informer<Source>& sources,
                                                     const std::string& workload);
[[nodiscard]] std::vector<std::string> sorted_names(const kube::Informer<ClusterView>& clusters);

// What admission needs to know of claims: caches of its own, so that it answers whether or not a controller runs here.
// start() before use, stop() before destruction. Thread-safe.
class ClaimCaches {
 public:
  ClaimCaches(rt::Runtime& runtime, kube::Client& client, const Logger& log);

  void start();
  void stop();
  [[nodiscard]] bool has_synced() const;
  [[nodiscard]] bool wait_synced(const rt::StopToken& stop);
  // What to add to a write of a binding, see admission_patch(). While the caches fill a new binding is refused for now
  // (a moment later is better than a wrong cluster) and an update passes (the controller repairs it).
  [[nodiscard]] Result<std::optional<json::Value>> patch_for(const json::Value& binding,
                                                             const json::Value* before) const;

 private:
  kube::Informer<Claim> claims_;
  kube::Informer<Source> sources_;
  kube::Informer<ClusterView> clusters_;
};

}  // namespace basalt::controllers::datadependency
