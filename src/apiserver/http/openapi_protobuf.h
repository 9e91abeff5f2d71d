#pragma once

#include <string>
#include <string_view>

#include "json/value.h"

namespace basalt::apiserver {

// The protobuf form of /openapi/v2, a message openapi.v2.Document. kubectl takes nothing else, and checks by it what it
// cannot leave to the server: the objects of a List. The server answers with the first name; the second is older.
inline constexpr std::string_view kOpenApiProtobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
inline constexpr std::string_view kOpenApiProtobufOlder = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

// The document of OpenApiVersion::V2 in that form. What the form has no field for is left out, and so are, as in every
// message of protobuf's third version, false, zero and empty texts. Pure.
[[nodiscard]] std::string to_openapi_protobuf(const json::Value& document);

}  // namespace basalt::apiserver
