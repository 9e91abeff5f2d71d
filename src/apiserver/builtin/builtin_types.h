#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apiserver/registry/resource_type.h"

// The kinds that the server knows without a CRD. One file per family; each returns its resources.

namespace basalt::apiserver {

using TypeList = std::vector<std::shared_ptr<const ResourceType>>;

[[nodiscard]] TypeList core_types();      // pods, nodes, services, config maps, ... (core_types.cc)
[[nodiscard]] TypeList workload_types();  // apps/v1, batch/v1 (workload_types.cc)
[[nodiscard]] TypeList cluster_types();   // leases, priority classes, RBAC, webhooks, policies, CRDs (cluster_types.cc)

// A start for a table entry: verbs, columns Name and Age, list kind and singular from the kind.
[[nodiscard]] ResourceType basic_type(std::string group, std::string version, std::string plural, std::string kind,
                                      bool namespaced);

}  // namespace basalt::apiserver
