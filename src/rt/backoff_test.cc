#include "rt/backoff.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <vector>

#include "rt/sim_test_support.h"
#include "rt/token_bucket.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, DoublesUpToTheCap) {
  const BackoffOptions options{.base = 5ms, .cap = 60s};
  EXPECT_EQ(backoff_delay(options, 0), 5ms);
  EXPECT_EQ(backoff_delay(options, 1), 10ms);
  EXPECT_EQ(backoff_delay(options, 13), 40960ms);
  EXPECT_EQ(backoff_delay(options, 14), 60s);
  EXPECT_EQ(backoff_delay(options, std::numeric_limits<std::uint32_t>::max()), 60s);
  EXPECT_EQ(backoff_delay({.base = 5ms, .cap = 1s, .factor = 1}, 1000), 5ms);
  EXPECT_EQ(backoff_delay({.base = 0ms, .cap = 1s}, 1000), 0ms);
  EXPECT_EQ(backoff_delay({.base = 5s, .cap = 1s}, 0), 1s);
  EXPECT_EQ(backoff_delay({.base = 1s, .cap = Duration::max()}, 1000), Duration::max());
}

TEST(Backoff, JitterLengthensAndResetStartsAgain) {
  run_everywhere(1, 50, [](Runtime& runtime) {
    Backoff backoff(runtime, {.base = 10ms, .cap = 40ms, .jitter = 0.5});
    for (const Duration least : {10ms, 20ms, 40ms, 40ms}) {
      const Duration delay = backoff.next();
      EXPECT_GE(delay, least);
      EXPECT_LE(delay, least * 3 / 2);
    }
    EXPECT_EQ(backoff.failures(), 4u);
    backoff.reset();
    EXPECT_EQ(backoff.failures(), 0u);
    EXPECT_LE(backoff.next(), 15ms);
  });
}

TEST(TokenBucket, OffMeansNoLimit) {
  run_everywhere(1, 1, [](Runtime& runtime) {
    TokenBucket bucket(runtime, {});
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(bucket.try_acquire());
      EXPECT_TRUE(bucket.acquire());
      EXPECT_EQ(bucket.reserve(), 0s);
    }
  });
}

TEST(TokenBucket, BurstThenRate) {
  run_seeds(1, 10, [](SimRuntime& runtime) {
    TokenBucket bucket(runtime, {.per_second = 10, .burst = 5});
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(bucket.try_acquire());
    EXPECT_FALSE(bucket.try_acquire());
    runtime.sleep_for(99ms);
    EXPECT_FALSE(bucket.try_acquire());
    runtime.sleep_for(1ms);
    EXPECT_TRUE(bucket.try_acquire());
    // An idle bucket does not fill beyond its burst.
    runtime.sleep_for(1h);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(bucket.reserve(), 0s);
    EXPECT_EQ(bucket.reserve(), 100ms);
    EXPECT_EQ(bucket.reserve(), 200ms);
  });
}

TEST(TokenBucket, AcquireServesInOrderAndKeepsTheRate) {
  run_seeds(1, 50, [](SimRuntime& runtime) {
    TokenBucket bucket(runtime, {.per_second = 100, .burst = 1});
    std::vector<Thread> threads;
    std::atomic<int> acquired = 0;
    for (int i = 0; i < 5; ++i) {
      threads.emplace_back(runtime, "t", [&] {
        for (int j = 0; j < 20; ++j) {
          EXPECT_TRUE(bucket.acquire());
          ++acquired;
        }
      });
    }
    for (Thread& thread : threads) thread.join();
    EXPECT_EQ(acquired, 100);
    EXPECT_GE(runtime.now(), Instant(990ms));
    EXPECT_LT(runtime.now(), Instant(991ms));
  });
}

TEST(TokenBucket, AStoppedAcquireGivesItsTokenBack) {
  run_everywhere(1, 50, [](Runtime& runtime) {
    TokenBucket bucket(runtime, {.per_second = 0.001, .burst = 1});
    EXPECT_TRUE(bucket.acquire());
    StopSource stop(runtime);
    Thread thread(runtime, "t", [&] { EXPECT_FALSE(bucket.acquire(stop.token())); });
    runtime.yield();
    stop.request_stop();
    thread.join();
    EXPECT_FALSE(bucket.acquire(stop.token()));
    EXPECT_LE(bucket.reserve(), 1000s);
  });
}

TEST(TokenBucket, OddRatesDoNotOverflow) {
  TokenMeter meter({.per_second = 1e-30, .burst = 0}, Instant{});
  EXPECT_EQ(meter.reserve(Instant{}), 0s);
  EXPECT_EQ(meter.reserve(Instant{}), std::chrono::seconds(1'000'000'000));
}

}  // namespace
}  // namespace basalt::rt
