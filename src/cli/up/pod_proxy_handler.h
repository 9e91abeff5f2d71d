#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/http/front.h"
#include "base/result.h"
#include "cli/up/request_threads.h"
#include "kube/client.h"
#include "net/http_client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::cli {

// Where a name of pods/proxy or services/proxy leads: "web", "web:8080", "web:http", "https:web:8443".
struct ProxyTarget {
  std::string scheme = "http";
  std::string name;
  std::string port;  // "" for the first one
};
[[nodiscard]] Result<ProxyTarget> parse_proxy_target(std::string_view text);
// Of 127.64.0.0/10, where process nodes have their pods: nobody reaches another service of this machine by a status.
[[nodiscard]] bool is_pod_address(std::string_view address);

// Serves pods/proxy and services/proxy of the embedded API server: the request goes on to the port of the pod, or of a
// ready pod of the service, and its answer comes back piece by piece. Only addresses of process nodes' pods are called,
// whatever a status claims. Upgrades (WebSockets) are not passed on. Each request has a thread until it ends;
// kRequestsMax at once. A client that reads slowly slows the pod down at kBacklogBytesMax. Thread-safe. stop() before
// the client's end and before destruction.
class PodProxyHandler {
 public:
  static constexpr std::size_t kRequestsMax = 64;
  static constexpr std::size_t kBacklogBytesMax = 1u << 20;

  // The client outlives it.
  static Result<std::unique_ptr<PodProxyHandler>> make(rt::Runtime& runtime, kube::Client& client);

  [[nodiscard]] apiserver::ConnectHandler handler();
  // Ends the requests; those that come later are refused. Idempotent.
  void stop() { requests_.stop(); }

 private:
  struct Place {
    std::string address;
    std::int64_t port = 0;
  };
  struct Wish;

  PodProxyHandler(rt::Runtime& runtime, kube::Client& client, std::unique_ptr<net::HttpClient> http);
  Done accept(const apiserver::ConnectRequest& request, const std::shared_ptr<net::Responder>& responder);
  void serve(const Wish& wish, net::Responder& responder, const rt::StopToken& stop);
  [[nodiscard]] Result<Place> place_of(const Wish& wish, const rt::StopToken& stop);
  [[nodiscard]] Result<Place> place_of_pod(const Wish& wish, const rt::StopToken& stop);
  [[nodiscard]] Result<Place> place_of_service(const Wish& wish, const rt::StopToken& stop);
  [[nodiscard]] Result<json::Value> read(std::string_view plural, const Wish& wish, const rt::StopToken& stop);
  void pass_on(net::HttpStream& answer, bool has_body, net::Responder& responder, const rt::StopToken& stop);

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& client_;
  const std::unique_ptr<net::HttpClient> http_;  // self-locking

  RequestThreads requests_;  // self-locking
};

}  // namespace basalt::cli
