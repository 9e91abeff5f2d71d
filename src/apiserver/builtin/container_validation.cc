// Containers: names, images, ports, environment, mounts, probes, resources.

#include <algorithm>

#include "api/names.h"
#include "apiserver/builtin/pod_validation.h"
#include "apiserver/builtin/resource_validation.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kProtocols[] = {"SCTP", "TCP", "UDP"};
constexpr std::size_t kRestartRulesMax = 20;
constexpr std::size_t kExitCodesMax = 255;
constexpr std::string_view kEnvFields[] = {
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs",     "status.podIP", "status.podIPs"};

void check_ports(const json::Array& ports, const FieldPath& path, Causes& causes) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const FieldPath at = path.index(i);
    const std::string_view name = text_at(ports[i], "name");
    if (!name.empty()) {
      if (!api::is_port_name(name)) {
        add_invalid(causes, at.text("name"), name, api::port_name_complaints(name));
      } else if (std::any_of(ports.begin(), ports.begin() + static_cast<std::ptrdiff_t>(i),
                             [&](const json::Value& other) { return text_at(other, "name") == name; })) {
        causes.push_back(duplicate_value(at.text("name"), base::quote(name)));
      }
    }
    const std::int64_t port = int_at(ports[i], "containerPort").value_or(0);
    if (port == 0) {
      causes.push_back(required(at.text("containerPort")));
    } else {
      check_port(port, at.child("containerPort"), causes);
    }
    if (const std::int64_t host = int_at(ports[i], "hostPort").value_or(0); host != 0) {
      check_port(host, at.child("hostPort"), causes);
    }
    check_one_of(text_at(ports[i], "protocol"), at.child("protocol"), kProtocols, causes);
  }
}

// Two containers on one node cannot listen on the same port of it.
class HostPorts {
 public:
  void add(const json::Array& ports, const FieldPath& path, Causes& causes) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      const std::int64_t port = int_at(ports[i], "hostPort").value_or(0);
      if (port == 0) continue;
      std::string key(text_at(ports[i], "protocol"));
      key.append("/").append(text_at(ports[i], "hostIP")).append("/").append(std::to_string(port));
      if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
        causes.push_back(duplicate_value(path.index(i).text("hostPort"), base::quote(key)));
      } else {
        seen_.push_back(std::move(key));
      }
    }
  }

 private:
  std::vector<std::string> seen_;
};

void check_key_ref(const json::Value& reference, const FieldPath& path, Causes& causes) {
  check_dns_subdomain(text_at(reference, "name"), path.child("name"), causes);
  const std::string_view key = text_at(reference, "key");
  if (key.empty()) {
    causes.push_back(required(path.text("key")));
  } else {
    add_invalid(causes, path.text("key"), key, api::config_key_complaints(key));
  }
}

