#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/common/object.h"
#include "workloads/common/pod.h"

namespace basalt::workloads {

inline constexpr std::size_t kEndpointsAddressesMax = 1000;  // of one Endpoints object; the rest is in the slices
inline constexpr std::size_t kSliceEndpointsMax = 100;
inline constexpr std::string_view kOverCapacity = "endpoints.kubernetes.io/over-capacity";

// The pods behind a service that have the same ports.
struct Backend {
  json::Array ports;  // {name, port, protocol}, as both kinds have them
  std::vector<PodPtr> pods;
};
// Pure. Pods that have ended or have no address are left out; those that are going are kept, for the slices.
[[nodiscard]] std::vector<Backend> backends_of(const Object& service, const std::vector<PodPtr>& pods);

// The Endpoints object of a service, without what the server adds.
[[nodiscard]] json::Value endpoints_of(const Object& service, const std::vector<Backend>& backends);
// Whether the one that is there says the same.
[[nodiscard]] bool same_endpoints(const json::Value& wanted, const json::Value& present);

// What becomes of a service's slices: endpoints stay in the slice that they are in.
struct SlicePlan {
  struct Change {
    std::shared_ptr<const Object> slice;
    json::Value body;  // members to be set
  };
  std::vector<json::Value> creates;  // without names
  std::vector<Change> changes;
  std::vector<std::shared_ptr<const Object>> deletes;
};
[[nodiscard]] SlicePlan plan_slices(const Object& service, const std::vector<Backend>& backends,
                                    const std::vector<std::shared_ptr<const Object>>& present);

}  // namespace basalt::workloads
