#include "workloads/common/pod.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"
#include "json/read_members.h"
#include "json/reader.h"

namespace basalt::workloads {
namespace {

using json::read_array;
using json::read_into;
using json::read_object;

bool read_number(json::Reader& reader, std::int32_t& value) {
  if (!reader.consume_null()) value = reader.read_int32();
  return true;
}

void read_owners(json::Reader& reader, Pod::Metadata& metadata) {
  read_array(reader, [&] {
    api::Word uid;
    api::Word kind;
    api::Word name;
    bool controls = false;
    read_object(reader, [&](std::string_view key) {
      if (key == "uid") return read_into(reader, uid);
      if (key == "kind") return read_into(reader, kind);
      if (key == "name") return read_into(reader, name);
      if (key != "controller") return false;
      controls = !reader.consume_null() && reader.read_bool();
      return true;
    });
    if (!controls) return;
    metadata.owner_uid = uid;
    metadata.owner_kind = kind;
    metadata.owner_name = name;
  });
}

std::int32_t read_number_text(json::Reader& reader) {
  const auto number = base::parse_int64(reader.read_string_view());
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(number.value_or(0), -2'147'483'647, 2'147'483'647));
}

void read_annotations(json::Reader& reader, Pod& pod) {
  read_object(reader, [&](std::string_view key) {
    if (key == kCompletionIndexAnnotation) return read_into(reader, pod.completion_index);
    if (key == kIndexFailuresAnnotation) {
      pod.index_failures = read_number_text(reader);
    } else if (key == kDeletionCostAnnotation) {
      pod.deletion_cost = read_number_text(reader);
    } else {
      return false;
    }
    return true;
  });
}

void read_metadata(json::Reader& reader, Pod& pod) {
  Pod::Metadata& metadata = pod.metadata;
  read_object(reader, [&](std::string_view key) {
    if (key == "name") return read_into(reader, metadata.name);
    if (key == "namespace") return read_into(reader, metadata.namespace_);
    if (key == "uid") return read_into(reader, metadata.uid);
    if (key == "resourceVersion") return read_into(reader, metadata.resource_version);
    if (key == "creationTimestamp") return read_into(reader, metadata.creation);
    if (key == "deletionTimestamp") return read_into(reader, metadata.deletion);
    if (key == "labels") return read_into(reader, metadata.labels);
    if (key == "deletionGracePeriodSeconds") {
      pod.is_stopped = !reader.consume_null() && reader.read_int64() == 0;
      return true;
    }
    if (key == "annotations") {
      read_annotations(reader, pod);
    } else if (key == "ownerReferences") {
      read_owners(reader, metadata);
    } else if (key == "finalizers") {
      read_array(reader, [&] { pod.is_tracked |= reader.read_string_view() == kJobTrackingFinalizer; });
    } else {
      return false;
    }
    return true;
  });
}

void read_ports(json::Reader& reader, Pod& pod) {
  read_array(reader, [&] {
    Pod::Port port;
    read_object(reader, [&](std::string_view key) {
      if (key == "name") return read_into(reader, port.name);
      if (key == "protocol") return read_into(reader, port.protocol);
      if (key == "containerPort") return read_number(reader, port.number);
      return false;
    });
    if (!port.name.empty()) pod.ports.push_back(std::move(port));
  });
}

void read_containers(json::Reader& reader, Pod& pod) {
  read_array(reader, [&] {
    read_object(reader, [&](std::string_view key) {
      if (key != "ports") return false;
      read_ports(reader, pod);
      return true;
    });
  });
}

// requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchFields[] {metadata.name In [...]}
void read_match_field(json::Reader& reader, Pod& pod) {
  read_object(reader, [&](std::string_view key) {
    if (key != "values") return false;
    read_array(reader, [&] { read_into(reader, pod.pinned_node); });
    return true;
  });
}

void read_affinity(json::Reader& reader, Pod& pod) {
  const auto descend = [&](std::string_view name, const auto& then) {
    read_object(reader, [&](std::string_view key) {
      if (key != name) return false;
      then();
      return true;
    });
  };
  descend("nodeAffinity", [&] {
    descend("requiredDuringSchedulingIgnoredDuringExecution", [&] {
      descend("nodeSelectorTerms", [&] {
        read_array(reader, [&] {
          descend("matchFields", [&] { read_array(reader, [&] { read_match_field(reader, pod); }); });
        });
      });
    });
  });
}

void read_spec(json::Reader& reader, Pod& pod) {
  read_object(reader, [&](std::string_view key) {
    if (key == "nodeName") return read_into(reader, pod.node_name);
    if (key == "hostname") return read_into(reader, pod.hostname);
    if (key == "subdomain") return read_into(reader, pod.subdomain);
    if (key == "affinity") {
      read_affinity(reader, pod);
    } else if (key == "containers") {
      read_containers(reader, pod);
    } else {
      return false;
    }
    return true;
  });
}

void read_conditions(json::Reader& reader, Pod& pod) {
  read_array(reader, [&] {
    Pod::Condition condition;
    api::Time since;
    read_object(reader, [&](std::string_view key) {
      if (key == "type") return read_into(reader, condition.type);
      if (key == "status") return read_into(reader, condition.status);
      if (key == "lastTransitionTime") return read_into(reader, since);
      return false;
    });
    if (condition.type == "Ready") {
      pod.is_ready = condition.status == "True";
      pod.ready_since = since;
    }
    pod.conditions.push_back(std::move(condition));
  });
}

void read_container_statuses(json::Reader& reader, Pod& pod) {
  read_array(reader, [&] {
    Pod::Exit exit;
    bool has_ended = false;
    std::int32_t restarts = 0;
    read_object(reader, [&](std::string_view key) {
      if (key == "name") return read_into(reader, exit.container);
      if (key == "restartCount") return read_number(reader, restarts);
      if (key != "state") return false;
      read_object(reader, [&](std::string_view state) {
        if (state != "terminated") return false;
        has_ended = true;
        api::Time ended;
        read_object(reader, [&](std::string_view field) {
          if (field == "exitCode") return read_number(reader, exit.code);
          return field == "finishedAt" && read_into(reader, ended);
        });
        pod.ended = std::max(pod.ended, ended);
        return true;
      });
      return true;
    });
    pod.restarts += restarts;
    if (has_ended) pod.exits.push_back(std::move(exit));
  });
}

void read_status(json::Reader& reader, Pod& pod) {
  read_object(reader, [&](std::string_view key) {
    if (key == "phase") return read_into(reader, pod.phase);
    if (key == "reason") return read_into(reader, pod.reason);
    if (key == "podIP") return read_into(reader, pod.address);
    if (key == "conditions") {
      read_conditions(reader, pod);
    } else if (key == "containerStatuses" || key == "initContainerStatuses") {
      read_container_statuses(reader, pod);
    } else {
      return false;
    }
    return true;
  });
}

}  // namespace

