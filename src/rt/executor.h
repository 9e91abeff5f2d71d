#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include "rt/runtime.h"

namespace basalt::rt {

struct ExecutorOptions {
  std::string name = "executor";  // of the threads, followed by a number
  int threads = 1;
  std::size_t waiting_max = 1000;  // tasks that wait for a thread
};

// A few threads for slow work that needs nobody's order, such as making a key pair. Thread-safe; stop() before
// destruction.
class Executor {
 public:
  Executor(Runtime& runtime, ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs the task as soon as a thread is free. False, and the task is never run, if too many wait or stop() was called.
  [[nodiscard]] bool post(std::function<void()> task);
  // Refuses new tasks and waits until those that were accepted have run: somebody may wait for their results.
  void stop(std::source_location where = std::source_location::current());
  [[nodiscard]] std::size_t waiting();

 private:
  void work();
  std::function<void()> next() BASALT_EXCLUDES(mutex_);

  // Fixed after construction.
  Runtime& runtime_;
  const ExecutorOptions options_;

  Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> tasks_ BASALT_GUARDED_BY(mutex_);
  bool stopped_ BASALT_GUARDED_BY(mutex_) = false;

  std::vector<Thread> threads_;  // used only by the owner
};

}  // namespace basalt::rt
