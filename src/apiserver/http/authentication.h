#pragma once

#include <map>
#include <optional>
#include <string>

#include "apiserver/registry/api_server.h"
#include "base/result.h"
#include "net/http_server.h"

namespace basalt::apiserver {

// Who a request comes from: a client certificate (CN = user, O = groups; verified by the TLS layer against the
// cluster's authority) or a bearer token: one of a fixed list, or of a service account. Immutable after construction.
class Authenticator {
 public:
  // token -> user
  Authenticator(std::map<std::string, UserInfo> tokens, const ApiServer& server)
      : tokens_(std::move(tokens)), server_(server) {}
  // The user, Unauthorized for a token that nobody has, nothing if the request carries no identity.
  [[nodiscard]] Result<std::optional<UserInfo>> authenticate(const net::ServerRequest& request) const;

 private:
  std::map<std::string, UserInfo> tokens_;
  const ApiServer& server_;  // knows the tokens of service accounts
};

}  // namespace basalt::apiserver
