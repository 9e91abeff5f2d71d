// Workloads: their bindings get what all their claims together ask for.

#include <algorithm>
#include <utility>

#include "api/gen/karmada_binding.h"
#include "base/strings.h"
#include "controllers/datadependency/data_controller_impl.h"
#include "kube/typed.h"

namespace basalt::controllers::datadependency {

std::shared_ptr<const BindingView> DataController::binding_of(const std::string& workload) const {
  const auto found = bindings_.by_index(indexes::kByWorkload, workload);
  return found.empty() ? nullptr : found.front();
}

bool DataController::moves(const json::Value& binding, const PlacementPlan& plan) {
  if (plan.verdict != PlacementVerdict::Injected && plan.verdict != PlacementVerdict::NoFeasibleCluster) return false;
  // A placement that was overwritten is put back at once: that keeps the workload where it is.
  if (plan.was_overwritten) return false;
  return std::ranges::any_of(current_clusters(binding), [&](const std::string& name) {
    return std::ranges::find(plan.allowed, name) == plan.allowed.end();
  });
}

rt::Duration DataController::until_next_move(const std::string& key) {
  rt::MutexLock lock(mutex_);
  const auto last = last_moves_.find(key);
  return last == last_moves_.end() ? rt::Duration() : last->second + options_.between_moves - runtime_.now();
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
  const std::vector<ClaimOnWorkload> claims = claims_on(claims_, sources_, key);
  const std::vector<std::string> clusters = sorted_names(clusters_);
  const PlacementPlan plan =
      options_.gates ? plan_binding(*binding, claims, clusters) : plan_placement(*binding, claims, clusters);
  if (!plan.patch) {
    mark_claims_of(indexes::kByWorkload, key);
    return rt::Outcome::done();
  }
  const bool is_move = moves(*binding, plan);
  if (const rt::Duration wait = is_move ? until_next_move(key) : rt::Duration(); wait > rt::Duration::zero())
    return rt::Outcome::retry_after(wait);
  json::Value patch = *plan.patch;
  patch.ensure_path({"metadata", "resourceVersion"}) = view->metadata.resource_version;
  const auto written = kube::patch_object(client_, kube::resource_of<api::karmada::ResourceBinding>(),
                                          {view->metadata.namespace_, view->metadata.name}, patch.to_text(), stop);
  if (!written.ok() && written.error().is(Reason::NotFound)) return rt::Outcome::done();
  if (!written.ok()) return rt::Outcome::failed(written.error());
  if (is_move) {
    rt::MutexLock lock(mutex_);
    last_moves_[key] = runtime_.now();
  }
  if (plan.verdict == PlacementVerdict::Injected && !plan.was_overwritten)
    metrics_.counter("datadependency_injections_total", "Constraints written into bindings.").add();
  if (plan.was_overwritten)
    metrics_.counter("datadependency_reinjections_total", "Constraints put back after somebody replaced the placement.")
        .add();
  for (const ClaimPtr& claim : claims_.by_index(indexes::kByWorkload, key)) {
    if (plan.verdict == PlacementVerdict::Injected)
      tell(*claim, kube::EventType::Normal, is_move ? "Rescheduled" : "PlacementInjected",
           "clusters: " + base::join(plan.allowed, ", "));
    if (plan.verdict == PlacementVerdict::NoFeasibleCluster || plan.verdict == PlacementVerdict::Contradiction)
      tell(*claim, kube::EventType::Warning, "NoFeasibleCluster", "no cluster fits all claims of " + key);
  }
  return rt::Outcome::done();
}

}  // namespace basalt::controllers::datadependency
