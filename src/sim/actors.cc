#include "sim/actors.h"

#include <utility>
#include <vector>

#include "api/gen/names.h"
#include "json/value.h"
#include "kube/typed.h"

namespace basalt::sim {
namespace {

using api::ObjectKey;
using api::core::PodProjection;
using api::scheduling::PodGroup;
namespace phases = api::scheduling::pod_group_phase;

const kube::Resource kPods{"", "v1", "pods"};
const kube::Resource kPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups"};

template <class T>
kube::InformerOptions<T> informer_options() {
  kube::InformerOptions<T> options;
  options.reflector.resource = kube::resource_of<T>();
  return options;
}

ObjectKey key_of(const PodProjection& pod) {
  return {std::string(std::string_view(pod.metadata.namespace_)), std::string(std::string_view(pod.metadata.name))};
}

std::string_view phase_of(const PodProjection& pod) { return std::string_view(pod.status.phase); }

bool is_over(const PodProjection& pod) { return phase_of(pod) == "Succeeded" || phase_of(pod) == "Failed"; }

rt::Outcome outcome_of(const Error& error) {
  if (error.is(Reason::NotFound)) return rt::Outcome::done();
  return rt::Outcome::failed(error);
}

}  // namespace

PlayedScheduler::PlayedScheduler(rt::Runtime& runtime, kube::Client& client)
    : PlayedScheduler(runtime, client, Options()) {}

PlayedScheduler::PlayedScheduler(rt::Runtime& runtime, kube::Client& client, Options options)
    : runtime_(runtime),
      client_(client),
      options_(std::move(options)),
      pods_(runtime, client, Logger(),
            [] {
              auto pod_options = informer_options<PodProjection>();
              pod_options.indexes.push_back({"group", [](const PodProjection& pod, std::vector<std::string>& values) {
                                               const auto group = pod.metadata.annotations.get(api::keys::kGroupName);
                                               values.push_back(key_of(pod).ns + "/" + std::string(group));
                                             }});
              return pod_options;
            }()),
      groups_(runtime, client, Logger(), informer_options<PodGroup>()),
      queue_(runtime) {
  pods_.add_handler([this](const kube::Change<PodProjection>& change) {
    const PodProjection& pod = change.object();
    const ObjectKey key = key_of(pod);
    if (change.after && std::string_view(pod.spec.node_name).empty()) queue_.add("pod " + key.to_string());
    const auto group = pod.metadata.annotations.get(api::keys::kGroupName);
    if (!group.empty()) queue_.add("group " + key.ns + "/" + std::string(group));
  });
  groups_.add_handler([this](const kube::Change<PodGroup>& change) {
    if (!change.after) return;
    const auto& metadata = change.after->metadata;
    queue_.add_after("group " + metadata.namespace_ + "/" + metadata.name, options_.admit_delay);
  });
}

PlayedScheduler::~PlayedScheduler() = default;

void PlayedScheduler::start() {
  groups_.start();
  pods_.start();
  workers_ = std::make_unique<rt::Workers<std::string>>(
      runtime_, queue_, rt::WorkersOptions{"played-scheduler", 1},
      [this](const std::string& item, const rt::StopToken& stop) { return work_on(item, stop); });
}

void PlayedScheduler::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
  pods_.stop();
  groups_.stop();
}

void PlayedScheduler::wake() {
  for (const auto& group : groups_.list())
    queue_.add("group " + group->metadata.namespace_ + "/" + group->metadata.name);
}

rt::Outcome PlayedScheduler::work_on(const std::string& item, const rt::StopToken& stop) {
  const std::size_t space = item.find(' ');
  const ObjectKey key = ObjectKey::parse(std::string_view(item).substr(space + 1));
  return item.starts_with("pod ") ? bind(key, stop) : work_on_group(key, stop);
}

rt::Outcome PlayedScheduler::work_on_group(const ObjectKey& key, const rt::StopToken& stop) {
  const auto group = groups_.get(key);
  if (!group || group->metadata.deletion_timestamp) return rt::Outcome::done();
  if (options_.admits && !options_.admits(*group)) return rt::Outcome::done();
  std::string_view next;
  const std::string& phase = group->status.phase;
  if (phase.empty() || phase == phases::kPending) {
    next = phases::kInqueue;
  } else if (phase == phases::kInqueue) {
    std::int32_t bound = 0;
    for (const auto& pod : pods_.by_index("group", key.to_string())) {
      if (!std::string_view(pod->spec.node_name).empty()) ++bound;
    }
    if (bound > 0 && bound >= group->spec.min_member) next = phases::kRunning;
  }
  if (next.empty()) return rt::Outcome::done();
  json::Value patch;
  patch.ensure_path({"metadata", "resourceVersion"}) = group->metadata.resource_version;
  patch.ensure_path({"status", "phase"}) = next;
  auto patched = kube::patch_object(client_, kPodGroups, key, patch.to_text(), stop);
  return patched.ok() ? rt::Outcome::done() : outcome_of(patched.error());
}

