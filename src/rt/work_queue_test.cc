#include "rt/work_queue.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rt/sim_test_support.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;
using Queue = WorkQueue<std::string>;

constexpr BackoffOptions kNoJitter{.base = 5ms, .cap = 1s, .factor = 2, .jitter = 0};

std::vector<std::string> take_all(Queue& queue) {
  std::vector<std::string> keys;
  while (const auto key = queue.try_get()) {
    keys.push_back(*key);
    queue.done(*key);
  }
  return keys;
}

TEST(WorkQueue, DuplicatesMergeAndOrderIsKept) {
  run_everywhere(1, 1, [](Runtime& runtime) {
    Queue queue(runtime);
    EXPECT_EQ(queue.add("b"), AddResult::Added);
    EXPECT_EQ(queue.add("a"), AddResult::Added);
    EXPECT_EQ(queue.add("b"), AddResult::Merged);
    EXPECT_EQ(queue.size(), 2u);
    EXPECT_EQ(take_all(queue), (std::vector<std::string>{"b", "a"}));
    EXPECT_EQ(queue.size(), 0u);
  });
}

TEST(WorkQueue, AKeyAddedInProgressWaitsAfterDone) {
  run_everywhere(1, 1, [](Runtime& runtime) {
    Queue queue(runtime);
    queue.add("a");
    EXPECT_EQ(queue.get(), "a");
    EXPECT_EQ(queue.add("a"), AddResult::Added);
    EXPECT_EQ(queue.add("a"), AddResult::Merged);
    EXPECT_EQ(queue.size(), 0u);
    EXPECT_EQ(queue.try_get(), std::nullopt);
    queue.done("a");
    EXPECT_EQ(queue.size(), 1u);
    EXPECT_EQ(queue.get(), "a");
    queue.done("a");
    EXPECT_EQ(queue.try_get(), std::nullopt);
  });
}

TEST(WorkQueue, TheEarliestDelayCounts) {
  run_seeds(1, 5, [](SimRuntime& runtime) {
    Queue queue(runtime);
    EXPECT_EQ(queue.add_after("a", 10s), AddResult::Added);
    EXPECT_EQ(queue.add_after("a", 5s), AddResult::Merged);
    EXPECT_EQ(queue.add_after("a", 7s), AddResult::Merged);
    EXPECT_EQ(queue.add_after("b", 1s), AddResult::Added);
    EXPECT_EQ(queue.metrics().delayed, 2u);
    EXPECT_EQ(queue.get(), "b");
    EXPECT_EQ(runtime.now(), Instant(1s));
    EXPECT_EQ(queue.get(), "a");
    EXPECT_EQ(runtime.now(), Instant(5s));
    // Due while in progress: handed out again, after done().
    queue.add_after("a", 1s);
    queue.add_after("b", 0s);
    runtime.sleep_for(2s);
    EXPECT_EQ(queue.try_get(), std::nullopt);
    queue.done("a");
    EXPECT_EQ(queue.get(), "a");
    queue.done("b");
    EXPECT_EQ(queue.get(), "b");
    EXPECT_EQ(runtime.now(), Instant(7s));
    // An add does not cancel a delay.
    queue.done("a");
    queue.add_after("a", 1s);
    queue.add("a");
    EXPECT_EQ(queue.get(), "a");
    queue.done("a");
    EXPECT_EQ(queue.get(), "a");
    EXPECT_EQ(runtime.now(), Instant(8s));
  });
}

TEST(WorkQueue, BackoffGrowsPerKeyUntilForgotten) {
  run_seeds(1, 1, [](SimRuntime& runtime) {
    Queue queue(runtime, {.backoff = kNoJitter});
    Instant before = runtime.now();
    for (const Duration wait : {5ms, 10ms, 20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1000ms, 1000ms}) {
      queue.add_rate_limited("a");
      EXPECT_EQ(queue.get(), "a");
      EXPECT_EQ(runtime.now() - before, wait);
      queue.done("a");
      before = runtime.now();
    }
    EXPECT_EQ(queue.retries("a"), 10u);
    queue.add_rate_limited("b", 300ms);
    EXPECT_EQ(queue.get(), "b");
    EXPECT_EQ(runtime.now() - before, 300ms);
    queue.forget("a");
    queue.forget("unknown");
    EXPECT_EQ(queue.retries("a"), 0u);
    EXPECT_EQ(queue.retries("b"), 1u);
    EXPECT_EQ(queue.metrics().retries, 11u);
  });
}

