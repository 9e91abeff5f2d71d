#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "api/gen/core_container.h"
#include "base/result.h"
#include "net/http_client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::node {

// The name by which servers tell probes from other requests; the version is that of the API.
inline constexpr std::string_view kProbeUserAgent = "kube-probe/1.36";

// What a probe asks over the network.
struct HttpCheck {
  std::string url;
  net::Headers headers;
  bool operator==(const HttpCheck&) const = default;
};
struct TcpCheck {
  std::string host;  // an address or a name
  std::uint16_t port = 0;
  bool operator==(const TcpCheck&) const = default;
};
struct GrpcCheck {
  std::string host;
  std::uint16_t port = 0;
  std::string service;
  bool operator==(const GrpcCheck&) const = default;
};
using NetworkCheck = std::variant<HttpCheck, TcpCheck, GrpcCheck>;

enum class Verdict : std::uint8_t {
  Passed,
  Failed,
  Errored,  // nothing was learned about the container: counts neither way
};
struct CheckResult {
  Verdict verdict = Verdict::Failed;
  std::string message;  // why not; with Passed a warning, mostly ""
};

// Whether this probe is one over the network.
[[nodiscard]] bool has_network_check(const api::core::Probe& probe);
// What such a probe of a container asks: of the pod where it names no host, at a port by number or by its name among
// the container's. InvalidInput if there is no such port.
[[nodiscard]] Result<NetworkCheck> network_check(const api::core::Probe& probe, const api::core::Container& container,
                                                 std::string_view pod_address);

// Asks containers over the network how they are. Everything of probes that touches sockets goes through this, so that
// simulations use a fake. Thread-safe.
class Prober {
 public:
  // Called once, on a thread of the prober, when the result is there, the timeout has passed, or it was stopped.
  using OnResult = std::function<void(CheckResult result)>;

  virtual ~Prober() = default;
  // Does not wait. TooManyRequests, and no call of `on_result`, if too many checks wait already; Cancelled after
  // stop().
  virtual Done start(NetworkCheck check, rt::Duration timeout, const rt::StopToken& stop, OnResult on_result) = 0;
  // Waits until all results have been told. Nothing starts afterwards. Before destruction; idempotent.
  virtual void stop() = 0;
};

// Real connections of this machine, each check on a thread of its own: at most 256 at once, started as needed and kept;
// 10,000 more wait. In a simulation every check is Errored.
[[nodiscard]] std::unique_ptr<Prober> make_network_prober(rt::Runtime& runtime);

}  // namespace basalt::node
