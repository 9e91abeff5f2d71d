// Data sources: who uses them, whether they are fresh, and when they may go.

#include <algorithm>
#include <set>
#include <utility>

#include "api/conditions.h"
#include "controllers/datadependency/data_controller_impl.h"
#include "kube/typed.h"

namespace basalt::controllers::datadependency {
namespace {

bool is_deleting(const api::meta::ObjectMeta& metadata) { return !metadata.deletion_timestamp.is_zero(); }

bool has_finalizer(const Source& source) {
  return std::ranges::find(source.metadata.finalizers, kSourceFinalizer) != source.metadata.finalizers.end();
}

bool is_static(const Source& source) { return source.metadata.annotations.find(kStaticAnnotation) == "true"; }

std::set<std::string> as_set(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

// What the newest answer says of the data source's locality.
api::meta::Condition fresh_condition(const Source& source, const std::optional<KnownAnswer>& answer) {
  api::meta::Condition condition;
  condition.type = "Fresh";
  condition.observed_generation = source.metadata.generation;
  if (is_static(source)) {
    condition.status = "True";
    condition.reason = "Static";
    condition.message = "the locality is the administrator's";
    return condition;
  }
  const ResolutionKind kind = answer->resolution.kind;
  condition.status = kind == ResolutionKind::Found ? "True" : "False";
  condition.reason = kind == ResolutionKind::Found      ? "Refreshed"
                     : kind == ResolutionKind::NotFound ? "DataSourceNotFound"
                                                        : "RefreshFailed";
  condition.message = kind == ResolutionKind::Found ? "the locality is as the system says"
                                                    : answer->resolution.message + "; the last good answer stands";
  return condition;
}

}  // namespace

std::vector<ClaimPtr> DataController::claims_of_source(const std::string& name) const {
  std::vector<ClaimPtr> claims = claims_.by_index(indexes::kBySource, name);
  std::erase_if(claims, [](const ClaimPtr& claim) { return is_deleting(claim->metadata); });
  std::ranges::sort(claims, {},
                    [](const ClaimPtr& claim) { return std::pair(claim->metadata.namespace_, claim->metadata.name); });
  return claims;
}

rt::Outcome DataController::reconcile_source(const SourcePtr& source, const rt::StopToken& stop) {
  const kube::Resource resource = kube::resource_of<Source>();
  const std::vector<ClaimPtr> claims = claims_of_source(source->metadata.name);
  if (is_deleting(source->metadata)) {
    for (const ClaimPtr& claim : claims) mark_claim(*claim);
    if (!claims.empty() || !has_finalizer(*source)) return rt::Outcome::done();  // the claims' changes bring us back
    const Done removed = set_finalizers(resource, source->metadata, kSourceFinalizer, false, stop);
    return removed.ok() ? rt::Outcome::done() : rt::Outcome::failed(removed.error());
  }
  if (!claims.empty() && !has_finalizer(*source)) {
    const Done added = set_finalizers(resource, source->metadata, kSourceFinalizer, true, stop);
    return added.ok() ? rt::Outcome::done() : rt::Outcome::failed(added.error());
  }
  const bool lost_its_last = claims.empty() && !source->status.claim_refs.empty();
  if (lost_its_last && source->spec.reclaim_policy == api::datadependency::reclaim_policy::kDelete) {
    const auto removed =
        kube::delete_object(client_, resource, {"", source->metadata.name}, {.uid = source->metadata.uid}, stop);
    return removed.ok() ? rt::Outcome::done() : rt::Outcome::failed(removed.error());
  }
  const auto followed = follow_data(*source, stop);
  if (!followed.ok()) return rt::Outcome::failed(followed.error());
  if (*followed) return rt::Outcome::done();  // its event brings us back
  const Done written = write_source_status(*source, claims, stop);
  return written.ok() ? rt::Outcome::done() : rt::Outcome::failed(written.error());
}

// True if the locality was written.
Result<bool> DataController::follow_data(const Source& source, const rt::StopToken& stop) {
  const DataIdentity identity = DataIdentity::of(source);
  if (is_static(source) || !resolver_.has_plugin(identity.system)) return false;
  resolver_.want(identity);
  if (const auto wish = source.metadata.annotations.find(kRefreshAnnotation)) {
    bool is_new = false;
    {
      rt::MutexLock lock(mutex_);
      std::string& dealt_with = refresh_wishes_[source.metadata.uid];
      is_new = dealt_with != *wish;
      dealt_with = *wish;
    }
    if (is_new) resolver_.ask_again(identity);
  }
  const auto answer = resolver_.answer(identity.key());
  const bool has_answer = answer && answer->resolution.kind == ResolutionKind::Found;
  if (!has_answer || as_set(answer->resolution.clusters) == as_set(source.spec.locality.cluster_names)) return false;
  json::Array names(answer->resolution.clusters.begin(), answer->resolution.clusters.end());
  const json::Value patch =
      json::Object{{"metadata", json::Object{{"resourceVersion", source.metadata.resource_version}}},
                   {"spec", json::Object{{"locality", json::Object{{"clusterNames", std::move(names)}}}}}};
  BASALT_TRY(const kube::Response written, kube::patch_object(client_, kube::resource_of<Source>(),
                                                              {"", source.metadata.name}, patch.to_text(), stop));
  static_cast<void>(written);
  return true;
}

Done DataController::write_source_status(const Source& source, const std::vector<ClaimPtr>& claims,
                                         const rt::StopToken& stop) {
  auto status = source.status;
  status.claim_refs.clear();
  for (const ClaimPtr& claim : claims) {
    if (status.claim_refs.size() == options_.claim_refs_max) break;
    api::core::ObjectReference ref;
    ref.api_version = std::string(Claim::kind_info().group) + "/" + std::string(Claim::kind_info().version);
    ref.kind = Claim::kind_info().kind;
    ref.namespace_ = claim->metadata.namespace_;
    ref.name = claim->metadata.name;
    ref.uid = claim->metadata.uid;
    status.claim_refs.push_back(std::move(ref));
  }
  status.bound_claims = static_cast<std::int32_t>(claims.size());
  const auto answer = resolver_.answer(DataIdentity::of(source).key());
  if (is_static(source) || (answer && resolver_.has_plugin(source.spec.system)))
    api::set_condition(status.conditions, fresh_condition(source, answer), wall());
  // References that others wrote with more in them than ours are as good.
  const auto same_claims = [](const auto& a, const auto& b) {
    return std::ranges::equal(
        a, b, {}, [](const auto& ref) { return ref.uid; }, [](const auto& ref) { return ref.uid; });
  };
  if (same_claims(status.claim_refs, source.status.claim_refs)) status.claim_refs = source.status.claim_refs;
  if (status == source.status) return Ok{};
  auto patch = json::Value::parse(json::to_text(status));
  if (!patch.ok()) return patch.error();
  // What a merge patch would otherwise keep.
  if (status.claim_refs.empty()) patch->as_object().set("claimRefs", json::Value());
  patch->as_object().set("boundClaims", static_cast<std::int64_t>(status.bound_claims));
  const auto written = kube::patch_status(client_, kube::resource_of<Source>(), {"", source.metadata.name},
                                          patch->to_text(), source.metadata.resource_version, stop);
  if (!written.ok() && !written.error().is(Reason::NotFound)) return written.error();
  return Ok{};
}

}  // namespace basalt::controllers::datadependency
