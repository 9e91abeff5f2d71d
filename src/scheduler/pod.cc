#include "scheduler/pod.h"

#include <string>
#include <string_view>
#include <vector>

#include "api/gen/names.h"
#include "api/quantity.h"
#include "api/resource_list.h"
#include "base/hash.h"
#include "json/read_members.h"
#include "json/reader.h"
#include "json/writer.h"
#include "scheduler/resources.h"

namespace basalt::scheduler {

namespace {

using json::read_array;
using json::read_into;
using json::read_object;

// What of the specification decides about nodes.
struct Parts {
  api::ResourceList containers;  // sum
  api::ResourceList init_max;    // largest ordinary init container, with the sidecars started before it
  api::ResourceList sidecars;    // sum of init containers that stay
  api::ResourceList overhead;
  api::ResourceList pod_level;
  std::string ports;  // JSON array members
  std::string node_selector;
  std::string affinity;
  std::string tolerations;
  std::string spread;
};

struct ContainerParts {
  api::ResourceList requests;
  bool is_sidecar = false;
};

void read_requests(json::Reader& reader, api::ResourceList& requests) {
  api::ResourceList limits;
  read_object(reader, [&](std::string_view key) {
    if (key == "requests") return read_into(reader, requests);
    if (key == "limits") return read_into(reader, limits);
    return false;
  });
  // The API server fills requests in from limits; another one might not have.
  for (const auto& [name, quantity] : limits) {
    if (!requests.contains(name)) requests.set(name, quantity);
  }
}

void read_ports(json::Reader& reader, std::string& ports) {
  read_array(reader, [&] {
    std::int64_t host_port = 0;
    std::string protocol = "TCP";
    std::string address;
    read_object(reader, [&](std::string_view key) {
      if (key == "hostPort") {
        host_port = reader.read_int64();
      } else if (key == "protocol") {
        reader.read_string(protocol);
      } else if (key == "hostIP") {
        reader.read_string(address);
      } else {
        return false;
      }
      return true;
    });
    if (host_port <= 0) return;
    if (address == "0.0.0.0" || address == "::") address.clear();
    if (!ports.empty()) ports.push_back(',');
    json::append_quoted(ports, std::to_string(host_port) + "/" + protocol + "/" + address);
  });
}

ContainerParts read_container(json::Reader& reader, Parts& parts) {
  ContainerParts container;
  read_object(reader, [&](std::string_view key) {
    if (key == "resources") {
      read_requests(reader, container.requests);
    } else if (key == "ports") {
      read_ports(reader, parts.ports);
    } else if (key == "restartPolicy") {
      container.is_sidecar = !reader.consume_null() && reader.read_string_view() == "Always";
    } else {
      return false;
    }
    return true;
  });
  return container;
}

void read_raw(json::Reader& reader, std::string& out) {
  if (!reader.consume_null()) reader.read_compact(out);
}

void read_spec(json::Reader& reader, SchedulablePod& pod, Parts& parts) {
  read_object(reader, [&](std::string_view key) {
    if (key == "nodeName") return read_into(reader, pod.node_name);
    if (key == "schedulerName") return read_into(reader, pod.scheduler_name);
    if (key == "overhead") return read_into(reader, parts.overhead);
    if (key == "priority") {
      if (!reader.consume_null()) pod.priority = reader.read_int32();
    } else if (key == "preemptionPolicy") {
      pod.never_preempts = !reader.consume_null() && reader.read_string_view() == "Never";
    } else if (key == "containers") {
      read_array(reader, [&] { parts.containers += read_container(reader, parts).requests; });
    } else if (key == "initContainers") {
      read_array(reader, [&] {
        ContainerParts container = read_container(reader, parts);
        if (container.is_sidecar) {
          parts.sidecars += container.requests;
          parts.init_max.raise_to(parts.sidecars);
        } else {
          parts.init_max.raise_to(container.requests + parts.sidecars);
        }
      });
    } else if (key == "resources") {
      read_requests(reader, parts.pod_level);
    } else if (key == "nodeSelector") {
      read_raw(reader, parts.node_selector);
    } else if (key == "affinity") {
      read_raw(reader, parts.affinity);
    } else if (key == "tolerations") {
      read_raw(reader, parts.tolerations);
    } else if (key == "topologySpreadConstraints") {
      read_raw(reader, parts.spread);
    } else if (key == "schedulingGates") {
      read_array(reader, [&] {
        pod.is_gated = true;
        reader.skip();
      });
    } else {
      return false;
    }
    return true;
  });
}

void read_annotations(json::Reader& reader, SchedulablePod& pod) {
  namespace keys = api::keys;
  read_object(reader, [&](std::string_view key) {
    if (key == keys::kGroupName) return read_into(reader, pod.group);
    if (key == keys::kLegacyGroupName && pod.group.empty()) return read_into(reader, pod.group);
    if (key == keys::kPodQueueName) return read_into(reader, pod.queue);
    if (key == keys::kTaskSpec) return read_into(reader, pod.task);
    if (key == keys::kPreemptable) {
      pod.is_preemptable = reader.consume_null() || reader.read_string_view() != "false";
      return true;
    }
    return false;
  });
}

void read_metadata(json::Reader& reader, SchedulablePod& pod) {
  auto& metadata = pod.metadata;
  read_object(reader, [&](std::string_view key) {
    if (key == "name") return read_into(reader, metadata.name);
    if (key == "namespace") return read_into(reader, metadata.namespace_);
    if (key == "uid") return read_into(reader, metadata.uid);
    if (key == "resourceVersion") return read_into(reader, metadata.resource_version);
    if (key == "creationTimestamp") return read_into(reader, metadata.creation_timestamp);
    if (key == "deletionTimestamp") return read_into(reader, metadata.deletion_timestamp);
    if (key == "labels") return read_into(reader, metadata.labels);
    if (key != "annotations") return false;
    read_annotations(reader, pod);
    return true;
  });
}

void read_conditions(json::Reader& reader, SchedulablePod& pod) {
  read_array(reader, [&] {
    std::string type, status, reason, message;
    read_object(reader, [&](std::string_view key) {
      std::string* target = key == "type"      ? &type
                            : key == "status"  ? &status
                            : key == "reason"  ? &reason
                            : key == "message" ? &message
                                               : nullptr;
      if (target == nullptr) return false;
      if (!reader.consume_null()) reader.read_string(*target);
      return true;
    });
    if (type == api::condition_types::kPodScheduled && status == "False")
      pod.unschedulable_hash = hash_of_condition(reason, message);
  });
}

// The text that PodShape::parse reads: short keys, nothing that is absent.
std::string shape_text(const Parts& parts) {
  api::ResourceList requests = parts.containers;
  requests += parts.sidecars;
  requests.raise_to(parts.init_max);
  for (const auto& [name, quantity] : parts.pod_level) requests.set(name, quantity);
  requests += parts.overhead;
  requests.drop_zeros();
  std::string text;
  json::Writer writer(text);
  writer.begin_object();
  if (!requests.empty()) {
    writer.key("r");
    writer.begin_object();
    for (const auto& [name, quantity] : requests) {
      writer.key(name);
      writer.integer(whole_amount(name, quantity));
    }
    writer.end_object();
  }
  const auto member = [&](std::string_view key, const std::string& raw) {
    if (raw.empty() || raw == "{}" || raw == "[]") return;
    writer.key(key);
    writer.raw(raw);
  };
  member("p", parts.ports.empty() ? std::string() : "[" + parts.ports + "]");
  member("s", parts.node_selector);
  member("a", parts.affinity);
  member("t", parts.tolerations);
  member("d", parts.spread);
  writer.end_object();
  return text;
}

}  // namespace

std::uint64_t hash_of_condition(std::string_view reason, std::string_view message) {
  const std::uint64_t hash = base::fnv1a_64(std::string(reason) + "\n" + std::string(message));
  return hash == 0 ? 1 : hash;
}

void decode(json::Reader& reader, SchedulablePod& pod) {
  Parts parts;
  read_object(reader, [&](std::string_view key) {
    if (key == "metadata") {
      read_metadata(reader, pod);
    } else if (key == "spec") {
      read_spec(reader, pod, parts);
    } else if (key == "status") {
      read_object(reader, [&](std::string_view member) {
        if (member == "phase") return read_into(reader, pod.phase);
        if (member != "conditions") return false;
        read_conditions(reader, pod);
        return true;
      });
    } else {
      return false;
    }
    return true;
  });
  if (const auto label = pod.metadata.labels.find(api::keys::kPreemptable); label && *label == "false")
    pod.is_preemptable = false;
  if (const auto label = pod.metadata.labels.find(api::keys::kTaskSpec)) pod.task = *label;
  pod.shape = api::Word(shape_text(parts));
}

}  // namespace basalt::scheduler
