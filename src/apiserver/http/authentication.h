#pragma once

#include <map>
#include <optional>
#include <string>

#include "apiserver/registry/api_server.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "net/http_server.h"
#include "rt/mutex.h"

namespace basalt::apiserver {

// Who a request comes from: a client certificate (CN = user, O = groups; verified by the TLS layer against the
// cluster's authority) or a bearer token: one of a fixed list, or of a service account. Thread-safe.
// A certificate is read once and remembered: it comes with every request of its connection.
class Authenticator {
 public:
  // token -> user
  Authenticator(std::map<std::string, UserInfo> tokens, const ApiServer& server)
      : tokens_(std::move(tokens)), server_(server) {}
  // The user, Unauthorized for a token that nobody has, nothing if the request carries no identity.
  [[nodiscard]] Result<std::optional<UserInfo>> authenticate(const net::ServerRequest& request) const;

 private:
  [[nodiscard]] Result<UserInfo> user_of_certificate(const std::string& pem) const;

  // Fixed after construction.
  std::map<std::string, UserInfo> tokens_;
  const ApiServer& server_;  // knows the tokens of service accounts

  mutable rt::Mutex mutex_;
  // By certificate; forgotten as a whole when there are too many.
  mutable std::map<std::string, UserInfo, std::less<>> certificates_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::apiserver