rt::Outcome PlayedScheduler::bind(const ObjectKey& key, const rt::StopToken& stop) {
  const auto pod = pods_.get(key);
  if (!pod || !std::string_view(pod->spec.node_name).empty() || pod->metadata.deletion_timestamp)
    return rt::Outcome::done();
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = kPods;
  request.ns = key.ns;
  request.name = key.name;
  request.subresource = "binding";
  request.body = R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":")" + key.name +
                 R"("},"target":{"apiVersion":"v1","kind":"Node","name":")" + options_.node + "\"}}";
  auto response = client_.call(request, stop);
  // A conflict means that it is bound already.
  if (response.ok() || response.error().is(Reason::Conflict)) return rt::Outcome::done();
  return outcome_of(response.error());
}

PlayedKubelet::PlayedKubelet(rt::Runtime& runtime, kube::Client& client, FateOf fate)
    : runtime_(runtime),
      client_(client),
      fate_(fate ? std::move(fate) : [](const PodProjection&) { return PodFate(); }),
      pods_(runtime, client, Logger(), informer_options<PodProjection>()),
      queue_(runtime) {
  pods_.add_handler([this](const kube::Change<PodProjection>& change) { queue_.add(key_of(change.object())); });
}

PlayedKubelet::~PlayedKubelet() = default;

void PlayedKubelet::start() {
  pods_.start();
  workers_ = std::make_unique<rt::Workers<ObjectKey>>(
      runtime_, queue_, rt::WorkersOptions{"played-kubelet", 1},
      [this](const ObjectKey& key, const rt::StopToken& stop) { return work_on(key, stop); });
}

void PlayedKubelet::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
  pods_.stop();
}

rt::Outcome PlayedKubelet::work_on(const ObjectKey& key, const rt::StopToken& stop) {
  const auto pod = pods_.get(key);
  if (!pod || std::string_view(pod->spec.node_name).empty()) return rt::Outcome::done();
  const std::string uid(std::string_view(pod->metadata.uid));
  const PodFate fate = fate_(*pod);
  const bool is_deleted = static_cast<bool>(pod->metadata.deletion_timestamp);
  if (!is_deleted && is_over(*pod)) return rt::Outcome::done();
  // Each state lasts for a while, counted from when it was first seen.
  const std::string state = is_deleted ? "deleted" : std::string(phase_of(*pod));
  Progress& progress = progress_[uid];
  if (progress.phase != state) {
    const rt::Duration wait = is_deleted ? fate.stop_after : state == "Running" ? fate.run_for : fate.start_after;
    progress = {rt::saturating_add(runtime_.now(), wait), state};
  }
  if (progress.due == rt::kNever) return rt::Outcome::done();
  if (runtime_.now() < progress.due) return rt::Outcome::retry_after(progress.due - runtime_.now());
  Done done = Ok{};
  if (is_deleted) {
    kube::DeleteOptions options;
    options.uid = uid;
    options.grace_period_seconds = 0;
    if (auto deleted = kube::delete_object(client_, kPods, key, options, stop); !deleted.ok())
      done = deleted.error();
    else
      progress_.erase(uid);
  } else if (state == "Running") {
    done = set_phase(*pod, fate.exit_code == 0 ? "Succeeded" : "Failed", fate.exit_code, stop);
  } else {
    done = set_phase(*pod, "Running", 0, stop);
  }
  return done.ok() ? rt::Outcome::done() : outcome_of(done.error());
}

Done PlayedKubelet::set_phase(const PodProjection& pod, std::string_view phase, int exit_code,
                              const rt::StopToken& stop) {
  json::Array statuses;
  const bool is_running = phase == "Running";
  for (const auto& container : pod.spec.containers) {
    json::Value status;
    status.ensure_path({"name"}) = std::string_view(container.name);
    status.ensure_path({"ready"}) = is_running;
    status.ensure_path({"restartCount"}) = 0;
    status.ensure_path({"image"}) = "played";
    status.ensure_path({"imageID"}) = "";
    if (is_running)
      status.ensure_path({"state", "running"}) = json::Object();
    else
      status.ensure_path({"state", "terminated", "exitCode"}) = exit_code;
    statuses.push_back(std::move(status));
  }
  json::Value change;
  change.ensure_path({"metadata", "uid"}) = std::string_view(pod.metadata.uid);
  change.ensure_path({"status", "phase"}) = phase;
  change.ensure_path({"status", "containerStatuses"}) = std::move(statuses);
  kube::Request request;
  request.verb = kube::Verb::Patch;
  request.resource = kPods;
  const ObjectKey key = key_of(pod);
  request.ns = key.ns;
  request.name = key.name;
  request.subresource = "status";
  request.body = change.to_text();
  BASALT_TRY_DONE(client_.call(request, stop));
  return Ok{};
}

}  // namespace basalt::sim