void check_value_source(const json::Value& variable, const FieldPath& path, Causes& causes) {
  const json::Value* source = member(variable, "valueFrom");
  if (source == nullptr) return;
  int sources = 0;
  if (const json::Value* reference = member(*source, "fieldRef")) {
    ++sources;
    check_field_ref(*reference, kEnvFields, path.child("fieldRef"), causes);
  }
  if (const json::Value* reference = member(*source, "resourceFieldRef")) {
    ++sources;
    check_resource_field_ref(*reference, false, path.child("resourceFieldRef"), causes);
  }
  for (const std::string_view name : {"configMapKeyRef", "secretKeyRef"}) {
    if (const json::Value* reference = member(*source, name)) {
      ++sources;
      check_key_ref(*reference, path.child(name), causes);
    }
  }
  if (member(*source, "fileKeyRef") != nullptr) ++sources;
  if (sources == 0) {
    causes.push_back(invalid_value(
        path.text(), "\"\"",
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"));
  } else if (!text_at(variable, "value").empty()) {
    causes.push_back(invalid_value(path.text(), "\"\"", "may not be specified when `value` is not empty"));
  } else if (sources > 1) {
    causes.push_back(invalid_value(path.text(), "\"\"", "may not have more than one field specified at a time"));
  }
}

void check_env(const json::Value& container, const FieldPath& path, Causes& causes) {
  const FieldPath env_path = path.child("env");
  const json::Array& env = list_at(container, "env");
  for (std::size_t i = 0; i < env.size(); ++i) {
    const FieldPath at = env_path.index(i);
    const std::string_view name = text_at(env[i], "name");
    if (name.empty()) {
      causes.push_back(required(at.text("name")));
    } else if (!api::is_env_var_name(name)) {
      add_invalid(causes, at.text("name"), name, api::relaxed_env_var_name_complaints(name));
    }
    check_value_source(env[i], at.child("valueFrom"), causes);
  }
  const FieldPath from_path = path.child("envFrom");
  const json::Array& from = list_at(container, "envFrom");
  for (std::size_t i = 0; i < from.size(); ++i) {
    const FieldPath at = from_path.index(i);
    if (const std::string_view prefix = text_at(from[i], "prefix"); !prefix.empty() && !api::is_env_var_name(prefix)) {
      add_invalid(causes, at.text("prefix"), prefix, api::relaxed_env_var_name_complaints(prefix));
    }
    int sources = 0;
    for (const std::string_view name : {"configMapRef", "secretRef"}) {
      const json::Value* reference = member(from[i], name);
      if (reference == nullptr) continue;
      ++sources;
      const FieldPath reference_path = at.child(name);
      if (text_at(*reference, "name").empty()) {
        causes.push_back(required(reference_path.text("name")));
      } else {
        check_dns_subdomain(text_at(*reference, "name"), reference_path.child("name"), causes);
      }
    }
    if (sources == 0) {
      causes.push_back(invalid_value(from_path.text(), "\"\"", "must specify one of: `configMapRef` or `secretRef`"));
    } else if (sources > 1) {
      causes.push_back(invalid_value(from_path.text(), "\"\"", "may not have more than one field specified at a time"));
    }
  }
}

void check_mount_propagation(const json::Value& mount, const json::Value& container, const FieldPath& path,
                             Causes& causes) {
  const std::string_view mode = text_at(mount, "mountPropagation");
  if (mode.empty()) return;
  constexpr std::string_view kModes[] = {"Bidirectional", "HostToContainer", "None"};
  check_one_of(mode, path.child("mountPropagation"), kModes, causes);
  const json::Value* privileged = container.find_path({"securityContext", "privileged"});
  if (mode == "Bidirectional" && (privileged == nullptr || *privileged != json::Value(true))) {
    causes.push_back(forbidden_field(path.text("mountPropagation"),
                                     "Bidirectional mount propagation is available only to privileged containers"));
  }
}

bool has_member_text(const json::Array& list, std::size_t count, std::string_view name, std::string_view value) {
  return std::any_of(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count),
                     [&](const json::Value& item) { return text_at(item, name) == value; });
}

void check_mounts(const json::Value& container, const PodParts& parts, const FieldPath& path, Causes& causes) {
  const FieldPath mounts_path = path.child("volumeMounts");
  const json::Array& mounts = list_at(container, "volumeMounts");
  const json::Array& devices = list_at(container, "volumeDevices");
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const FieldPath at = mounts_path.index(i);
    const std::string_view name = text_at(mounts[i], "name");
    const std::string_view mount_path = text_at(mounts[i], "mountPath");
    if (name.empty()) causes.push_back(required(at.text("name")));
    if (std::find(parts.volumes.begin(), parts.volumes.end(), name) == parts.volumes.end()) {
      causes.push_back(not_found_value(at.text("name"), name));
    }
    if (mount_path.empty()) causes.push_back(required(at.text("mountPath")));
    if (has_member_text(mounts, i, "mountPath", mount_path)) {
      causes.push_back(invalid_value(at.text("mountPath"), base::quote(mount_path), "must be unique"));
    }
    if (has_member_text(devices, devices.size(), "name", name)) {
      causes.push_back(invalid_value(at.text("name"), base::quote(name), "must not already exist in volumeDevices"));
    }
    const std::string_view sub_path = text_at(mounts[i], "subPath");
    const std::string_view expression = text_at(mounts[i], "subPathExpr");
    if (!sub_path.empty()) check_relative_path(sub_path, mounts_path.child("subPath"), causes);
    if (!expression.empty()) {
      if (!sub_path.empty()) {
        causes.push_back(invalid_value(at.text("subPathExpr"), base::quote(expression),
                                       "subPathExpr and subPath are mutually exclusive"));
      }
      check_relative_path(expression, mounts_path.child("subPathExpr"), causes);
    }
    check_mount_propagation(mounts[i], container, mounts_path, causes);
  }
}

