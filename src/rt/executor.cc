#include "rt/executor.h"

#include <utility>

#include "base/check.h"

namespace basalt::rt {

Executor::Executor(Runtime& runtime, ExecutorOptions options)
    : runtime_(runtime), options_(std::move(options)), changed_(runtime) {
  BASALT_CHECK(options_.threads > 0);
  for (int i = 0; i < options_.threads; ++i)
    threads_.emplace_back(runtime, options_.name + "-" + std::to_string(i), [this] { work(); });
}

Executor::~Executor() {
  BASALT_CHECK_MSG(threads_.empty() || runtime_.was_abandoned(), "an executor was destroyed unstopped");
}

bool Executor::post(std::function<void()> task) {
  BASALT_CHECK(task != nullptr);
  MutexLock lock(mutex_);
  if (stopped_ || tasks_.size() >= options_.waiting_max) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void Executor::stop(std::source_location where) {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  for (Thread& thread : threads_) thread.join(where);
  threads_.clear();
}

std::size_t Executor::waiting() {
  MutexLock lock(mutex_);
  return tasks_.size();
}

void Executor::work() {
  while (const std::function<void()> task = next()) task();
}

// Empty when all is done and no more will come.
std::function<void()> Executor::next() {
  MutexLock lock(mutex_);
  while (tasks_.empty()) {
    if (stopped_) return nullptr;
    changed_.wait(mutex_);
  }
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

}  // namespace basalt::rt
