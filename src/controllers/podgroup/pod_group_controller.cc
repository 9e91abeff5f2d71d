#include "controllers/podgroup/pod_group_controller.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/gen/names.h"
#include "api/owner.h"
#include "controllers/podgroup/group_builder.h"
#include "controllers/podgroup/group_plan.h"
#include "json/value.h"
#include "kube/expectations.h"
#include "kube/typed.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::podgroup {
namespace {

using api::ObjectKey;
using api::core::Pod;
using api::core::PodProjection;
using api::core::ReplicaSet;
using api::core::StatefulSet;
using api::scheduling::PodGroup;
using rt::Outcome;

constexpr int kPatchesInFlightMax = 16;

const kube::Resource kPods{"", "v1", "pods"};
const kube::Resource kPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups"};

// The owners whose annotations are inherited.
std::optional<kube::Resource> resource_of_owner(std::string_view api_version, std::string_view kind) {
  if (api_version == "apps/v1") {
    if (kind == "ReplicaSet") return kube::Resource{"apps", "v1", "replicasets"};
    if (kind == "StatefulSet") return kube::Resource{"apps", "v1", "statefulsets"};
    if (kind == "DaemonSet") return kube::Resource{"apps", "v1", "daemonsets"};
  }
  if (api_version == "batch/v1" && kind == "Job") return kube::Resource{"batch", "v1", "jobs"};
  return std::nullopt;
}

bool is_workload(std::string_view api_version, std::string_view kind) {
  return api_version == "apps/v1" && (kind == "ReplicaSet" || kind == "StatefulSet");
}

// The owner of a pod's group. A kind that bears the name of one that we know, in another API group, is told apart.
template <class Metadata>
GroupOwner owner_of(const Metadata& metadata) {
  for (const auto& owner : metadata.owner_references) {
    if (!owner.controller.value_or(false)) continue;
    std::string kind(std::string_view(owner.kind));
    const bool is_known = is_workload(owner.api_version, kind) || (owner.api_version == "v1" && kind == "Pod");
    if (!is_known && (kind == "ReplicaSet" || kind == "StatefulSet" || kind == "Pod")) kind = "Other" + kind;
    return {std::string(std::string_view(metadata.namespace_)), std::move(kind),
            std::string(std::string_view(owner.name)), std::string(std::string_view(owner.uid))};
  }
  return {std::string(std::string_view(metadata.namespace_)), "Pod", std::string(std::string_view(metadata.name)),
          std::string(std::string_view(metadata.uid))};
}

template <class Workload>
std::int32_t replicas_of(const Workload& workload) {
  return workload.spec.replicas.value_or(1);
}

class PodGroupController final : public Controller {
 public:
  PodGroupController(ControllerContext& context, PodGroupControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return api::controllers::kPodGroup; }
  void start() override;
  void stop() override;

 private:
  // Handlers: they only mark.
  void on_pod(const kube::Change<PodProjection>& change);
  void on_group(const kube::Change<PodGroup>& change);
  template <class Workload>
  void on_workload(const kube::Change<Workload>& change);
  [[nodiscard]] bool is_ours(const PodProjection& pod) const;

  // Workers.
  Outcome reconcile(const ObjectKey& key, const rt::StopToken& stop);
  [[nodiscard]] ObservedGroup observe(const GroupOwner& owner, const PodGroup* group) const;
  [[nodiscard]] ObservedMember observe_member(const PodProjection& pod, std::string_view group) const;
  Outcome delete_group(const GroupOwner& owner, const PodGroup& group, const rt::StopToken& stop);
  Outcome ensure_group(const GroupOwner& owner, const ObservedMember& member, const PodGroup* found,
                       bool only_if_owner_lives, const rt::StopToken& stop);
  Outcome annotate(const GroupOwner& owner, const ObservedGroup& observed, const std::vector<std::size_t>& members,
                   const rt::StopToken& stop);
  // The annotations of all owners; `controller_lives` tells whether the one with `controller: true` was found.
  struct Owners {
    api::StringMap annotations;
    bool controller_lives = false;
  };
  Result<Owners> read_owners(const Pod& pod, bool must_know, const rt::StopToken& stop);
  struct FoundOwner {
    api::StringMap annotations;
    std::string uid;
    std::optional<std::int32_t> replicas;
  };
  Result<FoundOwner> read_owner(const kube::Resource& resource, const ObjectKey& key, const rt::StopToken& stop);
  std::optional<FoundOwner> cached_owner(std::string_view kind, const ObjectKey& key) const;
  Outcome refused(const ObjectKey& key, const Pod& pod, std::string_view group, const Error& error);
  void look_at_all_again();
  void log_outcome(const ObjectKey& key, const Outcome& outcome);

