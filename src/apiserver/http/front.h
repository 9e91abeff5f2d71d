#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apiserver/http/api_path.h"
#include "apiserver/http/watch_pump.h"
#include "apiserver/registry/api_server.h"
#include "base/log.h"
#include "net/http_server.h"
#include "net/url.h"

namespace basalt::apiserver {

class AuditLog;  // audit_log.h

// A request for a subresource that is not an object (pods/log, pods/exec). Valid during the call.
struct ConnectRequest {
  const net::ServerRequest& http;
  const ApiPath& path;
  const net::Query& query;
  const UserInfo& user;
};
// Answers one: false if it does not serve this subresource.
using ConnectHandler =
    std::function<bool(const ConnectRequest& request, const std::shared_ptr<net::Responder>& responder)>;

struct FrontOptions {
  net::HttpServerOptions server;           // address, port, TLS with the authority of client certificates
  std::map<std::string, UserInfo> tokens;  // bearer token -> user
  std::string advertised_address;          // "127.0.0.1:6443", for discovery; filled in from the port if empty
  std::string version = "v1.36.0";         // of the Kubernetes API that is served, as /version says
  WatchPump::Options watches;
  ConnectHandler connect;
  std::shared_ptr<AuditLog> audit;  // null: nothing is recorded
  // Why the server cannot do its work now (its disk is full), for /readyz; nothing while it can. May be empty.
  std::function<std::optional<std::string>()> problem;
};

// The API server over HTTPS. Owned by whoever starts the server; stop() before the ApiServer's stop().
class Front {
 public:
  static Result<std::unique_ptr<Front>> start(rt::Runtime& runtime, Logger log, ApiServer& server,
                                              FrontOptions options);
  virtual ~Front() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  virtual void stop() = 0;
};

}  // namespace basalt::apiserver