void check_devices(const json::Value& container, const PodParts& parts, const FieldPath& path, Causes& causes) {
  const FieldPath devices_path = path.child("volumeDevices");
  const json::Array& devices = list_at(container, "volumeDevices");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const FieldPath at = devices_path.index(i);
    const std::string_view name = text_at(devices[i], "name");
    const std::string_view device_path = text_at(devices[i], "devicePath");
    if (name.empty()) causes.push_back(required(at.text("name")));
    const auto volume = std::find(parts.volumes.begin(), parts.volumes.end(), name);
    if (volume == parts.volumes.end()) {
      causes.push_back(not_found_value(at.text("name"), name));
    } else {
      const json::Value& source = *parts.volume_sources[static_cast<std::size_t>(volume - parts.volumes.begin())];
      if (member(source, "persistentVolumeClaim") == nullptr && member(source, "ephemeral") == nullptr) {
        causes.push_back(
            invalid_value(at.text("name"), base::quote(name),
                          "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"));
      }
    }
    if (device_path.empty()) causes.push_back(required(at.text("devicePath")));
    if (has_member_text(devices, i, "devicePath", device_path)) {
      causes.push_back(invalid_value(at.text("devicePath"), base::quote(device_path), "must be unique"));
    }
  }
}

struct HandlerContext {
  std::int64_t grace_seconds;
  bool is_probe;
};

void check_http_get(const json::Value& get, const FieldPath& path, Causes& causes) {
  if (text_at(get, "path").empty()) causes.push_back(required(path.text("path")));
  check_port_or_name(member(get, "port"), path.child("port"), causes);
  constexpr std::string_view kSchemes[] = {"HTTP", "HTTPS"};
  const std::string_view scheme = text_at(get, "scheme");
  if (scheme != kSchemes[0] && scheme != kSchemes[1]) {
    causes.push_back(not_supported(path.text("scheme"), base::quote(scheme), kSchemes));
  }
}

void check_handler(const json::Value& handler, const HandlerContext& context, const FieldPath& path, Causes& causes) {
  int handlers = 0;
  const auto is_first = [&](std::string_view name) {
    if (++handlers == 1) return true;
    causes.push_back(forbidden_field(path.text(name), "may not specify more than 1 handler type"));
    return false;
  };
  if (const json::Value* exec = member(handler, "exec"); exec != nullptr && is_first("exec")) {
    const FieldPath at = path.child("exec");
    if (list_at(*exec, "command").empty()) causes.push_back(required(at.text("command")));
  }
  if (const json::Value* get = member(handler, "httpGet"); get != nullptr && is_first("httpGet")) {
    check_http_get(*get, path.child("httpGet"), causes);
  }
  for (const std::string_view name : {"tcpSocket", "grpc"}) {
    if (name == "grpc" && !context.is_probe) continue;
    const json::Value* action = member(handler, name);
    if (action == nullptr || !is_first(name)) continue;
    const FieldPath at = path.child(name);
    check_port_or_name(member(*action, "port"), at.child("port"), causes);
  }
  if (const json::Value* sleep = member(handler, "sleep"); sleep != nullptr && !context.is_probe && is_first("sleep")) {
    const std::int64_t seconds = int_at(*sleep, "seconds").value_or(0);
    if (seconds < 0 || seconds > context.grace_seconds) {
      causes.push_back(invalid_value(path.text("sleep"), std::to_string(seconds),
                                     "must be non-negative and less than terminationGracePeriodSeconds (" +
                                         std::to_string(context.grace_seconds) + ")"));
    }
  }
  if (handlers == 0) causes.push_back(required(path.text(), "must specify a handler type"));
}

