#include "controllers/datadependency/claim_caches.h"

#include <algorithm>
#include <utility>

#include "api/gen/karmada_cluster.h"
#include "controllers/datadependency/identity.h"
#include "kube/typed.h"

namespace basalt::controllers::datadependency {

kube::InformerOptions<Claim> claim_cache_options() {
  kube::InformerOptions<Claim> options;
  options.reflector.resource = kube::resource_of<Claim>();
  options.indexes = {
      {std::string(indexes::kByWorkload),
       [](const Claim& claim, std::vector<std::string>& values) {
         if (std::string key = workload_key(claim); !key.empty()) values.push_back(std::move(key));
       }},
      {std::string(indexes::kByIdentity),
       [](const Claim& claim, std::vector<std::string>& values) { values.push_back(DataIdentity::of(claim).key()); }},
      {std::string(indexes::kBySource), [](const Claim& claim, std::vector<std::string>& values) {
         if (!claim.status.bound_data_source.empty()) values.push_back(claim.status.bound_data_source);
       }}};
  return options;
}

kube::InformerOptions<Source> source_cache_options() {
  kube::InformerOptions<Source> options;
  options.reflector.resource = kube::resource_of<Source>();
  options.indexes = {{std::string(indexes::kByIdentity), [](const Source& source, std::vector<std::string>& values) {
                        values.push_back(DataIdentity::of(source).key());
                      }}};
  return options;
}

kube::InformerOptions<ClusterView> cluster_cache_options() {
  kube::InformerOptions<ClusterView> options;
  options.reflector.resource = kube::resource_of<api::karmada::Cluster>();
  return options;
}

std::vector<ClaimOnWorkload> claims_on(const kube::Informer<Claim>& claims, const kube::Informer<Source>& sources,
                                       const std::string& workload) {
  std::vector<ClaimOnWorkload> found;
  if (workload.empty()) return found;
  for (const ClaimPtr& claim : claims.by_index(indexes::kByWorkload, workload)) {
    if (!claim->metadata.deletion_timestamp.is_zero()) continue;
    const std::string& ns = claim->spec.workload.namespace_;
    if (!ns.empty() && ns != claim->metadata.namespace_) continue;  // steers nothing, and says so
    ClaimOnWorkload one{claim->metadata.uid, false, {}};
    const SourcePtr source = claim->status.phase == api::datadependency::claim_phase::kBound
                                 ? sources.get({"", claim->status.bound_data_source})
                                 : nullptr;
    if (source && source->metadata.deletion_timestamp.is_zero()) {
      one.is_bound = true;
      one.clusters = source->spec.locality.cluster_names;
    }
    found.push_back(std::move(one));
  }
  return found;
}

std::vector<std::string> sorted_names(const kube::Informer<ClusterView>& clusters) {
  std::vector<std::string> names;
  clusters.for_each([&](const ClusterView& view) { names.push_back(view.metadata.name); });
  std::ranges::sort(names);
  return names;
}

ClaimCaches::ClaimCaches(rt::Runtime& runtime, kube::Client& client, const Logger& log)
    : claims_(runtime, client, log, claim_cache_options()),
      sources_(runtime, client, log, source_cache_options()),
      clusters_(runtime, client, log, cluster_cache_options()) {}

void ClaimCaches::start() {
  claims_.start();
  sources_.start();
  clusters_.start();
}

void ClaimCaches::stop() {
  claims_.stop();
  sources_.stop();
  clusters_.stop();
}

bool ClaimCaches::has_synced() const { return claims_.has_synced() && sources_.has_synced() && clusters_.has_synced(); }

bool ClaimCaches::wait_synced(const rt::StopToken& stop) {
  return claims_.wait_synced(stop) && sources_.wait_synced(stop) && clusters_.wait_synced(stop);
}

Result<std::optional<json::Value>> ClaimCaches::patch_for(const json::Value& binding, const json::Value* before) const {
  if (!has_synced()) {
    if (before != nullptr) return std::optional<json::Value>();
    return Error::make(Reason::ServiceUnavailable, "the claims on data are not known yet: try again");
  }
  const auto at = [&](std::string_view key) { return std::string(binding.string_at({"spec", "resource", key})); };
  const std::string workload = workload_key(at("apiVersion"), at("kind"), at("namespace"), at("name"));
  return admission_patch(binding, before, claims_on(claims_, sources_, workload), sorted_names(clusters_));
}

}  // namespace basalt::controllers::datadependency
