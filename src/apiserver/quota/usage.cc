#include "apiserver/quota/usage.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "apiserver/builtin/fields.h"

namespace basalt::apiserver {
namespace {

using api::Quantity;
using api::ResourceList;

constexpr std::string_view kCount = "count/";
constexpr std::string_view kRequests = "requests.";
constexpr std::string_view kLimits = "limits.";
constexpr std::string_view kStorageClass = ".storageclass.storage.k8s.io/";

// Core kinds that can be named without "count/".
constexpr std::array<std::string_view, 7> kPlainNames = {
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"};

// What each container has to state if a quota bounds it.
constexpr std::array<std::string_view, 6> kStated = {"cpu",        "memory",       "requests.cpu", "requests.memory",
                                                     "limits.cpu", "limits.memory"};

bool is_plain_name(std::string_view name) {
  return std::find(kPlainNames.begin(), kPlainNames.end(), name) != kPlainNames.end();
}

// "count/deployments.apps" of "apps/deployments".
std::string count_name(std::string_view storage) {
  const std::size_t slash = storage.find('/');
  std::string name = std::string(kCount) + std::string(storage.substr(slash + 1));
  if (slash > 0) name += "." + std::string(storage.substr(0, slash));
  return name;
}

bool has_ended(const json::Value& pod) {
  const std::string_view phase = pod.string_at({"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

bool is_known_without_prefix(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-");
}

void add_pod(const json::Value& pod, ResourceList& usage) {
  if (has_ended(pod)) return;
  usage.set("pods", Quantity::of(1));
  for (const auto& [name, amount] : pod_resources(pod, "requests")) {
    usage.set(std::string(kRequests) + name, amount);
    if (is_known_without_prefix(name)) usage.set(name, amount);
  }
  for (const auto& [name, amount] : pod_resources(pod, "limits")) usage.set(std::string(kLimits) + name, amount);
}

void add_claim(const json::Value& claim, ResourceList& usage) {
  usage.set("persistentvolumeclaims", Quantity::of(1));
  const ResourceList requests = quantities_at(claim, {"spec", "resources", "requests"});
  const Quantity* storage = requests.find("storage");
  if (storage != nullptr) usage.set("requests.storage", *storage);
  const std::string_view name = claim.string_at({"spec", "storageClassName"});
  if (name.empty()) return;
  const std::string of_class = std::string(name) + std::string(kStorageClass);
  usage.set(of_class + "persistentvolumeclaims", Quantity::of(1));
  if (storage != nullptr) usage.set(of_class + "requests.storage", *storage);
}

void add_service(const json::Value& service, ResourceList& usage) {
  usage.set("services", Quantity::of(1));
  const std::string_view type = service.string_at({"spec", "type"});
  const json::Value* allocates = service.find_path({"spec", "allocateLoadBalancerNodePorts"});
  const bool without_ports = allocates != nullptr && allocates->is_bool() && !allocates->as_bool();
  if (type == "LoadBalancer") usage.set("services.loadbalancers", Quantity::of(1));
  if (type == "NodePort" || (type == "LoadBalancer" && !without_ports)) {
    usage.set("services.nodeports",
              Quantity::of(static_cast<std::int64_t>(list_at(service, {"spec", "ports"}).size())));
  }
}

bool is_best_effort(const json::Value& pod) {
  for (const std::string_view list : {"containers", "initContainers"}) {
    for (const json::Value& container : list_at(pod, {"spec", list})) {
      for (const std::string_view kind : {"requests", "limits"}) {
        const ResourceList amounts = quantities_at(container, {"resources", kind});
        for (const std::string_view name : {"cpu", "memory"}) {
          const Quantity* amount = amounts.find(name);
          if (amount != nullptr && !amount->is_zero()) return false;
        }
      }
    }
  }
  return true;
}

bool is_terminating(const json::Value& pod) {
  const json::Value* deadline = pod.find_path({"spec", "activeDeadlineSeconds"});
  return deadline != nullptr && deadline->is_int();
}

bool has_cross_namespace_affinity(const json::Value& pod) {
  for (const std::string_view kind : {"podAffinity", "podAntiAffinity"}) {
    for (const json::Value& term :
         list_at(pod, {"spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"})) {
      if (!list_at(term, "namespaces").empty() || member(term, "namespaceSelector") != nullptr) return true;
    }
    for (const json::Value& weighted :
         list_at(pod, {"spec", "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"})) {
      const json::Value* term = weighted.find("podAffinityTerm");
      if (term == nullptr) continue;
      if (!list_at(*term, "namespaces").empty() || member(*term, "namespaceSelector") != nullptr) return true;
    }
  }
  return false;
}

bool priority_matches(const json::Value& requirement, const json::Value& pod) {
  const std::string_view name = pod.string_at({"spec", "priorityClassName"});
  const std::string_view op = text_at(requirement, "operator");
  const json::Array& values = list_at(requirement, "values");
  const bool listed = std::any_of(values.begin(), values.end(), [&](const json::Value& value) {
    return value.is_string() && value.as_string() == name;
  });
  if (op == "In") return !name.empty() && listed;
  if (op == "NotIn") return !listed;
  if (op == "Exists" || op.empty()) return !name.empty();
  return op == "DoesNotExist" && name.empty();
}

bool in_scope(std::string_view scope, const json::Value& requirement, const json::Value& pod) {
  if (scope == "Terminating") return is_terminating(pod);
  if (scope == "NotTerminating") return !is_terminating(pod);
  if (scope == "BestEffort") return is_best_effort(pod);
  if (scope == "NotBestEffort") return !is_best_effort(pod);
  if (scope == "PriorityClass") return priority_matches(requirement, pod);
  if (scope == "CrossNamespacePodAffinity") return has_cross_namespace_affinity(pod);
  return false;
}

}  // namespace

ResourceList quantities_at(const json::Value& object, std::initializer_list<std::string_view> path) {
  ResourceList list;
  for (const json::Member& one : map_at(object, path)) {
    const auto amount = Quantity::parse(one.value.is_string() ? one.value.as_string() : one.value.to_text());
    if (amount.ok()) list.set(one.key, *amount);
  }
  return list;
}

json::Object quantities_to_json(const ResourceList& list) {
  json::Object object;
  object.reserve(list.size());
  for (const auto& [name, amount] : list) object.set(name, amount.canonical());
  return object;
}

ResourceList pod_resources(const json::Value& pod, std::string_view kind) {
  ResourceList running;
  for (const json::Value& container : list_at(pod, {"spec", "containers"})) {
    running += quantities_at(container, {"resources", kind});
  }
  ResourceList before;   // of the init containers so far that go on running
  ResourceList largest;  // of any moment of the initialisation
  for (const json::Value& container : list_at(pod, {"spec", "initContainers"})) {
    const ResourceList own = quantities_at(container, {"resources", kind});
    if (text_at(container, "restartPolicy") == "Always") {
      before += own;
      largest.raise_to(before);
    } else {
      largest.raise_to(before + own);
    }
  }
  running += before;
  running.raise_to(largest);
  running += quantities_at(pod, {"spec", "overhead"});
  return running;
}

ResourceList quota_usage(std::string_view storage, const json::Value& object) {
  ResourceList usage;
  usage.set(count_name(storage), Quantity::of(1));
  if (storage == "/pods") {
    add_pod(object, usage);
  } else if (storage == "/persistentvolumeclaims") {
    add_claim(object, usage);
  } else if (storage == "/services") {
    add_service(object, usage);
  } else if (storage.starts_with('/') && is_plain_name(storage.substr(1))) {
    usage.set(storage.substr(1), Quantity::of(1));
  }
  return usage;
}

std::vector<std::string> quota_subjects(const json::Value& quota) {
  std::set<std::string> subjects;
  for (const json::Member& one : map_at(quota, {"spec", "hard"})) {
    const std::string_view name = one.key;
    if (name.starts_with(kCount)) {
      const std::string_view resource = name.substr(kCount.size());
      const std::size_t dot = resource.find('.');
      const std::string_view group = dot == std::string_view::npos ? "" : resource.substr(dot + 1);
      subjects.insert(std::string(group) + "/" + std::string(resource.substr(0, dot)));
    } else if (name.starts_with("services.")) {
      subjects.insert("/services");
    } else if (name == "requests.storage" || name.find(kStorageClass) != std::string_view::npos) {
      subjects.insert("/persistentvolumeclaims");
    } else if (is_plain_name(name)) {
      subjects.insert("/" + std::string(name));
    } else {
      subjects.insert("/pods");
    }
  }
  return {subjects.begin(), subjects.end()};
}

bool quota_covers(const json::Value& quota, std::string_view storage, const json::Value& object) {
  const json::Array& scopes = list_at(quota, {"spec", "scopes"});
  const json::Array& requirements = list_at(quota, {"spec", "scopeSelector", "matchExpressions"});
  if (scopes.empty() && requirements.empty()) return true;
  if (storage != "/pods") return false;
  const json::Value none;
  for (const json::Value& scope : scopes) {
    if (!scope.is_string() || !in_scope(scope.as_string(), none, object)) return false;
  }
  return std::all_of(requirements.begin(), requirements.end(), [&](const json::Value& requirement) {
    return in_scope(text_at(requirement, "scopeName"), requirement, object);
  });
}

std::string unstated_resources(const json::Value& quota, const json::Value& pod) {
  std::string missing;
  for (const std::string_view name : kStated) {
    if (!map_at(quota, {"spec", "hard"}).contains(name)) continue;
    const bool is_limit = name.starts_with(kLimits);
    std::string_view plain = name;
    if (is_limit) plain.remove_prefix(kLimits.size());
    if (plain.starts_with(kRequests)) plain.remove_prefix(kRequests.size());
    std::string containers;
    for (const std::string_view list : {"containers", "initContainers"}) {
      for (const json::Value& container : list_at(pod, {"spec", list})) {
        if (quantities_at(container, {"resources", is_limit ? "limits" : "requests"}).contains(plain)) continue;
        containers += (containers.empty() ? "" : ",") + std::string(text_at(container, "name"));
      }
    }
    if (containers.empty()) continue;
    missing += (missing.empty() ? "" : "; ") + std::string(name) + " for: " + containers;
  }
  return missing;
}

}  // namespace basalt::apiserver
