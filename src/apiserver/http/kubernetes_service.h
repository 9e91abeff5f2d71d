#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "kube/client.h"
#include "rt/stop.h"

namespace basalt::apiserver {

// Where a server that listens at `address` is reached by programs of the same machine: the address itself, or the
// loopback one if it listens at all of them.
[[nodiscard]] std::string reachable_address(const std::string& address);

// Makes the service `kubernetes` of the namespace `default`, with its Endpoints and EndpointSlice, or writes the
// address and port into those that are there; nothing is written if they say the same already. `service_ip`: wanted for
// the service, any other if somebody has it.
[[nodiscard]] Done publish_kubernetes_service(kube::Client& client, const std::string& address, std::uint16_t port,
                                              const std::string& service_ip, const rt::StopToken& stop);

}  // namespace basalt::apiserver
