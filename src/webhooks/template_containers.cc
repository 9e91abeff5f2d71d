// Containers of a template: names, images, ports, environment, mounts, probes, resources, security.

#include <algorithm>
#include <set>

#include "api/names.h"
#include "base/strings.h"
#include "webhooks/template_check.h"

namespace basalt::webhooks {
namespace {

bool is_too_long(const json::Array& list, const Path& path, Problems& problems) {
  if (list.size() <= kTemplateListMax) return false;
  problems.too_many(path.text(), list.size(), kTemplateListMax);
  return true;
}

void check_ports(const json::Value& container, const Path& container_path, Problems& problems) {
  constexpr std::string_view kProtocols[] = {"SCTP", "TCP", "UDP"};
  const Path path = container_path.child("ports");
  const json::Array& ports = list_at(container, "ports");
  if (is_too_long(ports, path, problems)) return;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < ports.size() && !problems.is_full(); ++i) {
    const Path at = path.index(i);
    if (const std::string_view name = text_at(ports[i], "name"); !name.empty()) {
      if (!api::is_port_name(name)) {
        problems.invalid(at.text("name"), name, api::port_name_complaints(name));
      } else if (!names.insert(name).second) {
        problems.duplicate(at.text("name"), name);
      }
    }
    const std::int64_t port = int_at(ports[i], "containerPort").value_or(0);
    if (port == 0) {
      problems.required(at.text("containerPort"));
    } else if (const auto complaints = api::port_number_complaints(port); !complaints.empty()) {
      problems.invalid(at.text("containerPort"), std::to_string(port), complaints.front());
    }
    if (const std::int64_t host = int_at(ports[i], "hostPort").value_or(0); host != 0) {
      if (const auto complaints = api::port_number_complaints(host); !complaints.empty()) {
        problems.invalid(at.text("hostPort"), std::to_string(host), complaints.front());
      }
    }
    problems.one_of(at.text("protocol"), text_at(ports[i], "protocol"), kProtocols);
  }
}

void check_reference(const json::Value& reference, const Path& path, Problems& problems) {
  if (text_at(reference, "key").empty()) problems.required(path.text("key"));
  const std::string_view name = text_at(reference, "name");
  if (!api::is_dns1123_subdomain(name)) {
    problems.invalid(path.text("name"), name, api::dns1123_subdomain_complaints(name));
  }
}

void check_env(const json::Value& container, const Path& container_path, Problems& problems) {
  const Path path = container_path.child("env");
  const json::Array& env = list_at(container, "env");
  if (is_too_long(env, path, problems)) return;
  for (std::size_t i = 0; i < env.size() && !problems.is_full(); ++i) {
    const Path at = path.index(i);
    const std::string_view name = text_at(env[i], "name");
    if (name.empty()) {
      problems.required(at.text("name"));
    } else if (const auto complaints = api::relaxed_env_var_name_complaints(name); !complaints.empty()) {
      problems.invalid(at.text("name"), name, complaints);
    }
    const json::Value* from = member(env[i], "valueFrom");
    if (from == nullptr) continue;
    const Path from_path = at.child("valueFrom");
    int sources = 0;
    for (const std::string_view kind :
         {"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"}) {
      const json::Value* source = member(*from, kind);
      if (source == nullptr) continue;
      ++sources;
      const Path source_path = from_path.child(kind);
      if (kind == "configMapKeyRef" || kind == "secretKeyRef") check_reference(*source, source_path, problems);
      if (kind == "fieldRef" && text_at(*source, "fieldPath").empty()) problems.required(source_path.text("fieldPath"));
      if (kind == "resourceFieldRef" && text_at(*source, "resource").empty()) {
        problems.required(source_path.text("resource"));
      }
    }
    if (sources == 0) {
      problems.invalid(from_path.text(), "\"\"",
                       "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
                       "`fileKeyRef`");
    } else if (!text_at(env[i], "value").empty()) {
      problems.invalid(from_path.text(), "\"\"", "may not be specified when `value` is not empty");
    } else if (sources > 1) {
      problems.invalid(from_path.text(), "\"\"", "may not have more than one field specified at a time");
    }
  }
}

void check_mounts(const json::Value& container, const PodParts& parts, const Path& container_path, Problems& problems) {
  const Path path = container_path.child("volumeMounts");
  const json::Array& mounts = list_at(container, "volumeMounts");
  if (is_too_long(mounts, path, problems)) return;
  const std::set<std::string_view> volumes(parts.volumes.begin(), parts.volumes.end());
  std::set<std::string_view> places;
  for (std::size_t i = 0; i < mounts.size() && !problems.is_full(); ++i) {
    const Path at = path.index(i);
    const std::string_view name = text_at(mounts[i], "name");
    const std::string_view place = text_at(mounts[i], "mountPath");
    if (name.empty()) {
      problems.required(at.text("name"));
    } else if (!volumes.contains(name)) {
      problems.not_found(at.text("name"), name, parts.volumes);
    }
    if (place.empty()) {
      problems.required(at.text("mountPath"));
    } else if (!places.insert(place).second) {
      problems.invalid(at.text("mountPath"), shown(place), "must be unique");
    }
    for (const std::string_view member_name : {"subPath", "subPathExpr"}) {
      const std::string_view sub = text_at(mounts[i], member_name);
      if (sub.starts_with('/')) problems.invalid(at.text(member_name), shown(sub), "must be a relative path");
      for (const std::string_view part : base::split(sub, '/')) {
        if (part == "..") problems.invalid(at.text(member_name), shown(sub), "must not contain '..'");
      }
    }
  }
}

void check_handler(const json::Value& handler, bool is_probe, const Path& path, Problems& problems) {
  int handlers = 0;
  for (const std::string_view kind : {"exec", "httpGet", "tcpSocket", "grpc", "sleep"}) {
    const json::Value* action = member(handler, kind);
    if (action == nullptr || (kind == "grpc" && !is_probe) || (kind == "sleep" && is_probe)) continue;
    const Path at = path.child(kind);
    if (++handlers > 1) {
      problems.forbidden(at.text(), "may not specify more than 1 handler type");
      return;
    }
    if (kind == "exec" && list_at(*action, "command").empty()) problems.required(at.text("command"));
    if (kind != "httpGet" && kind != "tcpSocket" && kind != "grpc") continue;
    const json::Value* port = member(*action, "port");
    if (port == nullptr) {
      problems.required(at.text("port"));
    } else if (port->is_int()) {
      if (const auto complaints = api::port_number_complaints(port->as_int()); !complaints.empty()) {
        problems.invalid(at.text("port"), shown(*port), complaints.front());
      }
    } else if (port->is_string() && !api::is_port_name(port->as_string())) {
      problems.invalid(at.text("port"), port->as_string(), api::port_name_complaints(port->as_string()));
    }
    if (kind == "httpGet") {
      constexpr std::string_view kSchemes[] = {"HTTP", "HTTPS"};
      problems.one_of(at.text("scheme"), text_at(*action, "scheme"), kSchemes);
    }
  }
  if (handlers == 0) problems.required(path.text(), "must specify a handler type");
}

void check_probes(const json::Value& container, const Path& path, Problems& problems) {
  for (const std::string_view name : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    const json::Value* probe = member(container, name);
    if (probe == nullptr) continue;
    const Path at = path.child(name);
    check_handler(*probe, true, at, problems);
    for (const std::string_view count :
         {"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"}) {
      if (const auto value = int_at(*probe, count); value && *value < 0) {
        problems.invalid(at.text(count), std::to_string(*value), "must be greater than or equal to 0");
      }
    }
    const std::int64_t threshold = int_at(*probe, "successThreshold").value_or(1);
    if (name != "readinessProbe" && threshold > 1) {
      problems.invalid(at.text("successThreshold"), std::to_string(threshold), "must be 1");
    }
  }
  const json::Value* lifecycle = member(container, "lifecycle");
  if (lifecycle == nullptr) return;
  const Path at = path.child("lifecycle");
  for (const std::string_view name : {"postStart", "preStop"}) {
    if (const json::Value* handler = member(*lifecycle, name)) {
      check_handler(*handler, false, at.child(name), problems);
    }
  }
}

void check_container(const json::Value& container, const PodParts& parts, const Path& path, Problems& problems) {
  const std::string_view name = text_at(container, "name");
  if (name.empty()) {
    problems.required(path.text("name"));
  } else if (!api::is_dns1123_label(name)) {
    problems.invalid(path.text("name"), name, api::dns1123_label_complaints(name));
  }
  const std::string_view image = text_at(container, "image");
  if (image.empty()) {
    problems.required(path.text("image"));
  } else if (base::trim(image).size() != image.size()) {
    problems.invalid(path.text("image"), shown(image), "must not have leading or trailing whitespace");
  }
  constexpr std::string_view kPullPolicies[] = {"Always", "IfNotPresent", "Never"};
  problems.one_of(path.text("imagePullPolicy"), text_at(container, "imagePullPolicy"), kPullPolicies);
  constexpr std::string_view kMessagePolicies[] = {"File", "FallbackToLogsOnError"};
  problems.one_of(path.text("terminationMessagePolicy"), text_at(container, "terminationMessagePolicy"),
                  kMessagePolicies);
  check_ports(container, path, problems);
  check_env(container, path, problems);
  check_mounts(container, parts, path, problems);
  check_probes(container, path, problems);
  if (const json::Value* resources = member(container, "resources")) {
    check_resources(*resources, parts, path.child("resources"), problems);
  }
  check_security_context(container, true, path, problems);
}

bool is_known_amount(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-");
}

// Everything but processors, memory and disk is counted in whole pieces and never overcommitted.
bool is_counted(std::string_view name) { return name.find('/') != std::string_view::npos; }

void check_amounts(const json::Object& amounts, const Path& path, Problems& problems) {
  constexpr std::string_view kNames[] = {"cpu", "memory", "ephemeral-storage"};
  for (const auto& [name, value] : amounts) {
    const Path at = path.key(name);
    if (!api::is_qualified_name(name)) {
      problems.invalid(at.text(), name, api::qualified_name_complaints(name));
    } else if (!is_known_amount(name) && name.find('/') == std::string::npos) {
      problems.invalid(at.text(), shown(std::string_view(name)),
                       "must be a standard resource for containers" + base::did_you_mean(name, kNames));
    }
    const auto amount = quantity_of(value);
    if (!amount.ok()) {
      problems.invalid(at.text(), shown(value), amount.error().message);
    } else if (amount->sign() < 0) {
      problems.invalid(at.text(), shown(value), "must be greater than or equal to 0");
    } else if (is_counted(name) && amount->milli_value() % 1000 != 0) {
      problems.invalid(at.text(), shown(value), "must be an integer");
    }
  }
}

void check_seccomp(const json::Value& context, const Path& path, Problems& problems) {
  const json::Value* profile = member(context, "seccompProfile");
  if (profile == nullptr) return;
  const Path at = path.child("seccompProfile");
  constexpr std::string_view kTypes[] = {"Localhost", "RuntimeDefault", "Unconfined"};
  const std::string_view type = text_at(*profile, "type");
  if (type.empty()) problems.required(at.text("type"), "type is required when seccompProfile is set");
  problems.one_of(at.text("type"), type, kTypes);
  if (type == "Localhost" && text_at(*profile, "localhostProfile").empty()) {
    problems.required(at.text("localhostProfile"), "must be set when seccomp type is Localhost");
  }
}

}  // namespace

