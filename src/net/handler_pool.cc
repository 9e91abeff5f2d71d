#include "net/handler_pool.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace basalt::net {

HandlerPool::HandlerPool(rt::Runtime& runtime, Options options, Handler handler)
    : runtime_(runtime), options_(options), handler_(std::move(handler)), changed_(runtime) {}

HandlerPool::~HandlerPool() { BASALT_CHECK(threads_.empty()); }

void HandlerPool::start() {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back(runtime_, "http-handler-" + std::to_string(i), [this] { run(); });
  }
}

bool HandlerPool::submit(std::shared_ptr<const ServerRequest> request, std::shared_ptr<Exchange> exchange) {
  if (options_.threads == 0) {
    handler_(std::move(request), make_responder(std::move(exchange)));
    return true;
  }
  {
    rt::MutexLock lock(mutex_);
    const std::size_t bytes = request->body.size();
    if (waiting_.size() >= options_.waiting_max || waiting_bytes_ + bytes > options_.waiting_bytes_max) return false;
    waiting_bytes_ += bytes;
    waiting_.push_back({.request = std::move(request), .responder = make_responder(std::move(exchange))});
  }
  changed_.notify_one();
  return true;
}

void HandlerPool::stop() {
  std::deque<Work> dropped;
  {
    rt::MutexLock lock(mutex_);
    is_stopping_ = true;
    dropped.swap(waiting_);
  }
  changed_.notify_all();
  for (rt::Thread& thread : threads_) thread.join();
  threads_.clear();
}

void HandlerPool::run() {
  for (;;) {
    Work work;
    {
      rt::MutexLock lock(mutex_);
      while (waiting_.empty() && !is_stopping_) changed_.wait(mutex_);
      if (is_stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= work.request->body.size();
    }
    handler_(std::move(work.request), std::move(work.responder));
  }
}

}  // namespace basalt::net
