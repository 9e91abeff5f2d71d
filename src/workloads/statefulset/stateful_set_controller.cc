#include "workloads/statefulset/stateful_set_controller.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "workloads/common/claim.h"

namespace basalt::workloads {

StatefulSetController::StatefulSetController(Context& context)
    : KeyedController(context, {.name = "statefulset", .kind = kStatefulSetKind, .resource = resources::kStatefulSets},
                      context.caches.stateful_sets) {
  expectations_.connect(context.caches.pods.core());
  expectations_.connect(context.caches.revisions.core());
  expectations_.connect(context.caches.claims.core());
  context.caches.pods.add_handler([this](const kube::Change<Pod>& change) {
    add_owners(change);
    if (change.after && change.after->metadata.owner_uid.empty() && !change.after->is_being_deleted())
      add_adopters(change.after->metadata.namespace_, change.after->metadata.labels);
  });
  context.caches.revisions.add_handler([this](const kube::Change<Object>& change) { add_owners(change); });
}

rt::Outcome StatefulSetController::reconcile(const Object& set, const rt::StopToken& stop) {
  const auto selector = selector_at(set.json, {"spec", "selector"});
  if (!selector.ok()) return rt::Outcome::failed_for_good(selector.error().with_context("spec.selector"));
  const ClaimRequest request{set, kStatefulSetKind, resources::kStatefulSets, resources::kPods, *selector, {}};
  const auto pods = claim(context_.caches.pods, writer_, request, stop);
  if (!pods.ok()) return rt::Outcome::failed(pods.error());
  auto history = history_of(set, stop);
  if (!history.ok()) return rt::Outcome::failed(std::move(history).error());
  StatefulSetPlan plan = plan_stateful_set(set, *pods, history->names, context_.runtime.wall_now());
  plan.status.ensure_path({"collisionCount"}) = history->collisions;
  Done done = set.metadata.is_being_deleted ? Done(Ok{}) : keep_claim_owners(set, *pods, stop);
  if (done.ok()) done = carry_out(set, *history, plan, stop);
  Done written = writer_.write_status(set.key(), resources::kStatefulSets, set, plan.status, stop);
  if (done.ok()) done = std::move(written);
  if (done.ok() && !set.metadata.is_being_deleted) done = clean_history(set, *history, *pods, stop);
  if (!done.ok()) return rt::Outcome::failed(std::move(done).error());
  return done_or_after(plan.look_again);
}

Result<StatefulSetController::History> StatefulSetController::history_of(const Object& set, const rt::StopToken& stop) {
  History history;
  history.sorted = context_.caches.revisions.by_index(indexes::kByOwner, set.metadata.uid);
  sort_revisions(history.sorted);
  history.collisions = int_at(set.json, {"status", "collisionCount"});
  history.update_template = object_at(set.json, {"spec", "template"});
  const RevisionOwner owner{set, kStatefulSetKind, resources::kStatefulSets, "controller.kubernetes.io/hash"};
  BASALT_TRY(history.names.update, ensure_revision(owner, history.sorted, writer_, stop));
  if (history.names.update.empty()) history.names.update = set.json.string_at({"status", "updateRevision"});
  history.names.current = history.names.update;
  history.current_template = history.update_template;
  const std::string_view current = set.json.string_at({"status", "currentRevision"});
  for (const ObjectPtr& revision : history.sorted) {
    if (revision->metadata.name != current) continue;
    history.names.current = revision->metadata.name;
    history.current_template = template_of_revision(*revision);
  }
  return history;
}

Done StatefulSetController::carry_out(const Object& set, const History& history, const StatefulSetPlan& plan,
                                      const rt::StopToken& stop) {
  BASALT_TRY_DONE(create_pods(set, history, plan, stop));
  return delete_pods(set, plan, stop);
}

Done StatefulSetController::create_pods(const Object& set, const History& history, const StatefulSetPlan& plan,
                                        const rt::StopToken& stop) {
  std::vector<json::Value> pods;
  for (const StatefulSetPlan::Create& create : plan.creates) {
    BASALT_TRY_DONE(ensure_claims(set, create.ordinal, stop));
    pods.push_back(stateful_pod(set, create.is_update ? history.update_template : history.current_template,
                                create.is_update ? history.names.update : history.names.current, create.ordinal));
  }
  if (pods.empty()) return Ok{};
  const auto results = writer_.create_all(set.key(), resources::kPods, pods, stop);
  std::optional<Error> error;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string name(pods[i].string_at({"metadata", "name"}));
    if (results[i].ok()) {
      tell(set, kube::EventType::Normal, "SuccessfulCreate", "Created pod: " + name);
    } else if (!error || error->is(Reason::Cancelled)) {
      error = results[i].error().with_context("pod " + name + " could not be made");
    }
  }
  if (!error) return Ok{};
  if (!error->is_transient() && !error->is(Reason::Cancelled) && !error->is(Reason::Conflict))
    tell(set, kube::EventType::Warning, "FailedCreate", error->message);
  return *error;
}

Done StatefulSetController::delete_pods(const Object& set, const StatefulSetPlan& plan, const rt::StopToken& stop) {
  BASALT_TRY_DONE(hand_claims_to_pods(set, plan.scaled_away, stop));
  std::vector<Writer::Target> targets;
  for (const PodPtr& pod : plan.deletes) targets.push_back({pod->metadata.name.str(), pod->metadata.uid.str()});
  BASALT_TRY_DONE(writer_.remove_all(set.key(), resources::kPods, targets, stop));
  for (const Writer::Target& target : targets)
    tell(set, kube::EventType::Normal, "SuccessfulDelete", "Deleted pod: " + target.name);
  return Ok{};
}

Done StatefulSetController::clean_history(const Object& set, const History& history, const std::vector<PodPtr>& pods,
                                          const rt::StopToken& stop) {
  std::vector<std::string> used = {history.names.current, history.names.update};
  for (const PodPtr& pod : pods) used.emplace_back(pod->metadata.labels.get(stateful_keys::kRevision));
  return writer_.remove_all(set.key(), resources::kRevisions, revisions_beyond_history(set, history.sorted, used),
                            stop);
}

}  // namespace basalt::workloads
