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
// called. The thread that went idle last is woken first, because its caches are warm; and one at a time: who wakes up
// wakes the next if there is more to do, so that a burst does not wake more threads than there is room for.
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
  // False if too many wait already for one more with such a body.
  [[nodiscard]] bool has_room_for(std::size_t body_bytes);
  // False if too many wait already.
  [[nodiscard]] bool submit(std::shared_ptr<const ServerRequest> request, std::shared_ptr<Exchange> exchange);
  // Drops what waits and returns when all handlers have.
  void stop();

 private:
  struct Work {
    std::shared_ptr<const ServerRequest> request;
    std::shared_ptr<Responder> responder;
  };
  // Of an idle thread.
  struct Idle {
    explicit Idle(rt::Runtime& runtime) : woken(runtime) {}
    rt::Condition woken;
    bool is_called = false;
  };
  void run();
  void call_one() BASALT_REQUIRES(mutex_);
  bool wait_for_work(Idle& self) BASALT_REQUIRES(mutex_);
  bool is_full_for(std::size_t body_bytes) const BASALT_REQUIRES(mutex_);

  // Fixed after start().
  rt::Runtime& runtime_;
  const Options options_;
  const Handler handler_;
  std::vector<rt::Thread> threads_;

  rt::Mutex mutex_;
  std::vector<Idle*> idle_ BASALT_GUARDED_BY(mutex_);     // in the order in which they went idle
  bool is_one_called_ BASALT_GUARDED_BY(mutex_) = false;  // and has not come yet
  std::deque<Work> waiting_ BASALT_GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ BASALT_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ BASALT_GUARDED_BY(mutex_) = false;
};

}  // namespace basalt::net
