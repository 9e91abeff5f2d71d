#include "rt/runtime.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "rt/sim_test_support.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;

// One value, handed from thread to thread.
class Slot {
 public:
  explicit Slot(Runtime& runtime) : changed_(runtime) {}
  void put(int value) {
    MutexLock lock(mutex_);
    while (full_) changed_.wait(mutex_);
    value_ = value;
    full_ = true;
    changed_.notify_all();
  }
  int take() {
    MutexLock lock(mutex_);
    while (!full_) changed_.wait(mutex_);
    full_ = false;
    changed_.notify_all();
    return value_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int value_ BASALT_GUARDED_BY(mutex_) = 0;
  bool full_ BASALT_GUARDED_BY(mutex_) = false;
};

TEST(Runtime, ThreadsMeetAtConditions) {
  run_everywhere(1, 100, [](Runtime& runtime) {
    Slot slot(runtime);
    int sum = 0;
    std::vector<Thread> producers;
    for (int i = 0; i < 3; ++i) {
      producers.emplace_back(runtime, "producer", [&] {
        for (int j = 1; j <= 20; ++j) slot.put(j);
      });
    }
    Thread consumer(runtime, "consumer", [&] {
      for (int j = 0; j < 60; ++j) sum += slot.take();
    });
    for (Thread& thread : producers) thread.join();
    consumer.join();
    EXPECT_EQ(sum, 630);
  });
}

TEST(Runtime, WaitsEndAtTheirDeadline) {
  run_everywhere(1, 20, [](Runtime& runtime) {
    Mutex mutex;
    Condition condition(runtime);
    const Instant before = runtime.now();
    {
      MutexLock lock(mutex);
      EXPECT_FALSE(condition.wait_until(mutex, before - 1s));
      while (condition.wait_until(mutex, before + 2ms)) {}
      EXPECT_EQ(locks_held_by_this_thread(), 1);
    }
    EXPECT_EQ(locks_held_by_this_thread(), 0);
    EXPECT_GE(runtime.now(), before + 2ms);
    runtime.sleep_for(2ms);
    EXPECT_GE(runtime.now(), before + 4ms);
    runtime.sleep_until(before);
    runtime.sleep_for(-1s);
    runtime.yield();
  });
}

TEST(Runtime, DeadlinesFarAwayDoNotOverflow) {
  run_everywhere(1, 20, [](Runtime& runtime) {
    for (const Instant deadline : {kNever, kNever - 1ns, Instant(std::chrono::hours(24 * 365 * 250))}) {
      Mutex mutex;
      Condition condition(runtime);
      bool ready = false;
      Thread thread(runtime, "notifier", [&] {
        MutexLock lock(mutex);
        ready = true;
        condition.notify_one();
      });
      {
        MutexLock lock(mutex);
        while (!ready) EXPECT_TRUE(condition.wait_until(mutex, deadline));
      }
      thread.join();
    }
  });
  EXPECT_EQ(saturating_add(Instant(1s), Duration::max()), kNever);
  EXPECT_EQ(saturating_add(Instant(1s), 1s), Instant(2s));
  EXPECT_EQ(saturating_add(Instant(-1s), Duration::min()), Instant::min());
}

TEST(Runtime, ThreadsHaveNamesAndIds) {
  const auto runtime = make_real_runtime();
  EXPECT_FALSE(runtime->is_simulated());
  std::string name;
  Thread thread(*runtime, "a name that is too long", [&] {
    std::array<char, 16> buffer{};
    pthread_getname_np(pthread_self(), buffer.data(), buffer.size());
    name = buffer.data();
  });
  EXPECT_TRUE(thread.joinable());
  thread.join();
  EXPECT_FALSE(thread.joinable());
  EXPECT_EQ(name, "a name that is ");
  run_everywhere(1, 5, [](Runtime& both) {
    std::uint64_t other = 0;
    Thread second(both, "t", [&] { other = both.this_thread_id(); });
    second.join();
    EXPECT_NE(other, 0u);
    EXPECT_NE(other, both.this_thread_id());
  });
}

TEST(Runtime, RandomNumbersAreSpread) {
  run_everywhere(1, 5, [](Runtime& runtime) {
    std::set<std::uint64_t> seen;
    std::array<int, 10> buckets{};
    double sum = 0;
    for (int i = 0; i < 10'000; ++i) {
      seen.insert(runtime.random());
      ++buckets[runtime.random_below(10)];
      const double unit = runtime.random_unit();
      EXPECT_TRUE(unit >= 0 && unit < 1);
      sum += unit;
      const Duration jittered = runtime.jitter(1s, 0.5);
      EXPECT_TRUE(jittered >= 1s && jittered <= 1500ms);
    }
    EXPECT_EQ(seen.size(), 10'000u);
    for (const int count : buckets) EXPECT_NEAR(count, 1000, 200);
    EXPECT_NEAR(sum / 10'000, 0.5, 0.03);
    EXPECT_EQ(runtime.random_below(1), 0u);
    EXPECT_LT(runtime.random_below((std::uint64_t{1} << 63) + 1), (std::uint64_t{1} << 63) + 1);
    EXPECT_EQ(runtime.jitter(1s, 0), 1s);
    EXPECT_EQ(runtime.jitter(Duration::max(), 0.5), Duration::max());
  });
}

TEST(RuntimeDeathTest, AThreadThatIsNotJoined) {
  const auto forget_to_join = [] {
    const auto runtime = make_real_runtime();
    Thread thread(*runtime, "t", [] {});
  };
  EXPECT_DEATH(forget_to_join(), "a thread was destroyed before it was joined");
}

TEST(RuntimeDeathTest, AWaitWithALockHeldIsABugOnTheOperatingSystemToo) {
  const auto wait_with_lock = [] {
    base::set_bugs_are_fatal(true);
    const auto runtime = make_real_runtime();
    Mutex mutex;
    MutexLock lock(mutex);
    runtime->sleep_for(1ms);
  };
  EXPECT_DEATH(wait_with_lock(), "runtime_test.cc:[0-9]+: .*a wait with a lock held");
}

}  // namespace
}  // namespace basalt::rt
