#include "workloads/disruption/budget_controller.h"

#include <set>
#include <utility>

#include "base/strings.h"

namespace basalt::workloads {

BudgetController::BudgetController(Context& context)
    : KeyedController(context,
                      {.name = "disruption", .kind = kDisruptionBudgetKind, .resource = resources::kDisruptionBudgets},
                      context.caches.budgets) {
  context.caches.pods.add_handler([this](const kube::Change<Pod>& change) {
    if (objects_.size() == 0) return;
    if (change.before) add_adopters(change.before->metadata.namespace_, change.before->metadata.labels);
    if (change.after && (!change.before || !(change.before->metadata.labels == change.after->metadata.labels)))
      add_adopters(change.after->metadata.namespace_, change.after->metadata.labels);
  });
  for (kube::Informer<Object>* cache :
       {&context.caches.replica_sets, &context.caches.replication_controllers, &context.caches.stateful_sets}) {
    cache->add_handler([this](const kube::Change<Object>& change) {
      const bool is_same =
          change.before && change.after &&
          int_at(change.before->json, {"spec", "replicas"}, 1) == int_at(change.after->json, {"spec", "replicas"}, 1);
      if (!is_same) add_all_of(change.object());
    });
  }
}

void BudgetController::add_all_of(const Object& workload) {
  for (const auto& budget : objects_.list_namespace(workload.metadata.namespace_)) add(budget->key());
}

BudgetScale BudgetController::scale_of(const std::vector<PodPtr>& pods) const {
  BudgetScale scale;
  std::set<std::string> seen;
  for (const PodPtr& pod : pods) {
    const Pod::Metadata& metadata = pod->metadata;
    if (metadata.owner_uid.empty()) {
      scale.unmanaged.push_back(metadata.name.str());
      continue;
    }
    if (!seen.insert(metadata.owner_uid.str()).second) continue;
    const api::ObjectKey key{metadata.namespace_.str(), metadata.owner_name.str()};
    ObjectPtr owner;
    if (metadata.owner_kind == kReplicaSetKind.kind) owner = context_.caches.replica_sets.get(key);
    if (metadata.owner_kind == kReplicationControllerKind.kind)
      owner = context_.caches.replication_controllers.get(key);
    if (metadata.owner_kind == kStatefulSetKind.kind) owner = context_.caches.stateful_sets.get(key);
    if (!owner) {
      scale.unknown_scale = metadata.owner_kind.str() + " " + base::quote(metadata.owner_name);
      continue;
    }
    // A deployment says for all of its replica sets how many there are to be.
    if (owner->metadata.owner_kind == kDeploymentKind.kind) {
      const auto deployment = context_.caches.deployments.get({owner->metadata.namespace_, owner->metadata.owner_name});
      if (deployment && !seen.insert(deployment->metadata.uid).second) continue;
      if (deployment) owner = deployment;
    }
    scale.replicas += int_at(owner->json, {"spec", "replicas"}, 1);
  }
  return scale;
}

rt::Outcome BudgetController::reconcile(const Object& budget, const rt::StopToken& stop) {
  if (budget.metadata.is_being_deleted) return rt::Outcome::done();
  const auto selector = selector_at(budget.json, {"spec", "selector"});
  if (!selector.ok()) return rt::Outcome::failed_for_good(selector.error().with_context("spec.selector"));
  std::vector<PodPtr> pods;
  for (PodPtr& pod : context_.caches.pods.list_namespace(budget.metadata.namespace_)) {
    if (selector->matches(pod->metadata.labels)) pods.push_back(std::move(pod));
  }
  const BudgetScale scale = scale_of(pods);
  const BudgetPlan plan = plan_budget(budget, pods, scale, context_.runtime.wall_now());
  const bool is_news = !(plan.status == object_at(budget.json, {"status"}));
  if (is_news && pods.empty()) tell(budget, kube::EventType::Normal, "NoPods", "No matching pods found");
  if (is_news && plan.failure) {
    tell(budget, kube::EventType::Warning, "CalculateExpectedPodCountFailed",
         "Failed to calculate the number of expected pods: " + *plan.failure);
  }
  Done written = writer_.write_status(budget.key(), resources::kDisruptionBudgets, budget, plan.status, stop);
  if (!written.ok()) return rt::Outcome::failed(std::move(written).error());
  return done_or_after(plan.look_again);
}

}  // namespace basalt::workloads
