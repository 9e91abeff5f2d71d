#include "rt/sim_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "rt/sim_test_support.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::vector<std::string> trace_of(std::uint64_t seed, std::uint64_t* hash) {
  std::vector<std::string> trace;
  SimRuntime::Options options{.seed = seed};
  options.on_switch = [&](const SimRuntime::Switch& to) {
    trace.push_back(std::string(to.thread) + " " + std::to_string(to.place.line()) + " " +
                    std::to_string(to.time.time_since_epoch().count()));
  };
  const auto runtime = SimRuntime::make(options);
  const auto report = runtime->run([&] {
    std::vector<Thread> threads;
    for (int i = 0; i < 5; ++i) {
      threads.emplace_back(*runtime, "t" + std::to_string(i), [&] {
        for (int j = 0; j < 20; ++j) {
          if (runtime->random_below(2) == 0) {
            runtime->yield();
          } else {
            runtime->sleep_for(Duration(runtime->random_below(1000)));
          }
        }
      });
    }
    for (Thread& thread : threads) thread.join();
  });
  EXPECT_TRUE(report.completed) << report.problem;
  EXPECT_EQ(report.trace_hash, runtime->trace_hash());
  *hash = report.trace_hash;
  return trace;
}

// For tests that add up what the seeds did: unlike run_seeds(), always as many as said.
void run_exactly(std::uint64_t count, SimRuntime::Options options, const std::function<void(SimRuntime&)>& body) {
  for (options.seed = 1; options.seed <= count; ++options.seed) {
    const auto runtime = SimRuntime::make(options);
    const auto report = runtime->run([&] { body(*runtime); });
    EXPECT_TRUE(report.completed) << report.problem;
  }
}

TEST(SimRuntime, SameSeedSameScheduleOtherSeedOtherSchedule) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    EXPECT_EQ(trace_of(seed, &first), trace_of(seed, &second));
    EXPECT_EQ(first, second);
    hashes.insert(first);
  }
  EXPECT_EQ(hashes.size(), 50u);
}

