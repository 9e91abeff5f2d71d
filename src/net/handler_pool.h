#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "net/http_server.h"
#include "net/server_exchange.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::net {

// The threads that run handlers, and the requests that wait for one. Without threads a handler runs where submit() is
// called.
class HandlerPool {
 public:
  struct Options {
    int threads = 0;
    std::size_t waiting_max = 0;
    std::size_t waiting_bytes_max = 0;  // of their bodies
  };
  HandlerPool(rt::Runtime& runtime, Options options, Handler handler);
  ~HandlerPool();
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  void start();
  // False if too many wait already.
  [[nodiscard]] bool submit(std::shared_ptr<const ServerRequest> request, std::shared_ptr<Exchange> exchange);
  // Drops what waits and returns when all handlers have.
  void stop();

 private:
  struct Work {
    std::shared_ptr<const ServerRequest> request;
    std::shared_ptr<Responder> responder;
  };
  void run();

  // Fixed after start().
  rt::Runtime& runtime_;
  const Options options_;
  const Handler handler_;
  std::vector<rt::Thread> threads_;

  rt::Mutex mutex_;
  rt::Condition changed_;
  std::deque<Work> waiting_ BASALT_GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ BASALT_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ BASALT_GUARDED_BY(mutex_) = false;
};

}  // namespace basalt::net
