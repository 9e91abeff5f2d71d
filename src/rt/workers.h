#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "rt/work_queue.h"

namespace basalt::rt {

// How the work on a key ended, and so what becomes of the key.
struct [[nodiscard]] Outcome {
  enum class Kind : std::uint8_t {
    Done,           // nothing more to do until the key is added again
    RetryAfter,     // look again after `delay`; no failure
    Failed,         // look again after the backoff, and not before the server's wish in the error
    FailedForGood,  // trying again cannot help: only a change of the object can, and that adds the key
  };
  Kind kind = Kind::Done;
  Duration delay{};            // RetryAfter
  std::optional<Error> error;  // Failed, FailedForGood

  static Outcome done() { return {}; }
  static Outcome retry_after(Duration delay) { return {.kind = Kind::RetryAfter, .delay = delay}; }
  static Outcome failed(Error error) { return {.kind = Kind::Failed, .error = std::move(error)}; }
  static Outcome failed_for_good(Error error) { return {.kind = Kind::FailedForGood, .error = std::move(error)}; }
};

// Takes key and outcome to the queue: what a worker does between the work and done().
template <class Key, class Hash>
void settle_outcome(WorkQueue<Key, Hash>& queue, const Key& key, const Outcome& outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::RetryAfter:
      queue.forget(key);
      queue.add_after(key, outcome.delay);
      return;
    case Outcome::Kind::Failed:
      queue.add_rate_limited(key, outcome.error ? outcome.error->retry_after.value_or(std::chrono::milliseconds(0))
                                                : std::chrono::milliseconds(0));
      return;
    case Outcome::Kind::Done:
    case Outcome::Kind::FailedForGood:
      queue.forget(key);
      return;
  }
}

struct WorkersOptions {
  std::string name = "worker";  // of the threads, followed by a number
  int count = 1;
};

// A fixed number of threads that work on the keys of a queue. Owned by whoever owns the queue, which outlives it;
// stop() or drain() before destruction.
//
// The handler runs on several threads at once, but never twice at once for one key. It may wait; it should give up soon
// after its token is stopped, and what it then returns no longer matters.
template <class Key, class Hash = std::hash<Key>>
class Workers {
 public:
  using Handler = std::function<Outcome(const Key& key, const StopToken& stop)>;
  // Sees every outcome, with the time it took: the place to log and count. Called by the workers, without locks.
  using Observer = std::function<void(const Key& key, const Outcome& outcome, Duration took)>;

  Workers(Runtime& runtime, WorkQueue<Key, Hash>& queue, const WorkersOptions& options, Handler handler,
          Observer observer = {})
      : runtime_(runtime), queue_(queue), handler_(std::move(handler)), observer_(std::move(observer)), stop_(runtime) {
    threads_.reserve(static_cast<std::size_t>(options.count));
    for (int i = 0; i < options.count; ++i)
      threads_.emplace_back(runtime, options.name + "-" + std::to_string(i), [this] { work(); });
  }
  ~Workers() { BASALT_CHECK_MSG(threads_.empty() || runtime_.was_abandoned(), "workers were destroyed unstopped"); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Closes the queue, tells handlers to give up, and waits for them. What waited in the queue is dropped.
  void stop(std::source_location where = std::source_location::current()) {
    queue_.close();
    stop_.request_stop();
    join(where);
  }
  // Closes the queue, but lets the workers finish what waits in it.
  void drain(std::source_location where = std::source_location::current()) {
    queue_.close_and_drain();
    join(where);
  }
  // Stopped by stop(), for calls that are made on behalf of the workers.
  [[nodiscard]] StopToken token() const { return stop_.token(); }

 private:
  void work() {
    const StopToken stop = stop_.token();
    while (const std::optional<Key> key = queue_.get(stop)) {
      const Instant before = runtime_.now();
      const Outcome outcome = handler_(*key, stop);
      if (observer_) observer_(*key, outcome, runtime_.now() - before);
      settle_outcome(queue_, *key, outcome);
      queue_.done(*key);
    }
  }
  void join(std::source_location where) {
    for (Thread& thread : threads_) thread.join(where);
    threads_.clear();
  }

  // Fixed after construction.
  Runtime& runtime_;
  WorkQueue<Key, Hash>& queue_;
  const Handler handler_;
  const Observer observer_;

  StopSource stop_;
  std::vector<Thread> threads_;  // used only by the owner
};

}  // namespace basalt::rt
