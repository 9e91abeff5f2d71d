#include "cli/up/pod_proxy_handler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "net/url.h"
#include "workloads/common/object.h"

namespace basalt::cli {
namespace {

// How often a full backlog is looked at; the connection's own write timeout cuts off who reads nothing at all.
constexpr rt::Duration kBacklogPause = std::chrono::milliseconds(10);
// For the head of the pod's answer; its body may take as long as the client stays.
constexpr rt::Duration kAnswerTimeout = std::chrono::seconds(60);

// What is between two neighbours, is said anew by our client, or is meant for this server alone.
constexpr std::array<std::string_view, 13> kOwnHeaders = {
    "authorization", "connection",       "content-length",      "expect", "host",    "http2-settings",
    "keep-alive",    "proxy-connection", "proxy-authorization", "te",     "trailer", "transfer-encoding",
    "upgrade"};

bool is_passed_on(std::string_view name) {
  const std::string lower = base::to_lower_ascii(name);
  return std::ranges::find(kOwnHeaders, lower) == kOwnHeaders.end() && !lower.starts_with("impersonate-");
}

net::Headers passed_on(const net::Headers& headers) {
  net::Headers result;
  for (const auto& header : headers) {
    if (is_passed_on(header.first)) result.push_back(header);
  }
  return result;
}

// The part of the path behind the seven segments that name the subresource, as it was sent; begins with '/'.
std::string path_behind(std::string_view path) {
  std::size_t at = 0;
  for (int segment = 0; segment < 7 && at < path.size(); ++segment) {
    at = path.find_first_not_of('/', at);
    if (at == std::string_view::npos) return "/";
    at = std::min(path.find('/', at), path.size());
  }
  return at >= path.size() ? "/" : std::string(path.substr(at));
}

std::optional<std::int64_t> port_number(std::string_view text) {
  const auto number = base::parse_int64(text);
  return number && *number > 0 && *number < 65536 ? number : std::nullopt;
}

std::int64_t int_at(const json::Value& value, std::string_view name) {
  const json::Value* found = value.find(name);
  return found != nullptr && found->is_int() ? found->as_int() : 0;
}

Error unavailable(std::string text) { return Error::make(Reason::ServiceUnavailable, std::move(text)); }

}  // namespace

struct PodProxyHandler::Wish {
  std::string plural;  // pods, services
  std::string ns;
  ProxyTarget target;
  std::string method;
  std::string path;  // with the query
  net::Headers headers;
  std::string body;

