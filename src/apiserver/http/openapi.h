#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apiserver/registry/resource_type.h"

namespace basalt::apiserver {

// /openapi/v3 and /openapi/v3/...: which resources there are and which query parameters their writes take. That is what
// kubectl looks up before it sends a write with field validation; schemas of the objects are not part of it.
[[nodiscard]] std::optional<std::string> openapi_document(const TypeTable& types, std::string_view path);

}  // namespace basalt::apiserver
