#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rt/sim_test_support.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;

// Watches a queue from outside and knows nothing of how it works. For every key: never with two workers at once, and
// after the last accepted add there was a start of work. All under one lock, so that its order of events is a real one:
// an add is noted before the call, a start after it.
class Checker {
 public:
  std::uint64_t before_add(int key) {
    MutexLock lock(mutex_);
    (void)keys_[key];
    return ++clock_;
  }
  void after_add(int key, std::uint64_t when, AddResult result) {
    MutexLock lock(mutex_);
    if (result == AddResult::Added || result == AddResult::Merged) {
      keys_[key].last_add = std::max(keys_[key].last_add, when);
    } else if (result == AddResult::Full) {
      ++refused_;
    }
  }
  void start(int key) {
    MutexLock lock(mutex_);
    Key& state = keys_[key];
    EXPECT_FALSE(state.in_progress) << "key " << key << " is with two workers";
    state.in_progress = true;
    state.last_start = ++clock_;
    ++starts_;
  }
  void finish(int key) {
    MutexLock lock(mutex_);
    keys_[key].in_progress = false;
  }
  void at_end() {
    MutexLock lock(mutex_);
    for (const auto& [key, state] : keys_) {
      EXPECT_FALSE(state.in_progress) << "key " << key;
      EXPECT_TRUE(state.last_add == 0 || state.last_start > state.last_add)
          << "the last add of key " << key << " was lost";
    }
    EXPECT_GT(starts_, 0u);
  }
  std::uint64_t refused() {
    MutexLock lock(mutex_);
    return refused_;
  }

 private:
  struct Key {
    bool in_progress = false;
    std::uint64_t last_add = 0;
    std::uint64_t last_start = 0;
  };
  Mutex mutex_;
  std::uint64_t clock_ BASALT_GUARDED_BY(mutex_) = 0;
  std::uint64_t starts_ BASALT_GUARDED_BY(mutex_) = 0;
  std::uint64_t refused_ BASALT_GUARDED_BY(mutex_) = 0;
  std::map<int, Key> keys_ BASALT_GUARDED_BY(mutex_);
};

struct Load {
  int producers = 3;
  int workers = 3;
  int adds = 30;
  int keys = 6;
  std::size_t capacity = 1000;
  Duration unit = 1ms;  // of the delays
};

class Harness {
 public:
  Harness(Runtime& runtime, const Load& load)
      : runtime_(runtime),
        load_(load),
        queue_(runtime,
               {.capacity = load.capacity,
                .backoff = {.base = load.unit, .cap = 8 * load.unit},
                .high_streak_max = static_cast<std::uint32_t>(1 + runtime.random_below(3))},
               [](int key) { return static_cast<std::uint64_t>(key % 3); }) {}

  void run() {
    std::vector<Thread> producers;
    std::vector<Thread> workers;
    for (int i = 0; i < load_.workers; ++i)
      workers.emplace_back(runtime_, "worker-" + std::to_string(i), [this] { work(); });
    for (int i = 0; i < load_.producers; ++i)
      producers.emplace_back(runtime_, "producer-" + std::to_string(i), [this] { produce(); });
    for (Thread& thread : producers) thread.join();
    wait_until_idle();
    queue_.close();
    for (Thread& thread : workers) thread.join();
    checker_.at_end();
    EXPECT_EQ(checker_.refused() > 0, queue_.overflowed());
  }

 private:
  void produce() {
    for (int i = 0; i < load_.adds; ++i) {
      add_somehow(static_cast<int>(runtime_.random_below(static_cast<std::uint64_t>(load_.keys))));
      pause();
    }
  }

  void add_somehow(int key) {
    const std::uint64_t when = checker_.before_add(key);
    AddResult result{};
    switch (runtime_.random_below(5)) {
      case 0:
        result = queue_.add_after(key, load_.unit * static_cast<int>(runtime_.random_below(10)));
        break;
      case 1:
        result = queue_.add(key, Priority::High);
        break;
      case 2:
        result = queue_.add_rate_limited(key);
        break;
      default:
        result = queue_.add(key);
        break;
    }
    checker_.after_add(key, when, result);
  }

  void work() {
    while (const std::optional<int> key = queue_.get()) {
      checker_.start(*key);
      pause();
      // One in four asks for more, so that the whole ends.
      if (runtime_.random_below(4) == 0) {
        add_somehow(*key);
      } else {
        queue_.forget(*key);
      }
      checker_.finish(*key);
      queue_.done(*key);
      if (runtime_.random_below(8) == 0) pause();
    }
  }

