#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/http/front.h"
#include "base/result.h"
#include "node/node.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::cli {

// Serves pods/exec of the embedded API server from the nodes of this process: `kubectl exec POD -- command`, over a
// WebSocket in the form v5.channel.k8s.io (or v4). The command gets no input: who asks for one, or for a terminal, or
// for pods/attach, is told so. Each command has a thread until it ends; kCommandsMax at once. A client that does not
// read is cut off at kBacklogBytesMax. Thread-safe. stop() before the nodes' and before destruction.
class PodExecHandler {
 public:
  static constexpr std::size_t kCommandsMax = 64;
  static constexpr std::size_t kBacklogBytesMax = 4u << 20;

  // The nodes outlive it; none is added later.
  PodExecHandler(rt::Runtime& runtime, const std::vector<std::unique_ptr<node::Node>>& nodes);
  ~PodExecHandler();

  [[nodiscard]] apiserver::ConnectHandler handler();
  // Ends the commands; requests that come later are refused. Idempotent.
  void stop();

 private:
  using ResponderRef = std::shared_ptr<net::Responder>;
  Done accept(const apiserver::ConnectRequest& request, const ResponderRef& responder);
  void serve(const node::Node::Command& command, node::Node& holder, net::Responder& responder,
             const rt::StopToken& stop);
  [[nodiscard]] Result<node::Node*> holder_of(const node::Node::Command& command);
  void join_ended();

  // Fixed after construction.
  rt::Runtime& runtime_;
  const std::vector<std::unique_ptr<node::Node>>& nodes_;

  rt::StopSource stop_;  // self-locking

  rt::Mutex mutex_;
  std::map<std::size_t, rt::Thread> commands_ BASALT_GUARDED_BY(mutex_);
  std::vector<std::size_t> ended_ BASALT_GUARDED_BY(mutex_);  // of commands_, to be joined
  std::size_t last_ BASALT_GUARDED_BY(mutex_) = 0;
  bool stopped_ BASALT_GUARDED_BY(mutex_) = false;
};

}  // namespace basalt::cli
