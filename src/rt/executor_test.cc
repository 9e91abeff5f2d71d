#include "rt/executor.h"

#include <gtest/gtest.h>

#include <atomic>

#include "rt/gate.h"
#include "rt/sim_test_support.h"
#include "rt/stop.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;

TEST(Executor, RunsWhatItAccepts) {
  run_everywhere(1, 100, [](Runtime& runtime) {
    Executor executor(runtime, {.threads = 3, .waiting_max = 1000});
    std::atomic<int> ran{0};
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(executor.post([&] {
        runtime.yield();
        ++ran;
      }));
    }
    executor.stop();
    EXPECT_EQ(ran, 100);
    EXPECT_FALSE(executor.post([] { ADD_FAILURE(); }));
    executor.stop();
  });
}

TEST(Executor, RefusesWhenFull) {
  run_everywhere(1, 100, [](Runtime& runtime) {
    Executor executor(runtime, {.threads = 1, .waiting_max = 2});
    StopSource release(runtime);
    StopSource started(runtime);
    EXPECT_TRUE(executor.post([&, token = release.token()] {
      started.request_stop();
      EXPECT_TRUE(token.wait_until(runtime, kNever));
    }));
    EXPECT_TRUE(started.token().wait_until(runtime, kNever));
    int ran = 0;
    EXPECT_TRUE(executor.post([&] { ++ran; }));
    EXPECT_TRUE(executor.post([&] { ++ran; }));
    EXPECT_FALSE(executor.post([&] { ++ran; }));
    EXPECT_EQ(executor.waiting(), 2u);
    release.request_stop();
    executor.stop();
    EXPECT_EQ(ran, 2);
  });
}

TEST(Executor, WorksSideBySide) {
  run_seeds(1, 20, [](SimRuntime& runtime) {
    Executor executor(runtime, {.threads = 4});
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(executor.post([&] { runtime.sleep_for(1s); }));
    executor.stop();
    EXPECT_EQ(runtime.now(), Instant(2s));
  });
}

}  // namespace
}  // namespace basalt::rt
