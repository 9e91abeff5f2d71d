#include "federation/propagator.h"

#include <algorithm>
#include <utility>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "api/owner.h"
#include "federation/interpreter.h"
#include "federation/propagator_pass.h"
#include "json/merge_patch.h"
#include "kube/typed.h"

namespace basalt::federation {
namespace {

using api::ObjectKey;
using api::batch::Job;
using api::karmada::AggregatedStatusItem;
using api::karmada::Cluster;
using api::karmada::PropagationPolicy;
using api::karmada::ResourceBinding;
using api::karmada::TargetCluster;
using rt::Outcome;

// Which state of which policy a binding was made of. Only a change of it rewrites the placement: somebody else may have
// narrowed it meanwhile.
constexpr std::string_view kPolicyState = "federation.volcano.sh/policy-state";

bool is_target(const std::vector<TargetCluster>& targets, const std::string& cluster) {
  return std::any_of(targets.begin(), targets.end(), [&](const TargetCluster& one) { return one.name == cluster; });
}

std::string placement_text(const api::karmada::Placement& placement) { return json::to_text(placement); }

json::Value parsed(const std::string& text) {
  auto value = json::Value::parse(text);
  return value.ok() ? std::move(*value) : json::Value(json::Object());
}

bool says_so(const ResourceBinding& binding, const json::Object& annotations) {
  return std::all_of(annotations.begin(), annotations.end(), [&](const json::Member& one) {
    return binding.metadata.annotations.get(one.key) == one.value.as_string();
  });
}

json::Object binding_annotations(const Claim& policy, const std::string& placement) {
  json::Object annotations{{api::keys::kKarmadaAppliedPlacement, placement}};
  if (policy.is_none()) return annotations;
  annotations.set(kPolicyState, policy.id + "/" + placement_text(policy.spec->placement));
  annotations.set(api::keys::kKarmadaPolicyName, policy.name);
  annotations.set(api::keys::kKarmadaPolicyNamespace, policy.ns);
  return annotations;
}

json::Value resource_of_job(const Job& job) {
  return json::Object{{"apiVersion", "batch.volcano.sh/v1alpha1"},
                      {"kind", "Job"},
                      {"namespace", job.metadata.namespace_},
                      {"name", job.metadata.name},
                      {"uid", job.metadata.uid},
                      {"resourceVersion", job.metadata.resource_version}};
}

json::Value targets_value(const std::vector<TargetCluster>& targets) {
  json::Array list;
  for (const TargetCluster& target : targets) list.push_back(parsed(json::to_text(target)));
  return list;
}

json::Object binding_spec(const Job& job, const Choice& choice, const std::string& placement, bool propagate_deps) {
  json::Object spec{{"clusters", targets_value(choice.clusters)},
                    {"placement", parsed(placement)},
                    {"replicas", static_cast<std::int64_t>(replicas_of(job.spec))},
                    {"schedulerName", "default-scheduler"},
                    {"conflictResolution", "Abort"},
                    {"propagateDeps", propagate_deps}};
  const api::ResourceList request = federation::request_of(job.spec);
  if (!request.empty())
    spec.set("replicaRequirements", json::Object{{"resourceRequest", parsed(json::to_text(request))}});
  return spec;
}

}  // namespace

std::string binding_name(std::string_view job) {
  std::string name;
  for (const char c : job) name.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
  return name + "-job";
}

bool is_finished(std::string_view phase) {
  return phase == "Completed" || phase == "Failed" || phase == "Aborted" || phase == "Terminated";
}

api::ResourceList request_of(const ResourceBinding& binding) {
  const json::Value requirements = binding.spec.replica_requirements.value();
  const json::Value* request = requirements.find("resourceRequest");
  if (request == nullptr) return {};
  return json::from_text<api::ResourceList>(request->to_text()).value_or({});
}

Propagator::Propagator(rt::Runtime& runtime, kube::Client& host, const Logger& log, HostCaches caches, Members& members,
                       kube::Expectations& expectations, Ledger& ledger, const PropagatorOptions& options)
    : runtime_(runtime),
      host_(host),
      log_(log),
      caches_(caches),
      members_(members),
      expectations_(expectations),
      ledger_(ledger),
      options_(options) {}

Outcome Propagator::reconcile(const ObjectKey& key, const rt::StopToken& stop) {
  if (const auto left = expectations_.time_left(key)) return Outcome::retry_after(*left);
  for (const auto& [name, member] : members_) {
    if (!member->is_reachable()) continue;
    if (const auto left = member->expectations().time_left(key)) return Outcome::retry_after(*left);
  }
  Pass pass{key, stop};
  pass.job = caches_.jobs.get(key);
  const auto finish = [&](const Done& done) {
    if (!done.ok()) return Outcome::failed(done.error());
    return pass.look_again ? Outcome::retry_after(options_.look_again) : Outcome::done();
  };
  if (!pass.job || !pass.job->metadata.deletion_timestamp.is_zero()) {
    ledger_.release(key);
    return finish(remove_from_members(pass, {}));
  }
  pass.binding = caches_.bindings.get({key.ns, binding_name(key.name)});
  if (const Done claimed = claim(pass); !claimed.ok()) return finish(claimed);
  if (pass.policy.is_none() && !pass.binding) return Outcome::done();
  if (const Done bound = bind(pass); !bound.ok()) return finish(bound);
  if (!pass.binding) return finish(Ok{});
  if (const Done applied = apply_to_members(pass); !applied.ok()) {
    static_cast<void>(collect(pass));  // what the others say is not held up
    return finish(applied);
  }
  return finish(collect(pass));
}

// Elsewhere than in `kept`, and what was made of an earlier job of the name.
Done Propagator::remove_from_members(Pass& pass, const std::vector<std::string>& kept) {
  for (const auto& [name, member] : members_) {
    const auto found = member->jobs().get(pass.key);
    if (!found) continue;
    const bool is_current = pass.job && found->metadata.annotations.get(kTemplateUid) == pass.job->metadata.uid;
    if (is_current && std::find(kept.begin(), kept.end(), name) != kept.end()) continue;
    if (!found->metadata.deletion_timestamp.is_zero()) continue;
    if (!member->is_reachable()) {
      pass.look_again = true;
      continue;
    }
    kube::Request request{.verb = kube::Verb::Delete,
                          .resource = kube::resource_of<Job>(),
                          .ns = pass.key.ns,
                          .name = pass.key.name,
                          .propagation = kube::Propagation::Background,
                          .precondition_uid = found->metadata.uid};
    const auto deleted = member->call(std::move(request), pass.stop);
    if (!deleted.ok() && !deleted.error().is(Reason::NotFound) && !deleted.error().is(Reason::Conflict))
      return deleted.error().with_context("remove job " + pass.key.to_string() + " from cluster " + name);
  }
  return Ok{};
}

Done Propagator::claim(Pass& pass) {
  const Job& job = *pass.job;
  std::vector<PolicyPtr> near = caches_.policies.by_index(kPolicyTargets, policy_target(pass.key.ns, pass.key.name));
  for (auto& policy : caches_.policies.by_index(kPolicyTargets, policy_target(pass.key.ns, "")))
    near.push_back(std::move(policy));
  std::sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a->metadata.name < b->metadata.name; });
  pass.policy = find_claim(job, near, caches_.cluster_policies.list());
  if (pass.policy.is_none() || is_claimed_by(job, pass.policy)) return Ok{};
  if (pass.policy.is_cluster_wide()) {
    // A policy of the namespace that was made before the job comes first, even if our cache has not heard of it.
    kube::ListRequest request{.resource = kube::resource_of<PropagationPolicy>(), .ns = pass.key.ns};
    BASALT_TRY(const kube::ListPage page, host_.list(request, pass.stop));
    std::vector<PolicyPtr> policies;
    for (const kube::Bytes& text : page.items) {
      if (auto policy = json::from_text<PropagationPolicy>(*text); policy.ok())
        policies.push_back(std::make_shared<const PropagationPolicy>(std::move(*policy)));
    }
    pass.policy = find_claim(job, policies, caches_.cluster_policies.list());
    if (pass.policy.is_none()) return Ok{};
  }
  const json::Value patch = json::Object{
      {"metadata", json::Object{{"uid", job.metadata.uid},
                                {"labels", json::Object{{api::keys::kKarmadaPolicyPermanentId, pass.policy.id}}},
                                {"annotations", json::Object{{api::keys::kKarmadaPolicyName, pass.policy.name},
                                                             {api::keys::kKarmadaPolicyNamespace, pass.policy.ns}}}}}};
  BASALT_TRY(const kube::Response written,
             kube::patch_object(host_, kube::resource_of<Job>(), pass.key, patch.to_text(), pass.stop));
  expectations_.note_write(pass.key, kube::resource_of<Job>(), kube::resource_version_of(written));
  BASALT_TRY(pass.text, json::Value::parse(*written.body));
  return Ok{};
}

