#pragma once

#include <string>
#include <utility>
#include <vector>

#include "json/value.h"

namespace basalt::apiserver {

// Roles and bindings that every cluster has: plural ("clusterroles", "clusterrolebindings") and object.
[[nodiscard]] std::vector<std::pair<std::string, json::Value>> bootstrap_roles();

}  // namespace basalt::apiserver
