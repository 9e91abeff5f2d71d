#pragma once

#include <memory>

#include "apiserver/registry/resource_type.h"

namespace basalt::apiserver {

// Nodes: taints that make sense, capacities that are amounts, and the columns of `kubectl get nodes`.
[[nodiscard]] std::shared_ptr<const ResourceType> node_type();

}  // namespace basalt::apiserver
