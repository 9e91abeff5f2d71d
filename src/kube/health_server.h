#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "net/http_server.h"
#include "rt/runtime.h"

namespace basalt::kube {

class Metrics;

// A named question about the process. `ask` comes from a server thread; it must be quick and never wait.
struct HealthCheck {
  std::string name;  // "ping", "informers-synced", "leader-election"
  std::function<Done()> ask;
  bool liveness = false;  // counts for /livez and /healthz: failing means "restart me"
  bool readiness = true;  // counts for /readyz: failing means "do not send me work"
};

struct HealthServerOptions {
  std::string address = "0.0.0.0";
  std::uint16_t port = 0;
  std::optional<net::TlsServerOptions> tls;
  bool serve_health = true;
  Metrics* metrics = nullptr;  // null: no /metrics
};

// Answers /healthz, /livez, /readyz (each also /<name of a check>; `?verbose`, `?exclude=<name>`) and /metrics.
// A check `ping` that always succeeds is there by itself.
class HealthServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<HealthServer>> start(rt::Runtime& runtime, Logger log,
                                                                   HealthServerOptions options,
                                                                   std::vector<HealthCheck> checks);
  ~HealthServer();
  [[nodiscard]] std::uint16_t port() const;
  void stop();

  struct Answer {
    int status = 404;
    std::string content_type = "text/plain; charset=utf-8";
    std::string body;
  };
  // What a GET of this path gets; apart from the sockets, for tests.
  [[nodiscard]] static Answer answer(const std::vector<HealthCheck>& checks, const HealthServerOptions& options,
                                     std::string_view path, std::string_view query);

 private:
  struct State;
  explicit HealthServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace basalt::kube
