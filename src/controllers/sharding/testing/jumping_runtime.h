#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <utility>

#include "rt/runtime.h"

namespace basalt::controllers::sharding::testing {

// Another runtime whose wall clock a test can set forward and back, as an administrator may; time that passes is the
// same.
class JumpingRuntime final : public rt::Runtime {
 public:
  explicit JumpingRuntime(rt::Runtime& inner) : inner_(inner) {}
  void jump(rt::Duration by) { offset_ += by; }

  [[nodiscard]] rt::Instant now() const override { return inner_.now(); }
  [[nodiscard]] rt::WallTime wall_now() const override {
    return inner_.wall_now() + std::chrono::duration_cast<rt::WallTime::duration>(offset_);
  }
  [[nodiscard]] std::uint64_t random() override { return inner_.random(); }
  [[nodiscard]] bool is_simulated() const override { return inner_.is_simulated(); }
  [[nodiscard]] std::uint64_t this_thread_id() const override { return inner_.this_thread_id(); }
  [[nodiscard]] bool was_abandoned() const override { return inner_.was_abandoned(); }
  void sleep_until(rt::Instant deadline, std::source_location where) override { inner_.sleep_until(deadline, where); }
  void yield(std::source_location where) override { inner_.yield(where); }

 protected:
  std::unique_ptr<ThreadHandle> start_thread(std::string name, std::function<void()> body) override {
    return std::make_unique<Handle>(inner_, std::move(name), std::move(body));
  }
  std::unique_ptr<ConditionImpl> make_condition() override { return std::make_unique<Wait>(inner_); }

 private:
  class Handle final : public ThreadHandle {
   public:
    Handle(rt::Runtime& runtime, std::string name, std::function<void()> body)
        : runtime_(runtime), thread_(runtime, std::move(name), std::move(body)) {}
    void join(std::source_location where) override { thread_.join(where); }
    [[nodiscard]] bool is_abandoned() const override { return runtime_.was_abandoned(); }

   private:
    rt::Runtime& runtime_;
    rt::Thread thread_;
  };
  class Wait final : public ConditionImpl {
   public:
    explicit Wait(rt::Runtime& runtime) : condition_(runtime) {}
    bool wait_until(rt::Mutex& mutex, rt::Instant deadline,
                    std::source_location where) override BASALT_NO_THREAD_SAFETY_ANALYSIS {
      return condition_.wait_until(mutex, deadline, where);
    }
    void notify_one() override { condition_.notify_one(); }
    void notify_all() override { condition_.notify_all(); }

   private:
    rt::Condition condition_;
  };

  rt::Runtime& inner_;
  rt::Duration offset_{};
};

}  // namespace basalt::controllers::sharding::testing
