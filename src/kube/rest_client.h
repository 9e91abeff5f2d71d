#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "kube/credentials.h"
#include "kube/kubeconfig.h"
#include "net/http_client.h"
#include "rt/runtime.h"

namespace basalt::kube {

class Metrics;

struct RestClientOptions {
  // The first token is the field manager of writes that name none, so a role that replaces another program starts with
  // that one's name.
  std::string user_agent;  // "" = default_user_agent("basalt")
  // Calls a second over all threads, with a burst; 0 = no limit (the server's priority and fairness decides).
  double calls_per_second = 0;
  int burst = 100;
  int connections_max = 64;
  int attempts_max = 10;  // of one call, within its timeout
  std::size_t response_bytes_max = 64u << 20;
  std::size_t list_bytes_max = 1u << 30;  // a page; unpaged lists are as large as the cluster
  std::size_t watch_frame_bytes_max = 8u << 20;
  Metrics* metrics = nullptr;  // basalt_client_requests_total{verb,code}, ..._seconds{verb}
};

// "name/0.1.0 (linux/amd64)"
[[nodiscard]] std::string default_user_agent(std::string_view name);

// Makes the transport for a certificate; called again when an exec program gives a new one.
using HttpFactory = std::function<Result<std::unique_ptr<net::HttpClient>>(const Credential& credential)>;

// kube::Client over HTTP. Retries with backoff within the call's timeout: reads on every transient error; writes only
// if the server certainly did not carry them out (Unreachable, or 429 and 503 that carry Retry-After). A 401 renews the
// credential once.
class RestClient : public Client {
 public:
  struct Target {
    std::string server;  // https://host:port[/prefix]
    std::shared_ptr<Credentials> credentials;
    Impersonation impersonation;
    HttpFactory make_http;
  };
  [[nodiscard]] static std::unique_ptr<RestClient> make(rt::Runtime& runtime, Logger log, Target target,
                                                        RestClientOptions options = {});
  // Any path: /version, /readyz, discovery. One attempt.
  virtual Result<net::HttpResponse> raw(std::string_view method, std::string_view path_and_query, std::string_view body,
                                        const rt::StopToken& stop) = 0;
};

[[nodiscard]] Result<std::unique_ptr<RestClient>> make_rest_client(rt::Runtime& runtime, Logger log,
                                                                   const ClientConfig& config,
                                                                   RestClientOptions options = {});

// Pieces with tests of their own.
[[nodiscard]] std::string path_of(const Request& request);  // with query: /api/v1/namespaces/a/pods/b?fieldManager=c
[[nodiscard]] std::string path_of(const ListRequest& request);
[[nodiscard]] std::string path_of(const WatchRequest& request);
[[nodiscard]] std::string delete_options_of(const Request& request);  // "" if a plain delete will do
[[nodiscard]] Result<ListPage> split_list(std::string_view body);

}  // namespace basalt::kube
