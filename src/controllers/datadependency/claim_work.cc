// Claims: find or resolve their data source, bind, say why not, let go.

#include <algorithm>
#include <array>
#include <utility>

#include "api/conditions.h"
#include "base/strings.h"
#include "controllers/datadependency/data_controller_impl.h"
#include "kube/typed.h"

namespace basalt::controllers::datadependency {
namespace {

using Status = api::datadependency::DataSourceClaimStatus;
namespace phase = api::datadependency::claim_phase;

constexpr rt::Duration kLookAgain = std::chrono::seconds(1);
constexpr std::string_view kBound = "Bound";
constexpr std::string_view kPlacementInjected = "PlacementInjected";

bool has_finalizer(const Claim& claim) {
  return std::ranges::find(claim.metadata.finalizers, kClaimFinalizer) != claim.metadata.finalizers.end();
}

// What is wrong with the claim itself: reason and message, or nothing.
std::optional<std::pair<std::string, std::string>> complaint_about(const Claim& claim) {
  const auto& workload = claim.spec.workload;
  if (workload_key(claim).empty())
    return std::pair("InvalidWorkloadRef", "spec.workload needs apiVersion, kind and name");
  if (!workload.namespace_.empty() && workload.namespace_ != claim.metadata.namespace_)
    return std::pair("InvalidWorkloadRef", "spec.workload.namespace is " + base::quote(workload.namespace_) +
                                               ": a claim steers workloads of its own namespace only");
  if (claim.spec.system.empty() || claim.spec.data_source_type.empty() || claim.spec.data_source_name.empty())
    return std::pair("InvalidDataSourceName", "spec.system, spec.dataSourceType and spec.dataSourceName are needed");
  return std::nullopt;
}

// The reason that a claim is not bound, by the answer about its data.
std::pair<std::string, std::string> reason_of(const std::optional<KnownAnswer>& answer, const DataIdentity& identity) {
  if (!answer) return {"Resolving", "asking where " + identity.to_string() + " is"};
  const Resolution& resolution = answer->resolution;
  switch (resolution.kind) {
    case ResolutionKind::Found:
      return {"Resolving", "the data source is being made"};
    case ResolutionKind::NotFound:
      return {"DataSourceNotFound", identity.to_string() + ": " + resolution.message};
    case ResolutionKind::NoMapping:
      return {"NoClusterMapping", identity.to_string() + ": " + resolution.message};
    case ResolutionKind::InvalidName:
      return {"InvalidDataSourceName", resolution.message};
    default:
      return {"ResolutionFailed", identity.to_string() + ": " + resolution.message + " (tried again)"};
  }
}

// Kinds without a namespace have a ClusterResourceBinding, which nobody may steer from inside one.
bool has_no_namespace(const Claim& claim) {
  static constexpr std::array<std::string_view, 9> kKinds = {
      "Namespace",    "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition",
      "StorageClass", "PriorityClass",    "HyperNode",   "DataSource"};
  return std::ranges::find(kKinds, claim.spec.workload.kind) != kKinds.end();
}

bool is_deleting(const api::meta::ObjectMeta& metadata) { return !metadata.deletion_timestamp.is_zero(); }

}  // namespace

rt::Outcome DataController::reconcile_claim(const ClaimPtr& claim, const rt::StopToken& stop) {
  if (is_deleting(claim->metadata)) return release_claim(*claim, stop);
  if (!has_finalizer(*claim)) {
    const Done added = set_finalizers(kube::resource_of<Claim>(), claim->metadata, kClaimFinalizer, true, stop);
    return added.ok() ? rt::Outcome::done() : rt::Outcome::failed(added.error());  // its event brings us back
  }
  if (const auto complaint = complaint_about(*claim)) {
    Status status = claim->status;
    status.phase = phase::kPending;
    status.bound_data_source.clear();
    std::erase_if(status.conditions, [](const auto& one) { return one.type == kPlacementInjected; });
    api::set_condition(
        status.conditions,
        {std::string(kBound), "False", claim->metadata.generation, {}, complaint->first, complaint->second, {}},
        wall());
    const Done written = write_claim_status(*claim, std::move(status), stop);
    return written.ok() ? rt::Outcome::done() : rt::Outcome::failed(written.error());
  }
  const SourcePtr source = matching_source(*claim);
  return source ? bind_claim(*claim, *source, stop) : wait_for_source(*claim, stop);
}

SourcePtr DataController::matching_source(const Claim& claim) const {
  SourcePtr best;
  for (const SourcePtr& source : sources_.by_index(indexes::kByIdentity, DataIdentity::of(claim).key())) {
    if (is_deleting(source->metadata)) continue;
    if (source->metadata.name == claim.status.bound_data_source) return source;
    const bool is_better = !best || std::pair(source->metadata.creation_timestamp, source->metadata.name) <
                                        std::pair(best->metadata.creation_timestamp, best->metadata.name);
    if (is_better) best = source;
  }
  return best;
}

rt::Outcome DataController::bind_claim(const Claim& claim, const Source& source, const rt::StopToken& stop) {
  {
    rt::MutexLock lock(mutex_);
    changed_since_.erase(claim.metadata.uid);
  }
  Status status = claim.status;
  const bool is_new = status.phase != phase::kBound || status.bound_data_source != source.metadata.name;
  const api::meta::Condition* before = api::find_condition(status.conditions, kBound);
  const bool had_to_wait = before != nullptr && before->status != "True";
  status.phase = phase::kBound;
  status.bound_data_source = source.metadata.name;
  api::set_condition(status.conditions,
                     {std::string(kBound),
                      "True",
                      claim.metadata.generation,
                      {},
                      "BindingSuccessful",
                      "Successfully bound to DataSource: " + source.metadata.name,
                      {}},
                     wall());
  set_placement_condition(claim, status);
  if (Done written = write_claim_status(claim, std::move(status), stop); !written.ok())
    return rt::Outcome::failed(written.error());
  if (!is_new) return rt::Outcome::done();
  metrics_.counter("datadependency_bindings_total", "Claims that were bound to a data source.").add();
  if (!had_to_wait)
    metrics_.counter("datadependency_cache_hits_total", "Claims whose data was known when they came.").add();
  tell(claim, kube::EventType::Normal, "Bound", "Successfully bound to DataSource " + source.metadata.name);
  return rt::Outcome::done();
}

bool DataController::keeps_old_binding(const Claim& claim) {
  if (claim.status.phase != phase::kBound) return false;
  const SourcePtr old = sources_.get({"", claim.status.bound_data_source});
  if (!old || is_deleting(old->metadata) || DataIdentity::of(*old) == DataIdentity::of(claim)) return false;
  rt::MutexLock lock(mutex_);
  const auto since = changed_since_.try_emplace(claim.metadata.uid, runtime_.now()).first->second;
  return runtime_.now() < since + options_.keep_old_constraint;
}

rt::Outcome DataController::wait_for_source(const Claim& claim, const rt::StopToken& stop) {
  const DataIdentity identity = DataIdentity::of(claim);
  resolver_.want(identity);
  const auto answer = resolver_.answer(identity.key());
  // An old one of the same name that is being deleted has to go first, and goes when no claim is bound to it.
  bool is_blocked = false;
  if (answer && answer->resolution.kind == ResolutionKind::Found) {
    const auto made = create_source(identity, answer->resolution.clusters, stop);
    if (!made.ok()) return rt::Outcome::failed(made.error());
    is_blocked = !*made;
  }
  // The old constraint holds while the new one is found out, so that nothing runs unconstrained in between.
  if (keeps_old_binding(claim)) return rt::Outcome::retry_after(kLookAgain);
  Status status = claim.status;
  const bool was_bound = status.phase == phase::kBound;
  auto [reason, message] = reason_of(answer, identity);
  if (was_bound && reason == "Resolving") {
    reason = "BindingInvalid";
    message = "the data source " + claim.status.bound_data_source + " is not the claimed one any more; " + message;
  }
  status.phase = phase::kPending;
  status.bound_data_source.clear();
  const api::meta::Condition* before = api::find_condition(status.conditions, kBound);
  const bool is_news = before == nullptr || before->reason != reason;
  api::set_condition(status.conditions,
                     {std::string(kBound), "False", claim.metadata.generation, {}, reason, message, {}}, wall());
  set_placement_condition(claim, status);
  if (Done written = write_claim_status(claim, std::move(status), stop); !written.ok())
    return rt::Outcome::failed(written.error());
  if (is_news && reason != "Resolving") tell(claim, kube::EventType::Warning, reason, message);
  return is_blocked ? rt::Outcome::retry_after(kLookAgain) : rt::Outcome::done();
}

// True if it is there or made; false if an object that goes away stands in the way.
Result<bool> DataController::create_source(const DataIdentity& identity, const std::vector<std::string>& clusters,
                                           const rt::StopToken& stop) {
  for (const std::string& name : {data_source_name(identity), hashed_data_source_name(identity)}) {
    Source source;
    source.metadata.name = name;
    source.metadata.finalizers = {std::string(kSourceFinalizer)};
    source.spec.system = identity.system;
    source.spec.type = identity.type;
    source.spec.name = identity.name;
    source.spec.attributes = identity.attributes;
    source.spec.locality.cluster_names = clusters;
    source.spec.reclaim_policy = api::datadependency::reclaim_policy::kRetain;
    const auto made = kube::create_object(client_, "", source, stop);
    if (made.ok()) return true;
    if (!made.error().is(Reason::AlreadyExists)) return made.error();
    auto there = kube::get_object<Source>(client_, {"", name}, stop);
    if (!there.ok()) {
      if (there.error().is(Reason::NotFound)) return false;
      return there.error();
    }
    if (DataIdentity::of(*there) == identity) return !is_deleting(there->metadata);
    // Another identity has the readable name: the hashed one is ours alone.
  }
  return Error::make(Reason::Conflict, "the names for the data source of " + identity.to_string() + " are taken");
}

void DataController::set_placement_condition(const Claim& claim, Status& status) const {
  const std::string key = workload_key(claim);
  const auto binding = binding_of(key);
  api::meta::Condition condition{std::string(kPlacementInjected),
                                 "False",
                                 claim.metadata.generation,
                                 {},
                                 "WaitingForBinding",
                                 "Karmada has no binding for " + key + " yet",
                                 {}};
  if (has_no_namespace(claim)) {
    condition.reason = "NotSupportedKind";
    condition.message = "a " + claim.spec.workload.kind + " has no namespace: only workloads in one are steered";
  } else if (binding) {
    const auto object = json::Value::parse(binding->text);
    if (!object.ok()) return;
    const PlacementPlan plan = plan_placement(*object, claims_on(claims_, sources_, key), sorted_names(clusters_));
    const std::string allowed = plan.allowed.empty() ? "none" : base::join(plan.allowed, ", ");
    switch (plan.verdict) {
      case PlacementVerdict::Injected:
        condition.status = plan.patch ? "False" : "True";
        condition.reason = plan.patch ? "WaitingForBinding" : "Injected";
        condition.message = "clusters: " + allowed;
        break;
      case PlacementVerdict::NoFeasibleCluster:
        condition.reason = "NoFeasibleCluster";
        condition.message =
            "the data is near " + allowed + ", and no such cluster is registered and allowed by the policy";
        break;
      case PlacementVerdict::Contradiction:
        condition.reason = "NoFeasibleCluster";
        condition.message = "the claims of " + key + " have no cluster in common";
        break;
      case PlacementVerdict::Over:
        condition.reason = "Injected";
        condition.message = "the workload has ended and stays where it ran";
        condition.status = "True";
        break;
      case PlacementVerdict::Waiting:
      case PlacementVerdict::None:
        condition.message = "not all claims of " + key + " are bound";
        break;
    }
  }
  api::set_condition(status.conditions, std::move(condition), wall());
}

Done DataController::write_claim_status(const Claim& claim, Status status, const rt::StopToken& stop) {
  if (status == claim.status) return Ok{};
  auto patch = json::Value::parse(json::to_text(status));
  if (!patch.ok()) return patch.error();
  // What a merge patch would otherwise keep.
  if (status.bound_data_source.empty()) patch->as_object().set("boundDataSource", json::Value());
  const auto written =
      kube::patch_status(client_, kube::resource_of<Claim>(), {claim.metadata.namespace_, claim.metadata.name},
                         patch->to_text(), claim.metadata.resource_version, stop);
  if (!written.ok() && !written.error().is(Reason::NotFound)) return written.error();
  return Ok{};
}

rt::Outcome DataController::release_claim(const Claim& claim, const rt::StopToken& stop) {
  if (!has_finalizer(claim)) return rt::Outcome::done();
  const std::string key = workload_key(claim);
  // The data source must have forgotten the claim, and the binding what it owed to it.
  if (const SourcePtr source = sources_.get({"", claim.status.bound_data_source})) {
    const bool is_named =
        std::ranges::any_of(source->status.claim_refs, [&](const auto& ref) { return ref.uid == claim.metadata.uid; });
    if (is_named) return rt::Outcome::retry_after(kLookAgain);
  }
  if (const auto binding = key.empty() ? nullptr : binding_of(key)) {
    const auto object = json::Value::parse(binding->text);
    const bool is_steered =
        object.ok() && object->string_at({"metadata", "annotations", kRecordAnnotation}).find(claim.metadata.uid) !=
                           std::string_view::npos;
    if (is_steered) return rt::Outcome::retry_after(kLookAgain);
  }
  {
    rt::MutexLock lock(mutex_);
    changed_since_.erase(claim.metadata.uid);
  }
  const Done removed = set_finalizers(kube::resource_of<Claim>(), claim.metadata, kClaimFinalizer, false, stop);
  return removed.ok() ? rt::Outcome::done() : rt::Outcome::failed(removed.error());
}

}  // namespace basalt::controllers::datadependency
