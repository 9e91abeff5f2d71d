#pragma once

#include <cstdint>
#include <string>

namespace basalt::cli {

// "process 4711 (basalt)" that listens on the TCP port on this machine; "" if none is found, or not visible to this
// user.
[[nodiscard]] std::string port_holder(std::uint16_t port);

}  // namespace basalt::cli