void check_probe(const json::Value& container, std::string_view name, const PodParts& parts, const FieldPath& path,
                 Causes& causes) {
  const json::Value* probe = member(container, name);
  if (probe == nullptr) return;
  const FieldPath at = path.child(name);
  check_handler(*probe, {parts.grace_seconds, true}, at, causes);
  for (const std::string_view count :
       {"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"}) {
    check_not_negative(*probe, count, at, causes);
  }
  const auto grace = int_at(*probe, "terminationGracePeriodSeconds");
  if (grace && *grace <= 0) {
    causes.push_back(
        invalid_value(at.text("terminationGracePeriodSeconds"), std::to_string(*grace), "must be greater than 0"));
  }
  if (name == "readinessProbe") {
    if (grace) {
      causes.push_back(invalid_value(at.text("terminationGracePeriodSeconds"), std::to_string(*grace),
                                     "must not be set for readinessProbes"));
    }
  } else if (const std::int64_t threshold = int_at(*probe, "successThreshold").value_or(0); threshold != 1) {
    causes.push_back(invalid_value(at.text("successThreshold"), std::to_string(threshold), "must be 1"));
  }
}

void check_lifecycle(const json::Value& container, const PodParts& parts, const FieldPath& path, Causes& causes) {
  const json::Value* lifecycle = member(container, "lifecycle");
  if (lifecycle == nullptr) return;
  const FieldPath at = path.child("lifecycle");
  for (const std::string_view name : {"postStart", "preStop"}) {
    if (const json::Value* handler = member(*lifecycle, name)) {
      check_handler(*handler, {parts.grace_seconds, false}, at.child(name), causes);
    }
  }
  if (!text_at(*lifecycle, "stopSignal").empty() && !parts.names_os) {
    causes.push_back(forbidden_field(at.text("stopSignal"), "may not be set for containers with empty `spec.os.name`"));
  }
}

void check_long_running(const json::Value& container, const PodParts& parts, const FieldPath& path, Causes& causes) {
  check_lifecycle(container, parts, path, causes);
  for (const std::string_view name : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    check_probe(container, name, parts, path, causes);
  }
}

void check_restart_rules(const json::Value& container, const FieldPath& path, Causes& causes) {
  const std::string_view policy = text_at(container, "restartPolicy");
  const json::Array& rules = list_at(container, "restartPolicyRules");
  constexpr std::string_view kPolicies[] = {"Always", "Never", "OnFailure"};
  if (policy.empty()) {
    if (rules.empty()) return;
    causes.push_back(required(path.text("restartPolicy"), "must specify restartPolicy when restart rules are used"));
  } else {
    check_one_of(policy, path.child("restartPolicy"), kPolicies, causes);
  }
  const FieldPath rules_path = path.child("restartPolicyRules");
  if (rules.size() > kRestartRulesMax) causes.push_back(too_many(rules_path.text(), rules.size(), kRestartRulesMax));
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const FieldPath at = rules_path.index(i);
    const json::Value* codes = member(rules[i], "exitCodes");
    if (codes == nullptr) {
      causes.push_back(required(at.text("exitCodes"), "must be specified"));
      continue;
    }
    const FieldPath codes_path = at.child("exitCodes");
    constexpr std::string_view kOperators[] = {"In", "NotIn"};
    const std::string_view op = text_at(*codes, "operator");
    if (op != kOperators[0] && op != kOperators[1]) {
      causes.push_back(not_supported(codes_path.text("operator"), base::quote(op), kOperators));
    }
    if (const std::size_t count = list_at(*codes, "values").size(); count > kExitCodesMax) {
      causes.push_back(too_many(codes_path.text("values"), count, kExitCodesMax));
    }
  }
}

