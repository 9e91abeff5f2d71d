#include "controllers/job/executor.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "api/gen/core_objects.h"
#include "api/gen/names.h"
#include "api/owner.h"
#include "base/strings.h"
#include "json/merge_patch.h"
#include "kube/identity.h"
#include "kube/typed.h"

namespace basalt::controllers::job {
namespace {

using api::batch::Job;
using api::batch::JobStatus;

const kube::Resource& jobs() {
  static const kube::Resource resource = kube::resource_of<Job>();
  return resource;
}
const kube::Resource& pods() {
  static const kube::Resource resource = kube::resource_of<api::core::PodProjection>();
  return resource;
}
const kube::Resource& pod_groups() {
  static const kube::Resource resource = kube::resource_of<api::scheduling::PodGroup>();
  return resource;
}
const kube::Resource& commands() {
  static const kube::Resource resource = kube::resource_of<api::bus::Command>();
  return resource;
}
const kube::Resource& claims() {
  static const kube::Resource resource = kube::resource_of<api::core::PersistentVolumeClaim>();
  return resource;
}

// A job as the informers read it, so that the two can be compared.
Result<Job> decode_job(const kube::Response& response) {
  Job job;
  json::Reader reader(*response.body, {.keep_unknown = false});
  decode(reader, job);
  BASALT_TRY_DONE(reader.finish());
  return job;
}

Result<json::Value> status_value(const JobStatus& status) { return json::Value::parse(json::to_text(status)); }

std::string_view controller_uid(const json::Value& object) {
  const json::Value* owners = object.find_path({"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) return {};
  for (const json::Value& owner : owners->as_array()) {
    const json::Value* controller = owner.find("controller");
    if (controller != nullptr && controller->is_bool() && controller->as_bool()) return owner.string_at({"uid"});
  }
  return {};
}

constexpr std::size_t kPodsAtOnce = 1000;
constexpr std::string_view kCompletedMetric = "volcano_job_completed_phase_count";
constexpr std::string_view kFailedMetric = "volcano_job_failed_phase_count";

kube::MetricLabels labels_of(const Job& job) {
  return {{"job_name", job.metadata.namespace_ + "/" + job.metadata.name}, {"queue_name", job.spec.queue}};
}

// Gone, or (a failed test of the UID) another object of that name: what was to be done to it is done. A conflict is
// neither: the caches will show why, and the next pass decides anew.
bool is_gone(const Error& error) { return error.is(Reason::NotFound) || error.is(Reason::Invalid); }

}  // namespace

KeyPairs::KeyPairs(rt::Runtime& runtime, Make make, Ready ready)
    : make_(std::move(make)),
      ready_(std::move(ready)),
      executor_(runtime, {.name = "ssh-keys", .threads = 1, .waiting_max = kWaitingMax}) {}

Result<SshKeyPair> KeyPairs::take(const api::ObjectKey& key, const std::string& uid) {
  {
    const rt::MutexLock lock(mutex_);
    const auto [entry, is_new] = entries_.try_emplace(uid);
    if (entry->second && entry->second->ok()) return *entry->second;
    if (entry->second) {
      Error error = entry->second->error();
      entries_.erase(entry);
      return error;
    }
    if (!is_new) return Error::make(Reason::Cancelled, "the key pair is being made");
  }
  const bool posted = executor_.post([this, key, uid] {
    Result<SshKeyPair> made = make_();
    {
      const rt::MutexLock lock(mutex_);
      const auto entry = entries_.find(uid);
      if (entry == entries_.end()) return;  // the job is gone
      entry->second = std::move(made);
    }
    ready_(key);
  });
  if (posted) return Error::make(Reason::Cancelled, "the key pair is being made");
  forget(uid);
  return Error::make(Reason::TooManyRequests,
                     "more than " + std::to_string(kWaitingMax) + " key pairs are waiting to be made");
}

void KeyPairs::forget(const std::string& uid) {
  const rt::MutexLock lock(mutex_);
  entries_.erase(uid);
}

void KeyPairs::stop() { executor_.stop(); }

// One plan on its way.
struct PlanExecutor::Pass {
  const ObservedJob& observed;
  const Job& job;
  const api::ObjectKey key;
  JobPlan plan;
  const PluginSet* plugins;
  const rt::StopToken& stop;
};

PlanExecutor::PlanExecutor(ControllerContext& context, kube::Expectations& expectations, KeyPairs& keys,
                           Options options)
    : context_(context), expectations_(expectations), keys_(keys), options_(options) {
  std::vector<double> bounds;
  for (int i = 0; i < 30; ++i) bounds.push_back(50.0 * std::pow(1.276964, i));
  creation_latency_ = context.metrics.histogram("volcano_controller_job_to_pod_creation_latency_milliseconds",
                                                "Time from the creation of a job to the creation of its pods.", bounds);
}

CarriedOut PlanExecutor::carry_out(const ObservedJob& observed, JobPlan plan, const PluginSet* plugins,
                                   const rt::StopToken& stop) {
  Pass pass{observed,        *observed.job, {observed.job->metadata.namespace_, observed.job->metadata.name},
            std::move(plan), plugins,       stop};
  CarriedOut result;
  result.status_is_written = false;
  const auto run = [&](Done done) {
    if (done.ok()) return true;
    result.error = std::move(done).error();
    return false;
  };
  const auto all = [&] {
    if (!pass.plan.job_patch.empty()) return run(patch_job(pass));
    if (!run(mark_pods(pass, pass.plan.marks)) || !run(mark_pods(pass, pass.plan.marks_last))) return false;
    if (pass.plan.delete_plugin_objects_first && !run(delete_plugin_objects(pass))) return false;
    if (!run(write_status(pass))) return false;
    result.status_is_written = true;
    for (const PlannedEvent& event : pass.plan.events) tell(pass, event.type, event.reason, event.message);
    return run(consume_commands(pass)) && run(delete_pods(pass)) && run(delete_pod_group(pass)) &&
           run(create_claims(pass)) && run(ensure_plugin_objects(pass)) && run(ensure_pod_group(pass)) &&
           run(create_pods(pass));
  };
  if (all()) {
    pass.plan.memory.problem_reason.clear();
    pass.plan.memory.problem_message.clear();
  }
  result.memory = std::move(pass.plan.memory);
  return result;
}

void PlanExecutor::tell(const Pass& pass, kube::EventType type, std::string_view reason, std::string_view message) {
  context_.events.event({.api_version = "batch.volcano.sh/v1alpha1",
                         .kind = "Job",
                         .ns = pass.key.ns,
                         .name = pass.key.name,
                         .uid = pass.job.metadata.uid,
                         .resource_version = pass.job.metadata.resource_version,
                         .field_path = ""},
                        type, reason, message);
}

Error PlanExecutor::problem(Pass& pass, std::string_view reason, std::string_view event_reason, Error error) {
  // An API server in trouble is no statement about the job.
  if (error.is_transient() || error.is(Reason::Conflict) || error.is(Reason::Cancelled)) return error;
  JobMemory& memory = pass.plan.memory;
  // Said once, not with every try.
  if (memory.problem_message != error.message) tell(pass, kube::EventType::Warning, event_reason, error.message);
  memory.problem_reason = std::string(reason);
  memory.problem_message = error.message;
  return error;
}

Done PlanExecutor::patch_job(Pass& pass) {
  kube::Request request;
  request.verb = kube::Verb::Patch;
  request.resource = jobs();
  request.ns = pass.key.ns;
  request.name = pass.key.name;
  request.body = pass.plan.job_patch;
  request.patch_type = kube::PatchType::Json;
  auto response = context_.client.call(request, pass.stop);
  if (!response.ok()) return std::move(response).error().with_context("the job could not be patched");
  expectations_.note_write(pass.key, jobs(), kube::resource_version_of(*response));
  return Ok{};
}

Done PlanExecutor::mark_pods(Pass& pass, const std::vector<PodRef>& marks) {
  if (marks.empty()) return Ok{};
  std::vector<kube::Request> requests;
  requests.reserve(marks.size());
  const std::string path = "/metadata/annotations/" + base::replace_all(api::keys::kControllerOutOfSync, "/", "~1");
  for (const PodRef& pod : marks) {
    kube::Request request;
    request.verb = kube::Verb::Patch;
    request.resource = pods();
    request.ns = pass.key.ns;
    request.name = pod.name;
    request.patch_type = kube::PatchType::Json;
    request.body = R"([{"op":"test","path":"/metadata/uid","value":")" + pod.uid + R"("},{"op":"add","path":")" + path +
                   R"(","value":"true"}])";
    requests.push_back(std::move(request));
  }
  const auto results = context_.client.call_all(requests, {.in_flight_max = options_.pods_in_flight}, pass.stop);
  std::optional<Error> error;
  for (const auto& result : results) {
    if (result.ok()) {
      expectations_.note_write(pass.key, pods(), kube::resource_version_of(*result));
    } else if (!is_gone(result.error()) && !error) {
      error = result.error();
    }
  }
  if (error) return error->with_context("a pod could not be marked for deletion");
  return Ok{};
}

