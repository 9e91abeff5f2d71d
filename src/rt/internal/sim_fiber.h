#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "rt/internal/deadline_heap.h"
#include "rt/internal/fiber.h"
#include "rt/time.h"

namespace basalt::rt::internal {

class SimCondition;

// A thread of a simulation.
struct SimFiber {
  enum class State : std::uint8_t { Runnable, Running, Sleeping, Waiting, Joining, Settling, Ended, Abandoned };

  std::uint64_t id = 0;  // 1, 2, ... in the order of starting
  std::string name;
  std::function<void()> body;  // until the fiber starts; then it lives on the fiber's stack
  std::unique_ptr<FiberContext> context;

  State state = State::Runnable;
  std::source_location place;           // where it waits, or waited last
  Instant deadline = kNever;            // of the wait
  SimCondition* condition = nullptr;    // State::Waiting
  const SimFiber* joined = nullptr;     // State::Joining
  SimFiber* joiner = nullptr;           // who waits for the end of this one
  bool notified = false;                // how the last wait on a condition ended
  std::size_t heap_index = kNotInHeap;  // in DeadlineHeap
  std::size_t index = 0;                // in the list of live fibers
};

// "worker-3: waiting at src/rt/gate.cc:25, deadline 12.500s"
[[nodiscard]] std::string describe(const SimFiber& fiber);

}  // namespace basalt::rt::internal