bool Propagator::is_lost(const std::string& cluster) const {
  const auto found = caches_.clusters.get({"", cluster});
  if (!found) return true;  // it left the federation
  const auto* ready = api::find_condition(found->status.conditions, api::condition_types::kReady);
  if (ready == nullptr || ready->status == "True") return false;
  return runtime_.wall_now() - rt::WallTime(ready->last_transition_time.to_time_point()) >= options_.eviction_after;
}

bool Propagator::needs_choice(const Pass& pass, std::string_view placement) const {
  if (!pass.binding) return true;
  const ResourceBinding& binding = *pass.binding;
  if (binding.spec.suspension && binding.spec.suspension->scheduling.value_or(false)) return false;
  if (binding.metadata.annotations.get(api::keys::kKarmadaAppliedPlacement) != placement) return true;
  if (binding.spec.clusters.empty()) return true;
  if (binding.spec.replicas != replicas_of(pass.job->spec)) return true;
  if (is_finished(pass.job->status.state.phase)) return false;
  return std::any_of(binding.spec.clusters.begin(), binding.spec.clusters.end(),
                     [this](const TargetCluster& target) { return is_lost(target.name); });
}

std::vector<Candidate> Propagator::candidates() const {
  std::vector<Candidate> found;
  caches_.clusters.for_each([&](const Cluster& cluster) {
    const auto member = members_.find(cluster.metadata.name);
    Candidate candidate;
    candidate.name = cluster.metadata.name;
    candidate.labels = cluster.metadata.labels;
    candidate.provider = cluster.spec.provider;
    candidate.region = cluster.spec.region;
    candidate.zone = cluster.spec.zone;
    candidate.is_ready = member != members_.end() && cluster.metadata.deletion_timestamp.is_zero() &&
                         api::is_condition_true(cluster.status.conditions, api::condition_types::kReady);
    if (cluster.status.resource_summary) candidate.free = cluster.status.resource_summary->allocatable;
    found.push_back(std::move(candidate));
  });
  return found;
}