  [[nodiscard]] std::string object() const { return plural + " \"" + ns + "/" + target.name + "\""; }
};

bool is_pod_address(std::string_view address) {
  const auto parts = base::split(address, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  const auto second = base::parse_int64(parts[1]);
  return second && *second >= 64 && *second < 128;
}

Result<ProxyTarget> parse_proxy_target(std::string_view text) {
  const auto parts = base::split(text, ':');
  ProxyTarget target;
  if (parts.size() == 3) target.scheme = parts[0].empty() ? std::string("http") : std::string(parts[0]);
  if (parts.size() > 3 || (target.scheme != "http" && target.scheme != "https")) {
    return Error::make(Reason::BadRequest, "the name " + base::quote(text) +
                                               " of a proxied object is wrong: it takes " +
                                               "NAME, NAME:PORT or SCHEME:NAME:PORT with http or https");
  }
  target.name = parts[parts.size() == 3 ? 1 : 0];
  if (parts.size() > 1) target.port = parts.back();
  return target;
}

Result<std::unique_ptr<PodProxyHandler>> PodProxyHandler::make(rt::Runtime& runtime, kube::Client& client) {
  net::HttpClientOptions options;
  options.connections_max = static_cast<int>(kRequestsMax);
  options.connect_timeout = std::chrono::seconds(5);
  options.tls.insecure_skip_verify = true;  // a pod's own certificate says nothing that could be checked
  BASALT_TRY(auto http, net::make_http_client(runtime, std::move(options)));
  return std::unique_ptr<PodProxyHandler>(new PodProxyHandler(runtime, client, std::move(http)));
}

PodProxyHandler::PodProxyHandler(rt::Runtime& runtime, kube::Client& client, std::unique_ptr<net::HttpClient> http)
    : runtime_(runtime),
      client_(client),
      http_(std::move(http)),
      requests_(runtime, {"proxy", kRequestsMax, "too many requests go to pods at once; try again later"}) {}

apiserver::ConnectHandler PodProxyHandler::handler() {
  return [this](const apiserver::ConnectRequest& request, const std::shared_ptr<net::Responder>& responder) {
    const apiserver::ApiPath& path = request.path;
    if (!path.group.empty() || path.subresource != "proxy" || path.ns.empty()) return false;
    if (path.plural != "pods" && path.plural != "services") return false;
    if (Done done = accept(request, responder); !done.ok()) respond_with_error(*responder, done.error());
    return true;
  };
}

Done PodProxyHandler::accept(const apiserver::ConnectRequest& request,
                             const std::shared_ptr<net::Responder>& responder) {
  Wish wish;
  BASALT_TRY(wish.target, parse_proxy_target(request.path.name));
  if (!net::find_header(request.http.headers, "upgrade").empty()) {
    return Error::make(Reason::BadRequest, "requests that upgrade their connection are not passed on to pods; use " +
                                               std::string("kubectl port-forward"));
  }
  wish.plural = request.path.plural;
  wish.ns = request.path.ns;
  wish.method = request.http.method;
  wish.path = path_behind(request.http.path) + (request.http.query.empty() ? "" : "?" + request.http.query);
  wish.headers = passed_on(request.http.headers);
  wish.headers.emplace_back("X-Forwarded-Uri", request.http.path);
  wish.body = request.http.body;
  // The client may go away before or while the pod answers; both ends share the source.
  auto source = std::make_shared<rt::StopSource>(runtime_, requests_.token());
  responder->on_close([source] { source->request_stop(); });
  return requests_.start(
      [this, wish = std::move(wish), responder, source] { serve(wish, *responder, source->token()); });
}

void PodProxyHandler::serve(const Wish& wish, net::Responder& responder, const rt::StopToken& stop) {
  auto place = place_of(wish, stop);
  if (!place.ok()) return respond_with_error(responder, place.error());
  net::HttpRequest request;
  request.method = wish.method;
  request.url = wish.target.scheme + "://" + place->address + ":" + std::to_string(place->port) + wish.path;
  request.headers = wish.headers;
  request.body = wish.body;
  request.timeout = kAnswerTimeout;
  auto answer = http_->open_stream(request, stop);
  if (!answer.ok()) {
    return respond_with_error(responder, unavailable(wish.object() + " was not reached at port " +
                                                     std::to_string(place->port) + ": " + answer.error().message));
  }
  pass_on(**answer, wish.method != "HEAD", responder, stop);
}

void PodProxyHandler::pass_on(net::HttpStream& answer, bool has_body, net::Responder& responder,
                              const rt::StopToken& stop) {
  net::Headers headers = passed_on(answer.headers());
  // Such answers have no body, and none may seem to follow.
  if (!has_body || answer.status() == 204 || answer.status() == 304)
    return responder.respond(answer.status(), std::move(headers), std::string());
  responder.start(answer.status(), std::move(headers));
  while (true) {
    auto piece = answer.read(rt::kNever);
    if (!piece.ok()) return responder.abort();  // so that the reader does not take what it got for all
    if (piece->empty()) return responder.finish();
    auto waiting = responder.write(std::make_shared<const std::string>(std::move(*piece)));
    while (waiting && *waiting > kBacklogBytesMax) {
      if (stop.wait_for(runtime_, kBacklogPause)) return responder.abort();
      waiting = responder.write(std::make_shared<const std::string>());
    }
    if (!waiting) return;
  }
}

Result<PodProxyHandler::Place> PodProxyHandler::place_of(const Wish& wish, const rt::StopToken& stop) {
  BASALT_TRY(Place place, wish.plural == "pods" ? place_of_pod(wish, stop) : place_of_service(wish, stop));
  if (is_pod_address(place.address)) return place;
  return unavailable(wish.object() + (place.address.empty() ? " has no address yet: it does not run"
                                                            : " has the address " + place.address +
                                                                  ", at which no process node has a pod"));
}

Result<json::Value> PodProxyHandler::read(std::string_view plural, const Wish& wish, const rt::StopToken& stop) {
  BASALT_TRY(const kube::Response response, client_.call({.verb = kube::Verb::Get,
                                                          .resource = {"", "v1", std::string(plural)},
                                                          .ns = wish.ns,
                                                          .name = wish.target.name},
                                                         stop));
  return json::Value::parse(*response.body);
}

// The port by its number, by its name, or the first that a container names; 80 if none does.
Result<PodProxyHandler::Place> PodProxyHandler::place_of_pod(const Wish& wish, const rt::StopToken& stop) {
  BASALT_TRY(const json::Value pod, read("pods", wish, stop));
  Place place{std::string(pod.string_at({"status", "podIP"})), 0};
  if (const auto number = port_number(wish.target.port)) {
    place.port = *number;
    return place;
  }
  for (const json::Value& container : workloads::list_at(pod, {"spec", "containers"})) {
    for (const json::Value& port : workloads::list_at(container, {"ports"})) {
      if (place.port == 0 && (wish.target.port.empty() || port.string_at({"name"}) == wish.target.port))
        place.port = int_at(port, "containerPort");
    }
  }
  if (place.port == 0 && wish.target.port.empty()) place.port = 80;
  if (place.port != 0) return place;
  return Error::make(Reason::BadRequest, wish.object() + " has no port " + base::quote(wish.target.port) +
                                             ": give a number or the name of a container's port");
}

// One of the ready pods, by chance. The service's port is asked for by its name or number; the first without.
Result<PodProxyHandler::Place> PodProxyHandler::place_of_service(const Wish& wish, const rt::StopToken& stop) {
  BASALT_TRY(const json::Value service, read("services", wish, stop));
  const json::Value* chosen = nullptr;
  for (const json::Value& port : workloads::list_at(service, {"spec", "ports"})) {
    const bool is_meant = wish.target.port.empty() || port.string_at({"name"}) == wish.target.port ||
                          std::to_string(int_at(port, "port")) == wish.target.port;
    if (is_meant && chosen == nullptr) chosen = &port;
  }
  if (chosen == nullptr) {
    return Error::make(Reason::BadRequest, wish.object() + " has no port " + base::quote(wish.target.port) +
                                               ": give the number or the name of one of spec.ports");
  }
  auto endpoints = read("endpoints", wish, stop);
  if (!endpoints.ok() && !endpoints.error().is(Reason::NotFound)) return endpoints.error();
  std::vector<Place> places;
  if (endpoints.ok()) {
    for (const json::Value& subset : workloads::list_at(*endpoints, {"subsets"})) {
      for (const json::Value& port : workloads::list_at(subset, {"ports"})) {
        if (port.string_at({"name"}) != chosen->string_at({"name"})) continue;
        for (const json::Value& address : workloads::list_at(subset, {"addresses"}))
          places.push_back({std::string(address.string_at({"ip"})), int_at(port, "port")});
      }
    }
  }
  if (places.empty()) return unavailable(wish.object() + " has no pod that is ready");
  return places[runtime_.random() % places.size()];
}

}  // namespace basalt::cli
