#include "sim/driver.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "yaml/reader.h"

namespace basalt::sim {
namespace {

struct KnownKind {
  std::string_view kind;
  const kube::Resource& resource;
  bool namespaced;
};
const KnownKind kKnownKinds[] = {
    {"Pod", resources::kPods, true},
    {"Node", resources::kNodes, false},
    {"Namespace", resources::kNamespaces, false},
    {"Service", resources::kServices, true},
    {"ConfigMap", resources::kConfigMaps, true},
    {"Secret", resources::kSecrets, true},
    {"PersistentVolumeClaim", resources::kClaims, true},
    {"PriorityClass", resources::kPriorityClasses, false},
    {"NetworkPolicy", resources::kNetworkPolicies, true},
    {"ReplicaSet", resources::kReplicaSets, true},
    {"StatefulSet", resources::kStatefulSets, true},
    {"DaemonSet", resources::kDaemonSets, true},
    {"Job", resources::kBatchJobs, true},
    {"Job", resources::kJobs, true},
    {"CronJob", resources::kCronJobs, true},
    {"Command", resources::kCommands, true},
    {"Queue", resources::kQueues, false},
    {"PodGroup", resources::kPodGroups, true},
    {"NodeShard", resources::kNodeShards, false},
    {"JobFlow", {"flow.volcano.sh", "v1alpha1", "jobflows"}, true},
    {"JobTemplate", {"flow.volcano.sh", "v1alpha1", "jobtemplates"}, true},
};

std::string text_of(std::string_view view) { return std::string(view); }

json::Value parsed(const kube::Response& response) {
  auto value = json::Value::parse(*response.body);
  BASALT_CHECK_MSG(value.ok(), "the server answered with something that is not JSON");
  return std::move(*value);
}

void must(const Error& error, std::string_view what) {
  BASALT_CHECK_MSG(false, (text_of(what) + ": " + error.to_string()).c_str());
}

}  // namespace

std::optional<Driver::Kind> Driver::find_kind(std::string_view group, std::string_view version,
                                              std::string_view kind) const {
  for (const KnownKind& known : kKnownKinds) {
    if (known.kind == kind && known.resource.group == group && known.resource.version == version)
      return Kind{known.resource, known.namespaced};
  }
  return std::nullopt;
}

Result<kube::Response> Driver::call(kube::Request request) { return driven_->call(request, {}); }

Result<json::Value> Driver::try_create(std::string_view yaml) {
  BASALT_TRY(json::Value object, yaml::read(yaml));
  const std::string_view api_version = object.string_at({"apiVersion"});
  const std::size_t slash = api_version.find('/');
  const std::string group = slash == std::string_view::npos ? "" : text_of(api_version.substr(0, slash));
  const std::string version = text_of(slash == std::string_view::npos ? api_version : api_version.substr(slash + 1));
  const auto kind = find_kind(group, version, object.string_at({"kind"}));
  if (!kind)
    return Error::make(Reason::NotFound,
                       "no kind " + text_of(object.string_at({"kind"})) + " in " + text_of(api_version));
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = kind->resource;
  if (kind->namespaced) {
    request.ns = text_of(object.string_at({"metadata", "namespace"}));
    if (request.ns.empty()) request.ns = "default";
  }
  request.body = object.to_text();
  auto created = call(request);
  if (created.ok()) return parsed(*created);
  const std::string name = text_of(object.string_at({"metadata", "name"}));
  if (!created.error().is(Reason::AlreadyExists) || name.empty()) return std::move(created).error();
  request.verb = kube::Verb::Patch;
  request.patch_type = kube::PatchType::Merge;
  request.name = name;
  BASALT_TRY(const kube::Response patched, call(request));
  return parsed(patched);
}

json::Value Driver::apply(std::string_view yaml) {
  auto documents = yaml::read_all(yaml);
  if (!documents.ok()) must(documents.error(), "read YAML");
  json::Value last;
  for (const yaml::Document& document : *documents) {
    auto created = try_create(document.value.to_text());
    if (!created.ok()) must(created.error(), "apply " + text_of(document.value.string_at({"metadata", "name"})));
    last = std::move(*created);
  }
  return last;
}

std::optional<json::Value> Driver::get(const kube::Resource& resource, std::string_view ns, std::string_view name) {
  kube::Request request;
  request.resource = resource;
  request.ns = text_of(ns);
  request.name = text_of(name);
  auto response = call(request);
  if (response.ok()) return parsed(*response);
  if (!response.error().is(Reason::NotFound)) must(response.error(), "get " + text_of(name));
  return std::nullopt;
}

std::vector<json::Value> Driver::list(const kube::Resource& resource, std::string_view ns,
                                      std::string_view label_selector) {
  kube::ListRequest request;
  request.resource = resource;
  request.ns = text_of(ns);
  request.label_selector = text_of(label_selector);
  auto page = driven_->list(request, {});
  if (!page.ok()) must(page.error(), "list " + resource.to_string());
  std::vector<json::Value> all;
  all.reserve(page->items.size());
  for (const kube::Bytes& item : page->items) all.push_back(parsed({200, item, {}}));
  return all;
}

Result<json::Value> Driver::try_patch(const kube::Resource& resource, std::string_view ns, std::string_view name,
                                      std::string_view merge_patch, std::string_view subresource) {
  kube::Request request;
  request.verb = kube::Verb::Patch;
  request.resource = resource;
  request.ns = text_of(ns);
  request.name = text_of(name);
  request.subresource = text_of(subresource);
  request.body = text_of(merge_patch);
  BASALT_TRY(const kube::Response response, call(request));
  return parsed(response);
}

json::Value Driver::patch(const kube::Resource& resource, std::string_view ns, std::string_view name,
                          std::string_view merge_patch, std::string_view subresource) {
  auto patched = try_patch(resource, ns, name, merge_patch, subresource);
  if (!patched.ok()) must(patched.error(), "patch " + text_of(name));
  return std::move(*patched);
}

void Driver::remove(const kube::Resource& resource, std::string_view ns, std::string_view name,
                    std::optional<std::int64_t> grace_seconds) {
  kube::Request request;
  request.verb = kube::Verb::Delete;
  request.resource = resource;
  request.ns = text_of(ns);
  request.name = text_of(name);
  request.grace_period_seconds = grace_seconds;
  auto response = call(request);
  if (!response.ok() && !response.error().is(Reason::NotFound)) must(response.error(), "delete " + text_of(name));
}

void Driver::set_pod_group_phase(std::string_view ns, std::string_view name, std::string_view phase) {
  patch(resources::kPodGroups, ns, name, R"({"status":{"phase":")" + text_of(phase) + "\"}}");
}

