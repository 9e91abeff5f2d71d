#include "kube/health_server.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "kube/metrics.h"
#include "kube/process_metrics.h"
#include "net/url.h"

namespace basalt::kube {
namespace {

struct Endpoint {
  std::string_view path;
  bool liveness;
  bool readiness;
};
constexpr Endpoint kEndpoints[] = {
    {"/healthz", true, false},
    {"/livez", true, false},
    {"/readyz", false, true},
};

bool counts_for(const HealthCheck& check, const Endpoint& endpoint) {
  return (endpoint.liveness && check.liveness) || (endpoint.readiness && check.readiness);
}

// As Kubernetes' servers print it (apiserver pkg/server/healthz), so that people and scripts can read it.
HealthServer::Answer run_checks(const std::vector<const HealthCheck*>& checks, const Endpoint& endpoint, bool verbose,
                                const std::set<std::string>& excluded) {
  HealthServer::Answer answer;
  bool failed = false;
  for (const HealthCheck* check : checks) {
    if (excluded.contains(check->name)) {
      answer.body += "[+]" + check->name + " excluded: ok\n";
      continue;
    }
    const Done done = check->ask();
    if (done.ok()) {
      answer.body += "[+]" + check->name + " ok\n";
    } else {
      failed = true;
      answer.body += "[-]" + check->name + " failed: " + base::ellipsize(done.error().message, 1024) + "\n";
    }
  }
  const std::string name(endpoint.path.substr(1));
  answer.status = failed ? 500 : 200;
  answer.body += name + (failed ? " check failed\n" : " check passed\n");
  if (!failed && !verbose) answer.body = "ok";
  return answer;
}

}  // namespace

struct HealthServer::State {
  HealthServerOptions options;
  std::vector<HealthCheck> checks;
  std::unique_ptr<net::HttpServer> server;
};

HealthServer::HealthServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HealthServer::~HealthServer() { stop(); }

std::uint16_t HealthServer::port() const { return state_->server->port(); }

void HealthServer::stop() {
  if (!state_->server) return;
  state_->server->stop(std::chrono::seconds(1));
  state_->server.reset();
}

HealthServer::Answer HealthServer::answer(const std::vector<HealthCheck>& checks, const HealthServerOptions& options,
                                          std::string_view path, std::string_view query) {
  if (path == "/metrics" && options.metrics != nullptr) {
    return {200, "text/plain; version=0.0.4; charset=utf-8", options.metrics->to_text() + process_metrics_text()};
  }
  const Result<net::Query> parameters = net::parse_query(query);
  if (!parameters.ok()) return {400, "text/plain; charset=utf-8", parameters.error().message};
  std::set<std::string> excluded;
  for (const auto& [name, value] : *parameters) {
    if (name == "exclude") excluded.insert(value);
  }
  const bool verbose = net::find_parameter(*parameters, "verbose").has_value();
  for (const Endpoint& endpoint : kEndpoints) {
    const auto rest = base::strip_prefix(path, endpoint.path);
    if (!options.serve_health || !rest) continue;
    if (!rest->empty() && !rest->starts_with('/')) continue;
    std::vector<const HealthCheck*> asked;
    for (const HealthCheck& check : checks) {
      const bool named = !rest->empty() && rest->substr(1) == check.name;
      if (counts_for(check, endpoint) && (rest->empty() || named)) asked.push_back(&check);
    }
    if (asked.empty() && !rest->empty()) break;
    return run_checks(asked, endpoint, verbose, excluded);
  }
  return {404, "text/plain; charset=utf-8", "404 page not found\n"};
}

Result<std::unique_ptr<HealthServer>> HealthServer::start(rt::Runtime& runtime, Logger log, HealthServerOptions options,
                                                          std::vector<HealthCheck> checks) {
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  state->checks.push_back({"ping", [] { return Done(Ok()); }, true, true});
  std::move(checks.begin(), checks.end(), std::back_inserter(state->checks));
  net::HttpServerOptions http;
  http.address = state->options.address;
  http.port = state->options.port;
  http.tls = state->options.tls;
  http.handler_threads = 1;
  http.handler_queue_max = 64;
  http.body_bytes_max = 4096;
  http.header_timeout = std::chrono::seconds(5);
  http.connections_max = 256;
  const State* raw = state.get();  // outlives the server
  auto handler = [raw](const std::shared_ptr<const net::ServerRequest>& request,
                       const std::shared_ptr<net::Responder>& responder) {
    if (request->method != "GET" && request->method != "HEAD") {
      return responder->respond(405, {{"Allow", "GET, HEAD"}}, std::string("method not allowed\n"));
    }
    Answer reply = answer(raw->checks, raw->options, request->path, request->query);
    responder->respond(reply.status,
                       {{"Content-Type", reply.content_type},
                        {"Cache-Control", "no-cache, private"},
                        {"X-Content-Type-Options", "nosniff"}},
                       std::move(reply.body));
  };
  BASALT_TRY(state->server, net::start_http_server(runtime, std::move(log), http, std::move(handler)));
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(state)));
}

}  // namespace basalt::kube
