#pragma once

#include <string_view>
#include <vector>

#include "api/gen/core_affinity.h"
#include "api/gen/core_node.h"

namespace basalt::api {

// Whether one of them bears a taint.
[[nodiscard]] bool tolerates(const std::vector<core::Toleration>& tolerations, std::string_view key,
                             std::string_view value, std::string_view effect);

// Whether all of a term is true of a node. An empty term holds for no node.
[[nodiscard]] bool holds(const core::NodeSelectorTerm& term, const core::NodeProjection& node);

}  // namespace basalt::api
