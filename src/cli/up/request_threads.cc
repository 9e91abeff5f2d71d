#include "cli/up/request_threads.h"

#include <utility>

#include "kube/status.h"

namespace basalt::cli {

RequestThreads::RequestThreads(rt::Runtime& runtime, Options options)
    : runtime_(runtime), options_(std::move(options)), stop_(runtime) {}

RequestThreads::~RequestThreads() { stop(); }

Done RequestThreads::start(std::function<void()> serve) {
  join_ended();
  rt::MutexLock lock(mutex_);
  if (stopped_) return Error::make(Reason::ServiceUnavailable, "the cluster is stopping");
  if (threads_.size() >= options_.threads_max) return Error::make(Reason::TooManyRequests, options_.refusal);
  const std::size_t number = ++last_;
  threads_[number] = rt::Thread(runtime_, options_.thread_name, [this, number, serve = std::move(serve)] {
    serve();
    rt::MutexLock inner(mutex_);
    ended_.push_back(number);
  });
  return Ok{};
}

void RequestThreads::join_ended() {
  std::vector<rt::Thread> over;
  {
    rt::MutexLock lock(mutex_);
    for (const std::size_t number : ended_) {
      const auto found = threads_.find(number);
      if (found == threads_.end()) continue;  // stop() has it
      over.push_back(std::move(found->second));
      threads_.erase(found);
    }
    ended_.clear();
  }
  for (rt::Thread& thread : over) thread.join();
}

void RequestThreads::stop() {
  std::map<std::size_t, rt::Thread> threads;
  {
    rt::MutexLock lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
  }
  stop_.request_stop();
  for (auto& [number, thread] : threads) thread.join();
  rt::MutexLock lock(mutex_);
  ended_.clear();
}

void respond_with_error(net::Responder& responder, const Error& error) {
  const int code = error.code >= 400 ? error.code : 500;
  responder.respond(code, {{"Content-Type", "application/json"}}, kube::encode_status(error, error.subject));
}

}  // namespace basalt::cli
