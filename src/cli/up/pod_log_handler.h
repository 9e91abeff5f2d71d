#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/http/front.h"
#include "base/result.h"
#include "cli/up/request_threads.h"
#include "net/url.h"
#include "node/node.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::cli {

// Serves pods/log of the embedded API server from the nodes of this process: what `kubectl logs` asks for. Each request
// has a thread of its own until it is answered, since following a log may take days; kReadersMax at once, more are told
// to come again. A client that does not read holds up nobody but its own thread, with at most kBacklogBytesMax in
// memory. Thread-safe. stop() before the nodes' and before destruction.
class PodLogHandler {
 public:
  static constexpr std::size_t kReadersMax = 256;
  static constexpr std::size_t kBacklogBytesMax = 1u << 20;

  // The nodes outlive it; none is added later.
  PodLogHandler(rt::Runtime& runtime, const std::vector<std::unique_ptr<node::Node>>& nodes);

  [[nodiscard]] apiserver::ConnectHandler handler();
  // Ends the readers; requests that come later are refused. Idempotent.
  void stop() { readers_.stop(); }

 private:
  struct Wish {
    std::string ns;
    std::string pod;
    std::string container;
    node::LogOptions options;
  };
  void accept(const apiserver::ApiPath& path, const net::Query& query,
              const std::shared_ptr<net::Responder>& responder);
  void serve(const Wish& wish, net::Responder& responder, const rt::StopToken& stop);
  [[nodiscard]] Result<Wish> parse(const apiserver::ApiPath& path, const net::Query& query) const;

  // Fixed after construction.
  rt::Runtime& runtime_;
  const std::vector<std::unique_ptr<node::Node>>& nodes_;

  RequestThreads readers_;  // self-locking; last: its threads use the others
};

}  // namespace basalt::cli
