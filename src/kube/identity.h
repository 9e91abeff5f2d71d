#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/client.h"

namespace basalt::kube {

// A resource version as a number, so that two can be compared; 0 if it is none ("" or not decimal). Kubernetes promises
// since 1.35 that versions of one resource type are ordered decimal numbers, and etcd's have always been.
using Revision = std::uint64_t;
[[nodiscard]] Revision parse_revision(std::string_view resource_version);

// What identifies one version of one object, read from its text without building a tree.
struct Identity {
  std::string api_version;
  std::string kind;
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  bool is_being_deleted = false;    // has a deletionTimestamp
  bool initial_events_end = false;  // a bookmark's annotation k8s.io/initial-events-end: "true"
};
[[nodiscard]] Result<Identity> identity_of(std::string_view object);

// metadata.resourceVersion of the object in a response, "" if it has none (a Status).
[[nodiscard]] std::string resource_version_of(const Response& response);

}  // namespace basalt::kube