TEST(SimRuntime, RandomNumbersDependOnTheSeedOnly) {
  const auto draw = [](std::uint64_t seed) { return SimRuntime::make({.seed = seed})->random(); };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

TEST(SimRuntime, TimeJumpsToTheNextDeadlineAndOnlyThen) {
  const auto runtime = SimRuntime::make({});
  std::vector<int> order;
  const auto report = runtime->run([&] {
    Thread slow(*runtime, "slow", [&] {
      runtime->sleep_for(2h);
      order.push_back(2);
    });
    Thread fast(*runtime, "fast", [&] {
      runtime->sleep_for(1h);
      order.push_back(1);
    });
    for (int i = 0; i < 100; ++i) runtime->yield();
    EXPECT_EQ(runtime->now(), Instant{});
    slow.join();
    fast.join();
    EXPECT_EQ(runtime->now(), Instant(2h));
    EXPECT_EQ(runtime->wall_now(), SimRuntime::Options{}.start + 2h);
    runtime->sleep_until(Instant(1h));  // past: only a place to switch
    EXPECT_EQ(runtime->now(), Instant(2h));
  });
  EXPECT_TRUE(report.completed) << report.problem;
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(report.virtual_time, 2h);
}

TEST(SimRuntime, SettleLetsOthersRunUntilTheyWaitForTime) {
  run_seeds(1, 20, [](SimRuntime& runtime) {
    int steps = 0;
    Thread worker(runtime, "worker", [&] {
      for (int i = 0; i < 10; ++i) {
        runtime.yield();
        ++steps;
      }
      runtime.sleep_for(1s);
      ++steps;
    });
    runtime.settle();
    EXPECT_EQ(steps, 10);
    EXPECT_EQ(runtime.now(), Instant{});
    worker.join();
    EXPECT_EQ(steps, 11);
  });
}

TEST(SimRuntime, DeadlockNamesEveryThreadAndItsPlace) {
  const auto runtime = SimRuntime::make({.seed = 3});
  Mutex mutex;
  Condition condition(*runtime);
  const auto report = runtime->run([&] {
    Thread waiter(*runtime, "waiter", [&] {
      MutexLock lock(mutex);
      condition.wait(mutex);
    });
    waiter.join();
  });
  EXPECT_FALSE(report.completed);
  EXPECT_TRUE(runtime->was_abandoned());
  EXPECT_THAT(report.problem, HasSubstr("deadlock"));
  EXPECT_THAT(report.problem, HasSubstr("seed 3"));
  EXPECT_THAT(report.problem, HasSubstr("main: joining waiter at "));
  EXPECT_THAT(report.problem, HasSubstr("waiter: waiting at "));
  EXPECT_THAT(report.problem, HasSubstr("sim_runtime_test.cc:"));
  EXPECT_THAT(report.problem, HasSubstr("no deadline"));
}

TEST(SimRuntime, WhatAThreadOwnedIsNotDestroyedAfterADeadlock) {
  struct Witness {
    bool& destroyed;
    explicit Witness(bool& flag) : destroyed(flag) {}
    ~Witness() { destroyed = true; }
  };
  bool destroyed = false;
  {
    const auto runtime = SimRuntime::make({});
    Mutex mutex;
    Condition condition(*runtime);
    const auto report = runtime->run([&] {
      // On the stack that nobody leaves: on the heap it would be a leak, as it shall be.
      const Witness witness(destroyed);
      MutexLock lock(mutex);
      condition.wait(mutex);
    });
    EXPECT_FALSE(report.completed);
  }
  {
    const auto runtime = SimRuntime::make({});
    Thread outlives;  // joinable to its end, and that is no error then
    const auto report = runtime->run([&] {
      const auto witness = std::make_shared<Witness>(destroyed);
      outlives = Thread(*runtime, "never started", [witness] {});
    });
    EXPECT_FALSE(report.completed);
  }
  EXPECT_FALSE(destroyed);
}

TEST(SimRuntime, LimitsEndARun) {
  {
    const auto runtime = SimRuntime::make({.switches_max = 1000});
    const auto report = runtime->run([&] {
      for (;;) runtime->yield();
    });
    EXPECT_FALSE(report.completed);
    EXPECT_THAT(report.problem, HasSubstr("more than 1000 switches"));
    EXPECT_THAT(report.problem, HasSubstr("main: "));
  }
  {
    const auto runtime = SimRuntime::make({.time_max = 10s});
    const auto report = runtime->run([&] {
      for (;;) runtime->sleep_for(1s);
    });
    EXPECT_FALSE(report.completed);
    EXPECT_THAT(report.problem, HasSubstr("more than 10s of virtual time"));
    EXPECT_THAT(report.problem, HasSubstr("main: sleeping at "));
    EXPECT_THAT(report.problem, HasSubstr("deadline 11.000000s"));
  }
}

TEST(SimRuntime, ThreadsLeftOverAreReported) {
  const auto runtime = SimRuntime::make({});
  Thread left;
  const auto report = runtime->run([&] { left = Thread(*runtime, "left over", [&] { runtime->sleep_for(1h); }); });
  EXPECT_FALSE(report.completed);
  EXPECT_THAT(report.problem, HasSubstr("main returned while other threads had not ended"));
  EXPECT_THAT(report.problem, HasSubstr("left over: "));
  left.join();  // does not wait: the simulation is over
}

TEST(SimRuntime, ThreadsMayBeStartedBeforeTheRun) {
  const auto runtime = SimRuntime::make({});
  bool ran = false;
  Thread early(*runtime, "early", [&] { ran = true; });
  const auto report = runtime->run([&] { early.join(); });
  EXPECT_TRUE(report.completed) << report.problem;
  EXPECT_TRUE(ran);
}

TEST(SimRuntime, ExpectationsFailInsideThreads) {
  EXPECT_NONFATAL_FAILURE(
      {
        const auto runtime = SimRuntime::make({});
        const auto report = runtime->run([&] {
          Thread thread(*runtime, "t", [&] {
            runtime->yield();
            EXPECT_EQ(1, 2);
          });
          thread.join();
        });
        ASSERT_TRUE(report.completed);
      },
      "1");
}

TEST(SimRuntime, AThreadMayWaitInsideACatchBlock) {
  run_seeds(1, 50, [](SimRuntime& runtime) {
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(runtime, "t" + std::to_string(i), [&runtime, i] {
        try {
          throw std::runtime_error(std::to_string(i));
        } catch (const std::runtime_error&) {
          runtime.yield();
          try {
            throw;  // its own, not the one that another thread caught last
          } catch (const std::runtime_error& again) {
            runtime.yield();
            EXPECT_EQ(again.what(), std::to_string(i));
          }
        }
        EXPECT_EQ(std::uncaught_exceptions(), 0);
      });
    }
    for (Thread& thread : threads) thread.join();
  });
}

