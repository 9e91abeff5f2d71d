#include "sim/cluster.h"

#include <utility>

#include "base/check.h"
#include "crds/crds.h"
#include "json/merge_patch.h"
#include "yaml/reader.h"

namespace basalt::sim {
namespace {

constexpr std::string_view kQueues = R"(
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: root}
spec: {weight: 1}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: default}
spec: {weight: 1, parent: root}
)";

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

Cluster::Cluster(rt::Runtime& runtime) : Cluster(runtime, Options()) {}

Cluster::Cluster(rt::Runtime& runtime, Options options) : runtime_(runtime) {
  auto opened = apiserver::ApiServer::open(runtime, options.log, std::move(options.server));
  if (!opened.ok()) must(opened.error(), "open the API server");
  server_ = std::move(*opened);
  for (auto& hook : options.hooks) server_->add_admission_hook(std::move(hook));
  if (Done started = server_->start(); !started.ok()) must(started.error(), "start the API server");
  client_ = make_client("kubernetes-admin", {"system:masters"});
  if (Done installed = crds::install(runtime, *client_, {}); !installed.ok()) must(installed.error(), "install CRDs");
  if (options.with_default_queue) {
    apply(kQueues);
    for (const std::string_view queue : {"root", "default"})
      patch(resources::kQueues, "", queue, R"({"status":{"state":"Open"}})", "status");
  }
}

Cluster::~Cluster() { stop(); }

void Cluster::stop() {
  if (!server_) return;
  client_.reset();
  server_->stop();
  server_.reset();
}

std::unique_ptr<kube::Client> Cluster::make_client(std::string user, std::vector<std::string> groups) {
  return apiserver::make_direct_client(runtime_, *server_,
                                       apiserver::RequestContext{{std::move(user), "", std::move(groups)}, "sim"});
}

Result<kube::Response> Cluster::call(kube::Request request) { return client_->call(request, {}); }

Result<json::Value> Cluster::try_create(std::string_view yaml) {
  BASALT_TRY(json::Value object, yaml::read(yaml));
  const std::string_view api_version = object.string_at({"apiVersion"});
  const std::size_t slash = api_version.find('/');
  const std::string group = slash == std::string_view::npos ? "" : text_of(api_version.substr(0, slash));
  const std::string version = text_of(slash == std::string_view::npos ? api_version : api_version.substr(slash + 1));
  const auto types = server_->types();
  const auto type = types->find_kind(group, version, object.string_at({"kind"}));
  if (type == nullptr)
    return Error::make(Reason::NotFound,
                       "no kind " + text_of(object.string_at({"kind"})) + " in " + text_of(api_version));
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = {group, version, type->plural};
  if (type->namespaced) {
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

json::Value Cluster::apply(std::string_view yaml) {
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

std::optional<json::Value> Cluster::get(const kube::Resource& resource, std::string_view ns, std::string_view name) {
  kube::Request request;
  request.resource = resource;
  request.ns = text_of(ns);
  request.name = text_of(name);
  auto response = call(request);
  if (response.ok()) return parsed(*response);
  if (!response.error().is(Reason::NotFound)) must(response.error(), "get " + text_of(name));
  return std::nullopt;
}

std::vector<json::Value> Cluster::list(const kube::Resource& resource, std::string_view ns,
                                       std::string_view label_selector) {
  kube::ListRequest request;
  request.resource = resource;
  request.ns = text_of(ns);
  request.label_selector = text_of(label_selector);
  auto page = client_->list(request, {});
  if (!page.ok()) must(page.error(), "list " + resource.to_string());
  std::vector<json::Value> all;
  all.reserve(page->items.size());
  for (const kube::Bytes& item : page->items) all.push_back(parsed({200, item, {}}));
  return all;
}

Result<json::Value> Cluster::try_patch(const kube::Resource& resource, std::string_view ns, std::string_view name,
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

json::Value Cluster::patch(const kube::Resource& resource, std::string_view ns, std::string_view name,
                           std::string_view merge_patch, std::string_view subresource) {
  auto patched = try_patch(resource, ns, name, merge_patch, subresource);
  if (!patched.ok()) must(patched.error(), "patch " + text_of(name));
  return std::move(*patched);
}

void Cluster::remove(const kube::Resource& resource, std::string_view ns, std::string_view name,
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

void Cluster::set_pod_group_phase(std::string_view ns, std::string_view name, std::string_view phase) {
  patch(resources::kPodGroups, ns, name, R"({"status":{"phase":")" + text_of(phase) + "\"}}");
}

void Cluster::bind_pod(std::string_view ns, std::string_view name, std::string_view node) {
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

void Cluster::set_pod_phase(std::string_view ns, std::string_view name, std::string_view phase, int exit_code) {
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

bool Cluster::wait_until(const std::function<bool()>& predicate, rt::Duration limit) {
  const rt::Instant deadline = rt::saturating_add(runtime_.now(), limit);
  rt::Duration pause = std::chrono::milliseconds(1);
  while (!predicate()) {
    if (runtime_.now() >= deadline) return false;
    runtime_.sleep_for(pause);
    pause = std::min<rt::Duration>(pause * 2, std::chrono::milliseconds(50));
  }
  return true;
}

std::string Cluster::job_phase(std::string_view name, std::string_view ns) {
  const auto job = get(resources::kJobs, ns, name);
  return job ? text_of(job->string_at({"status", "state", "phase"})) : "";
}

bool Cluster::wait_job_phase(std::string_view name, std::string_view phase, rt::Duration limit) {
  return wait_until([&] { return job_phase(name) == phase; }, limit);
}

}  // namespace basalt::sim
