// Switches of the simulated runtime, against what they replace, and operations of the work queue.

#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "rt/internal/fiber.h"
#include "rt/real_runtime.h"
#include "rt/sim_runtime.h"
#include "rt/work_queue.h"

namespace basalt::rt {
namespace {

// Fibers that do nothing but hand the baton on. The argument is their number.
void simulated_yield(benchmark::State& state) {
  const auto fibers = static_cast<int>(state.range(0));
  constexpr int kYields = 100'000;
  for (auto _ : state) {
    const auto runtime = SimRuntime::make({});
    const auto report = runtime->run([&] {
      std::vector<Thread> threads;
      for (int i = 0; i < fibers; ++i) {
        threads.emplace_back(*runtime, "t", [&] {
          for (int j = 0; j < kYields / fibers; ++j) runtime->yield();
        });
      }
      for (Thread& thread : threads) thread.join();
    });
    BASALT_CHECK_MSG(report.completed, report.problem);
  }
  state.SetItemsProcessed(state.iterations() * kYields);
}
BENCHMARK(simulated_yield)->Arg(2)->Arg(10)->Arg(1000);

// The common case: two fibers that wait for each other on a condition.
void simulated_condition(benchmark::State& state) {
  constexpr int kRounds = 50'000;
  for (auto _ : state) {
    const auto runtime = SimRuntime::make({});
    const auto report = runtime->run([&] {
      Mutex mutex;
      Condition changed(*runtime);
      int turn = 0;
      const auto play = [&](int me) {
        for (int i = 0; i < kRounds; ++i) {
          MutexLock lock(mutex);
          while (turn % 2 != me) changed.wait(mutex);
          ++turn;
          changed.notify_one();
        }
      };
      Thread other(*runtime, "other", [&] { play(1); });
      play(0);
      other.join();
    });
    BASALT_CHECK_MSG(report.completed, report.problem);
  }
  state.SetItemsProcessed(state.iterations() * 2 * kRounds);
}
BENCHMARK(simulated_condition);

// Sleeps of many fibers: each switch moves the virtual time.
void simulated_sleep(benchmark::State& state) {
  constexpr int kFibers = 100;
  constexpr int kSleeps = 1000;
  for (auto _ : state) {
    const auto runtime = SimRuntime::make({});
    const auto report = runtime->run([&] {
      std::vector<Thread> threads;
      for (int i = 0; i < kFibers; ++i) {
        threads.emplace_back(*runtime, "t", [&] {
          for (int j = 0; j < kSleeps; ++j) runtime->sleep_for(Duration(1 + runtime->random_below(1'000'000)));
        });
      }
      for (Thread& thread : threads) thread.join();
    });
    BASALT_CHECK_MSG(report.completed, report.problem);
  }
  state.SetItemsProcessed(state.iterations() * kFibers * kSleeps);
}
BENCHMARK(simulated_sleep);

// Only the change of stacks, there and back.
void fiber_switch(benchmark::State& state) {
  struct Pair {
    internal::FiberContext root;
    internal::FiberContext* fiber = nullptr;
    bool ends = false;
  } pair;
  internal::StackPool stacks(64 * 1024);
  internal::FiberContext fiber(
      stacks.take(),
      [](void* argument) {
        auto& both = *static_cast<Pair*>(argument);
        both.fiber->entered();
        while (!both.ends) both.fiber->switch_to(both.root);
        both.fiber->exit_to(both.root);
      },
      &pair);
  pair.fiber = &fiber;
  for (auto _ : state) pair.root.switch_to(fiber);
  pair.ends = true;
  pair.root.switch_to(fiber);
  stacks.give(fiber.stack());
  state.SetItemsProcessed(state.iterations() * 2);
}
BENCHMARK(fiber_switch);

// What a simulation with threads of the operating system would cost at least: one baton, passed by futex, no scheduler.
void thread_baton(benchmark::State& state) {
  const auto count = static_cast<int>(state.range(0));
  const auto runtime = make_real_runtime();
  constexpr int kRounds = 20'000;
  for (auto _ : state) {
    std::vector<std::atomic<int>> batons(static_cast<std::size_t>(count));
    std::vector<Thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back(*runtime, "t", [&, i] {
        std::atomic<int>& mine = batons[static_cast<std::size_t>(i)];
        std::atomic<int>& next = batons[static_cast<std::size_t>((i + 1) % count)];
        for (int j = 0; j < kRounds / count; ++j) {
          mine.wait(j);  // has the value j until the baton comes for the (j + 1)th time
          next.fetch_add(1);
          next.notify_one();
        }
      });
    }
    batons[0].fetch_add(1);
    batons[0].notify_one();
    for (Thread& thread : threads) thread.join();
  }
  state.SetItemsProcessed(state.iterations() * kRounds);
}
BENCHMARK(thread_baton)->Arg(2)->Arg(10)->MeasureProcessCPUTime()->UseRealTime();

void mutex_lock(benchmark::State& state) {
  Mutex mutex;
  for (auto _ : state) MutexLock lock(mutex);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(mutex_lock);

std::vector<std::string> make_keys(int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back("tenant-" + std::to_string(i % 100) + "/job-" + std::to_string(i));
  return keys;
}

// add, get, done, with so many keys waiting; lanes by tenant or not.
void work_queue_cycle(benchmark::State& state) {
  const auto runtime = make_real_runtime();
  const auto keys = make_keys(static_cast<int>(state.range(0)));
  WorkQueue<std::string>::LaneOf lane_of;
  if (state.range(1) != 0) {
    lane_of = [](const std::string& key) {
      return std::hash<std::string_view>{}(std::string_view(key).substr(0, key.find('/')));
    };
  }
  WorkQueue<std::string> queue(*runtime, {}, lane_of);
  for (const auto& key : keys) queue.add(key);
  for (auto _ : state) {
    const auto key = queue.get();
    queue.done(*key);
    queue.add(*key);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(work_queue_cycle)->ArgsProduct({{1, 10'000, 1'000'000}, {0, 1}})->ArgNames({"keys", "lanes"});

void work_queue_merge(benchmark::State& state) {
  const auto runtime = make_real_runtime();
  WorkQueue<std::string> queue(*runtime);
  const std::string key = "default/job-1";
  for (auto _ : state) benchmark::DoNotOptimize(queue.add(key));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(work_queue_merge);

void work_queue_delay(benchmark::State& state) {
  const auto runtime = make_real_runtime();
  const auto keys = make_keys(10'000);
  WorkQueue<std::string> queue(*runtime);
  std::size_t i = 0;
  for (auto _ : state) {
    queue.add_after(keys[i], std::chrono::hours(24) - Duration(static_cast<Duration::rep>(i)));
    i = (i + 1) % keys.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(work_queue_delay);

// Workers on as many threads as given, one producer's share of keys each.
void work_queue_contended(benchmark::State& state) {
  static std::unique_ptr<Runtime> runtime;
  static std::unique_ptr<WorkQueue<int>> queue;
  if (state.thread_index() == 0) {
    runtime = make_real_runtime();
    queue = std::make_unique<WorkQueue<int>>(*runtime);
    for (int i = 0; i < 10'000; ++i) queue->add(i);
  }
  for (auto _ : state) {
    const auto key = queue->get();
    queue->done(*key);
    queue->add(*key);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(work_queue_contended)->Threads(1)->Threads(2)->Threads(4)->UseRealTime();

}  // namespace
}  // namespace basalt::rt
