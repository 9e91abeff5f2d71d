#include "rt/gate.h"

#include <gtest/gtest.h>

#include <vector>

#include "rt/sim_test_support.h"

namespace basalt::rt {
namespace {

using namespace std::chrono_literals;

TEST(Gate, ClosedGateRefuses) {
  run_everywhere(1, 5, [](Runtime& runtime) {
    Gate gate(runtime);
    EXPECT_TRUE(gate.enter());
    auto hold = gate.enter();
    Gate::Hold moved(std::move(hold));
    Gate::Hold assigned;
    EXPECT_FALSE(assigned);
    assigned = std::move(moved);
    EXPECT_TRUE(assigned);
    assigned.leave();
    EXPECT_FALSE(assigned);
    assigned.leave();
    gate.close();
    gate.close();
    EXPECT_FALSE(gate.enter());
  });
}

TEST(Gate, CloseWaitsForThoseInside) {
  run_everywhere(1, 300, [](Runtime& runtime) {
    Mutex mutex;
    int inside = 0;
    bool closed = false;
    const auto change = [&](int by) {
      MutexLock lock(mutex);
      EXPECT_FALSE(closed);
      inside += by;
    };
    Gate gate(runtime);
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(runtime, "visitor", [&] {
        for (;;) {
          const auto hold = gate.enter();
          if (!hold) return;
          change(1);
          runtime.yield();
          change(-1);
          if (runtime.random_below(3) == 0) runtime.sleep_for(1us);
        }
      });
    }
    runtime.sleep_for(20us);
    gate.close();
    {
      MutexLock lock(mutex);
      closed = true;
      EXPECT_EQ(inside, 0);
    }
    for (Thread& thread : threads) thread.join();
  });
}

TEST(GateDeathTest, DestroyedWithSomebodyInside) {
  const auto destroy = [] {
    const auto runtime = make_real_runtime();
    Gate::Hold hold;
    Gate gate(*runtime);
    hold = gate.enter();
    (void)hold;
  };
  EXPECT_DEATH(destroy(), "a gate was destroyed while somebody is inside");
}

}  // namespace
}  // namespace basalt::rt