  // Fixed after construction.
  const PodGroupControllerOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::EventRecorder& events_;
  kube::Informer<PodProjection>& pods_;
  kube::Informer<PodGroup>& groups_;
  kube::Informer<ReplicaSet>* const replica_sets_;    // null without the support of workloads
  kube::Informer<StatefulSet>* const stateful_sets_;  // the same

  // Self-locking.
  rt::WorkQueue<ObjectKey> work_;
  kube::Expectations expectations_;

  std::optional<rt::Workers<ObjectKey>> workers_;  // used only by the owner
};

PodGroupController::PodGroupController(ControllerContext& context, PodGroupControllerOptions options)
    : options_(std::move(options)),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", api::controllers::kPodGroup}})),
      events_(context.events),
      pods_(context.informers.pods()),
      groups_(context.informers.pod_groups()),
      replica_sets_(options_.workload_support ? &context.informers.replica_sets() : nullptr),
      stateful_sets_(options_.workload_support ? &context.informers.stateful_sets() : nullptr),
      work_(runtime_, {.name = "podgroup", .backoff = {.cap = options_.backoff_max}},
            // Namespaces take turns: one with a thousand new pods does not hold up the others.
            [](const ObjectKey& key) { return std::hash<std::string>()(key.ns); }),
      expectations_(runtime_,
                    {.expiry = std::chrono::seconds(30), .name = std::string(name()), .metrics = &context.metrics},
                    [this](const ObjectKey& key) { work_.add(key); }) {
  expectations_.connect(pods_.core());
  expectations_.connect(groups_.core());
  pods_.add_handler([this](const auto& change) { on_pod(change); });
  groups_.add_handler([this](const auto& change) { on_group(change); });
  if (replica_sets_ != nullptr) replica_sets_->add_handler([this](const auto& change) { on_workload(change); });
  if (stateful_sets_ != nullptr) stateful_sets_->add_handler([this](const auto& change) { on_workload(change); });
}

void PodGroupController::start() {
  workers_.emplace(
      runtime_, work_, rt::WorkersOptions{.name = "podgroup", .count = options_.workers},
      [this](const ObjectKey& key, const rt::StopToken& stop) { return reconcile(key, stop); },
      [this](const ObjectKey& key, const Outcome& outcome, rt::Duration) { log_outcome(key, outcome); });
}

void PodGroupController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
}

bool PodGroupController::is_ours(const PodProjection& pod) const {
  return std::any_of(options_.scheduler_names.begin(), options_.scheduler_names.end(),
                     [&](const std::string& name) { return pod.spec.scheduler_name == name; });
}

void PodGroupController::on_pod(const kube::Change<PodProjection>& change) {
  if (!change.after || !is_ours(*change.after)) return;
  const std::string_view group = change.after->metadata.annotations.get(api::keys::kGroupName);
  if (!group.empty()) {
    // A pod that has its group needs us only if the group is missing, which is looked at once.
    const bool is_news = change.is_added() || change.before->metadata.annotations.get(api::keys::kGroupName) != group;
    if (!is_news || group.substr(0, kGroupNamePrefix.size()) != kGroupNamePrefix) return;
    const GroupOwner owner = owner_of(change.after->metadata);
    if (group == group_name(owner.uid)) work_.add(owner.to_key());
    return;
  }
  work_.add(owner_of(change.after->metadata).to_key());
}

void PodGroupController::on_group(const kube::Change<PodGroup>& change) {
  if (!change.is_deleted()) return;
  const auto& metadata = change.before->metadata;
  if (metadata.name.substr(0, kGroupNamePrefix.size()) != kGroupNamePrefix) return;
  const api::meta::OwnerReference* controller = api::controller_of(metadata);
  if (controller == nullptr || metadata.name != group_name(controller->uid)) return;
  work_.add(owner_of(metadata).to_key());
}

template <class Workload>
void PodGroupController::on_workload(const kube::Change<Workload>& change) {
  if (!change.after) return;  // its group goes with it, by the owner reference
  // Only the way to zero replicas and back concerns us; new pods speak for themselves.
  const bool is_zero = replicas_of(*change.after) == 0;
  const bool was_zero = change.before && replicas_of(*change.before) == 0;
  if (change.before ? is_zero == was_zero : !is_zero) return;
  const auto& metadata = change.after->metadata;
  work_.add(
      GroupOwner{metadata.namespace_, std::string(Workload::kind_info().kind), metadata.name, metadata.uid}.to_key());
}