  void pause() {
    switch (runtime_.random_below(4)) {
      case 0:
        runtime_.sleep_for(load_.unit * static_cast<int>(1 + runtime_.random_below(3)));
        break;
      case 1:
        break;
      default:
        runtime_.yield();
        break;
    }
  }

  // By looking at the queue's own figures, which this tests too.
  void wait_until_idle() {
    for (;;) {
      const WorkQueueMetrics metrics = queue_.metrics();
      if (metrics.depth == 0 && metrics.delayed == 0 && metrics.in_progress == 0) return;
      runtime_.sleep_for(load_.unit);
    }
  }

  Runtime& runtime_;
  const Load load_;
  Checker checker_;
  WorkQueue<int> queue_;
};

TEST(WorkQueueSim, NothingIsLostAndNothingIsDoneTwiceAtOnce) {
  run_seeds(1, 1000, [](SimRuntime& runtime) { Harness(runtime, {}).run(); });
}

TEST(WorkQueueSim, TheSameAtItsCapacity) {
  run_seeds(10'000, 500, [](SimRuntime& runtime) { Harness(runtime, {.keys = 12, .capacity = 3}).run(); });
}

TEST(WorkQueueSim, TheSameOnTheOperatingSystem) {
  const auto runtime = make_real_runtime();
  Harness(*runtime, {.producers = 4, .workers = 4, .adds = 500, .keys = 8, .unit = 10us}).run();
}

TEST(Workers, OutcomesDecideWhatBecomesOfAKey) {
  run_seeds(1, 100, [](SimRuntime& runtime) {
    WorkQueue<std::string> queue(runtime, {.backoff = {.base = 10ms, .cap = 1s, .jitter = 0}});
    Mutex mutex;
    std::map<std::string, std::vector<Instant>> started;
    Workers<std::string> workers(runtime, queue, {.name = "w", .count = 3},
                                 [&](const std::string& key, const StopToken&) {
                                   std::size_t times = 0;
                                   {
                                     const MutexLock lock(mutex);
                                     started[key].push_back(runtime.now());
                                     times = started[key].size();
                                   }
                                   runtime.yield();
                                   if (key == "done" || times == 3) return Outcome::done();
                                   if (key == "later") return Outcome::retry_after(1min);
                                   if (key == "bad")
                                     return Outcome::failed_for_good(Error::make(Reason::Invalid, "no"));
                                   Error error = Error::make(Reason::Conflict, "again");
                                   if (key == "busy") error.retry_after = 2s;
                                   return Outcome::failed(error);
                                 });
    for (const char* key : {"done", "later", "bad", "fails", "busy"}) queue.add(key);
    runtime.sleep_for(1h);
    const auto at = [](auto... times) { return std::vector<Instant>{Instant(times)...}; };
    EXPECT_EQ(started["done"], at(0s));
    EXPECT_EQ(started["later"], at(0s, 1min, 2min));
    EXPECT_EQ(started["bad"], at(0s));
    EXPECT_EQ(started["fails"], at(0ms, 10ms, 30ms));
    EXPECT_EQ(started["busy"], at(0s, 2s, 4s));
    EXPECT_EQ(queue.retries("fails"), 0u);
    workers.stop();
  });
}

TEST(Workers, StopInterruptsAndDrainFinishes) {
  run_everywhere(1, 100, [](Runtime& runtime) {
    {
      WorkQueue<int> queue(runtime);
      std::atomic<int> interrupted{0};
      Workers<int> workers(runtime, queue, {.count = 2}, [&](int, const StopToken& stop) {
        if (stop.wait_for(runtime, 24h)) ++interrupted;
        return Outcome::done();
      });
      for (int i = 0; i < 5; ++i) queue.add(i);
      while (queue.metrics().in_progress < 2) runtime.sleep_for(10us);
      workers.stop();
      EXPECT_EQ(interrupted, 2);
    }
    {
      WorkQueue<int> queue(runtime);
      std::atomic<int> handled{0};
      std::atomic<int> observed{0};
      Workers<int> workers(
          runtime, queue, {.count = 2},
          [&](int, const StopToken&) {
            runtime.yield();
            ++handled;
            return Outcome::failed(Error::make(Reason::Conflict, "again"));
          },
          [&](int, const Outcome&, Duration) { ++observed; });
      for (int i = 0; i < 50; ++i) queue.add(i);
      workers.drain();
      EXPECT_GE(handled, 50);
      EXPECT_EQ(handled, observed);
    }
  });
}

}  // namespace
}  // namespace basalt::rt