// The job may be changed by others all the time; as long as they leave alone what the plan was made from, the status is
// written over their version.
Done PlanExecutor::write_status(Pass& pass) {
  if (!pass.plan.status) return Ok{};
  BASALT_TRY(const json::Value before, status_value(pass.job.status));
  BASALT_TRY(const json::Value after, status_value(*pass.plan.status));
  const std::string patch = json::make_merge_patch(before, after).to_text();
  std::string version = pass.job.metadata.resource_version;
  constexpr int kAttemptsMax = 5;
  for (int attempt = 1;; ++attempt) {
    auto written = kube::patch_status(context_.client, jobs(), pass.key, patch, version, pass.stop);
    if (written.ok()) {
      expectations_.note_write(pass.key, jobs(), kube::resource_version_of(*written));
      count_results(pass);
      return Ok{};
    }
    if (!written.error().is(Reason::Conflict) || attempt == kAttemptsMax) {
      if (pass.job.status.state.phase.empty())
        tell(pass, kube::EventType::Warning, api::event_reasons::kJobStatusError, written.error().message);
      return std::move(written).error().with_context("the status could not be written");
    }
    auto read = context_.client.call(
        {.verb = kube::Verb::Get, .resource = jobs(), .ns = pass.key.ns, .name = pass.key.name}, pass.stop);
    if (!read.ok()) return std::move(read).error().with_context("the job could not be read");
    BASALT_TRY(const Job fresh, decode_job(*read));
    if (fresh.metadata.uid != pass.job.metadata.uid || !fresh.metadata.deletion_timestamp.is_zero() ||
        !(fresh.spec == pass.job.spec) || !(fresh.status == pass.job.status)) {
      expectations_.note_write(pass.key, jobs(), fresh.metadata.resource_version);
      return std::move(written).error().with_context("the job has changed");
    }
    version = fresh.metadata.resource_version;
  }
}