Outcome PodGroupController::reconcile(const ObjectKey& key, const rt::StopToken& stop) {
  if (work_.take_overflowed()) look_at_all_again();
  const auto owner = GroupOwner::parse(key);
  if (!owner) return Outcome::done();
  if (const auto awaited = expectations_.time_left(key)) return Outcome::retry_after(*awaited);
  const auto group = groups_.get({owner->ns, group_name(owner->uid)});
  const ObservedGroup observed = observe(*owner, group.get());
  const GroupPlan plan = plan_group(observed);
  if (plan.is_empty()) {
    expectations_.forget(key);
    return Outcome::done();
  }
  if (plan.delete_group) return delete_group(*owner, *group, stop);
  if (plan.create_from || plan.refresh_from) {
    const ObservedMember& member = observed.members[plan.create_from ? *plan.create_from : *plan.refresh_from];
    const Outcome outcome =
        ensure_group(*owner, member, plan.create_from ? nullptr : group.get(), plan.create_only_if_owner_lives, stop);
    if (outcome.kind != Outcome::Kind::Done) return outcome;
  }
  return annotate(*owner, observed, plan.annotate, stop);
}

ObservedGroup PodGroupController::observe(const GroupOwner& owner, const PodGroup* group) const {
  ObservedGroup observed;
  observed.exists = group != nullptr;
  if (group != nullptr) observed.uid = group->metadata.uid;
  const ObjectKey key{owner.ns, owner.name};
  if (replica_sets_ != nullptr && owner.kind == "ReplicaSet") {
    observed.owner_is_workload = true;
    const auto set = replica_sets_->get(key);
    if (set && set->metadata.uid == owner.uid)
      observed.workload = {replicas_of(*set), !set->metadata.deletion_timestamp.is_zero(), {}};
  } else if (stateful_sets_ != nullptr && owner.kind == "StatefulSet") {
    observed.owner_is_workload = true;
    const auto set = stateful_sets_->get(key);
    if (set && set->metadata.uid == owner.uid)
      observed.workload = {replicas_of(*set), !set->metadata.deletion_timestamp.is_zero(), set->status.update_revision};
  }
  const std::string name = group_name(owner.uid);
  if (owner.kind == "Pod") {
    const auto pod = pods_.get(key);
    if (pod && pod->metadata.uid == owner.uid && is_ours(*pod)) observed.members.push_back(observe_member(*pod, name));
    // A pod may also control others, as a Spark driver does its executors; they are one group.
  }
  for (const auto& pod : pods_.by_index(indexes::kByController, owner.uid)) {
    if (pod->metadata.namespace_ == owner.ns && is_ours(*pod)) observed.members.push_back(observe_member(*pod, name));
  }
  return observed;
}

ObservedMember PodGroupController::observe_member(const PodProjection& pod, std::string_view group) const {
  const std::string_view named = pod.metadata.annotations.get(api::keys::kGroupName);
  ObservedMember member;
  member.name = pod.metadata.name.str();
  member.uid = pod.metadata.uid.str();
  member.group = named.empty()    ? ObservedMember::Group::None
                 : named == group ? ObservedMember::Group::Ours
                                  : ObservedMember::Group::Other;
  member.is_finished = pod.status.phase == "Succeeded" || pod.status.phase == "Failed";
  member.is_being_deleted = !pod.metadata.deletion_timestamp.is_zero();
  member.revision = std::string(pod.metadata.labels.get(api::keys::kControllerRevisionHash));
  return member;
}

Outcome PodGroupController::delete_group(const GroupOwner& owner, const PodGroup& group, const rt::StopToken& stop) {
  // A cache that lags behind a scale to zero and back would cost running pods their group, so the workload is asked.
  const auto resource = resource_of_owner("apps/v1", owner.kind);
  if (!resource) return Outcome::done();
  const auto workload = read_owner(*resource, {owner.ns, owner.name}, stop);
  if (!workload.ok()) {
    // The group goes with its owner.
    return workload.error().is(Reason::NotFound) ? Outcome::done() : Outcome::failed(workload.error());
  }
  if (workload->uid != owner.uid || workload->replicas.value_or(1) != 0) return Outcome::done();
  const auto deleted =
      kube::delete_object(client_, kPodGroups, {owner.ns, group.metadata.name}, {.uid = group.metadata.uid}, stop);
  if (!deleted.ok())
    return Outcome::failed(deleted.error().with_context("delete pod group " + owner.ns + "/" + group.metadata.name));
  log_.info("pod group deleted, because its workload has no replicas",
            {{"group", owner.ns + "/" + group.metadata.name}, {"owner", owner.kind + " " + owner.name}});
  expectations_.note_delete(owner.to_key(), kPodGroups, group.metadata.uid);
  return Outcome::done();
}