void decode(json::Reader& reader, Pod& pod) {
  read_object(reader, [&](std::string_view key) {
    if (key == "metadata") {
      read_metadata(reader, pod);
    } else if (key == "spec") {
      read_spec(reader, pod);
    } else if (key == "status") {
      read_status(reader, pod);
    } else {
      return false;
    }
    return true;
  });
}

std::optional<rt::WallTime> available_at(const Pod& pod, std::int64_t min_ready_seconds) {
  if (!pod.counts_as_ready()) return std::nullopt;
  if (min_ready_seconds <= 0) return rt::WallTime();
  return rt::WallTime(pod.ready_since.to_time_point()) + std::chrono::seconds(min_ready_seconds);
}

bool is_available(const Pod& pod, std::int64_t min_ready_seconds, rt::WallTime now) {
  const auto time = available_at(pod, min_ready_seconds);
  return time && *time <= now;
}

std::optional<rt::Duration> next_available_in(const std::vector<PodPtr>& pods, std::int64_t min_ready_seconds,
                                              rt::WallTime now) {
  std::optional<rt::Duration> shortest;
  for (const PodPtr& pod : pods) {
    const auto time = available_at(*pod, min_ready_seconds);
    if (!time || *time <= now) continue;
    const auto wait = std::chrono::duration_cast<rt::Duration>(*time - now);
    if (!shortest || wait < *shortest) shortest = wait;
  }
  return shortest;
}

}  // namespace basalt::workloads
