#include "workloads/replicaset/replica_set_controller.h"

#include <utility>

#include "workloads/common/claim.h"
#include "workloads/common/pod_template.h"

namespace basalt::workloads {
namespace {

constexpr std::string_view kFailure = "ReplicaFailure";

bool is_set(const OwnerKind& kind) { return kind.kind == kReplicaSetKind.kind; }

}  // namespace

ReplicaSetController::ReplicaSetController(Context& context, const OwnerKind& kind)
    : KeyedController(context,
                      {.name = is_set(kind) ? "replicaset" : "replicationcontroller",
                       .kind = kind,
                       .resource = is_set(kind) ? resources::kReplicaSets : resources::kReplicationControllers},
                      is_set(kind) ? context.caches.replica_sets : context.caches.replication_controllers) {
  expectations_.connect(context.caches.pods.core());
  context.caches.pods.add_handler([this](const kube::Change<Pod>& change) {
    add_owners(change);
    if (change.after && change.after->metadata.owner_uid.empty() && !change.after->is_being_deleted())
      add_adopters(change.after->metadata.namespace_, change.after->metadata.labels);
  });
}

rt::Outcome ReplicaSetController::reconcile(const Object& set, const rt::StopToken& stop) {
  const auto selector = selector_of(set, options_.kind);
  if (!selector.ok()) return rt::Outcome::failed_for_good(selector.error().with_context("spec.selector"));
  const ClaimRequest request{set, options_.kind, options_.resource, resources::kPods, *selector, {}};
  const auto pods = claim(context_.caches.pods, writer_, request, stop);
  if (!pods.ok()) return rt::Outcome::failed(pods.error());
  ReplicaSetPlan plan = plan_replica_set(set, *pods, context_.runtime.wall_now());
  Done done = carry_out(set, plan, stop);
  // An API server in trouble is no statement about the set.
  if (done.ok()) {
    remove_condition(plan.status, kFailure);
  } else if (!done.error().is_transient() && !done.error().is(Reason::Conflict)) {
    const std::string_view reason = plan.creates > 0 ? "FailedCreate" : "FailedDelete";
    const json::Value* told = find_condition(plan.status, kFailure);
    // The message names the pod that was tried, another one each time: to write that would bring us back here at once.
    if (told == nullptr || told->string_at({"reason"}) != reason)
      set_condition(plan.status, {kFailure, "True", reason, done.error().message}, time_now());
  }
  Done written = writer_.write_status(set.key(), options_.resource, set, plan.status, stop);
  if (!done.ok()) return rt::Outcome::failed(std::move(done).error());
  if (!written.ok()) return rt::Outcome::failed(std::move(written).error());
  return done_or_after(plan.look_again);
}

Done ReplicaSetController::carry_out(const Object& set, const ReplicaSetPlan& plan, const rt::StopToken& stop) {
  if (plan.creates <= 0) return remove_pods(set, plan.deletes, stop);
  const json::Value pattern = pod_of_template(object_at(set.json, {"spec", "template"}), options_.kind, set);
  return make_pods(set, std::vector<json::Value>(static_cast<std::size_t>(plan.creates), pattern), stop);
}

}  // namespace basalt::workloads
