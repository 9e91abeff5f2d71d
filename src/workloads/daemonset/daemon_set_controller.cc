#include "workloads/daemonset/daemon_set_controller.h"

#include <algorithm>
#include <utility>

#include "workloads/common/claim.h"
#include "workloads/common/pod_template.h"

namespace basalt::workloads {

DaemonSetController::DaemonSetController(Context& context)
    : KeyedController(context, {.name = "daemonset", .kind = kDaemonSetKind, .resource = resources::kDaemonSets},
                      context.caches.daemon_sets) {
  expectations_.connect(context.caches.pods.core());
  expectations_.connect(context.caches.revisions.core());
  context.caches.pods.add_handler([this](const kube::Change<Pod>& change) {
    add_owners(change);
    if (change.after && change.after->metadata.owner_uid.empty() && !change.after->is_being_deleted())
      add_adopters(change.after->metadata.namespace_, change.after->metadata.labels);
  });
  context.caches.revisions.add_handler([this](const kube::Change<Object>& change) { add_owners(change); });
  context.caches.nodes.add_handler([this](const kube::Change<api::core::NodeProjection>& change) {
    // A node says every few seconds that it is there; that alone moves no pod.
    if (change.before && change.after && change.before->metadata.labels == change.after->metadata.labels &&
        change.before->spec == change.after->spec)
      return;
    objects_.for_each([this](const Object& set) { add(set.key()); });
  });
}

rt::Outcome DaemonSetController::reconcile(const Object& set, const rt::StopToken& stop) {
  const auto selector = selector_at(set.json, {"spec", "selector"});
  if (!selector.ok()) return rt::Outcome::failed_for_good(selector.error().with_context("spec.selector"));
  if (selector->is_everything()) {
    tell(set, kube::EventType::Warning, "SelectingAll",
         "This daemon set is selecting all pods. A non-empty selector is required.");
    return rt::Outcome::done();
  }
  const auto choice = NodeChoice::parse(object_at(set.json, {"spec", "template"}));
  if (!choice.ok()) return rt::Outcome::failed_for_good(choice.error().with_context("spec.template"));
  const ClaimRequest request{set, kDaemonSetKind, resources::kDaemonSets, resources::kPods, *selector, {}};
  const auto pods = claim(context_.caches.pods, writer_, request, stop);
  if (!pods.ok()) return rt::Outcome::failed(pods.error());
  auto revisions = context_.caches.revisions.by_index(indexes::kByOwner, set.metadata.uid);
  sort_revisions(revisions);
  const RevisionOwner owner{set, kDaemonSetKind, resources::kDaemonSets, kDaemonHashLabel};
  const auto revision = ensure_revision(owner, revisions, writer_, stop);
  if (!revision.ok()) return rt::Outcome::failed(revision.error());
  const std::string hash(hash_of(owner, *revision));
  DaemonSetPlan plan =
      plan_daemon_set(set, *pods, context_.caches.nodes.list(), *choice, hash, context_.runtime.wall_now());
  plan.status.ensure_path({"collisionCount"}) = int_at(set.json, {"status", "collisionCount"});
  Done done = carry_out(set, plan, hash, stop);
  Done written = writer_.write_status(set.key(), resources::kDaemonSets, set, plan.status, stop);
  if (done.ok()) done = std::move(written);
  if (done.ok() && !set.metadata.is_being_deleted) {
    std::vector<std::string> used = {*revision};
    for (const PodPtr& pod : *pods)
      used.push_back(set.metadata.name + "-" + std::string(pod->metadata.labels.get(kDaemonHashLabel)));
    done = writer_.remove_all(set.key(), resources::kRevisions, revisions_beyond_history(set, revisions, used), stop);
  }
  if (!done.ok()) return rt::Outcome::failed(std::move(done).error());
  return done_or_after(plan.look_again);
}

Done DaemonSetController::carry_out(const Object& set, DaemonSetPlan& plan, std::string_view hash,
                                    const rt::StopToken& stop) {
  std::vector<PodPtr> deletes = due_for_replacement(set, plan);
  deletes.insert(deletes.end(), plan.deletes.begin(), plan.deletes.end());
  BASALT_TRY_DONE(remove_pods(set, deletes, stop));
  if (plan.creates.empty()) return Ok{};
  json::Value pattern = pod_of_template(object_at(set.json, {"spec", "template"}), kDaemonSetKind, set);
  pattern.ensure_path({"metadata", "labels", kDaemonHashLabel}) = hash;
  std::vector<json::Value> pods;
  for (const std::string& node : plan.creates) pin_to_node(pods.emplace_back(pattern), node);
  return make_pods(set, std::move(pods), stop);
}

std::vector<PodPtr> DaemonSetController::due_for_replacement(const Object& set, DaemonSetPlan& plan) {
  std::vector<PodPtr> due;
  for (const PodPtr& pod : plan.ended) {
    const std::string key = set.metadata.uid + "/" + std::string(node_of(*pod));
    const rt::Instant now = context_.runtime.now();
    {
      const rt::MutexLock lock(mutex_);
      if (pauses_.size() >= kPausesMax) pauses_.clear();
      auto [entry, is_first] = pauses_.try_emplace(key, Pause{now, kPause});
      Pause& pause = entry->second;
      if (!is_first && now < pause.until) {
        const rt::Duration wait = pause.until - now;
        if (!plan.look_again || wait < *plan.look_again) plan.look_again = wait;
        continue;
      }
      // Long enough without one: it was well again.
      if (!is_first && now - pause.until > 2 * kPauseMax) pause.length = kPause;
      pause.until = now + pause.length;
      pause.length = std::min<rt::Duration>(pause.length * 2, kPauseMax);
    }
    due.push_back(pod);
    const bool has_failed = pod->has_failed();
    tell(set, has_failed ? kube::EventType::Warning : kube::EventType::Normal,
         has_failed ? "FailedDaemonPod" : "SucceededDaemonPod",
         std::string(has_failed ? "Found failed" : "Found succeeded") + " daemon pod " +
             pod->metadata.namespace_.str() + "/" + pod->metadata.name.str() + " on node " +
             std::string(node_of(*pod)) + (has_failed ? ", will try to kill it" : ", will try to delete it"));
  }
  return due;
}

}  // namespace basalt::workloads
