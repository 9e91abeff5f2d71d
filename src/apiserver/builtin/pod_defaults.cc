#include "apiserver/builtin/pod_defaults.h"

#include "apiserver/builtin/fields.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kFileMode = 0644;
constexpr std::int64_t kTokenSeconds = 3600;
constexpr std::int64_t kGraceSeconds = 30;

void default_http_get(json::Value& handler) {
  json::Object* get = mutable_map(handler, "httpGet");
  if (get == nullptr) return;
  set_default_text(*get, "path", "/");
  set_default_text(*get, "scheme", "HTTP");
}

void default_probe(json::Value& container, std::string_view name) {
  json::Value* probe = container.find(name);
  if (probe == nullptr || !probe->is_object()) return;
  default_http_get(*probe);
  if (json::Object* grpc = mutable_map(*probe, "grpc")) set_default(*grpc, "service", "");
  json::Object& members = probe->as_object();
  set_default_int(members, "timeoutSeconds", 1);
  set_default_int(members, "periodSeconds", 10);
  set_default_int(members, "successThreshold", 1);
  set_default_int(members, "failureThreshold", 3);
}

void default_lifecycle(json::Value& container) {
  json::Value* lifecycle = container.find("lifecycle");
  if (lifecycle == nullptr) return;
  for (const std::string_view name : {"postStart", "preStop"}) {
    if (json::Value* handler = lifecycle->find(name)) default_http_get(*handler);
  }
}

// fieldRef and resourceFieldRef, of environment variables and of files of the downward API.
void default_field_refs(json::Value& source) {
  if (json::Object* field = mutable_map(source, "fieldRef")) set_default_text(*field, "apiVersion", "v1");
  if (json::Object* resource = mutable_map(source, "resourceFieldRef")) {
    set_default(*resource, "divisor", "0");
    json::Value& divisor = (*resource)["divisor"];
    json::Object one{{"divisor", divisor}};
    normalise_quantities(one);
    divisor = *one.find("divisor");
  }
}

void default_items(json::Value& volume_source) {
  json::Array* items = mutable_list(volume_source, "items");
  if (items == nullptr) return;
  for (json::Value& item : *items) default_field_refs(item);
}

void default_env(json::Value& container) {
  json::Array* env = mutable_list(container, "env");
  if (env == nullptr) return;
  for (json::Value& variable : *env) {
    if (json::Value* source = variable.find("valueFrom")) default_field_refs(*source);
  }
}

void default_resources(json::Object& container) {
  json::Object* resources = ensure_map(container, "resources");
  if (resources == nullptr) return;
  for (json::Member& one : *resources) {
    if (one.value.is_object()) normalise_quantities(one.value.as_object());
  }
}

void default_container(json::Value& container) {
  if (!container.is_object()) return;
  json::Object& members = container.as_object();
  members.reserve(members.size() + 5);
  set_default_text(members, "imagePullPolicy", default_pull_policy(text_at(container, "image")));
  set_default_text(members, "terminationMessagePath", "/dev/termination-log");
  set_default_text(members, "terminationMessagePolicy", "File");
  default_resources(members);
  if (json::Array* ports = mutable_list(container, "ports")) {
    for (json::Value& port : *ports) {
      if (port.is_object()) set_default_text(port.as_object(), "protocol", "TCP");
    }
  }
  default_env(container);
  for (const std::string_view probe : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    default_probe(container, probe);
  }
  default_lifecycle(container);
}

void default_projection(json::Value& projected) {
  json::Array* sources = mutable_list(projected, "sources");
  if (sources == nullptr) return;
  for (json::Value& source : *sources) {
    if (json::Object* token = mutable_map(source, "serviceAccountToken")) {
      set_default(*token, "expirationSeconds", kTokenSeconds);
    }
    if (json::Value* downward = source.find("downwardAPI")) default_items(*downward);
  }
}

void default_volume(json::Value& volume) {
  if (!volume.is_object()) return;
  json::Object& members = volume.as_object();
  // A volume has a name and its source; with the name alone it is an empty folder.
  if (members.size() == (members.contains("name") ? 1u : 0u)) members.set("emptyDir", json::Object());
  for (const std::string_view name : {"secret", "configMap", "downwardAPI", "projected"}) {
    json::Value* source = members.find(name);
    if (source == nullptr || !source->is_object()) continue;
    set_default(source->as_object(), "defaultMode", kFileMode);
    if (name == "projected") default_projection(*source);
    if (name == "downwardAPI") default_items(*source);
  }
  if (json::Object* host = mutable_map(volume, "hostPath")) set_default(*host, "type", "");
  if (json::Object* image = mutable_map(volume, "image")) {
    const json::Value* reference = image->find("reference");
    set_default_text(*image, "pullPolicy",
                     default_pull_policy(reference != nullptr && reference->is_string() ? reference->as_string() : ""));
  }
  if (json::Value* claim = volume.find_path({"ephemeral", "volumeClaimTemplate"}); claim && claim->is_object()) {
    set_default(claim->as_object(), "metadata", json::Object());
    if (json::Value* spec = claim->find("spec")) default_claim_spec(*spec);
  }
}

