#include "rt/real_runtime.h"

#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "rt/random.h"

namespace basalt::rt {
namespace {

using Steady = std::chrono::steady_clock;

std::uint64_t seed_from_system() {
  std::uint64_t seed = 0;
  // Up to 256 bytes come whole once the system has gathered entropy; an interrupted call is repeated.
  while (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {}
  return seed;
}

}  // namespace

// In the namespace itself because Mutex names it as a friend.
class RealCondition {
 public:
  // Steady clock: a change of the time of day neither shortens nor lengthens a wait.
  bool wait_until(Mutex& mutex, Instant deadline, Steady::time_point epoch) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    bool notified = true;
    if (deadline == kNever || deadline.time_since_epoch() > Duration::max() - epoch.time_since_epoch()) {
      condition_.wait(lock);
    } else {
      notified = condition_.wait_until(lock, epoch + deadline.time_since_epoch()) == std::cv_status::no_timeout;
    }
    // The caller goes on holding the lock.
    lock.release();
    return notified;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

namespace {

class RealRuntime final : public Runtime {
 public:
  RealRuntime() : epoch_(Steady::now()), random_state_(seed_from_system()) {}

  [[nodiscard]] Instant now() const override { return Instant(Steady::now() - epoch_); }
  [[nodiscard]] WallTime wall_now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }
  // SplitMix64 over an atomic counter: no lock, no state per thread.
  [[nodiscard]] std::uint64_t random() override {
    return mix64(random_state_.fetch_add(kGoldenGamma, std::memory_order_relaxed) + kGoldenGamma);
  }
  [[nodiscard]] bool is_simulated() const override { return false; }
  [[nodiscard]] std::uint64_t this_thread_id() const override {
    static std::atomic<std::uint64_t> last{0};
    thread_local const std::uint64_t id = last.fetch_add(1, std::memory_order_relaxed) + 1;
    return id;
  }

  void sleep_until(Instant deadline, std::source_location where) override {
    internal::check_may_wait(nullptr, where, false);
    // In steps, so that a deadline near the end of time does not overflow inside the library.
    constexpr Duration kStepMax = std::chrono::hours(24);
    for (Instant at = now(); at < deadline; at = now())
      std::this_thread::sleep_until(epoch_ + std::min(deadline, at + kStepMax).time_since_epoch());
  }
  void yield(std::source_location where) override { internal::check_may_wait(nullptr, where, false); }

 protected:
  std::unique_ptr<ThreadHandle> start_thread(std::string name, std::function<void()> body) override {
    return std::make_unique<Handle>(std::move(name), std::move(body));
  }
  std::unique_ptr<ConditionImpl> make_condition() override { return std::make_unique<ConditionAdapter>(epoch_); }

 private:
  class Handle final : public ThreadHandle {
   public:
    Handle(std::string name, std::function<void()> body)
        : thread_([name = std::move(name), body = std::move(body)]() noexcept {
            // The kernel keeps 15 characters; a longer name would be refused as a whole.
            pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
            body();
          }) {}
    void join(std::source_location where) override {
      internal::check_may_wait(nullptr, where, false);
      thread_.join();
    }

   private:
    std::thread thread_;
  };

  class ConditionAdapter final : public ConditionImpl {
   public:
    explicit ConditionAdapter(Steady::time_point epoch) : epoch_(epoch) {}
    bool wait_until(Mutex& mutex, Instant deadline, std::source_location where) override {
      internal::check_may_wait(&mutex, where, false);
      return condition_.wait_until(mutex, deadline, epoch_);
    }
    void notify_one() override { condition_.notify_one(); }
    void notify_all() override { condition_.notify_all(); }

   private:
    const Steady::time_point epoch_;
    RealCondition condition_;
  };

  const Steady::time_point epoch_;
  std::atomic<std::uint64_t> random_state_;
};

}  // namespace

std::unique_ptr<Runtime> make_real_runtime() { return std::make_unique<RealRuntime>(); }

}  // namespace basalt::rt
