#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/http/front.h"
#include "base/result.h"
#include "cli/up/request_threads.h"
#include "node/node.h"
#include "rt/runtime.h"
#include "rt/timer.h"

namespace basalt::cli {

// Serves pods/exec of the embedded API server from the nodes of this process: `kubectl exec POD -- command`, with input
// (-i) and a terminal (-t), over a WebSocket; exec_client.h has the protocol and its limits. Also pods/attach, which
// shows what the container prints from now on; who wants to attach input is told what to do instead. Each request has a
// thread until it ends; kCommandsMax at once. A command ends with its client. Thread-safe. stop() before the nodes' and
// before destruction.
class PodExecHandler {
 public:
  static constexpr std::size_t kCommandsMax = 64;

  // The nodes outlive it; none is added later.
  PodExecHandler(rt::Runtime& runtime, const std::vector<std::unique_ptr<node::Node>>& nodes);

  ~PodExecHandler() { stop(); }

  [[nodiscard]] apiserver::ConnectHandler handler();
  // Ends the commands; requests that come later are refused. Idempotent.
  void stop();

 private:
  using ResponderRef = std::shared_ptr<net::Responder>;
  Done accept(const apiserver::ConnectRequest& request, const ResponderRef& responder);
  // Until it is closed.
  void ping_later(std::weak_ptr<net::Responder> client);
  [[nodiscard]] Result<node::Node*> holder_of(const node::Node::Command& command);

  // Fixed after construction.
  rt::Runtime& runtime_;
  const std::vector<std::unique_ptr<node::Node>>& nodes_;

  // Self-locking.
  rt::TimerQueue pings_;
  RequestThreads commands_;
};

}  // namespace basalt::cli
