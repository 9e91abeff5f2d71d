#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/registry/resource_type.h"
#include "json/value.h"

namespace basalt::apiserver {

// The stored CRD of that name; nothing if there is none.
using CrdLookup = std::function<std::optional<json::Value>(const std::string& name)>;

inline constexpr std::string_view kOpenApiV2Path = "/openapi/v2";

// How a document is written. Protobuf is for /openapi/v2; the others are JSON whatever is asked for.
enum class OpenApiForm : std::uint8_t { Json, Protobuf };

// /openapi/v2, /openapi/v3 and /openapi/v3/...: the resources (of one group and version), the query parameters that
// their writes take, and the schemas of their objects: of custom kinds as their CRDs have them, of built-in kinds the
// fields and their types. What kubectl explains objects by, and looks up before it sends a write with field validation.
[[nodiscard]] std::optional<std::string> openapi_document(const TypeTable& types, std::string_view path,
                                                          const CrdLookup& crd, OpenApiForm form = OpenApiForm::Json);

}  // namespace basalt::apiserver