// Done also if there is nothing to make a group of any more.
Outcome PodGroupController::ensure_group(const GroupOwner& owner, const ObservedMember& member, const PodGroup* found,
                                         bool only_if_owner_lives, const rt::StopToken& stop) {
  // The cache holds neither limits nor all annotations, and a group is made rarely: one fresh read.
  const auto pod = kube::get_object<Pod>(client_, {owner.ns, member.name}, stop);
  if (!pod.ok() && !pod.error().is(Reason::NotFound)) return Outcome::failed(pod.error());
  const std::string name = group_name(owner.uid);
  // The pod is gone or has found another group: the cache will show it, and mark the owner again if there is more to
  // do.
  if (!pod.ok() || pod->metadata.uid != member.uid) return Outcome::retry_after(std::chrono::milliseconds(100));
  const std::string_view named = pod->metadata.annotations.get(api::keys::kGroupName);
  if (!named.empty() && named != name) {
    log_.info("pod has another group by now", {{"pod", owner.ns + "/" + member.name}, {"group", named}});
    return Outcome::retry_after(std::chrono::milliseconds(100));
  }
  const auto owners = read_owners(*pod, only_if_owner_lives, stop);
  if (!owners.ok()) return Outcome::failed(owners.error().with_context("read the owners of pod " + member.name));
  if (only_if_owner_lives && !owners->controller_lives) return Outcome::done();

  std::vector<std::string> complaints;
  const PodGroup wanted = build_group(*pod, owners->annotations, api::Time::from(runtime_.wall_now()), complaints);
  for (const std::string& complaint : complaints) log_.warn(complaint, {{"namespace", owner.ns}});
  Result<kube::Response> written = kube::Response{};
  if (found != nullptr) {
    std::string patch = group_patch(*found, wanted);
    if (patch.empty()) return Outcome::done();
    written = kube::patch_object(client_, kPodGroups, {owner.ns, name}, std::move(patch), stop);
  } else {
    written = kube::create_object(client_, owner.ns, wanted, stop);
    if (!written.ok() && written.error().is(Reason::AlreadyExists)) return Outcome::done();
  }
  if (!written.ok()) {
    const Error& error = written.error();
    if (error.is_transient() || error.is(Reason::Conflict) || error.is(Reason::Cancelled) ||
        error.is(Reason::NotFound)) {
      return Outcome::failed(error.with_context("write pod group " + owner.ns + "/" + name));
    }
    return refused(owner.to_key(), *pod, name, error);
  }
  expectations_.note_write(owner.to_key(), kPodGroups, kube::resource_version_of(*written));
  return Outcome::done();
}

Outcome PodGroupController::annotate(const GroupOwner& owner, const ObservedGroup& observed,
                                     const std::vector<std::size_t>& members, const rt::StopToken& stop) {
  const std::string name = group_name(owner.uid);
  std::vector<kube::Request> requests;
  requests.reserve(members.size());
  for (const std::size_t i : members) {
    const ObservedMember& member = observed.members[i];
    requests.push_back({.verb = kube::Verb::Patch,
                        .resource = kPods,
                        .ns = owner.ns,
                        .name = member.name,
                        .body = pod_patch(member.uid, name),
                        .patch_type = kube::PatchType::StrategicMerge,
                        .field_manager = std::string(api::components::kControllerManager)});
  }
  std::optional<Error> failure;
  const auto results = client_.call_all(requests, {.in_flight_max = kPatchesInFlightMax}, stop);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) {
      expectations_.note_write(owner.to_key(), kPods, kube::resource_version_of(*results[i]));
      continue;
    }
    const Error& error = results[i].error();
    if (error.is(Reason::NotFound)) continue;  // gone meanwhile
    if (!failure) failure = error.with_context("annotate pod " + owner.ns + "/" + requests[i].name);
  }
  return failure ? Outcome::failed(*failure) : Outcome::done();
}