TEST(SimRuntime, ManyThreadsReuseStacks) {
  const auto runtime = SimRuntime::make({});
  std::atomic<int> ended = 0;
  const auto report = runtime->run([&] {
    for (int round = 0; round < 20; ++round) {
      std::vector<Thread> threads;
      for (int i = 0; i < 100; ++i) {
        threads.emplace_back(*runtime, "t", [&] {
          runtime->yield();
          ++ended;
        });
      }
      for (Thread& thread : threads) thread.join();
    }
  });
  EXPECT_TRUE(report.completed) << report.problem;
  EXPECT_EQ(ended, 2000);
}

TEST(SimRuntime, StacksAreDeepEnough) {
  struct Deep {
    static int go(int depth) {
      volatile char frame[1024];
      frame[0] = static_cast<char>(depth);
      return depth == 0 ? frame[0] : go(depth - 1) + frame[0];
    }
  };
  run_seeds(1, 1, [](SimRuntime& runtime) {
    Thread thread(runtime, "deep", [] { EXPECT_NE(Deep::go(150), -1); });
    thread.join();
  });
}

TEST(SimRuntime, NotifyOneWakesOneOfTheWaitersByChoice) {
  std::set<int> woken_first;
  const auto body = [&](SimRuntime& runtime) {
    Mutex mutex;
    Condition condition(runtime);
    std::vector<int> woken;
    std::vector<Thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back(runtime, "t", [&, i] {
        MutexLock lock(mutex);
        condition.wait(mutex);
        woken.push_back(i);
      });
    }
    runtime.settle();
    condition.notify_one();
    runtime.settle();
    EXPECT_EQ(woken.size(), 1u);
    woken_first.insert(woken.front());
    condition.notify_all();
    for (Thread& thread : threads) thread.join();
    EXPECT_EQ(woken.size(), 3u);
  };
  run_exactly(40, {.spurious_wakeups = 0}, body);
  EXPECT_EQ(woken_first.size(), 3u);
}

TEST(SimRuntime, WaitsMayEndWithoutReason) {
  int early = 0;
  const auto body = [&](SimRuntime& runtime) {
    Mutex mutex;
    Condition condition(runtime);
    bool ready = false;
    Thread thread(runtime, "t", [&] {
      MutexLock lock(mutex);
      while (!ready) {
        EXPECT_TRUE(condition.wait_until(mutex, runtime.now() + 1h)) << "no deadline has passed";
        if (!ready) ++early;
      }
    });
    for (int i = 0; i < 50; ++i) runtime.yield();
    {
      MutexLock lock(mutex);
      ready = true;
    }
    condition.notify_one();
    thread.join();
    EXPECT_EQ(runtime.now(), Instant{});
  };
  run_exactly(20, {.spurious_wakeups = 0.2}, body);
  EXPECT_GT(early, 20);
  early = 0;
  run_exactly(20, {.spurious_wakeups = 0}, body);
  EXPECT_EQ(early, 0);
}

TEST(SimRuntime, SimulationsNest) {
  run_seeds(1, 5, [](SimRuntime& outer) {
    Thread thread(outer, "t", [&] {
      const auto inner = SimRuntime::make({});
      const auto report = inner->run([&] { inner->sleep_for(1h); });
      EXPECT_TRUE(report.completed) << report.problem;
      outer.sleep_for(1s);
    });
    thread.join();
    EXPECT_EQ(outer.now(), Instant(1s));
  });
}

TEST(SimRuntime, DumpListsLiveThreads) {
  run_seeds(1, 1, [](SimRuntime& runtime) {
    Thread sleeper(runtime, "sleeper", [&] { runtime.sleep_for(90s); });
    runtime.settle();
    const auto lines = runtime.dump();
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_THAT(lines[0], HasSubstr("main: running"));
    EXPECT_THAT(lines[1], HasSubstr("sleeper: sleeping at "));
    EXPECT_THAT(lines[1], HasSubstr("deadline 90.000000s"));
    sleeper.join();
  });
}

