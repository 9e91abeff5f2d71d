#include "apiserver/builtin/pod_validation.h"

#include <algorithm>
#include <limits>

#include "api/names.h"
#include "apiserver/builtin/resource_validation.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kNameserversMax = 3;
constexpr std::size_t kSearchesMax = 32;
constexpr std::size_t kSearchBytesMax = 2048;

void check_dns(const json::Value& spec, const FieldPath& path, Causes& causes) {
  constexpr std::string_view kPolicies[] = {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"};
  const std::string_view policy = text_at(spec, "dnsPolicy");
  check_one_of(policy, path.child("dnsPolicy"), kPolicies, causes);
  const FieldPath at = path.child("dnsConfig");
  const json::Value* config = member(spec, "dnsConfig");
  if (config == nullptr) {
    if (policy == "None") causes.push_back(required(at.text(), "must provide `dnsConfig` when `dnsPolicy` is None"));
    return;
  }
  const json::Array& servers = list_at(*config, "nameservers");
  if (policy == "None" && servers.empty()) {
    causes.push_back(
        required(at.text("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None"));
    return;
  }
  if (servers.size() > kNameserversMax) {
    causes.push_back(invalid_value(at.text("nameservers"), shown(servers), "must not have more than 3 nameservers"));
  }
  const json::Array& searches = list_at(*config, "searches");
  if (searches.size() > kSearchesMax) {
    causes.push_back(invalid_value(at.text("searches"), shown(searches), "must not have more than 32 search paths"));
  }
  const FieldPath searches_path = at.child("searches");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    if (!searches[i].is_string()) continue;
    std::string_view search = searches[i].as_string();
    bytes += search.size() + (i == 0 ? 0 : 1);
    if (search == ".") continue;
    if (search.ends_with(".")) search.remove_suffix(1);
    // Underscores are common in search domains and allowed there.
    check_dns_subdomain(base::replace_all(search, "_", "0"), searches_path.index(i), causes);
  }
  if (bytes > kSearchBytesMax) {
    causes.push_back(invalid_value(at.text("searches"), shown(searches),
                                   "must not have more than 2048 characters (including spaces) in the search list"));
  }
  const json::Array& options = list_at(*config, "options");
  const FieldPath options_path = at.child("options");
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (text_at(options[i], "name").empty())
      causes.push_back(required(options_path.index(i).text(), "must not be empty"));
  }
}

void check_gates(const json::Value& spec, const FieldPath& path, Causes& causes) {
  const FieldPath readiness = path.child("readinessGates");
  const json::Array& readiness_gates = list_at(spec, "readinessGates");
  for (std::size_t i = 0; i < readiness_gates.size(); ++i) {
    const FieldPath at = readiness.index(i);
    check_qualified_name(text_at(readiness_gates[i], "conditionType"), at.child("conditionType"), causes);
  }
  const FieldPath scheduling = path.child("schedulingGates");
  const json::Array& gates = list_at(spec, "schedulingGates");
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const std::string_view name = text_at(gates[i], "name");
    check_qualified_name(name, scheduling.index(i), causes);
    for (std::size_t j = 0; j < i; ++j) {
      if (text_at(gates[j], "name") != name) continue;
      causes.push_back(duplicate_value(scheduling.index(i).text(), base::quote(name)));
      break;
    }
  }
}

void check_host_network(const json::Value& spec, bool is_pod, const FieldPath& path, Causes& causes) {
  if (!flag_at(spec, "hostNetwork")) return;
  const FieldPath containers_path = path.child("containers");
  const json::Array& containers = list_at(spec, "containers");
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const FieldPath container_path = containers_path.index(i);
    const FieldPath ports_path = container_path.child("ports");
    const json::Array& ports = list_at(containers[i], "ports");
    for (std::size_t j = 0; j < ports.size(); ++j) {
      const std::int64_t host = int_at(ports[j], "hostPort").value_or(0);
      if (host == int_at(ports[j], "containerPort").value_or(0) || (host == 0 && !is_pod)) continue;
      causes.push_back(invalid_value(ports_path.index(j).text("hostPort"), std::to_string(host),
                                     "must match `containerPort` when `hostNetwork` is true"));
    }
  }
}