void PlanExecutor::count_results(const Pass& pass) {
  if (!pass.plan.phase_changes) return;
  const Phase phase = phase_of(pass.plan.status->state.phase);
  if (phase == Phase::Completed) {
    context_.metrics.counter(kCompletedMetric, "Times the job reached Completed.", labels_of(pass.job)).add();
  } else if (phase == Phase::Failed) {
    context_.metrics.counter(kFailedMetric, "Times the job reached Failed.", labels_of(pass.job)).add();
  }
}

Done PlanExecutor::consume_commands(Pass& pass) {
  for (const PlannedCommand& command : pass.plan.consumed_commands) {
    auto deleted =
        kube::delete_object(context_.client, commands(), {pass.key.ns, command.name}, {.uid = command.uid}, pass.stop);
    if (!deleted.ok() && !is_gone(deleted.error()))
      return std::move(deleted).error().with_context("command " + command.name + " could not be deleted");
    expectations_.note_delete(pass.key, commands(), command.uid);
  }
  return Ok{};
}

Done PlanExecutor::delete_pods(Pass& pass) {
  if (pass.plan.deletes.empty()) return Ok{};
  std::vector<kube::Request> requests;
  requests.reserve(pass.plan.deletes.size());
  for (const PodRef& pod : pass.plan.deletes) {
    kube::Request request;
    request.verb = kube::Verb::Delete;
    request.resource = pods();
    request.ns = pass.key.ns;
    request.name = pod.name;
    request.precondition_uid = pod.uid;
    requests.push_back(std::move(request));
  }
  const auto results = context_.client.call_all(requests, {.in_flight_max = options_.pods_in_flight}, pass.stop);
  std::optional<Error> error;
  for (const auto& result : results) {
    if (result.ok()) {
      expectations_.note_write(pass.key, pods(), kube::resource_version_of(*result));
    } else if (!is_gone(result.error()) && !error) {
      error = result.error();
    }
  }
  if (!error) return Ok{};
  tell(pass, kube::EventType::Warning, api::event_reasons::kFailedDelete, error->message);
  return error->with_context("a pod could not be deleted");
}

