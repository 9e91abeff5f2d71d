#include "rt/timer.h"

#include <gtest/gtest.h>

#include <vector>

#include "rt/sim_test_support.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;

// Something that other threads wait for.
class Flag {
 public:
  explicit Flag(Runtime& runtime) : changed_(runtime) {}
  void set() {
    MutexLock lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  void wait() {
    MutexLock lock(mutex_);
    while (!is_set_) changed_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  Condition changed_;
  bool is_set_ BASALT_GUARDED_BY(mutex_) = false;
};

TEST(TimerQueue, CallsInTheOrderOfTimes) {
  run_seeds(1, 100, [](SimRuntime& runtime) {
    TimerQueue timers(runtime);
    std::vector<int> called;
    const auto call = [&](int second) {
      return [&, second] {
        EXPECT_EQ(runtime.now(), Instant(std::chrono::seconds(second)));
        called.push_back(second);
      };
    };
    for (const int second : {7, 3, 9, 1, 5}) {
      EXPECT_NE(timers.schedule(Instant(std::chrono::seconds(second)), call(second)), kNoTimer);
      if (runtime.random_below(2) == 0) runtime.yield();
    }
    EXPECT_EQ(timers.size(), 5u);
    runtime.sleep_for(4s);
    EXPECT_NE(timers.schedule_after(2s, call(6)), kNoTimer);
    const TimerId dropped = timers.schedule_after(1h, [] { ADD_FAILURE(); });
    EXPECT_TRUE(timers.cancel(dropped));
    EXPECT_FALSE(timers.cancel(dropped));
    EXPECT_FALSE(timers.cancel(kNoTimer));
    runtime.sleep_for(10s);
    EXPECT_EQ(called, (std::vector<int>{1, 3, 5, 6, 7, 9}));
    EXPECT_NE(timers.schedule_after(1h, [] { ADD_FAILURE(); }), kNoTimer);
    timers.stop();
    EXPECT_EQ(timers.schedule_after(1s, [] { ADD_FAILURE(); }), kNoTimer);
  });
}

TEST(TimerQueue, EqualTimesInTheOrderOfCalls) {
  run_seeds(1, 20, [](SimRuntime& runtime) {
    TimerQueue timers(runtime, {.capacity = 10});
    std::vector<int> called;
    for (int i = 0; i < 10; ++i) EXPECT_NE(timers.schedule(Instant(1s), [&, i] { called.push_back(i); }), kNoTimer);
    EXPECT_EQ(timers.schedule(Instant(1s), [] { ADD_FAILURE(); }), kNoTimer) << "full";
    runtime.sleep_for(2s);
    EXPECT_EQ(called, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    timers.stop();
  });
}

TEST(TimerQueue, RunsOnTheOperatingSystemToo) {
  run_everywhere(1, 20, [](Runtime& runtime) {
    TimerQueue timers(runtime);
    Flag late(runtime);
    Flag early(runtime);
    const Instant before = runtime.now();
    EXPECT_NE(timers.schedule_after(2ms, [&] { late.set(); }), kNoTimer);
    EXPECT_NE(timers.schedule_after(-1s, [&] { early.set(); }), kNoTimer);
    early.wait();
    late.wait();
    EXPECT_GE(runtime.now() - before, 2ms);
    timers.stop();
  });
}

TEST(TimerQueue, CancelWaitsForAFunctionThatRuns) {
  run_everywhere(1, 100, [](Runtime& runtime) {
    TimerQueue timers(runtime);
    Flag started(runtime);
    std::atomic<bool> returned{false};
    const TimerId id = timers.schedule_after(0s, [&] {
      started.set();
      runtime.sleep_for(1ms);
      returned = true;
    });
    started.wait();
    EXPECT_FALSE(timers.cancel(id));
    EXPECT_TRUE(returned);
    timers.stop();
  });
}

TEST(TimerQueue, AFunctionMayCancelItselfAndScheduleMore) {
  run_everywhere(1, 20, [](Runtime& runtime) {
    TimerQueue timers(runtime);
    Flag all(runtime);
    std::atomic<TimerId> self{kNoTimer};
    int calls = 0;
    std::function<void()> again = [&] {
      timers.cancel(self);
      if (++calls == 3) {
        all.set();
      } else {
        self = timers.schedule_after(10us, again);
      }
    };
    self = timers.schedule_after(10us, again);
    all.wait();
    timers.stop();
    EXPECT_EQ(calls, 3);
  });
}

}  // namespace
}  // namespace basalt::rt