Result<PodGroupController::Owners> PodGroupController::read_owners(const Pod& pod, bool must_know,
                                                                   const rt::StopToken& stop) {
  Owners owners;
  const bool has_controller = api::controller_of(pod.metadata) != nullptr;
  owners.controller_lives = !has_controller;  // the pod itself, which was just read
  if (!options_.inherit_owner_annotations && !must_know) return owners;
  for (const auto& reference : pod.metadata.owner_references) {
    const auto resource = resource_of_owner(reference.api_version, reference.kind);
    if (!resource) continue;
    const ObjectKey key{pod.metadata.namespace_, reference.name};
    std::optional<FoundOwner> found;
    if (!must_know) found = cached_owner(reference.kind, key);
    if (!found || found->uid != reference.uid) {
      auto read = read_owner(*resource, key, stop);
      if (!read.ok()) {
        const Error& error = read.error();
        // Nothing to inherit from one that is gone or that we may not see. Anything else would give the group a wrong
        // size, so it is tried again.
        if (!error.is(Reason::NotFound) && !error.is(Reason::Forbidden)) return error;
        if (error.is(Reason::Forbidden))
          log_.warn("owner of a pod cannot be read; nothing is inherited", {{"error", error}});
        continue;
      }
      found = std::move(*read);
    }
    if (found->uid != reference.uid) continue;
    if (reference.controller.value_or(false)) owners.controller_lives = true;
    if (!options_.inherit_owner_annotations) continue;
    api::StringMap merged = found->annotations;
    merged.merge(owners.annotations);  // the first owner wins
    owners.annotations = std::move(merged);
  }
  return owners;
}

Result<PodGroupController::FoundOwner> PodGroupController::read_owner(const kube::Resource& resource,
                                                                      const ObjectKey& key, const rt::StopToken& stop) {
  BASALT_TRY(const kube::Response response,
             client_.call({.verb = kube::Verb::Get, .resource = resource, .ns = key.ns, .name = key.name}, stop));
  BASALT_TRY(const json::Value object, json::Value::parse(*response.body));
  FoundOwner found;
  found.uid = std::string(object.string_at({"metadata", "uid"}));
  if (const json::Value* annotations = object.find_path({"metadata", "annotations"});
      annotations != nullptr && annotations->is_object()) {
    std::vector<api::StringMap::value_type> entries;
    for (const json::Member& member : annotations->as_object()) {
      if (member.value.is_string()) entries.emplace_back(member.key, member.value.as_string());
    }
    found.annotations = api::StringMap::of(std::move(entries));
  }
  if (const json::Value* replicas = object.find_path({"spec", "replicas"}); replicas != nullptr && replicas->is_int())
    found.replicas = static_cast<std::int32_t>(replicas->as_int());
  return found;
}

std::optional<PodGroupController::FoundOwner> PodGroupController::cached_owner(std::string_view kind,
                                                                               const ObjectKey& key) const {
  if (kind == "ReplicaSet" && replica_sets_ != nullptr) {
    if (const auto set = replica_sets_->get(key))
      return FoundOwner{set->metadata.annotations, set->metadata.uid, set->spec.replicas};
  } else if (kind == "StatefulSet" && stateful_sets_ != nullptr) {
    if (const auto set = stateful_sets_->get(key))
      return FoundOwner{set->metadata.annotations, set->metadata.uid, set->spec.replicas};
  }
  return std::nullopt;
}

Outcome PodGroupController::refused(const ObjectKey& key, const Pod& pod, std::string_view group, const Error& error) {
  const std::string text = "Pod group " + std::string(group) + " cannot be written: " + error.message;
  if (work_.retries(key) == 0) {
    events_.event({.api_version = "v1",
                   .kind = "Pod",
                   .ns = pod.metadata.namespace_,
                   .name = pod.metadata.name,
                   .uid = pod.metadata.uid,
                   .resource_version = pod.metadata.resource_version},
                  kube::EventType::Warning, api::event_reasons::kPodGroupError, text);
  }
  Error slow = error;
  slow.retry_after = std::chrono::duration_cast<std::chrono::milliseconds>(options_.refused_pause);
  return Outcome::failed(std::move(slow));
}

void PodGroupController::look_at_all_again() {
  pods_.for_each([this](const PodProjection& pod) {
    if (is_ours(pod)) work_.add(owner_of(pod.metadata).to_key());
  });
}

void PodGroupController::log_outcome(const ObjectKey& key, const Outcome& outcome) {
  if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
  const bool is_news = work_.retries(key) == 0 && !outcome.error->is(Reason::Conflict);
  log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "pod group is tried again",
           {{"owner", key.to_string()}, {"error", *outcome.error}});
}

}  // namespace

std::unique_ptr<Controller> make_pod_group_controller(ControllerContext& context, PodGroupControllerOptions options) {
  return std::make_unique<PodGroupController>(context, std::move(options));
}

}  // namespace basalt::controllers::podgroup