void Driver::bind_pod(std::string_view ns, std::string_view name, std::string_view node) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = resources::kPods;
  request.ns = text_of(ns);
  request.name = text_of(name);
  request.subresource = "binding";
  request.body = R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":")" + text_of(name) +
                 R"("},"target":{"apiVersion":"v1","kind":"Node","name":")" + text_of(node) + "\"}}";
  auto response = call(request);
  if (!response.ok()) must(response.error(), "bind " + text_of(name));
}

void Driver::set_pod_phase(std::string_view ns, std::string_view name, std::string_view phase, int exit_code) {
  const auto pod = get(resources::kPods, ns, name);
  BASALT_CHECK_MSG(pod.has_value(), ("no pod " + text_of(name)).c_str());
  json::Array statuses;
  const json::Value* containers = pod->find_path({"spec", "containers"});
  const bool is_running = phase == "Running";
  for (const json::Value& container : containers->as_array()) {
    json::Value status;
    status.ensure_path({"name"}) = text_of(container.string_at({"name"}));
    status.ensure_path({"ready"}) = is_running;
    status.ensure_path({"restartCount"}) = 0;
    status.ensure_path({"image"}) = text_of(container.string_at({"image"}));
    status.ensure_path({"imageID"}) = "";
    if (is_running) status.ensure_path({"state", "running"}) = json::Object();
    if (phase == "Pending") status.ensure_path({"state", "waiting", "reason"}) = "ContainerCreating";
    if (phase == "Succeeded" || phase == "Failed")
      status.ensure_path({"state", "terminated", "exitCode"}) = phase == "Succeeded" ? 0 : exit_code;
    statuses.push_back(std::move(status));
  }
  json::Value change;
  change.ensure_path({"status", "phase"}) = phase;
  change.ensure_path({"status", "containerStatuses"}) = std::move(statuses);
  patch(resources::kPods, ns, name, change.to_text(), "status");
}

bool Driver::wait_until(const std::function<bool()>& predicate, rt::Duration limit) {
  // The limits are meant for a cluster that is not busy; a real one may be, with everything else on its machine.
  constexpr int kBusy = 3;
  const rt::Instant deadline = rt::saturating_add(runtime_.now(), runtime_.is_simulated() ? limit : limit * kBusy);
  rt::Duration pause = std::chrono::milliseconds(1);
  while (!predicate()) {
    if (runtime_.now() >= deadline) return false;
    runtime_.sleep_for(pause);
    pause = std::min<rt::Duration>(pause * 2, std::chrono::milliseconds(50));
  }
  return true;
}

std::string Driver::job_phase(std::string_view name, std::string_view ns) {
  const auto job = get(resources::kJobs, ns, name);
  return job ? text_of(job->string_at({"status", "state", "phase"})) : "";
}

bool Driver::wait_job_phase(std::string_view name, std::string_view phase, rt::Duration limit) {
  return wait_until([&] { return job_phase(name) == phase; }, limit);
}

}  // namespace basalt::sim