TEST(SimRuntimeDeathTest, AWaitWithALockHeldNamesBothPlaces) {
  const auto wait_with_lock = [] {
    const auto runtime = SimRuntime::make({});
    Mutex mutex;
    (void)runtime->run([&] {
      MutexLock lock(mutex);
      runtime->sleep_for(1s);
    });
  };
  EXPECT_DEATH(
      wait_with_lock(),
      "sim_runtime_test.cc:[0-9]+: .*a wait with a lock held: the lock was taken at .*sim_runtime_test.cc:[0-9]+");
}

TEST(SimRuntimeDeathTest, AConditionMayHoldOnlyItsOwnLock) {
  const auto wait_with_two = [] {
    const auto runtime = SimRuntime::make({});
    Mutex outer;
    Mutex inner;
    Condition condition(*runtime);
    (void)runtime->run([&] {
      MutexLock first(outer);
      MutexLock second(inner);
      condition.wait(inner);
    });
  };
  EXPECT_DEATH(wait_with_two(), "a wait with a lock held");
}

TEST(SimRuntimeDeathTest, ALockTakenTwice) {
  const auto lock_twice = []() BASALT_NO_THREAD_SAFETY_ANALYSIS {
    Mutex mutex;
    MutexLock first(mutex);
    MutexLock second(mutex);
  };
  EXPECT_DEATH(lock_twice(), "a lock is taken twice: first at .*sim_runtime_test.cc");
}

TEST(SimRuntimeDeathTest, AWaitOutsideOfTheRun) {
  const auto runtime = SimRuntime::make({});
  EXPECT_DEATH(runtime->sleep_for(1s), "a simulated wait outside of run");
}

TEST(SimRuntimeDeathTest, ACrashPrintsHowToReproduceIt) {
  const auto crash = [] { run_seeds(77, 1, [](SimRuntime&) { BASALT_CHECK(1 == 2); }); };
  EXPECT_DEATH(crash(),
               "reproduce: BASALT_SEED=77 ./rt_test --gtest_filter=SimRuntimeDeathTest.ACrashPrintsHowToReproduceIt");
}

#if !BASALT_ASAN && !BASALT_TSAN
TEST(SimRuntimeDeathTest, AStackThatOverflowsFaultsAndSaysSo) {
  struct Deep {
    static int go(int depth) {  // NOLINT(misc-no-recursion)
      volatile char frame[1024];
      frame[0] = static_cast<char>(depth);
      return depth == 0 ? frame[0] : go(depth - 1) + frame[0];
    }
  };
  const auto overflow = [] { run_seeds(1, 1, [](SimRuntime&) { EXPECT_NE(Deep::go(1000), -1); }); };
  EXPECT_DEATH(overflow(), "reproduce: BASALT_SEED=1 .*\n.*stack overflowed");
}
#endif

#if BASALT_TSAN
// What threads of a simulation do to each other without a lock is seen, although they take turns.
void count_on_two_threads(bool with_lock) {
  const auto runtime = SimRuntime::make({});
  Mutex mutex;
  int count = 0;
  runtime->run([&] {
    const auto body = [&] {
      for (int i = 0; i < 3; ++i) {
        {
          std::optional<MutexLock> lock;
          if (with_lock) lock.emplace(mutex);
          ++count;
        }
        runtime->yield();
      }
    };
    Thread first(*runtime, "first", body);
    Thread second(*runtime, "second", body);
    first.join();
    second.join();
  });
  std::exit(count == 6 ? 0 : 1);
}

TEST(SimRuntimeDeathTest, ARaceBetweenThreadsOfASimulationIsSeen) {
  EXPECT_DEATH(count_on_two_threads(false), "ThreadSanitizer: data race");
  EXPECT_EXIT(count_on_two_threads(true), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(SimRuntimeDeathTest, RunSeedsStopsAtTheFirstFailureAndSaysHowToReproduceIt) {
  if (std::getenv("BASALT_SEED") != nullptr || std::getenv("BASALT_SEEDS") != nullptr) GTEST_SKIP();
  const auto fail_at_seven = [] {
    run_seeds(7, 100, [](SimRuntime& runtime) {
      EXPECT_NE(runtime.seed(), 7u);
      BASALT_CHECK(runtime.seed() <= 7);
    });
    std::exit(::testing::Test::HasFailure() ? 3 : 0);
  };
  EXPECT_EXIT(fail_at_seven(), ::testing::ExitedWithCode(3), "reproduce: BASALT_SEED=7 ./rt_test --gtest_filter=");
}

}  // namespace
}  // namespace basalt::rt