Done PlanExecutor::delete_pod_group(Pass& pass) {
  if (!pass.plan.delete_pod_group) return Ok{};
  const PodRef& group = *pass.plan.delete_pod_group;
  auto deleted =
      kube::delete_object(context_.client, pod_groups(), {pass.key.ns, group.name}, {.uid = group.uid}, pass.stop);
  if (!deleted.ok()) {
    if (is_gone(deleted.error())) return Ok{};
    return std::move(deleted).error().with_context("pod group " + group.name + " could not be deleted");
  }
  const auto identity = kube::identity_of(*deleted->body);
  // Held by a finalizer it stays for a while, and its deletion mark is what we wait for.
  if (identity.ok() && identity->is_being_deleted) {
    expectations_.note_write(pass.key, pod_groups(), identity->resource_version);
  } else {
    expectations_.note_delete(pass.key, pod_groups(), group.uid);
  }
  return Ok{};
}

// An object that is there already is fine if it is this job's.
Done PlanExecutor::accept_existing(Pass& pass, const kube::Resource& resource, const std::string& name) {
  auto found =
      context_.client.call({.verb = kube::Verb::Get, .resource = resource, .ns = pass.key.ns, .name = name}, pass.stop);
  if (!found.ok()) return std::move(found).error();
  BASALT_TRY(const json::Value object, json::Value::parse(*found->body));
  const std::string_view owner = controller_uid(object);
  if (owner == pass.job.metadata.uid) {
    expectations_.note_write(pass.key, resource, kube::resource_version_of(*found));
    return Ok{};
  }
  return Error::make(Reason::AlreadyExists,
                     resource.plural + " " + base::quote(name) + " exists and belongs to " +
                         (owner.empty() ? std::string("nobody") : "the owner with UID " + std::string(owner)) +
                         ", not to this job; delete it or rename the job");
}

Done PlanExecutor::create(Pass& pass, const kube::Resource& resource, const std::string& name, std::string body) {
  auto made = context_.client.call(
      {.verb = kube::Verb::Create, .resource = resource, .ns = pass.key.ns, .body = std::move(body)}, pass.stop);
  if (made.ok()) {
    expectations_.note_write(pass.key, resource, kube::resource_version_of(*made));
    return Ok{};
  }
  if (made.error().is(Reason::AlreadyExists)) return accept_existing(pass, resource, name);
  return std::move(made).error().with_context(resource.plural + " " + name + " could not be created");
}

Done PlanExecutor::create_claims(Pass& pass) {
  for (const PlannedClaim& claim : pass.plan.claims) {
    const auto owner = api::controller_reference(Job::kind_info(), pass.job.metadata);
    const std::string body = R"({"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":")" + claim.name +
                             R"(","ownerReferences":[)" + json::to_text(owner) + R"(]},"spec":)" +
                             std::string(claim.spec.text()) + "}";
    if (Done done = create(pass, claims(), claim.name, body); !done.ok())
      return problem(pass, waiting::kClaimError, api::event_reasons::kPvcError, std::move(done).error());
  }
  return Ok{};
}

Done PlanExecutor::ensure_pod_group(Pass& pass) {
  Done done = Ok{};
  if (pass.plan.create_pod_group) {
    done = create(pass, pod_groups(), pass.plan.create_pod_group->metadata.name,
                  json::to_text(*pass.plan.create_pod_group));
  } else if (!pass.plan.pod_group_patch.empty() && pass.observed.pod_group) {
    auto patched =
        kube::patch_object(context_.client, pod_groups(), {pass.key.ns, pass.observed.pod_group->metadata.name},
                           pass.plan.pod_group_patch, pass.stop);
    if (patched.ok()) {
      expectations_.note_write(pass.key, pod_groups(), kube::resource_version_of(*patched));
    } else {
      done = std::move(patched).error();
    }
  }
  if (done.ok()) return done;
  return problem(pass, waiting::kPodGroupError, api::event_reasons::kPodGroupError, std::move(done).error());
}

Done PlanExecutor::create_pods(Pass& pass) {
  // In portions, so that a job that is deleted or restarted meanwhile does not get the rest, and neither the bodies of
  // all pods nor the answers are held at once.
  const std::span<const PlannedPod> all = pass.plan.creates;
  for (std::size_t first = 0; first < all.size();) {
    if (first > 0 && !is_still_wanted(pass))
      return Error::make(Reason::Conflict, "the job has changed while its pods were made");
    const std::size_t wave_end = first < pass.plan.creates_first ? pass.plan.creates_first : all.size();
    const std::size_t count = std::min(kPodsAtOnce, wave_end - first);
    BASALT_TRY_DONE(create_portion(pass, all.subspan(first, count)));
    first += count;
  }
  return Ok{};
}