Done Propagator::bind(Pass& pass) {
  const Job& job = *pass.job;
  if (pass.binding && pass.binding->spec.resource.uid != job.metadata.uid) {
    // Of an earlier job of this name: garbage collection takes it, and its going wakes us.
    pass.binding.reset();
    return Ok{};
  }
  const std::string state =
      pass.policy.is_none() ? std::string() : pass.policy.id + "/" + placement_text(pass.policy.spec->placement);
  const bool follows_policy =
      !pass.policy.is_none() && (!pass.binding || pass.binding->metadata.annotations.get(kPolicyState) != state);
  api::karmada::Placement placement;
  if (follows_policy) {
    placement = pass.policy.spec->placement;
  } else if (pass.binding && pass.binding->spec.placement) {
    placement = *pass.binding->spec.placement;
  }
  const std::string text = placement_text(placement);
  const bool chooses = needs_choice(pass, text);
  if (!follows_policy && !chooses) return Ok{};
  Choice choice;
  if (pass.binding) choice.clusters = pass.binding->spec.clusters;
  if (chooses) {
    Wish wish{.placement = &placement, .replicas = replicas_of(job.spec), .request = federation::request_of(job.spec)};
    for (const TargetCluster& target : choice.clusters) wish.present.push_back(target.name);
    choice = ledger_.choose(pass.key, wish, candidates());
  }
  return write_binding(pass, choice, text);
}

