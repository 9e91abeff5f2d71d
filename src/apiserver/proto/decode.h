#pragma once

#include <string_view>

#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver::proto {

inline constexpr std::string_view kMediaType = "application/vnd.kubernetes.protobuf";

// The object in a body of that media type ("k8s\0" and an envelope with apiVersion, kind and bytes), as a client would
// have sent it in JSON. BadRequest, with the message and the field where it went wrong, if the bytes are malformed or
// nested too deeply; UnsupportedMediaType if the kind has no protobuf form here. The caller bounds the size.
[[nodiscard]] Result<json::Value> decode_object(std::string_view body);

}  // namespace basalt::apiserver::proto