void check_resources(const json::Value& resources, const PodParts& parts, const Path& path, Problems& problems) {
  const json::Object& requests = map_at(resources, "requests");
  const json::Object& limits = map_at(resources, "limits");
  check_amounts(limits, path.child("limits"), problems);
  check_amounts(requests, path.child("requests"), problems);
  for (const auto& [name, value] : requests) {
    const auto request = quantity_of(value);
    const json::Value* limit_value = limits.find(name);
    if (!request.ok()) continue;
    if (limit_value == nullptr) {
      if (is_counted(name) || name.starts_with("hugepages-")) {
        problems.required(path.text("limits"), "Limit must be set for non overcommitable resources: " + name);
      }
      continue;
    }
    const auto limit = quantity_of(*limit_value);
    if (!limit.ok() || *request == *limit) continue;
    const bool may_differ = !is_counted(name) && !name.starts_with("hugepages-");
    if (may_differ && *request < *limit) continue;
    problems.invalid(path.text("requests"), shown(value),
                     std::string(may_differ ? "must be less than or equal to " : "must be equal to ") + name +
                         " limit of " + limit->canonical());
  }
  const json::Array& claims = list_at(resources, "claims");
  const Path claims_path = path.child("claims");
  for (std::size_t i = 0; i < claims.size() && !problems.is_full(); ++i) {
    const std::string_view name = text_at(claims[i], "name");
    if (std::find(parts.claims.begin(), parts.claims.end(), name) == parts.claims.end()) {
      problems.not_found(claims_path.index(i).text(), name, parts.claims);
    }
  }
}

