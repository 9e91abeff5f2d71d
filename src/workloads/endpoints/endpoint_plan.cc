#include "workloads/endpoints/endpoint_plan.h"

#include <map>
#include <optional>
#include <utility>

namespace basalt::workloads {
namespace {

bool is_headless(const Object& service) { return service.json.string_at({"spec", "clusterIP"}) == "None"; }

bool publishes_all(const Object& service) { return flag_at(service.json, {"spec", "publishNotReadyAddresses"}); }

// The number behind targetPort, which may be the name of a container's port.
std::optional<std::int64_t> port_number(const json::Value& port, const Pod& pod) {
  const json::Value* target = port.find("targetPort");
  if (target == nullptr || target->is_null()) return int_at(port, {"port"});
  if (target->is_int()) return target->as_int() != 0 ? target->as_int() : int_at(port, {"port"});
  if (!target->is_string()) return std::nullopt;
  const std::string_view protocol = port.string_at({"protocol"});
  for (const Pod::Port& candidate : pod.ports) {
    const std::string_view spoken = candidate.protocol.empty() ? "TCP" : candidate.protocol.view();
    if (candidate.name == target->as_string() && (protocol.empty() || protocol == spoken)) return candidate.number;
  }
  return std::nullopt;
}

json::Array ports_for(const Object& service, const Pod& pod) {
  json::Array ports;
  for (const json::Value& port : list_at(service.json, {"spec", "ports"})) {
    const auto number = port_number(port, pod);
    if (!number) continue;
    json::Object entry{{"port", *number}};
    const std::string_view protocol = port.string_at({"protocol"});
    entry.set("protocol", protocol.empty() ? "TCP" : protocol);
    if (const auto name = port.string_at({"name"}); !name.empty()) entry.set("name", name);
    if (const auto application = port.string_at({"appProtocol"}); !application.empty())
      entry.set("appProtocol", application);
    ports.emplace_back(std::move(entry));
  }
  return ports;
}

json::Value target_of(const Pod& pod) {
  return json::Object{{"kind", "Pod"},
                      {"name", pod.metadata.name.view()},
                      {"namespace", pod.metadata.namespace_.view()},
                      {"uid", pod.metadata.uid.view()}};
}

void add_names(json::Object& entry, const Object& service, const Pod& pod) {
  entry.set("targetRef", target_of(pod));
  if (!pod.node_name.empty()) entry.set("nodeName", pod.node_name.view());
  if (!pod.hostname.empty() && pod.subdomain == service.metadata.name) entry.set("hostname", pod.hostname.view());
}

json::Value address_of(const Object& service, const Pod& pod) {
  json::Object entry{{"ip", pod.address.view()}};
  add_names(entry, service, pod);
  return entry;
}

json::Value endpoint_of(const Object& service, const Pod& pod) {
  const bool serves = pod.is_ready || publishes_all(service);
  json::Object entry{{"addresses", json::Array{pod.address.view()}},
                     {"conditions", json::Object{{"ready", serves && !pod.is_being_deleted()},
                                                 {"serving", pod.is_ready},
                                                 {"terminating", pod.is_being_deleted()}}}};
  add_names(entry, service, pod);
  return entry;
}

json::Value labels_of_service(const Object& service) {
  json::Value labels = object_at(service.json, {"metadata", "labels"});
  if (is_headless(service)) labels.as_object().set("service.kubernetes.io/headless", "");
  return labels;
}

json::Value slice_of(const Object& service, const json::Array& ports) {
  json::Value labels = labels_of_service(service);
  labels.as_object().set("kubernetes.io/service-name", service.metadata.name);
  labels.as_object().set("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");
  json::Value slice = json::Object{
      {"apiVersion", "discovery.k8s.io/v1"}, {"kind", "EndpointSlice"}, {"addressType", "IPv4"}, {"ports", ports}};
  slice.ensure_path({"metadata", "namespace"}) = service.metadata.namespace_;
  slice.ensure_path({"metadata", "labels"}) = std::move(labels);
  slice.ensure_path({"metadata", "ownerReferences"}) = json::Array{controller_reference({"v1", "Service"}, service)};
  return slice;
}

// The endpoints of one set of ports, by the UID of their pods.
using Wanted = std::map<std::string, json::Value>;

// Puts into the list what was in it and is still wanted, and takes it out of `wanted`.
json::Array kept_endpoints(const Object& slice, Wanted& wanted) {
  json::Array kept;
  for (const json::Value& endpoint : list_at(slice.json, {"endpoints"})) {
    const auto found = wanted.find(std::string(endpoint.string_at({"targetRef", "uid"})));
    if (found == wanted.end() || kept.size() == kSliceEndpointsMax) continue;
    kept.push_back(std::move(found->second));
    wanted.erase(found);
  }
  return kept;
}

void fill(json::Array& endpoints, Wanted& wanted) {
  while (endpoints.size() < kSliceEndpointsMax && !wanted.empty()) {
    endpoints.push_back(std::move(wanted.begin()->second));
    wanted.erase(wanted.begin());
  }
}

void plan_slices_of(const Object& service, const json::Array& ports, Wanted wanted,
                    const std::vector<std::shared_ptr<const Object>>& present, SlicePlan& plan) {
  std::vector<std::pair<std::shared_ptr<const Object>, json::Array>> filled;
  for (const auto& slice : present) filled.emplace_back(slice, kept_endpoints(*slice, wanted));
  bool has_one = false;
  for (auto& [slice, endpoints] : filled) {
    fill(endpoints, wanted);
    if (endpoints.empty() && (has_one || !ports.empty())) {
      plan.deletes.push_back(slice);
      continue;
    }
    has_one = true;
    json::Value body = slice_of(service, ports);
    body.as_object().set("endpoints", std::move(endpoints));
    const bool is_same = object_at(body, {"metadata", "labels"}) == object_at(slice->json, {"metadata", "labels"}) &&
                         list_at(body, {"endpoints"}) == list_at(slice->json, {"endpoints"});
    if (!is_same) plan.changes.push_back({slice, std::move(body)});
  }
  while (!wanted.empty() || !has_one) {
    has_one = true;
    json::Value slice = slice_of(service, ports);
    json::Array endpoints;
    fill(endpoints, wanted);
    slice.as_object().set("endpoints", std::move(endpoints));
    plan.creates.push_back(std::move(slice));
  }
}

}  // namespace

std::vector<Backend> backends_of(const Object& service, const std::vector<PodPtr>& pods) {
  std::map<std::string, Backend> by_ports;
  for (const PodPtr& pod : pods) {
    if (pod->address.empty() || pod->is_finished()) continue;
    json::Array ports = ports_for(service, *pod);
    // A service with ports reaches a pod that has none of them nowhere.
    if (ports.empty() && !list_at(service.json, {"spec", "ports"}).empty()) continue;
    Backend& backend = by_ports[json::Value(ports).to_text()];
    backend.ports = std::move(ports);
    backend.pods.push_back(pod);
  }
  std::vector<Backend> backends;
  for (auto& [text, backend] : by_ports) backends.push_back(std::move(backend));
  return backends;
}

json::Value endpoints_of(const Object& service, const std::vector<Backend>& backends) {
  json::Array subsets;
  std::size_t left = kEndpointsAddressesMax;
  bool is_cut = false;
  for (const Backend& backend : backends) {
    json::Array ready;
    json::Array waiting;
    for (const PodPtr& pod : backend.pods) {
      if (pod->is_being_deleted() && !publishes_all(service)) continue;
      is_cut |= left == 0;
      if (left == 0) break;
      --left;
      (pod->is_ready || publishes_all(service) ? ready : waiting).push_back(address_of(service, *pod));
    }
    if (ready.empty() && waiting.empty()) continue;
    json::Object subset;
    if (!ready.empty()) subset.set("addresses", std::move(ready));
    if (!waiting.empty()) subset.set("notReadyAddresses", std::move(waiting));
    if (!backend.ports.empty()) subset.set("ports", backend.ports);
    subsets.emplace_back(std::move(subset));
  }
  json::Value labels = labels_of_service(service);
  labels.as_object().set("endpoints.kubernetes.io/managed-by", "endpoint-controller");
  json::Value endpoints = json::Object{{"apiVersion", "v1"}, {"kind", "Endpoints"}};
  endpoints.ensure_path({"metadata", "name"}) = service.metadata.name;
  endpoints.ensure_path({"metadata", "namespace"}) = service.metadata.namespace_;
  endpoints.ensure_path({"metadata", "labels"}) = std::move(labels);
  if (is_cut) endpoints.ensure_path({"metadata", "annotations", kOverCapacity}) = "truncated";
  if (!subsets.empty()) endpoints.as_object().set("subsets", std::move(subsets));
  return endpoints;
}

bool same_endpoints(const json::Value& wanted, const json::Value& present) {
  return list_at(wanted, {"subsets"}) == list_at(present, {"subsets"}) &&
         object_at(wanted, {"metadata", "labels"}) == object_at(present, {"metadata", "labels"}) &&
         annotation_of(wanted, kOverCapacity) == annotation_of(present, kOverCapacity);
}

SlicePlan plan_slices(const Object& service, const std::vector<Backend>& backends,
                      const std::vector<std::shared_ptr<const Object>>& present) {
  std::map<std::string, std::vector<std::shared_ptr<const Object>>> by_ports;
  for (const auto& slice : present) {
    if (slice->metadata.is_being_deleted) continue;
    by_ports[json::Value(list_at(slice->json, {"ports"})).to_text()].push_back(slice);
  }
  SlicePlan plan;
  std::map<std::string, bool> is_used;
  const auto plan_for = [&](const json::Array& ports, Wanted wanted) {
    const std::string text = json::Value(ports).to_text();
    is_used[text] = true;
    plan_slices_of(service, ports, std::move(wanted), by_ports[text], plan);
  };
  for (const Backend& backend : backends) {
    Wanted wanted;
    for (const PodPtr& pod : backend.pods) wanted[pod->metadata.uid.str()] = endpoint_of(service, *pod);
    plan_for(backend.ports, std::move(wanted));
  }
  // A service without pods has one slice without endpoints.
  if (backends.empty()) plan_for({}, {});
  for (const auto& [ports, slices] : by_ports) {
    if (is_used[ports]) continue;
    plan.deletes.insert(plan.deletes.end(), slices.begin(), slices.end());
  }
  return plan;
}

}  // namespace basalt::workloads