TEST(WorkQueue, RetriesAreLimitedOverall) {
  run_seeds(1, 1, [](SimRuntime& runtime) {
    Queue queue(runtime, {.backoff = kNoJitter, .overall_retries = {.per_second = 10, .burst = 5}});
    for (int i = 0; i < 15; ++i) queue.add_rate_limited(std::to_string(i));
    for (int i = 0; i < 15; ++i) EXPECT_EQ(queue.get(), std::to_string(i));
    // Five at once, after their own 5 ms; ten more at ten a second.
    EXPECT_EQ(runtime.now(), Instant(1s));
  });
}

TEST(WorkQueue, LanesTakeTurns) {
  run_everywhere(1, 1, [](Runtime& runtime) {
    Queue queue(runtime, {}, [](const std::string& key) { return static_cast<std::uint64_t>(key[0]); });
    for (int i = 0; i < 10'000; ++i) queue.add("a" + std::to_string(i));
    queue.add("b0");
    queue.add("b1");
    queue.add("c0");
    std::vector<std::string> first;
    for (int i = 0; i < 6; ++i) first.push_back(*queue.get());
    EXPECT_EQ(first, (std::vector<std::string>{"a0", "b0", "c0", "a1", "b1", "a2"}));
    for (const auto& key : first) queue.done(key);
    EXPECT_EQ(take_all(queue).size(), 9997u);
  });
}

TEST(WorkQueue, HighComesFirstButDoesNotStarveNormal) {
  run_everywhere(1, 1, [](Runtime& runtime) {
    Queue queue(runtime, {.high_streak_max = 2});
    for (int i = 0; i < 3; ++i) queue.add("n" + std::to_string(i));
    for (int i = 0; i < 5; ++i) queue.add("h" + std::to_string(i), Priority::High);
    EXPECT_EQ(take_all(queue), (std::vector<std::string>{"h0", "h1", "n0", "h2", "h3", "n1", "h4", "n2"}));
    // A key that waits moves forward; one in progress comes back as High.
    queue.add("x");
    queue.add("y");
    queue.add("z");
    EXPECT_EQ(queue.add("z", Priority::High), AddResult::Merged);
    EXPECT_EQ(queue.add("z"), AddResult::Merged);
    EXPECT_EQ(queue.get(), "z");
    queue.add("z");
    queue.add("z", Priority::High);
    queue.done("z");
    EXPECT_EQ(take_all(queue), (std::vector<std::string>{"z", "x", "y"}));
  });
}

TEST(WorkQueue, CapacityRefusesNewKeysAndRemembersIt) {
  run_seeds(1, 1, [](SimRuntime& runtime) {
    Queue queue(runtime, {.capacity = 2, .backoff = kNoJitter});
    queue.add("a");
    queue.add_after("b", 1s);
    EXPECT_EQ(queue.add("c"), AddResult::Full);
    EXPECT_EQ(queue.add_after("c", 1s), AddResult::Full);
    EXPECT_EQ(queue.add_rate_limited("c"), AddResult::Full);
    EXPECT_EQ(queue.retries("c"), 0u);
    EXPECT_TRUE(queue.overflowed());
    EXPECT_TRUE(queue.take_overflowed());
    EXPECT_FALSE(queue.take_overflowed());
    EXPECT_EQ(queue.metrics().refused, 3u);
    // What has a place keeps it, in every way.
    EXPECT_EQ(queue.add("a"), AddResult::Merged);
    EXPECT_EQ(queue.add_after("a", 1s), AddResult::Added);
    EXPECT_EQ(queue.add("b"), AddResult::Added);
    EXPECT_EQ(queue.add("c"), AddResult::Full);
  });
}

TEST(WorkQueue, AKeyInProgressMayComeBackBeyondTheCapacity) {
  run_seeds(1, 1, [](SimRuntime& runtime) {
    Queue queue(runtime, {.capacity = 1, .backoff = kNoJitter});
    queue.add("a");
    EXPECT_EQ(queue.get(), "a");
    queue.add("b");
    EXPECT_EQ(queue.add("c"), AddResult::Full);
    EXPECT_EQ(queue.add("a"), AddResult::Added);
    EXPECT_EQ(queue.add_rate_limited("a"), AddResult::Added);
    queue.done("a");
    EXPECT_EQ(queue.size(), 2u);
    EXPECT_EQ(queue.add("c"), AddResult::Full);
    EXPECT_EQ(take_all(queue), (std::vector<std::string>{"b", "a"}));
    EXPECT_EQ(queue.add("c"), AddResult::Full) << "the retry of a holds the place";
    runtime.sleep_for(1s);
    EXPECT_EQ(take_all(queue), (std::vector<std::string>{"a"}));
    EXPECT_EQ(queue.add("c"), AddResult::Added);
  });
}

// A notification may go to a waiter that was already woken for another key; nobody may sleep over the second one.
TEST(WorkQueue, NoKeyWaitsWhileAWorkerIsFree) {
  run_seeds(1, 500, [](SimRuntime& runtime) {
    Queue queue(runtime);
    const std::uint64_t workers = 1 + runtime.random_below(4);
    std::vector<Thread> threads;
    for (std::uint64_t i = 0; i < workers; ++i) {
      threads.emplace_back(runtime, "getter", [&] {
        while (const auto key = queue.get()) {
          runtime.sleep_for(1min);
          queue.done(*key);
        }
      });
    }
    queue.add_after("later", 24h);  // makes one of the waiters watch the clock
    for (int round = 0; round < 5; ++round) {
      runtime.settle();
      const std::uint64_t keys = 1 + runtime.random_below(workers);
      for (std::uint64_t i = 0; i < keys; ++i) queue.add(std::to_string(i));
      runtime.settle();
      EXPECT_EQ(queue.metrics().in_progress, keys);
      runtime.sleep_for(2min);
      EXPECT_EQ(queue.metrics().in_progress, 0u);
    }
    queue.close();
    for (Thread& thread : threads) thread.join();
  });
}

TEST(WorkQueue, CountsOfFailuresAreBounded) {
  run_seeds(1, 1, [](SimRuntime& runtime) {
    Queue queue(runtime, {.capacity = 3, .backoff = kNoJitter});
    for (int i = 0; i < 10; ++i) {
      queue.add_rate_limited(std::to_string(i));
      EXPECT_EQ(queue.get(), std::to_string(i));
      queue.done(std::to_string(i));
    }
    EXPECT_EQ(queue.retries("0"), 1u);
    EXPECT_EQ(queue.retries("9"), 0u);
  });
}

TEST(WorkQueue, CloseDropsAndDrainFinishes) {
  run_everywhere(1, 1, [](Runtime& runtime) {
    {
      Queue queue(runtime);
      queue.add("a");
      queue.close();
      EXPECT_EQ(queue.get(), std::nullopt);
      EXPECT_EQ(queue.add("b"), AddResult::Closed);
      EXPECT_EQ(queue.add_after("b", 1s), AddResult::Closed);
      EXPECT_EQ(queue.add_rate_limited("b"), AddResult::Closed);
    }
    {
      Queue queue(runtime);
      queue.add("a");
      queue.add("b");
      queue.add_after("c", 1h);
      EXPECT_EQ(queue.get(), "a");
      queue.add("a");
      queue.close_and_drain();
      EXPECT_EQ(queue.add("d"), AddResult::Closed);
      EXPECT_EQ(queue.get(), "b");
      EXPECT_EQ(queue.get(), std::nullopt);
      queue.done("a");
      EXPECT_EQ(queue.get(), "a");
      queue.done("a");
      EXPECT_EQ(queue.get(), std::nullopt);
      queue.close();
    }
  });
}

TEST(WorkQueue, CloseAndStopWakeThoseWhoWait) {
  run_everywhere(1, 200, [](Runtime& runtime) {
    for (const bool by_token : {false, true}) {
      const Instant before = runtime.now();
      Queue queue(runtime);
      StopSource stop(runtime);
      queue.add_after("late", 1h);
      std::vector<Thread> threads;
      for (int i = 0; i < 3; ++i)
        threads.emplace_back(runtime, "getter", [&] { EXPECT_EQ(queue.get(stop.token()), std::nullopt); });
      runtime.yield();
      if (by_token) {
        stop.request_stop();
      } else {
        queue.close();
      }
      for (Thread& thread : threads) thread.join();
      EXPECT_LT(runtime.now() - before, 1h);
    }
  });
}

// One waiter watches the clock for all. Whoever leaves, the post is taken over, or a due key would be slept over.
TEST(WorkQueue, DelayedKeysAreHandedOutOnTimeWhoeverLeaves) {
  run_seeds(1, 500, [](SimRuntime& runtime) {
    Queue queue(runtime);
    std::vector<Thread> threads;
    int taken = 0;
    std::vector<std::unique_ptr<StopSource>> sources;
    for (int i = 0; i < 4; ++i) sources.push_back(std::make_unique<StopSource>(runtime));
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(runtime, "getter", [&, token = sources[static_cast<std::size_t>(i)]->token()] {
        while (const auto key = queue.get(token)) {
          // The key is the second at which it is due.
          EXPECT_EQ(runtime.now(), Instant(std::chrono::seconds(std::stoi(*key))));
          ++taken;
          queue.done(*key);
        }
      });
    }
    runtime.yield();
    std::set<std::uint64_t> seconds;
    while (seconds.size() < 10) seconds.insert(1 + runtime.random_below(100));
    std::vector<std::uint64_t> order(seconds.begin(), seconds.end());
    while (!order.empty()) {
      const std::size_t index = runtime.random_below(order.size());
      queue.add_after(std::to_string(order[index]), std::chrono::seconds(order[index]));
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(index));
      if (runtime.random_below(2) == 0) runtime.yield();
    }
    // Three of the four leave, at any moment.
    for (std::size_t i = 0; i < 3; ++i) {
      if (runtime.random_below(2) == 0) runtime.sleep_for(std::chrono::milliseconds(runtime.random_below(30'000)));
      sources[i]->request_stop();
    }
    runtime.sleep_until(Instant(101s));
    EXPECT_EQ(taken, 10);
    queue.close();
    for (Thread& thread : threads) thread.join();
  });
}

TEST(WorkQueue, MetricsTellAgesAndTotals) {
  run_seeds(1, 1, [](SimRuntime& runtime) {
    Queue queue(runtime);
    queue.add("a");
    runtime.sleep_for(1s);
    queue.add("b");
    queue.add("b");
    queue.add_after("c", 1h);
    runtime.sleep_for(2s);
    WorkQueueMetrics metrics = queue.metrics();
    EXPECT_EQ(metrics.depth, 2u);
    EXPECT_EQ(metrics.delayed, 1u);
    EXPECT_EQ(metrics.adds, 3u);
    EXPECT_EQ(metrics.merged, 1u);
    EXPECT_EQ(metrics.oldest_waiting, 3s);
    EXPECT_EQ(queue.get(), "a");
    runtime.sleep_for(1s);
    EXPECT_EQ(queue.get(), "b");
    runtime.sleep_for(1s);
    metrics = queue.metrics();
    EXPECT_EQ(metrics.in_progress, 2u);
    EXPECT_EQ(metrics.longest_running, 2s);
    EXPECT_EQ(metrics.unfinished_work, 3s);
    EXPECT_EQ(metrics.oldest_waiting, 0s);
    EXPECT_EQ(metrics.handed_out, 2u);
    EXPECT_EQ(metrics.waited_total, 6s);
    queue.done("a");
    queue.done("b");
    EXPECT_EQ(queue.metrics().worked_total, 3s);
    EXPECT_EQ(queue.metrics().unfinished_work, 0s);
  });
}

TEST(WorkQueueDeathTest, DoneWithoutGet) {
  const auto runtime = make_real_runtime();
  Queue queue(*runtime);
  queue.add("a");
  EXPECT_DEATH(queue.done("a"), "done\\(\\) for a key that is not in progress");
  EXPECT_DEATH(queue.done("b"), "done\\(\\) for a key that is not in progress");
}

}  // namespace
}  // namespace basalt::rt