Done Propagator::write_binding(Pass& pass, const Choice& choice, const std::string& placement) {
  const Job& job = *pass.job;
  const ResourceBinding* old = pass.binding.get();
  if (choice.clusters.empty() && !choice.reason.empty()) {
    pass.unplaced = choice;
    pass.look_again |= choice.reason == api::condition_reasons::kSchedulerError;
  }
  const json::Object annotations = binding_annotations(pass.policy, placement);
  if (old != nullptr && says_so(*old, annotations) && old->spec.clusters == choice.clusters &&
      old->spec.replicas == replicas_of(job.spec))
    return Ok{};
  json::Object metadata{{"annotations", annotations}};
  if (!pass.policy.is_none())
    metadata.set("labels", json::Object{{api::keys::kKarmadaPolicyPermanentId, pass.policy.id}});
  const bool deps =
      pass.policy.is_none() ? old != nullptr && old->spec.propagate_deps : pass.policy.spec->propagate_deps;
  json::Object spec = binding_spec(job, choice, placement, deps);
  kube::Request request{.verb = kube::Verb::Patch, .resource = kube::resource_of<ResourceBinding>(), .ns = pass.key.ns};
  if (old != nullptr) {
    request.name = old->metadata.name;
    metadata.set("uid", old->metadata.uid);
    metadata.set("resourceVersion", old->metadata.resource_version);
    request.body = json::Value(json::Object{{"metadata", std::move(metadata)}, {"spec", std::move(spec)}}).to_text();
  } else {
    request.verb = kube::Verb::Create;
    metadata.set("name", binding_name(pass.key.name));
    metadata.set("namespace", pass.key.ns);
    metadata.set("ownerReferences",
                 json::Array{parsed(json::to_text(api::controller_reference(Job::kind_info(), job.metadata)))});
    spec.set("resource", resource_of_job(job));
    request.body = json::Value(json::Object{{"apiVersion", "work.karmada.io/v1alpha2"},
                                            {"kind", "ResourceBinding"},
                                            {"metadata", std::move(metadata)},
                                            {"spec", std::move(spec)}})
                       .to_text();
  }
  const auto written = host_.call(request, pass.stop);
  if (!written.ok()) {
    ledger_.release(pass.key);
    // Ours, and the cache is behind; or that of an earlier job, which is about to go. A look later tells.
    if (!written.error().is(Reason::AlreadyExists))
      return written.error().with_context("write the binding of job " + pass.key.to_string());
    pass.look_again = true;
    pass.binding.reset();
    return Ok{};
  }
  expectations_.note_write(pass.key, kube::resource_of<ResourceBinding>(), kube::resource_version_of(*written));
  BASALT_TRY(ResourceBinding binding, kube::decode_object<ResourceBinding>(*written));
  pass.binding = std::make_shared<const ResourceBinding>(std::move(binding));
  pass.is_new_binding = old == nullptr;
  return Ok{};
}

Done Propagator::apply_to_members(Pass& pass) {
  std::vector<std::string> kept;
  for (const TargetCluster& target : pass.binding->spec.clusters) kept.push_back(target.name);
  BASALT_TRY_DONE(remove_from_members(pass, kept));
  // A job that moves is gone from where it was before it starts where it will be.
  for (const auto& [name, member] : members_) {
    const auto found = member->jobs().get(pass.key);
    if (!found || is_lost(name)) continue;
    const bool is_old = found->metadata.annotations.get(kTemplateUid) != pass.job->metadata.uid;
    if (is_old || !is_target(pass.binding->spec.clusters, name)) return Ok{};  // its going wakes us
  }
  Done first = Ok{};
  for (const TargetCluster& target : pass.binding->spec.clusters) {
    const auto member = members_.find(target.name);
    if (member == members_.end()) continue;
    if (!member->second->is_reachable()) {
      pass.look_again = true;
      continue;
    }
    Done applied = apply(pass, *member->second, target);
    if (applied.ok()) continue;
    pass.refused[target.name] = applied.error().message;
    if (first.ok()) first = applied.error().with_context("job " + pass.key.to_string() + " in cluster " + target.name);
  }
  return first;
}

