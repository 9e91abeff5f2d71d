#include "rt/stop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "rt/sim_test_support.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;

TEST(Stop, ATokenWithoutSourceNeverStops) {
  run_everywhere(1, 5, [](Runtime& runtime) {
    const StopToken token;
    EXPECT_FALSE(token.stop_requested());
    EXPECT_FALSE(token.wait_for(runtime, 1ms));
    const auto registration = token.on_stop([] { ADD_FAILURE(); });
  });
}

TEST(Stop, WakesThoseWhoWait) {
  run_everywhere(1, 100, [](Runtime& runtime) {
    StopSource source(runtime);
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(runtime, "waiter", [&runtime, token = source.token()] {
        EXPECT_FALSE(token.wait_until(runtime, runtime.now() - 1s) && !token.stop_requested());
        EXPECT_TRUE(token.wait_until(runtime, kNever));
        EXPECT_TRUE(token.stop_requested());
        EXPECT_TRUE(token.wait_for(runtime, 1h));  // at once
      });
    }
    runtime.yield();
    source.request_stop();
    source.request_stop();
    for (Thread& thread : threads) thread.join();
  });
}

TEST(Stop, AWaitEndsAtItsDeadline) {
  run_everywhere(1, 5, [](Runtime& runtime) {
    StopSource source(runtime);
    const Instant before = runtime.now();
    EXPECT_FALSE(source.token().wait_for(runtime, 2ms));
    EXPECT_GE(runtime.now(), before + 2ms);
  });
}

TEST(Stop, CallbacksRunOnceInOrder) {
  run_everywhere(1, 5, [](Runtime& runtime) {
    std::vector<int> called;
    auto source = std::make_optional<StopSource>(runtime);
    const StopToken token = source->token();
    const auto first = token.on_stop([&] { called.push_back(1); });
    {
      const auto dropped = token.on_stop([&] { called.push_back(-1); });
    }
    auto second = token.on_stop([&] { called.push_back(2); });
    StopToken::Registration moved(std::move(second));
    StopToken::Registration replaced = token.on_stop([&] { called.push_back(-2); });
    replaced = token.on_stop([&] { called.push_back(3); });
    source->request_stop();
    source->request_stop();
    EXPECT_EQ(called, (std::vector<int>{1, 2, 3}));
    const auto late = token.on_stop([&] { called.push_back(4); });
    EXPECT_EQ(called.back(), 4);
    source.reset();
    EXPECT_TRUE(token.stop_requested());
  });
}

TEST(Stop, ACallbackMayDropItsOwnRegistration) {
  run_everywhere(1, 5, [](Runtime& runtime) {
    StopSource source(runtime);
    std::optional<StopToken::Registration> registration;
    bool called = false;
    registration = source.token().on_stop([&] {
      called = true;
      registration.reset();
    });
    source.request_stop();
    EXPECT_TRUE(called);
  });
}

TEST(Stop, AChildStopsWithItsParentAndAlone) {
  run_everywhere(1, 5, [](Runtime& runtime) {
    StopSource parent(runtime);
    StopSource child(runtime, parent.token());
    StopSource alone(runtime, parent.token());
    { StopSource gone(runtime, parent.token()); }
    StopSource grandchild(runtime, child.token());
    alone.request_stop();
    EXPECT_TRUE(alone.token().stop_requested());
    EXPECT_FALSE(parent.token().stop_requested());
    EXPECT_FALSE(child.token().stop_requested());
    parent.request_stop();
    EXPECT_TRUE(grandchild.token().stop_requested());
    StopSource late(runtime, parent.token());
    EXPECT_TRUE(late.token().stop_requested());
  });
}

// After a registration is gone its callback does not run, even if it runs on another thread at that very moment.
TEST(Stop, DroppingARegistrationWaitsForItsCallback) {
  const auto runtime = make_real_runtime();
  StopSource source(*runtime);
  std::atomic<bool> started{false};
  std::atomic<bool> dropping{false};
  std::atomic<bool> returned{false};
  std::optional<StopToken::Registration> registration(source.token().on_stop([&] {
    started = true;
    // Long enough for the other thread to go from here into the destructor, and no wait in the sense of rt/.
    while (!dropping) {}
    const Instant before = runtime->now();
    while (runtime->now() < before + 2ms) {}
    returned = true;
  }));
  Thread stopper(*runtime, "stopper", [&] { source.request_stop(); });
  while (!started) {}
  dropping = true;
  registration.reset();
  EXPECT_TRUE(returned);
  stopper.join();
}

TEST(Stop, DroppingARegistrationRacesWithTheStop) {
  const auto runtime = make_real_runtime();
  for (int round = 0; round < 200; ++round) {
    StopSource source(*runtime);
    auto alive = std::make_unique<std::atomic<int>>(0);
    std::optional<StopToken::Registration> registration(source.token().on_stop([object = alive.get()] {
      for (int i = 0; i < 100; ++i) object->fetch_add(1);
    }));
    Thread stopper(*runtime, "stopper", [&] { source.request_stop(); });
    registration.reset();
    EXPECT_TRUE(alive->load() == 0 || alive->load() == 100);
    alive.reset();
    stopper.join();
  }
}

TEST(StopDeathTest, ACallbackThatWaits) {
  const auto wait_in_callback = [] {
    run_seeds(1, 1, [](SimRuntime& runtime) {
      StopSource source(runtime);
      const auto registration = source.token().on_stop([&] { runtime.sleep_for(1s); });
      source.request_stop();
    });
  };
  EXPECT_DEATH(wait_in_callback(), "stop_test.cc:[0-9]+: .*a wait where none is allowed: inside a stop callback");
}

TEST(StopDeathTest, ARegistrationDroppedWithALockHeld) {
  const auto drop_with_lock = [] {
    run_seeds(1, 1, [](SimRuntime& runtime) {
      StopSource source(runtime);
      std::optional<StopToken::Registration> registration(source.token().on_stop([] {}));
      Mutex mutex;
      MutexLock lock(mutex);
      registration.reset();
    });
  };
  EXPECT_DEATH(drop_with_lock(), "a stop registration was destroyed with a lock held");
}

}  // namespace
}  // namespace basalt::rt