// Whether the job is still the one that the plan was made for, as far as the cache knows.
bool PlanExecutor::is_still_wanted(const Pass& pass) const {
  const auto job = context_.informers.jobs().get(pass.key);
  const std::int32_t version = pass.plan.status ? pass.plan.status->version : pass.job.status.version;
  return job && job->metadata.uid == pass.job.metadata.uid && job->metadata.deletion_timestamp.is_zero() &&
         job->metadata.generation == pass.job.metadata.generation && job->status.version <= version;
}

Done PlanExecutor::create_portion(Pass& pass, std::span<const PlannedPod> planned) {
  std::vector<kube::Request> requests;
  requests.reserve(planned.size());
  std::optional<PodBuilder> builder;
  std::int32_t task = -1;
  const auto cannot_build = [&](const Error& error) {
    return problem(pass, waiting::kPluginError, api::event_reasons::kPluginError, error);
  };
  // The pods carry the version and the retries that have just been written.
  Job job = pass.job;
  if (pass.plan.status) job.status = *pass.plan.status;
  for (const PlannedPod& pod : planned) {
    if (pod.task != task) {
      auto made = PodBuilder::make(job, static_cast<std::size_t>(pod.task), *pass.plugins, pass.plan.build_options);
      if (!made.ok()) return cannot_build(made.error());
      builder = std::move(made).value();
      task = pod.task;
    }
    auto body = builder->build(pod.index);
    if (!body.ok()) return cannot_build(body.error());
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = pods();
    request.ns = pass.key.ns;
    request.body = std::move(body).value();
    requests.push_back(std::move(request));
  }
  // Several jobs are served at once, and each connection costs a handshake: a small gang takes two rounds.
  constexpr int kInFlightMin = 4;
  const int in_flight = std::clamp(static_cast<int>(requests.size() / 2),
                                   std::min(kInFlightMin, options_.pods_in_flight), options_.pods_in_flight);
  // A refusal (quota, admission) is the same for all that follow; do not ask a thousand times.
  const auto results = context_.client.call_all(
      requests, {.in_flight_max = in_flight, .failures_max = options_.pods_in_flight}, pass.stop);
  std::optional<Error> error;
  const auto age = context_.runtime.wall_now() - pass.job.metadata.creation_timestamp.to_time_point();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) {
      expectations_.note_write(pass.key, pods(), kube::resource_version_of(*results[i]));
      creation_latency_.observe(std::chrono::duration<double, std::milli>(age).count());
      continue;
    }
    Error failure = results[i].error();
    if (failure.is(Reason::AlreadyExists)) {
      const PlannedPod& pod = planned[i];
      Done done = accept_existing(
          pass, pods(),
          pod_name(pass.key.name, pass.job.spec.tasks[static_cast<std::size_t>(pod.task)].name, pod.index));
      if (done.ok()) continue;
      failure = std::move(done).error();
    }
    if (failure.is(Reason::Cancelled) && error) continue;
    if (!error) error = std::move(failure);
  }
  if (error) return problem(pass, waiting::kPodCreateFailed, api::event_reasons::kFailedCreate, std::move(*error));
  return Ok{};
}

void remove_job_metrics(kube::Metrics& metrics, const Job& job) {
  metrics.remove_counter(kCompletedMetric, labels_of(job));
  metrics.remove_counter(kFailedMetric, labels_of(job));
}

// --- objects of plugins ---

Done PlanExecutor::ensure_plugin_objects(Pass& pass) {
  if (!pass.plan.ensure_plugin_objects || pass.plugins == nullptr) return Ok{};
  // Keys first: while they are made the pass ends, and nothing shall be asked for twice.
  for (const bool with_keys_now : {true, false}) {
    for (const auto& plugin : pass.plugins->all()) {
      for (const PluginObject& object : plugin->objects(pass.job)) {
        if ((object.upkeep == PluginObject::Upkeep::SshKeys) != with_keys_now) continue;
        Done done = ensure_object(pass, object, pass.plugins->needs_keys());
        if (done.ok()) continue;
        return problem(pass, waiting::kPluginError, api::event_reasons::kPluginError,
                       done.error().with_context("plugin " + std::string(plugin->name())));
      }
    }
  }
  pass.plan.memory.plugins_hash = pass.plan.plugins_hash;
  keys_.forget(pass.job.metadata.uid);
  return Ok{};
}