Result<const json::Value*> Propagator::host_text(Pass& pass) {
  if (!pass.text) {
    BASALT_TRY(
        const kube::Response response,
        host_.call(
            {.verb = kube::Verb::Get, .resource = kube::resource_of<Job>(), .ns = pass.key.ns, .name = pass.key.name},
            pass.stop));
    BASALT_TRY(pass.text, json::Value::parse(*response.body));
  }
  if (pass.text->string_at({"metadata", "uid"}) != pass.job->metadata.uid)
    return Error::make(Reason::Conflict, "job " + pass.key.to_string() + " was made again meanwhile");
  return &*pass.text;
}

Done Propagator::apply(Pass& pass, Member& member, const TargetCluster& target) {
  const auto found = member.jobs().get(pass.key);
  if (found) {
    const bool has_generation =
        found->metadata.annotations.get(kTemplateGeneration) == std::to_string(pass.job->metadata.generation);
    const bool has_labels = pass.job->metadata.labels.is_subset_of(found->metadata.labels);
    const bool has_replicas = found->spec.tasks.empty() || found->spec.tasks.front().replicas == target.replicas;
    if (has_generation && has_labels && has_replicas) return Ok{};
  }
  BASALT_TRY(const json::Value* text, host_text(pass));
  const json::Value wanted = member_job(*text, binding_name(pass.key.name), target.replicas);
  return found ? update_in(pass, member, wanted) : create_in(pass, member, wanted);
}

Done Propagator::create_in(Pass& pass, Member& member, const json::Value& wanted) {
  if (pass.binding->spec.propagate_deps) BASALT_TRY_DONE(send_dependencies(pass, member));
  const kube::Request request{
      .verb = kube::Verb::Create, .resource = kube::resource_of<Job>(), .ns = pass.key.ns, .body = wanted.to_text()};
  auto made = member.call(request, pass.stop);
  if (!made.ok() && made.error().is(Reason::NotFound)) {
    const json::Value ns =
        json::Object{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", json::Object{{"name", pass.key.ns}}}};
    const auto ready = member.call(
        {.verb = kube::Verb::Create, .resource = {"", "v1", "namespaces"}, .body = ns.to_text()}, pass.stop);
    if (!ready.ok() && !ready.error().is(Reason::AlreadyExists)) return ready.error();
    made = member.call(request, pass.stop);
  }
  if (!made.ok() && made.error().is(Reason::AlreadyExists)) return update_in(pass, member, wanted);
  if (!made.ok()) return made.error();
  member.expectations().note_write(pass.key, kube::resource_of<Job>(), kube::resource_version_of(*made));
  return Ok{};
}

Done Propagator::update_in(Pass& pass, Member& member, const json::Value& wanted) {
  BASALT_TRY(
      const kube::Response response,
      member.call(
          {.verb = kube::Verb::Get, .resource = kube::resource_of<Job>(), .ns = pass.key.ns, .name = pass.key.name},
          pass.stop));
  BASALT_TRY(const json::Value live, json::Value::parse(*response.body));
  if (live.string_at({"metadata", "labels", api::keys::kKarmadaManaged}) != "true")
    return Error::make(Reason::AlreadyExists,
                       "a job of this name is there that the federation did not make; delete it or rename the job");
  json::Value patch = member_patch(live, wanted);
  if (patch.is_null()) return Ok{};
  json::Value& metadata = patch.ensure_path({"metadata"});
  if (!metadata.is_object()) metadata = json::Object();
  metadata.as_object().set("uid", live.string_at({"metadata", "uid"}));
  BASALT_TRY(const kube::Response written, member.call({.verb = kube::Verb::Patch,
                                                        .resource = kube::resource_of<Job>(),
                                                        .ns = pass.key.ns,
                                                        .name = pass.key.name,
                                                        .body = patch.to_text()},
                                                       pass.stop));
  member.expectations().note_write(pass.key, kube::resource_of<Job>(), kube::resource_version_of(written));
  return Ok{};
}

}  // namespace basalt::federation
