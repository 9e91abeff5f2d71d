#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rt/time.h"

namespace basalt::apiserver {

// What a token says of a service account.
struct ServiceToken {
  // An object without which the token is worth nothing: a pod or a secret of the namespace, or a node.
  struct Bound {
    std::string kind;  // "pod", "secret", "node"; "" if it is bound to nothing
    std::string name;
    std::string uid;
  };
  std::string ns;
  std::string name;
  std::string uid;
  Bound bound;
  Bound node;      // where a bound pod runs; only told
  std::string id;  // of this token, for audit logs
  std::vector<std::string> audiences;
  std::int64_t issued = 0;  // seconds since 1970
  std::int64_t expires = 0;
  std::int64_t warn_after = 0;  // when a client should have asked for another; 0 = when it expires
};

inline constexpr std::string_view kTokenIssuer = "https://kubernetes.default.svc.cluster.local";

// A JSON web token, signed with the key.
[[nodiscard]] std::string sign_token(const ServiceToken& token, std::string_view key);
// Unauthorized if it is no token of ours, was changed, or is over at `now`.
[[nodiscard]] Result<ServiceToken> check_token(std::string_view text, std::string_view key, std::int64_t now);

}  // namespace basalt::apiserver
