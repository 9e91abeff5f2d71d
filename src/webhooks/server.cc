#include "webhooks/server.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "webhooks/fields.h"
#include "webhooks/review_codec.h"

namespace basalt::webhooks {
namespace {

HttpAnswer plain(int status, std::string text) { return {status, "text/plain; charset=utf-8", std::move(text), false}; }

bool is_json(std::string_view content_type) {
  const auto parts = base::split_once(content_type, ';');
  return base::equals_ignore_case_ascii(base::trim(parts ? parts->first : content_type), "application/json");
}

}  // namespace

HttpAnswer answer_http(const std::vector<const Hook*>& hooks, const RuleContext& context,
                       const HttpQuestion& question) {
  if (question.path == "/healthz" || question.path == "/readyz" || question.path == "/livez") return plain(200, "ok");
  const auto found =
      std::find_if(hooks.begin(), hooks.end(), [&](const Hook* hook) { return hook->path == question.path; });
  if (found == hooks.end()) {
    const bool exists = find_hook(question.path) != nullptr;
    return plain(404, exists ? "this path is not enabled; see --enabled-admission\n" : "404 page not found\n");
  }
  if (question.method != "POST") return plain(405, "an AdmissionReview comes by POST\n");
  if (!is_json(question.content_type)) {
    return plain(415, "expected Content-Type application/json, found " + shown(question.content_type) + "\n");
  }
  const auto decoded = decode_review(question.body);
  if (!decoded.ok()) return plain(400, decoded.error().message + "\n");
  const ReviewAnswer answer = review(**found, context, decoded->request);
  HttpAnswer http;
  http.body = encode_answer(decoded->uid, answer);
  http.is_denial = !answer.allowed;
  return http;
}

Result<std::vector<const Hook*>> select_hooks(std::string_view paths) {
  std::vector<const Hook*> hooks;
  for (const std::string_view entry : base::split(paths, ',')) {
    const std::string_view path = base::trim(entry);
    if (path.empty()) continue;
    const Hook* hook = find_hook(path);
    if (hook == nullptr) {
      std::vector<std::string_view> known;
      for (const Hook& other : all_hooks()) known.push_back(other.path);
      return Error::invalid_input("--enabled-admission: there is no path " + shown(path) +
                                  base::did_you_mean(path, known) + " (known are " + base::join(known, ", ") + ")");
    }
    if (std::find(hooks.begin(), hooks.end(), hook) == hooks.end()) hooks.push_back(hook);
  }
  return hooks;
}

struct WebhookServer::State {
  State(rt::Runtime& runtime_in, Logger log_in, WebhookServerOptions options_in, const RuleContext& context_in)
      : runtime(runtime_in), log(std::move(log_in)), options(std::move(options_in)), context(context_in) {
    if (options.metrics == nullptr) return;
    for (const Hook* hook : options.hooks) {
      const kube::MetricLabels path = {{"path", std::string(hook->path)}};
      Series series;
      series.allowed = options.metrics->counter("volcano_admission_reviews_total", "Reviews by path and answer.",
                                                {{"path", std::string(hook->path)}, {"answer", "allowed"}});
      series.denied = options.metrics->counter("volcano_admission_reviews_total", "Reviews by path and answer.",
                                               {{"path", std::string(hook->path)}, {"answer", "denied"}});
      series.broken = options.metrics->counter("volcano_admission_reviews_total", "Reviews by path and answer.",
                                               {{"path", std::string(hook->path)}, {"answer", "error"}});
      series.seconds = options.metrics->histogram("volcano_admission_review_seconds", "Time that a review took.",
                                                  kube::Metrics::seconds_bounds(), path);
      all_series.emplace(hook->path, series);
    }
  }

  struct Series {
    kube::Counter allowed, denied, broken;
    kube::Histogram seconds;
  };

  void handle(const net::ServerRequest& request, net::Responder& responder) {
    if (responder.is_closed()) return;  // the caller has given up: what it asked is nobody's question any more
    const rt::Instant start = runtime.now();
    HttpAnswer answer =
        answer_http(options.hooks, context,
                    {request.method, request.path, net::find_header(request.headers, "content-type"), request.body});
    if (const auto found = all_series.find(request.path); found != all_series.end()) {
      const Series& series = found->second;
      (answer.status != 200 ? series.broken : answer.is_denial ? series.denied : series.allowed).add();
      series.seconds.observe(std::chrono::duration<double>(runtime.now() - start).count());
    }
    if (answer.status >= 400 && answer.status != 404) {
      log.warn("refused a request that is no review", {{"path", request.path},
                                                       {"status", answer.status},
                                                       {"peer", request.peer_address},
                                                       {"why", base::trim(answer.body)}});
    } else if (answer.is_denial) {
      log.debug("denied", {{"path", request.path}, {"answer", answer.body}});
    }
    net::Headers headers = {{"Content-Type", std::move(answer.content_type)}};
    responder.respond(answer.status, std::move(headers), std::move(answer.body));
  }

  rt::Runtime& runtime;
  const Logger log;
  const WebhookServerOptions options;
  const RuleContext& context;
  std::map<std::string, Series, std::less<>> all_series;
  std::unique_ptr<net::HttpServer> server;
};

WebhookServer::WebhookServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

WebhookServer::~WebhookServer() { stop(rt::Duration::zero()); }

Result<std::unique_ptr<WebhookServer>> WebhookServer::start(rt::Runtime& runtime, Logger log,
                                                            WebhookServerOptions options, const RuleContext& context) {
  auto state = std::make_unique<State>(runtime, log, std::move(options), context);
  net::HttpServerOptions http;
  http.address = state->options.address;
  http.port = state->options.port;
  http.tls = state->options.tls;
  http.handler_threads = state->options.handler_threads;
  http.handler_queue_max = state->options.waiting_max;
  http.handler_queue_bytes_max = state->options.waiting_bytes_max;
  http.body_bytes_max = state->options.body_bytes_max;
  http.connections_max = state->options.connections_max;
  // An API server sends a review at once and keeps its connections; whoever is slow is no API server.
  http.header_timeout = std::chrono::seconds(5);
  http.body_timeout = std::chrono::seconds(30);
  State* const shared = state.get();
  BASALT_TRY(state->server, net::start_http_server(runtime, std::move(log), std::move(http),
                                                   [shared](const std::shared_ptr<const net::ServerRequest>& request,
                                                            const std::shared_ptr<net::Responder>& responder) {
                                                     shared->handle(*request, *responder);
                                                   }));
  return std::unique_ptr<WebhookServer>(new WebhookServer(std::move(state)));
}

std::uint16_t WebhookServer::port() const { return state_->server->port(); }

void WebhookServer::stop(rt::Duration grace) {
  if (state_->server) state_->server->stop(grace);
  state_->server.reset();
}

}  // namespace basalt::webhooks
