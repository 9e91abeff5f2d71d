#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/http_server.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::cli {

// A thread for each request that may take days (a log that is followed, a command in a pod), until it is answered; at
// most `threads_max` at once, more are refused with TooManyRequests. Thread-safe. stop() before whatever the requests
// use goes away; the destructor does it too.
class RequestThreads {
 public:
  struct Options {
    std::string thread_name;
    std::size_t threads_max = 0;
    std::string refusal;  // to who comes when there are as many
  };
  RequestThreads(rt::Runtime& runtime, Options options);
  ~RequestThreads();

  // Runs `serve` in a thread of its own, or says why not: too many, or the cluster is stopping.
  Done start(std::function<void()> serve);
  // What every request has to end by.
  [[nodiscard]] rt::StopToken token() const { return stop_.token(); }
  // Stops the requests and waits for them; those that come later are refused. Idempotent.
  void stop();

 private:
  void join_ended();

  // Fixed after construction.
  rt::Runtime& runtime_;
  const Options options_;

  rt::StopSource stop_;  // self-locking

  rt::Mutex mutex_;
  std::map<std::size_t, rt::Thread> threads_ BASALT_GUARDED_BY(mutex_);
  std::vector<std::size_t> ended_ BASALT_GUARDED_BY(mutex_);  // of threads_, to be joined
  std::size_t last_ BASALT_GUARDED_BY(mutex_) = 0;
  bool stopped_ BASALT_GUARDED_BY(mutex_) = false;
};

// Answers with the Status of an error.
void respond_with_error(net::Responder& responder, const Error& error);

}  // namespace basalt::cli
