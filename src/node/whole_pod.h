#pragma once

#include "api/gen/core_pod.h"
#include "json/reader.h"

namespace basalt::node {

// A pod with all that was sent: caches leave out what the generated description does not know, and a node reads some of
// that (`httpHeaders` and `grpc` of probes).
struct WholePod : api::core::Pod {};
void decode(json::Reader& reader, WholePod& pod);

}  // namespace basalt::node