void check_names_in_spec(const json::Value& spec, const FieldPath& path, Causes& causes) {
  for (const std::string_view name : {"serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"}) {
    if (const std::string_view value = text_at(spec, name); !value.empty()) {
      check_dns_subdomain(value, path.child(name), causes);
    }
  }
  for (const std::string_view name : {"hostname", "subdomain"}) {
    if (const std::string_view value = text_at(spec, name); !value.empty()) {
      check_dns_label(value, path.child(name), causes);
    }
  }
}

void check_policies(const json::Value& spec, const FieldPath& path, Causes& causes) {
  constexpr std::string_view kRestart[] = {"Always", "OnFailure", "Never"};
  check_one_of(text_at(spec, "restartPolicy"), path.child("restartPolicy"), kRestart, causes);
  constexpr std::string_view kPreemption[] = {"PreemptLowerPriority", "Never"};
  if (member(spec, "preemptionPolicy") != nullptr) {
    check_one_of(text_at(spec, "preemptionPolicy"), path.child("preemptionPolicy"), kPreemption, causes);
  }
  constexpr std::string_view kSystems[] = {"linux", "windows"};
  if (const json::Value* os = member(spec, "os")) {
    const FieldPath at = path.child("os");
    check_one_of(text_at(*os, "name"), at.child("name"), kSystems, causes);
  }
  constexpr std::int64_t kDeadlineMax = std::numeric_limits<std::int32_t>::max();
  const auto deadline = int_at(spec, "activeDeadlineSeconds");
  if (deadline && (*deadline < 1 || *deadline > kDeadlineMax)) {
    causes.push_back(invalid_value(path.text("activeDeadlineSeconds"), std::to_string(*deadline),
                                   "must be between 1 and 2147483647, inclusive"));
  }
}

void check_host_aliases(const json::Value& spec, const FieldPath& path, Causes& causes) {
  const FieldPath at = path.child("hostAliases");
  const json::Array& aliases = list_at(spec, "hostAliases");
  for (std::size_t i = 0; i < aliases.size(); ++i) {
    const FieldPath alias = at.index(i);
    if (text_at(aliases[i], "ip").empty()) {
      causes.push_back(
          invalid_value(alias.text("ip"), "\"\"", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
    }
    const FieldPath names_path = alias.child("hostnames");
    const json::Array& names = list_at(aliases[i], "hostnames");
    for (std::size_t j = 0; j < names.size(); ++j) {
      if (names[j].is_string()) check_dns_subdomain(names[j].as_string(), names_path.index(j), causes);
    }
  }
}

void check_overhead(const json::Value& spec, const FieldPath& path, Causes& causes) {
  const json::Value* overhead = member(spec, "overhead");
  if (overhead == nullptr) return;
  check_resource_requirements(json::Object{{"limits", *overhead}}, {}, path.child("overhead"), causes);
}

void check_token_without_account(const json::Value& spec, const FieldPath& path, Causes& causes) {
  if (!text_at(spec, "serviceAccountName").empty()) return;
  const FieldPath volumes_path = path.child("volumes");
  const json::Array& volumes = list_at(spec, "volumes");
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const FieldPath volume_path = volumes_path.index(i);
    const FieldPath projected = volume_path.child("projected");
    const FieldPath sources_path = projected.child("sources");
    const json::Array& sources = list_at(volumes[i], {"projected", "sources"});
    for (std::size_t j = 0; j < sources.size(); ++j) {
      if (member(sources[j], "serviceAccountToken") == nullptr) continue;
      causes.push_back(forbidden_field(sources_path.index(j).text("serviceAccountToken"),
                                       "must not be specified when serviceAccountName is not set"));
    }
  }
}

void check_deletion_cost(const json::Value& pod, Causes& causes) {
  constexpr std::string_view kKey = "controller.kubernetes.io/pod-deletion-cost";
  const json::Value* cost = pod.find_path({"metadata", "annotations", kKey});
  if (cost == nullptr || !cost->is_string()) return;
  const auto number = base::parse_int64(cost->as_string());
  const bool fits = number && *number >= std::numeric_limits<std::int32_t>::min() &&
                    *number <= std::numeric_limits<std::int32_t>::max() && !cost->as_string().starts_with("+");
  if (fits) return;
  causes.push_back(
      invalid_value("metadata.annotations[" + std::string(kKey) + "]", shown(*cost), "must be a 32bit integer"));
}

}  // namespace

