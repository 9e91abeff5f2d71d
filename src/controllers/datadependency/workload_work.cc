// Workloads: their bindings get what all their claims together ask for.

#include <algorithm>
#include <utility>

#include "api/gen/karmada_binding.h"
#include "base/strings.h"
#include "controllers/datadependency/data_controller_impl.h"
#include "json/merge_patch.h"
#include "kube/typed.h"

namespace basalt::controllers::datadependency {
namespace {

bool is_suspended(const json::Value& binding) {
  const json::Value* value = binding.find_path({"spec", "suspension", "scheduling"});
  return value != nullptr && value->is_bool() && value->as_bool();
}

bool was_scheduled(const json::Value& binding) {
  if (!binding.string_at({"status", "lastScheduledTime"}).empty()) return true;
  const json::Value* clusters = binding.find_path({"spec", "clusters"});
  return clusters != nullptr && clusters->is_array() && !clusters->as_array().empty();
}

std::vector<std::string> current_clusters(const json::Value& binding) {
  std::vector<std::string> names;
  const json::Value* clusters = binding.find_path({"spec", "clusters"});
  if (clusters == nullptr || !clusters->is_array()) return names;
  for (const json::Value& one : clusters->as_array()) names.emplace_back(one.string_at({"name"}));
  return names;
}

}  // namespace

std::shared_ptr<const BindingView> DataController::binding_of(const std::string& workload) const {
  const auto found = bindings_.by_index(indexes::kByWorkload, workload);
  return found.empty() ? nullptr : found.front();
}

std::vector<std::string> DataController::cluster_names() const {
  std::vector<std::string> names;
  clusters_.for_each([&](const ClusterView& view) { names.push_back(view.metadata.name); });
  std::ranges::sort(names);
  return names;
}

std::vector<ClaimOnWorkload> DataController::claims_on(const std::string& key) const {
  std::vector<ClaimOnWorkload> claims;
  for (const ClaimPtr& claim : claims_.by_index(indexes::kByWorkload, key)) {
    if (!claim->metadata.deletion_timestamp.is_zero()) continue;
    const std::string& ns = claim->spec.workload.namespace_;
    if (!ns.empty() && ns != claim->metadata.namespace_) continue;  // steers nothing, and says so
    ClaimOnWorkload one{claim->metadata.uid, false, {}};
    const SourcePtr source = claim->status.phase == api::datadependency::claim_phase::kBound
                                 ? sources_.get({"", claim->status.bound_data_source})
                                 : nullptr;
    if (source && source->metadata.deletion_timestamp.is_zero()) {
      one.is_bound = true;
      one.clusters = source->spec.locality.cluster_names;
    }
    claims.push_back(std::move(one));
  }
  return claims;
}

rt::Duration DataController::must_wait_to_move(const std::string& key, const json::Value& binding,
                                               const PlacementPlan& plan) {
  if (plan.verdict != PlacementVerdict::Injected && plan.verdict != PlacementVerdict::NoFeasibleCluster) return {};
  const auto current = current_clusters(binding);
  const bool moves = std::ranges::any_of(
      current, [&](const std::string& name) { return std::ranges::find(plan.allowed, name) == plan.allowed.end(); });
  // A placement that was overwritten is put back at once: that keeps the workload where it is.
  if (!moves || plan.was_overwritten) return {};
  rt::MutexLock lock(mutex_);
  const rt::Instant now = runtime_.now();
  const auto last = last_moves_.find(key);
  if (last != last_moves_.end() && now < last->second + options_.between_moves)
    return last->second + options_.between_moves - now;
  last_moves_[key] = now;
  return {};
}

void DataController::add_gate(const json::Value& binding, const json::Value& after,
                              const std::vector<ClaimOnWorkload>& claims, json::Value& patch) const {
  const bool is_ours = binding.string_at({"metadata", "annotations", kGatedAnnotation}) == "true";
  const bool may = may_be_scheduled(after, claims);
  if (may && is_ours) {
    if (is_suspended(binding)) patch.ensure_path({"spec", "suspension", "scheduling"}) = false;
    patch.ensure_path({"metadata", "annotations"}).as_object().set(kGatedAnnotation, json::Value());
  } else if (!may && !was_scheduled(binding) && !is_suspended(binding)) {
    patch.ensure_path({"spec", "suspension", "scheduling"}) = true;
    json::Value& annotations = patch.ensure_path({"metadata", "annotations"});
    if (!annotations.is_object()) annotations = json::Object();
    annotations.as_object().set(kGatedAnnotation, "true");
  }
}

rt::Outcome DataController::reconcile_workload(const std::string& key, const rt::StopToken& stop) {
  const auto view = binding_of(key);
  if (!view) {
    mark_claims_of(indexes::kByWorkload, key);  // their condition says that there is no binding
    rt::MutexLock lock(mutex_);
    last_moves_.erase(key);
    return rt::Outcome::done();
  }
  const auto binding = json::Value::parse(view->text);
  if (!binding.ok()) return rt::Outcome::failed_for_good(binding.error());
  const std::vector<ClaimOnWorkload> claims = claims_on(key);
  const PlacementPlan plan = plan_placement(*binding, claims, cluster_names());
  json::Value patch = plan.patch.value_or(json::Value(json::Object()));
  if (options_.gates) {
    json::Value annotations = json::Object();
    if (patch.find_path({"metadata", "annotations"}) == nullptr)
      patch.ensure_path({"metadata", "annotations"}) = json::Object();
    add_gate(*binding, json::apply_merge_patch(*binding, patch), claims, patch);
    if (patch.find_path({"metadata", "annotations"})->as_object().empty()) patch.as_object().erase("metadata");
  }
  if (patch.as_object().empty()) {
    mark_claims_of(indexes::kByWorkload, key);
    return rt::Outcome::done();
  }
  if (const rt::Duration wait = must_wait_to_move(key, *binding, plan); wait > rt::Duration::zero())
    return rt::Outcome::retry_after(wait);
  patch.ensure_path({"metadata", "resourceVersion"}) = view->metadata.resource_version;
  const auto written = kube::patch_object(client_, kube::resource_of<api::karmada::ResourceBinding>(),
                                          {view->metadata.namespace_, view->metadata.name}, patch.to_text(), stop);
  if (!written.ok() && written.error().is(Reason::NotFound)) return rt::Outcome::done();
  if (!written.ok()) return rt::Outcome::failed(written.error());
  if (plan.was_overwritten)
    metrics_.counter("datadependency_reinjections_total", "Constraints put back after somebody replaced the placement.")
        .add();
  for (const ClaimPtr& claim : claims_.by_index(indexes::kByWorkload, key)) {
    if (plan.patch && plan.verdict == PlacementVerdict::Injected)
      tell(*claim, kube::EventType::Normal, "PlacementInjected", "clusters: " + base::join(plan.allowed, ", "));
    if (plan.verdict == PlacementVerdict::NoFeasibleCluster || plan.verdict == PlacementVerdict::Contradiction)
      tell(*claim, kube::EventType::Warning, "NoFeasibleCluster", "no cluster fits all claims of " + key);
  }
  return rt::Outcome::done();
}

}  // namespace basalt::controllers::datadependency
