#include "net/handler_pool.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace basalt::net {

HandlerPool::HandlerPool(rt::Runtime& runtime, Options options, Handler handler)
    : runtime_(runtime), options_(options), handler_(std::move(handler)) {}

HandlerPool::~HandlerPool() { BASALT_CHECK(threads_.empty()); }

void HandlerPool::start() {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back(runtime_, "http-handler-" + std::to_string(i), [this] { run(); });
  }
}

bool HandlerPool::is_full_for(std::size_t body_bytes) const {
  return waiting_.size() >= options_.waiting_max || waiting_bytes_ + body_bytes > options_.waiting_bytes_max;
}

bool HandlerPool::has_room_for(std::size_t body_bytes) {
  if (options_.threads == 0) return true;
  rt::MutexLock lock(mutex_);
  return !is_full_for(body_bytes);
}

bool HandlerPool::submit(std::shared_ptr<const ServerRequest> request, std::shared_ptr<Exchange> exchange) {
  if (options_.threads == 0) {
    handler_(std::move(request), make_responder(std::move(exchange)));
    return true;
  }
  rt::MutexLock lock(mutex_);
  const std::size_t bytes = request->body.size();
  if (is_full_for(bytes)) return false;
  waiting_bytes_ += bytes;
  waiting_.push_back({.request = std::move(request), .responder = make_responder(std::move(exchange))});
  call_one();
  return true;
}

void HandlerPool::call_one() {
  if (is_one_called_ || idle_.empty() || is_stopping_) return;
  is_one_called_ = true;
  Idle& last = *idle_.back();
  idle_.pop_back();
  last.is_called = true;
  last.woken.notify_one();
}

void HandlerPool::stop() {
  std::deque<Work> dropped;
  {
    rt::MutexLock lock(mutex_);
    is_stopping_ = true;
    dropped.swap(waiting_);
    for (Idle* idle : idle_) idle->woken.notify_one();
  }
  for (rt::Thread& thread : threads_) thread.join();
  threads_.clear();
}

// False when the pool stops.
bool HandlerPool::wait_for_work(Idle& self) {
  while (waiting_.empty() && !is_stopping_) {
    self.is_called = false;
    idle_.push_back(&self);
    while (!self.is_called && !is_stopping_) self.woken.wait(mutex_);
    if (self.is_called) is_one_called_ = false;
  }
  return !is_stopping_;
}

void HandlerPool::run() {
  Idle self(runtime_);
  for (;;) {
    Work work;
    {
      rt::MutexLock lock(mutex_);
      if (!wait_for_work(self)) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= work.request->body.size();
      if (!waiting_.empty()) call_one();
    }
    handler_(std::move(work.request), std::move(work.responder));
  }
}

}  // namespace basalt::net
