#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "apiserver/http/front.h"
#include "base/result.h"
#include "cli/up/port_forward_client.h"
#include "cli/up/request_threads.h"
#include "kube/client.h"
#include "net/tcp_dialer.h"
#include "rt/runtime.h"

namespace basalt::cli {

// Serves pods/portforward of the embedded API server: `kubectl port-forward`. Connections go to the pod's own address;
// only those of process nodes' pods are called, whatever a status claims. port_forward_client.h has the protocol and
// its limits. Each client has a thread until it ends; kClientsMax at once. A client is told, and ends, when its pod is
// gone or over. Thread-safe. stop() before the kube client's end and before destruction.
class PodPortForwardHandler {
 public:
  static constexpr std::size_t kClientsMax = 64;
  static constexpr rt::Duration kLookPeriod = std::chrono::seconds(2);  // at the pod, which may have gone

  // The kube client outlives it.
  PodPortForwardHandler(rt::Runtime& runtime, kube::Client& client, std::unique_ptr<net::TcpDialer> dialer);
  ~PodPortForwardHandler() { stop(); }

  [[nodiscard]] apiserver::ConnectHandler handler();
  // Ends the clients; those that come later are refused. Idempotent.
  void stop();

 private:
  struct Pod {
    std::string ns;
    std::string name;
    std::string uid;
    std::string address;

    [[nodiscard]] std::string text() const { return ns + "/" + name; }
  };
  Done accept(const apiserver::ConnectRequest& request, const std::shared_ptr<net::Responder>& responder);
  [[nodiscard]] Result<Pod> pod_of(const apiserver::ApiPath& path);
  [[nodiscard]] Result<json::Value> read(const std::string& ns, const std::string& name);
  // Why there is nothing to forward to any more; nothing while there is.
  [[nodiscard]] std::optional<std::string> end_of(const Pod& pod);

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& client_;
  const std::unique_ptr<net::TcpDialer> dialer_;  // self-locking

  RequestThreads clients_;  // self-locking
};

}  // namespace basalt::cli
