#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>

#include "rt/mutex.h"
#include "rt/time.h"

namespace basalt::rt {

// Everything above net/ waits, tells time, draws random numbers and starts threads through this, so that the same code
// runs on the operating system (real_runtime.h) and in a deterministic simulation in virtual time (sim_runtime.h).
// Passed by reference through constructors; it outlives everything made with it. All functions are thread-safe.
class Runtime {
 public:
  virtual ~Runtime() = default;

  [[nodiscard]] virtual Instant now() const = 0;
  [[nodiscard]] virtual WallTime wall_now() const = 0;
  // 64 random bits. Reproducible by seed in a simulation; from the operating system otherwise.
  [[nodiscard]] virtual std::uint64_t random() = 0;
  [[nodiscard]] virtual bool is_simulated() const = 0;
  // Tells the calling thread from the others of this runtime; never 0.
  [[nodiscard]] virtual std::uint64_t this_thread_id() const = 0;
  // True after a simulation that ended early (deadlock, limit) and left its threads where they stood. What they held is
  // then never released, so destructors skip their "everybody has left" checks.
  [[nodiscard]] virtual bool was_abandoned() const { return false; }

  // Waits. May not be called with a Mutex held. Interruptible waits are in stop.h.
  virtual void sleep_until(Instant deadline, std::source_location where = std::source_location::current()) = 0;
  void sleep_for(Duration duration, std::source_location where = std::source_location::current()) {
    sleep_until(saturating_add(now(), duration), where);
  }
  // A place where a simulation may switch threads; nothing on the operating system. Client calls do this.
  virtual void yield(std::source_location where = std::source_location::current()) = 0;

  // Uniform in [0, bound); bound > 0.
  [[nodiscard]] std::uint64_t random_below(std::uint64_t bound);
  // Uniform in [0, 1).
  [[nodiscard]] double random_unit();
  // `duration` lengthened by up to `factor` of itself, against herds.
  [[nodiscard]] Duration jitter(Duration duration, double factor);

  // What implementations provide; users see Thread and Condition.
  class ThreadHandle {
   public:
    virtual ~ThreadHandle() = default;
    virtual void join(std::source_location where) = 0;
    // The thread will never run again, because its simulation is over.
    [[nodiscard]] virtual bool is_abandoned() const { return false; }
  };
  class ConditionImpl {
   public:
    virtual ~ConditionImpl() = default;
    // False if the deadline passed without a notification.
    virtual bool wait_until(Mutex& mutex, Instant deadline, std::source_location where) = 0;
    virtual void notify_one() = 0;
    virtual void notify_all() = 0;
  };

 protected:
  friend class Thread;
  friend class Condition;
  virtual std::unique_ptr<ThreadHandle> start_thread(std::string name, std::function<void()> body) = 0;
  virtual std::unique_ptr<ConditionImpl> make_condition() = 0;
};

// A thread; join() before destruction (checked). `name` is at most 15 characters on the operating system.
class Thread {
 public:
  Thread() = default;
  Thread(Runtime& runtime, std::string name, std::function<void()> body);
  Thread(Thread&&) noexcept = default;
  Thread& operator=(Thread&& other) noexcept;
  ~Thread();
  [[nodiscard]] bool joinable() const { return handle_ != nullptr; }
  void join(std::source_location where = std::source_location::current());

 private:
  std::unique_ptr<Runtime::ThreadHandle> handle_;
};

// A condition variable. Waits may wake up without reason, as usual, so wait in a loop that tests what is waited for.
// Nobody may wait on it any more when it is destroyed.
class Condition {
 public:
  explicit Condition(Runtime& runtime);
  ~Condition();
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  void wait(Mutex& mutex, std::source_location where = std::source_location::current()) BASALT_REQUIRES(mutex);
  // False if the deadline passed without a notification.
  bool wait_until(Mutex& mutex, Instant deadline, std::source_location where = std::source_location::current())
      BASALT_REQUIRES(mutex);
  void notify_one();
  void notify_all();

 private:
  std::unique_ptr<Runtime::ConditionImpl> impl_;
};

}  // namespace basalt::rt
