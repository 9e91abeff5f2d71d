#pragma once

#include <cstddef>
#include <vector>

namespace basalt::rt::internal {

// The mechanics below SimRuntime: stacks, and handing the processor from one stack to another within one thread of the
// operating system. Knows nothing of scheduling. The sanitizers are told about every stack and every change of stack.

// Memory for one fiber's stack with an inaccessible page below it, so that an overflow faults instead of writing over
// a neighbour.
struct FiberStack {
  std::byte* low = nullptr;  // first usable byte
  std::size_t bytes = 0;
  // What ThreadSanitizer takes for the thread that runs on it. It stays with the stack: a new user's first write to it
  // is no race with the last one's, and making one is slow.
  void* tsan_fiber = nullptr;
};

// Hands out stacks of one size and takes them back; mapping a fresh one costs as much as thousands of switches.
class StackPool {
 public:
  explicit StackPool(std::size_t stack_bytes);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  [[nodiscard]] FiberStack take();
  void give(FiberStack stack);
  // For the stack of a fiber that will never run again although it has not ended. Its objects are not destroyed. Under
  // the leak checker the memory stays mapped, and counts as a root, so that what the objects own is not reported.
  void abandon(FiberStack stack);

 private:
  const std::size_t stack_bytes_;
  std::vector<FiberStack> free_;
};

// Where a suspended fiber (or the thread that runs them all) goes on. Neither copied nor moved: others point to it.
class FiberContext {
 public:
  using Entry = void (*)(void* argument);

  // The context of the calling thread itself.
  FiberContext();
  // A new fiber: the first switch to it calls `entry(argument)`, which must call entered() first and must never return,
  // but end with exit_to().
  FiberContext(FiberStack stack, Entry entry, void* argument);
  ~FiberContext();
  FiberContext(const FiberContext&) = delete;
  FiberContext& operator=(const FiberContext&) = delete;

  // Both are called with what ThreadSanitizer sees switched off (race_detector.h), and switch it on for what follows.
  // Suspends this, the running context, and goes on with `next`. Returns when somebody switches back.
  void switch_to(FiberContext& next);
  // Ends this, the running context, and goes on with `next`. The stack may be reused as soon as `next` runs.
  [[noreturn]] void exit_to(FiberContext& next);
  void entered();

  [[nodiscard]] FiberStack stack() const { return stack_; }

 private:
  void before_switch(FiberContext& next, bool exits);
  void after_switch();

  // What the C++ library keeps for each thread about exceptions in flight (Itanium ABI, 2.2.2); a fiber that waits
  // inside a catch block takes it along.
  struct ExceptionState {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  FiberStack stack_;
  void* stack_pointer_ = nullptr;              // of a suspended context
  [[maybe_unused]] void* ucontext_ = nullptr;  // only where there is no switch of our own
  FiberContext* came_from_ = nullptr;
  ExceptionState exceptions_;
  // For the sanitizers.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* asan_low_ = nullptr;
  [[maybe_unused]] std::size_t asan_bytes_ = 0;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
};

// Keeps the leak checker from reporting `object` and what only it refers to.
void leak_on_purpose(const void* object);

// True if the program was built with a sanitizer, whose larger frames need larger stacks.
[[nodiscard]] bool has_sanitizer();

}  // namespace basalt::rt::internal