void check_common(const json::Value& container, const PodParts& parts, const FieldPath& path, Causes& causes) {
  const std::string_view name = text_at(container, "name");
  if (name.empty()) {
    causes.push_back(required(path.text("name")));
  } else {
    check_dns_label(name, path.child("name"), causes);
  }
  const std::string_view image = text_at(container, "image");
  if (image.empty()) causes.push_back(required(path.text("image")));
  if (parts.is_pod && base::trim(image).size() != image.size()) {
    causes.push_back(
        invalid_value(path.text("image"), base::quote(image), "must not have leading or trailing whitespace"));
  }
  constexpr std::string_view kMessagePolicies[] = {"File", "FallbackToLogsOnError"};
  check_one_of(text_at(container, "terminationMessagePolicy"), path.child("terminationMessagePolicy"), kMessagePolicies,
               causes);
  check_ports(list_at(container, "ports"), path.child("ports"), causes);
  check_env(container, path, causes);
  check_mounts(container, parts, path, causes);
  check_devices(container, parts, path, causes);
  constexpr std::string_view kPullPolicies[] = {"Always", "IfNotPresent", "Never"};
  check_one_of(text_at(container, "imagePullPolicy"), path.child("imagePullPolicy"), kPullPolicies, causes);
  if (const json::Value* resources = member(container, "resources")) {
    check_resource_requirements(*resources, parts.claims, path.child("resources"), causes);
  }
  if (member(container, "securityContext") != nullptr) {
    validate_container_security(container, path.child("securityContext"), causes);
  }
}

void check_init_container(const json::Value& container, const PodParts& parts, const FieldPath& path, Causes& causes) {
  check_common(container, parts, path, causes);
  check_restart_rules(container, path, causes);
  if (text_at(container, "restartPolicy") == "Always") {
    check_long_running(container, parts, path, causes);
    return;
  }
  for (const std::string_view name : {"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}) {
    if (member(container, name) == nullptr) continue;
    causes.push_back(
        forbidden_field(path.text(name), "may not be set for init containers without restartPolicy=Always"));
  }
}

}  // namespace

void validate_containers(const json::Value& spec, const PodParts& parts, const FieldPath& path, Causes& causes) {
  const json::Array& containers = list_at(spec, "containers");
  const FieldPath containers_path = path.child("containers");
  if (containers.empty()) causes.push_back(required(containers_path.text()));
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const FieldPath at = containers_path.index(i);
    check_common(containers[i], parts, at, causes);
    const std::string_view name = text_at(containers[i], "name");
    if (has_member_text(containers, i, "name", name))
      causes.push_back(duplicate_value(at.text("name"), base::quote(name)));
    check_long_running(containers[i], parts, at, causes);
    check_restart_rules(containers[i], at, causes);
  }
  HostPorts host_ports;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const FieldPath at = containers_path.index(i);
    host_ports.add(list_at(containers[i], "ports"), at.child("ports"), causes);
  }
  const json::Array& init_containers = list_at(spec, "initContainers");
  const FieldPath init_path = path.child("initContainers");
  for (std::size_t i = 0; i < init_containers.size(); ++i) {
    const FieldPath at = init_path.index(i);
    check_init_container(init_containers[i], parts, at, causes);
    const std::string_view name = text_at(init_containers[i], "name");
    if (has_member_text(containers, containers.size(), "name", name) ||
        has_member_text(init_containers, i, "name", name)) {
      causes.push_back(duplicate_value(at.text("name"), base::quote(name)));
    }
    HostPorts().add(list_at(init_containers[i], "ports"), at.child("ports"), causes);
  }
}

}  // namespace basalt::apiserver