void validate_pod_spec(const json::Value& spec, const PodSpecContext& context, const FieldPath& path, Causes& causes) {
  PodParts parts;
  parts.is_pod = context.is_pod;
  parts.restart_policy = text_at(spec, "restartPolicy");
  parts.grace_seconds = int_at(spec, "terminationGracePeriodSeconds").value_or(30);
  parts.names_os = member(spec, "os") != nullptr;
  for (const json::Value& claim : list_at(spec, "resourceClaims")) parts.claims.push_back(text_at(claim, "name"));

  validate_volumes(list_at(spec, "volumes"), context.pod_name, path.child("volumes"), parts, causes);
  validate_containers(spec, parts, path, causes);
  if (const json::Value* resources = member(spec, "resources")) {
    check_resource_requirements(*resources, parts.claims, path.child("resources"), causes);
  }
  check_host_network(spec, context.is_pod, path, causes);
  check_policies(spec, path, causes);
  check_label_map(map_at(spec, "nodeSelector"), path.child("nodeSelector"), causes);
  validate_pod_security(spec, path, causes);
  if (const json::Value* affinity = member(spec, "affinity")) {
    validate_affinity(*affinity, path.child("affinity"), causes);
  }
  check_dns(spec, path, causes);
  check_gates(spec, path, causes);
  validate_topology_spread(list_at(spec, "topologySpreadConstraints"), path.child("topologySpreadConstraints"), causes);
  check_names_in_spec(spec, path, causes);
  validate_tolerations(list_at(spec, "tolerations"), path.child("tolerations"), causes);
  check_host_aliases(spec, path, causes);
  check_overhead(spec, path, causes);
}

void validate_pod_create(const json::Value& pod, Causes& causes) {
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(pod, "spec");
  const json::Value& spec = found != nullptr ? *found : kNothing;
  const FieldPath path("spec");
  check_deletion_cost(pod, causes);
  validate_pod_spec(spec, {true, metadata_text(pod, "name")}, path, causes);
  check_token_without_account(spec, path, causes);
  if (!list_at(spec, "ephemeralContainers").empty()) {
    causes.push_back(forbidden_field("spec.ephemeralContainers", "cannot be set on create"));
  }
  if (!text_at(spec, "nodeName").empty() && !list_at(spec, "schedulingGates").empty()) {
    causes.push_back(forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared"));
  }
}

void validate_pod_template(const json::Value& pod_template, const FieldPath& path, Causes& causes) {
  const FieldPath metadata_path = path.child("metadata");
  if (const json::Value* metadata = member(pod_template, "metadata")) {
    check_label_map(map_at(*metadata, "labels"), metadata_path.child("labels"), causes);
    const FieldPath annotations = metadata_path.child("annotations");
    for (const json::Member& one : map_at(*metadata, "annotations")) {
      check_qualified_name(base::to_lower_ascii(one.key), annotations, causes);
    }
  }
  static const json::Value kNothing{json::Object()};
  const json::Value* spec = member(pod_template, "spec");
  const FieldPath spec_path = path.child("spec");
  validate_pod_spec(spec != nullptr ? *spec : kNothing, {}, spec_path, causes);
  if (spec != nullptr && !list_at(*spec, "ephemeralContainers").empty()) {
    causes.push_back(
        forbidden_field(spec_path.text("ephemeralContainers"), "ephemeral containers not allowed in pod template"));
  }
}

}  // namespace basalt::apiserver
