#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "kube/metrics.h"
#include "net/http_server.h"
#include "rt/runtime.h"
#include "webhooks/review.h"
#include "webhooks/rule_context.h"

namespace basalt::webhooks {

// What a request over HTTP gets. Pure: for tests and the fuzzer, too.
struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  bool is_denial = false;
};
struct HttpQuestion {
  std::string_view method;
  std::string_view path;
  std::string_view content_type;
  std::string_view body;
};
[[nodiscard]] HttpAnswer answer_http(const std::vector<const Hook*>& hooks, const RuleContext& context,
                                     const HttpQuestion& question);

// The hooks of a comma-separated list of paths, as `--enabled-admission` takes it: spaces are trimmed, empty entries
// skipped, a path twice counts once. InvalidInput names a path that does not exist.
[[nodiscard]] Result<std::vector<const Hook*>> select_hooks(std::string_view paths);

struct WebhookServerOptions {
  std::string address = "0.0.0.0";
  std::uint16_t port = 8443;  // 0: any free one
  std::optional<net::TlsServerOptions> tls;
  std::vector<const Hook*> hooks;
  // Reviews take tens of microseconds, so few threads do; probes that ask the API server wait, and need more.
  int handler_threads = 4;
  // Beyond this the answer is 429 at once: an API server that waits for its timeout holds its own callers up.
  std::size_t waiting_max = 512;
  std::size_t waiting_bytes_max = 16u << 20;
  std::size_t body_bytes_max = 3u << 20;  // as an API server takes
  int connections_max = 1024;
  kube::Metrics* metrics = nullptr;
};

// The admission server: HTTPS, HTTP/1.1 with keep-alive and HTTP/2. `context` outlives it. Answers GET /healthz and
// /readyz, too.
class WebhookServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<WebhookServer>> start(rt::Runtime& runtime, Logger log,
                                                                    WebhookServerOptions options,
                                                                    const RuleContext& context);
  ~WebhookServer();
  [[nodiscard]] std::uint16_t port() const;
  // Stops accepting, lets running reviews end for at most `grace`.
  void stop(rt::Duration grace);

 private:
  struct State;
  explicit WebhookServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace basalt::webhooks