template <class Change>
void for_each(json::Value& holder, std::string_view name, Change change) {
  if (json::Array* list = mutable_list(holder, name)) {
    for (json::Value& item : *list) change(item);
  }
}

void default_requests(json::Value& container) {
  json::Object* resources = mutable_map(container, "resources");
  if (resources == nullptr) return;
  const json::Value* found = resources->find("limits");
  if (found == nullptr || !found->is_object() || found->as_object().empty()) return;
  const json::Object limits = found->as_object();
  json::Object* requests = ensure_map(*resources, "requests");
  if (requests == nullptr) return;
  for (const json::Member& limit : limits) set_default(*requests, limit.key, limit.value);
}

void default_host_ports(json::Value& container) {
  for_each(container, "ports", [](json::Value& port) {
    if (!port.is_object()) return;
    if (const auto number = int_at(port, "containerPort")) set_default_int(port.as_object(), "hostPort", *number);
  });
}

// The name of the service account has two spellings, of which the older one is kept in step.
void default_service_account(json::Object& spec) {
  const json::Value* name = spec.find("serviceAccountName");
  const json::Value* old_name = spec.find("serviceAccount");
  if (name == nullptr && old_name == nullptr) return;
  const bool has_name = name != nullptr && name->is_string() && !name->as_string().empty();
  const json::Value account = has_name ? *name : (old_name != nullptr ? *old_name : json::Value(""));
  spec.set("serviceAccountName", account);
  spec.set("serviceAccount", account);
}

}  // namespace

std::string_view default_pull_policy(std::string_view image) {
  if (image.empty()) return "IfNotPresent";
  const bool has_digest = image.find('@') != std::string_view::npos;
  image = image.substr(0, image.find('@'));
  const std::size_t slash = image.rfind('/');
  const std::size_t colon = image.find(':', slash == std::string_view::npos ? 0 : slash);
  if (colon == std::string_view::npos) return has_digest ? "IfNotPresent" : "Always";
  return image.substr(colon + 1) == "latest" ? "Always" : "IfNotPresent";
}

void default_claim_spec(json::Value& spec) {
  if (!spec.is_object()) return;
  set_default(spec.as_object(), "volumeMode", "Filesystem");
  json::Object* resources = ensure_map(spec.as_object(), "resources");
  if (resources == nullptr) return;
  for (json::Member& one : *resources) {
    if (one.value.is_object()) normalise_quantities(one.value.as_object());
  }
}

void default_pod_spec(json::Value& spec) {
  if (!spec.is_object()) return;
  json::Object& members = spec.as_object();
  members.reserve(members.size() + 12);  // what is set here and by admission
  for_each(spec, "containers", default_container);
  for_each(spec, "initContainers", default_container);
  for_each(spec, "ephemeralContainers", default_container);
  for_each(spec, "volumes", default_volume);
  set_default_text(members, "dnsPolicy", "ClusterFirst");
  set_default_text(members, "restartPolicy", "Always");
  set_default(members, "securityContext", json::Object());
  set_default(members, "terminationGracePeriodSeconds", kGraceSeconds);
  set_default_text(members, "schedulerName", "default-scheduler");
  default_service_account(members);
  if (json::Object* overhead = mutable_map(spec, "overhead")) normalise_quantities(*overhead);
  if (json::Object* resources = mutable_map(spec, "resources")) {
    for (json::Member& one : *resources) {
      if (one.value.is_object()) normalise_quantities(one.value.as_object());
    }
  }
}

void default_pod(json::Value& pod) {
  json::Value& spec = pod.as_object()["spec"];
  if (spec.is_null()) spec = json::Object();
  if (!spec.is_object()) return;
  default_pod_spec(spec);
  for_each(spec, "containers", default_requests);
  for_each(spec, "initContainers", default_requests);
  set_default(spec.as_object(), "enableServiceLinks", true);
  if (flag_at(spec, "hostNetwork")) {
    for_each(spec, "containers", default_host_ports);
    for_each(spec, "initContainers", default_host_ports);
  }
}

void default_pod_template(json::Value& holder) {
  if (!holder.is_object()) return;
  json::Object* pod_template = ensure_map(holder.as_object(), "template");
  if (pod_template == nullptr) return;
  set_default(*pod_template, "metadata", json::Object());
  json::Value& spec = (*pod_template)["spec"];
  if (spec.is_null()) spec = json::Object();
  default_pod_spec(spec);
}

}  // namespace basalt::apiserver
