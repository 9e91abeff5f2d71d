#pragma once

#include <string>
#include <string_view>

#include "net/http_client.h"
#include "node/prober.h"

namespace basalt::node {

// One call of grpc.health.v1.Health/Check, as gRPC maps it to HTTP/2. Pure: what the request says, what the answer
// means.
inline constexpr std::string_view kGrpcHealthPath = "/grpc.health.v1.Health/Check";

// The body: a message, which names the service, behind its prefix.
[[nodiscard]] std::string grpc_health_request(std::string_view service);

// Passed if the service serves; else what it said instead, or how the call ended (grpc-status and grpc-message, which
// come behind the body).
[[nodiscard]] CheckResult grpc_health_result(std::string_view service, const net::HttpResponse& answer);

}  // namespace basalt::node
