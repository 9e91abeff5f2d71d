#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::node {

// Whether a server accepts connections: makes one and closes it. `host` is an address or a name; names are looked up by
// the system, whose own timeouts hold for that. Waits for its caller; only on the operating system's runtime. Errors:
// Unreachable, DeadlineExceeded, Cancelled.
[[nodiscard]] Done connect_tcp(rt::Runtime& runtime, const std::string& host, std::uint16_t port, rt::Instant deadline,
                               const rt::StopToken& stop);

}  // namespace basalt::node