Done PlanExecutor::ensure_object(Pass& pass, const PluginObject& wanted, bool needs_keys) {
  const bool has_keys = wanted.upkeep == PluginObject::Upkeep::SshKeys;
  const kube::Request get{.verb = kube::Verb::Get, .resource = wanted.resource, .ns = pass.key.ns, .name = wanted.name};
  if (!has_keys) {
    auto made = context_.client.call(
        {.verb = kube::Verb::Create, .resource = wanted.resource, .ns = pass.key.ns, .body = wanted.object.to_text()},
        pass.stop);
    if (made.ok()) return Ok{};
    if (!made.error().is(Reason::AlreadyExists)) return std::move(made).error();
  }
  auto read = context_.client.call(get, pass.stop);
  if (!read.ok() && !(has_keys && read.error().is(Reason::NotFound))) return std::move(read).error();
  json::Value found;
  if (read.ok()) {
    BASALT_TRY(found, json::Value::parse(*read->body));
    if (controller_uid(found) != pass.job.metadata.uid) {
      return Error::make(Reason::AlreadyExists, wanted.resource.plural + " " + base::quote(wanted.name) +
                                                    " exists and does not belong to this job; delete it or rename the "
                                                    "job");
    }
  }
  const json::Value* now = found.find("data");
  const json::Value* then = wanted.object.find("data");
  const auto equal = [](const json::Value* a, const json::Value* b) {
    return (a == nullptr || a->is_null()) ? (b == nullptr || b->is_null()) : (b != nullptr && *a == *b);
  };
  if (read.ok()) {
    if (wanted.upkeep == PluginObject::Upkeep::Once) return Ok{};
    if (wanted.upkeep == PluginObject::Upkeep::Current && equal(now, then)) return Ok{};
    if (has_keys && now != nullptr && then != nullptr && equal(now->find("config"), then->find("config"))) return Ok{};
  }
  json::Value object = wanted.object;
  if (has_keys && needs_keys) BASALT_TRY_DONE(fill_keys(pass, now, object));
  if (!read.ok()) {
    auto made = context_.client.call(
        {.verb = kube::Verb::Create, .resource = wanted.resource, .ns = pass.key.ns, .body = object.to_text()},
        pass.stop);
    if (!made.ok()) return std::move(made).error();
    return Ok{};
  }
  json::Value before{json::Object{}};
  if (now != nullptr) before = *now;
  json::Value after{json::Object{}};
  if (const json::Value* data = object.find("data")) after = *data;
  json::Object patch;
  patch.set("data", json::make_merge_patch(before, after));
  auto patched = kube::patch_object(context_.client, wanted.resource, {pass.key.ns, wanted.name},
                                    json::Value(std::move(patch)).to_text(), pass.stop);
  if (!patched.ok()) return std::move(patched).error();
  return Ok{};
}

// A key pair that is there stays: pods that run have it mounted, and would lock out those with another.
Done PlanExecutor::fill_keys(Pass& pass, const json::Value* existing, json::Value& secret) {
  constexpr std::string_view kParts[] = {"id_rsa", "id_rsa.pub", "authorized_keys"};
  const bool has_all = existing != nullptr && std::all_of(std::begin(kParts), std::end(kParts), [&](auto part) {
                         return !existing->string_at({part}).empty();
                       });
  if (has_all) {
    for (const std::string_view part : kParts)
      secret.ensure_path({"data", part}) = std::string(existing->string_at({part}));
    return Ok{};
  }
  BASALT_TRY(const SshKeyPair keys, keys_.take(pass.key, pass.job.metadata.uid));
  with_keys(secret, keys);
  return Ok{};
}

Done PlanExecutor::delete_plugin_objects(Pass& pass) {
  if (pass.plugins == nullptr) return Ok{};
  for (const auto& plugin : pass.plugins->all()) {
    for (const PluginObject& object : plugin->objects(pass.job)) {
      auto read = context_.client.call(
          {.verb = kube::Verb::Get, .resource = object.resource, .ns = pass.key.ns, .name = object.name}, pass.stop);
      if (!read.ok()) {
        if (read.error().is(Reason::NotFound)) continue;
        return std::move(read).error();
      }
      BASALT_TRY(const json::Value found, json::Value::parse(*read->body));
      // Somebody else's object of that name stays.
      if (controller_uid(found) != pass.job.metadata.uid) continue;
      auto deleted = kube::delete_object(context_.client, object.resource, {pass.key.ns, object.name},
                                         {.uid = std::string(found.string_at({"metadata", "uid"}))}, pass.stop);
      if (!deleted.ok() && !is_gone(deleted.error())) return std::move(deleted).error();
    }
  }
  return Ok{};
}

}  // namespace basalt::controllers::job
