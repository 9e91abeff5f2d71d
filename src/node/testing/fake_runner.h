#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "node/process_runner.h"
#include "rt/runtime.h"
#include "rt/timer.h"

namespace basalt::node::testing {

// What became of processes, over several agents.
struct ProcessBook {
  rt::Mutex mutex;
  std::map<std::string, int> starts BASALT_GUARDED_BY(mutex);  // by the process' name
  std::map<std::string, int> ends BASALT_GUARDED_BY(mutex);    // by themselves, with code 0

  int starts_of(const std::string& name) {
    rt::MutexLock lock(mutex);
    return starts[name];
  }
  int ends_of(const std::string& name) {
    rt::MutexLock lock(mutex);
    return ends[name];
  }
};

// Processes that only pass time, for simulations. argv: "run", milliseconds, exit code.
class FakeRunner final : public ProcessRunner {
 public:
  FakeRunner(rt::Runtime& runtime, ProcessBook& book) : runtime_(runtime), book_(book), timers_(runtime) {}

  Result<StartedProcess> start(const ProcessSpec& spec, OnOutput on_output, OnExit on_exit) override {
    const rt::Duration length = std::chrono::milliseconds(std::stoi(spec.argv.at(1)));
    const int code = std::stoi(spec.argv.at(2));
    {
      rt::MutexLock lock(book_.mutex);
      ++book_.starts[spec.name];
    }
    if (on_output) on_output(OutputStream::Out, "hello\n");
    ProcessId id = 0;
    {
      rt::MutexLock lock(mutex_);
      if (stopped_) return Error::make(Reason::Cancelled, "the node is stopping");
      id = ++last_;
      running_[id] = {spec.name, std::move(on_exit)};
    }
    (void)timers_.schedule(runtime_.now() + length, [this, id, code] { end(id, {.code = code}); });
    return StartedProcess{id, static_cast<std::int64_t>(id)};
  }
  void signal(ProcessId id, int signal) override {
    (void)timers_.schedule(runtime_.now(), [this, id, signal] { end(id, {.code = 128 + signal, .signal = signal}); });
  }
  std::size_t kill_marked(std::string_view) override { return 0; }
  Done guard(std::string_view) override { return Ok{}; }
  [[nodiscard]] bool isolates() const override { return true; }
  void stop() override {
    std::map<ProcessId, Process> left;
    {
      rt::MutexLock lock(mutex_);
      stopped_ = true;
      for (const auto& [id, process] : running_) left.emplace(id, Process{});
    }
    for (const auto& [id, process] : left) end(id, {.code = 128 + SIGKILL, .signal = SIGKILL});
    timers_.stop();
  }

 private:
  struct Process {
    std::string name;
    OnExit on_exit;
  };
  void end(ProcessId id, const ProcessExit& exit) {
    Process process;
    {
      rt::MutexLock lock(mutex_);
      const auto found = running_.find(id);
      if (found == running_.end()) return;
      process = std::move(found->second);
      running_.erase(found);
    }
    if (exit.code == 0) {
      rt::MutexLock lock(book_.mutex);
      ++book_.ends[process.name];
    }
    process.on_exit(exit);
  }

  rt::Runtime& runtime_;
  ProcessBook& book_;
  rt::TimerQueue timers_;
  rt::Mutex mutex_;
  std::map<ProcessId, Process> running_ BASALT_GUARDED_BY(mutex_);
  ProcessId last_ BASALT_GUARDED_BY(mutex_) = 0;
  bool stopped_ BASALT_GUARDED_BY(mutex_) = false;
};

}  // namespace basalt::node::testing