void check_security_context(const json::Value& holder, bool is_container, const Path& path, Problems& problems) {
  const json::Value* context = member(holder, "securityContext");
  if (context == nullptr) return;
  const Path at = path.child("securityContext");
  for (const std::string_view name : {"runAsUser", "runAsGroup", "fsGroup"}) {
    const auto id = int_at(*context, name);
    if (id && (*id < 0 || *id > 2'147'483'647)) {
      problems.invalid(at.text(name), std::to_string(*id), "must be between 0 and 2147483647, inclusive");
    }
  }
  check_seccomp(*context, at, problems);
  if (is_container) {
    const json::Value* escalation = member(*context, "allowPrivilegeEscalation");
    const bool is_forbidden = escalation != nullptr && escalation->is_bool() && !escalation->as_bool();
    if (is_forbidden && flag_at(*context, "privileged")) {
      problems.invalid(at.text(), shown(*context),
                       "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    return;
  }
  constexpr std::string_view kPolicies[] = {"Always", "OnRootMismatch"};
  problems.one_of(at.text("fsGroupChangePolicy"), text_at(*context, "fsGroupChangePolicy"), kPolicies);
  if (flag_at(holder, "shareProcessNamespace") && flag_at(holder, "hostPID")) {
    problems.invalid(path.text("shareProcessNamespace"), "true",
                     "ShareProcessNamespace and HostPID cannot both be enabled");
  }
}

void check_containers(const json::Value& spec, const PodParts& parts, const Path& path, Problems& problems) {
  std::set<std::string_view> names;
  for (const std::string_view list : {"containers", "initContainers"}) {
    const Path list_path = path.child(list);
    const json::Array& containers = list_at(spec, list);
    if (list == "containers" && containers.empty()) problems.required(list_path.text());
    if (is_too_long(containers, list_path, problems)) continue;
    for (std::size_t i = 0; i < containers.size() && !problems.is_full(); ++i) {
      const Path at = list_path.index(i);
      check_container(containers[i], parts, at, problems);
      const std::string_view name = text_at(containers[i], "name");
      if (!name.empty() && !names.insert(name).second) problems.duplicate(at.text("name"), name);
    }
  }
}

}  // namespace basalt::webhooks
