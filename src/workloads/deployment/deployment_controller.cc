#include "workloads/deployment/deployment_controller.h"

#include <utility>

#include "kube/identity.h"
#include "workloads/common/claim.h"

namespace basalt::workloads {

DeploymentController::DeploymentController(Context& context)
    : KeyedController(context, {.name = "deployment", .kind = kDeploymentKind, .resource = resources::kDeployments},
                      context.caches.deployments) {
  expectations_.connect(context.caches.replica_sets.core());
  context.caches.replica_sets.add_handler([this](const kube::Change<Object>& change) {
    add_owners(change);
    if (change.after && change.after->metadata.owner_uid.empty() && !change.after->metadata.is_being_deleted)
      add_adopters(change.after->metadata.namespace_, labels_of(*change.after));
  });
  context.caches.pods.add_handler([this](const kube::Change<Pod>& change) {
    if (change.is_deleted() || (change.after->is_finished() && change.before && !change.before->is_finished()))
      on_pod_gone(change.object());
  });
}

// Recreate waits for the last pod of the old templates, and a set does not say when that one is gone.
void DeploymentController::on_pod_gone(const Pod& pod) {
  if (pod.metadata.owner_kind != "ReplicaSet") return;
  const auto set = context_.caches.replica_sets.get({pod.metadata.namespace_.str(), pod.metadata.owner_name.str()});
  if (set) add_owner(set->metadata);
}

rt::Outcome DeploymentController::reconcile(const Object& deployment, const rt::StopToken& stop) {
  auto view = observe(deployment, stop);
  if (!view.ok()) return rt::Outcome::failed(std::move(view).error());
  DeploymentPlan plan = plan_deployment(*view, context_.runtime.wall_now());
  if (Done done = carry_out(deployment, plan, stop); !done.ok()) return rt::Outcome::failed(std::move(done).error());
  return done_or_after(plan.look_again);
}

Result<DeploymentView> DeploymentController::observe(const Object& deployment, const rt::StopToken& stop) {
  BASALT_TRY(const api::Selector selector, selector_at(deployment.json, {"spec", "selector"}));
  const ClaimRequest request{deployment, kDeploymentKind, resources::kDeployments, resources::kReplicaSets, selector,
                             {}};
  BASALT_TRY(const auto sets, claim(context_.caches.replica_sets, writer_, request, stop));
  BASALT_TRY(DeploymentView view, view_of(deployment, sets));
  for (const SetView& set : view.old) {
    for (const PodPtr& pod : context_.caches.pods.by_index(indexes::kByOwner, set.object->metadata.uid))
      view.has_old_pods |= !pod->is_finished();
  }
  return view;
}

Done DeploymentController::carry_out(const Object& deployment, DeploymentPlan& plan, const rt::StopToken& stop) {
  const api::ObjectKey key = deployment.key();
  if (!plan.create.is_null()) BASALT_TRY_DONE(create_set(deployment, plan, stop));
  for (const DeploymentPlan::Scale& scale : plan.scales) {
    BASALT_TRY_DONE(writer_.patch(key, resources::kReplicaSets, scale.patch, false, stop));
    if (!scale.event.empty()) tell(deployment, kube::EventType::Normal, "ScalingReplicaSet", scale.event);
  }
  BASALT_TRY_DONE(writer_.remove_all(key, resources::kReplicaSets, plan.deletes, stop));
  BASALT_TRY_DONE(writer_.write_status(key, resources::kDeployments, deployment, plan.status, stop));
  const std::string revision = std::to_string(plan.revision);
  if (plan.revision == 0 || annotation_of(deployment.json, deployment_keys::kRevision) == revision) return Ok{};
  Writer::Patch patch;
  patch.target = {key.name, deployment.metadata.uid};
  patch.body.ensure_path({"metadata", "annotations", deployment_keys::kRevision}) = revision;
  return writer_.patch(key, resources::kDeployments, patch, true, stop);
}

Done DeploymentController::create_set(const Object& deployment, DeploymentPlan& plan, const rt::StopToken& stop) {
  const api::ObjectKey key = deployment.key();
  const std::string name(plan.create.string_at({"metadata", "name"}));
  const auto created = writer_.create(key, resources::kReplicaSets, plan.create, stop);
  if (created.ok()) {
    tell(deployment, kube::EventType::Normal, "ScalingReplicaSet",
         "Scaled up replica set " + name + " from 0 to " + std::to_string(int_at(plan.create, {"spec", "replicas"})));
    return Ok{};
  }
  if (!created.error().is(Reason::AlreadyExists)) {
    if (!created.error().is_transient()) {
      tell(deployment, kube::EventType::Warning, "ReplicaSetCreateError", created.error().message);
      set_condition(plan.status, {"Progressing", "False", "ReplicaSetCreateError", created.error().message},
                    time_now());
      static_cast<void>(writer_.write_status(key, resources::kDeployments, deployment, plan.status, stop));
    }
    return created.error().with_context("ReplicaSet " + name + " could not be made");
  }
  BASALT_TRY(const auto read, writer_.get(resources::kReplicaSets, {key.ns, name}, stop));
  BASALT_TRY(const Object existing, object_of(read));
  if (existing.metadata.owner_uid == deployment.metadata.uid &&
      plain_template(existing.json) == plain_template(deployment.json)) {
    // Ours, from a pass whose answer was lost: the cache will show it.
    expectations_.note_write(key, resources::kReplicaSets, existing.metadata.resource_version);
    return Ok{};
  }
  // The name is taken by a set of something else: the next pass tries another hash.
  plan.status.ensure_path({"collisionCount"}) = int_at(plan.status, {"collisionCount"}) + 1;
  remove_condition(plan.status, "Progressing");
  return Ok{};
}

}  // namespace basalt::workloads
