#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "api/gen/core_pod.h"
#include "base/result.h"
#include "kube/client.h"
#include "node/pod_environment.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::node {

// The tokens that the volumes of one pod show: of its service account, and bound to the pod. Asked for once, and again
// when four fifths of the life are over, a day at most, as kubelet does; a server that is away then leaves the old one
// in use while that is good. Used by one thread at a time. Limit: one for each audience and life that the pod names.
class PodTokens {
 public:
  [[nodiscard]] Result<std::string> get(rt::Runtime& runtime, kube::Client& client, const api::core::Pod& pod,
                                        const TokenWish& wish, const rt::StopToken& stop);
  // When the first of them should be asked for again.
  [[nodiscard]] rt::Instant renew_at() const;

 private:
  struct Held {
    std::string text;
    rt::Instant renew_at;
    rt::Instant over_at;
  };
  std::map<TokenWish, Held> held_;
};

// Where containers of a pod find its service account.
inline constexpr std::string_view kAccountMountPath = "/var/run/secrets/kubernetes.io/serviceaccount";

// The variables by which a program finds the API server of its cluster, as kubelet sets them for the service
// `kubernetes`. Those that name a port carry 443 in their name, whatever port it is, since that is how programs ask.
[[nodiscard]] Environment service_environment(const std::string& host, std::uint16_t port);

// A kubeconfig that says what the account's folder says, for programs that look at $KUBECONFIG first: without it they
// would take that of the user's home, which is about another cluster. "" if the environment names no API server.
[[nodiscard]] std::string account_kubeconfig(const Environment& env, const std::string& folder, const std::string& ns);

}  // namespace basalt::node
