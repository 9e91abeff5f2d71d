#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "node/prober.h"
#include "rt/runtime.h"
#include "rt/timer.h"

namespace basalt::node::testing {

// Checks that only pass time, for simulations: the answer of a function, after its delay or at the timeout.
class FakeProber final : public Prober {
 public:
  struct Answer {
    CheckResult result{Verdict::Passed, ""};
    rt::Duration delay{};
  };
  // What was asked, outlives the prober.
  struct Book {
    rt::Mutex mutex;
    std::vector<std::pair<rt::Instant, NetworkCheck>> starts BASALT_GUARDED_BY(mutex);
    std::vector<std::pair<rt::Instant, NetworkCheck>> taken() {
      rt::MutexLock lock(mutex);
      return starts;
    }
  };
  // Called on the node's threads.
  using Script = std::function<Answer(const NetworkCheck& check)>;

  FakeProber(rt::Runtime& runtime, Book& book, Script script)
      : runtime_(runtime), book_(book), script_(std::move(script)), timers_(runtime) {}

  Done start(NetworkCheck check, rt::Duration timeout, const rt::StopToken&, OnResult on_result) override {
    Answer answer = script_(check);
    std::uint64_t id = 0;
    {
      rt::MutexLock lock(mutex_);
      if (stopped_) return Error::make(Reason::Cancelled, "the node is stopping");
      id = ++last_;
      running_[id] = std::move(on_result);
    }
    {
      rt::MutexLock lock(book_.mutex);
      book_.starts.emplace_back(runtime_.now(), std::move(check));
    }
    if (answer.delay > timeout) answer = {{Verdict::Failed, "no answer came in time"}, timeout};
    (void)timers_.schedule(runtime_.now() + answer.delay, [this, id, result = answer.result] { end(id, result); });
    return Ok{};
  }
  void stop() override {
    std::vector<std::uint64_t> left;
    {
      rt::MutexLock lock(mutex_);
      stopped_ = true;
      for (const auto& [id, on_result] : running_) left.push_back(id);
    }
    for (const std::uint64_t id : left) end(id, {Verdict::Errored, "stopped"});
    timers_.stop();
  }

 private:
  void end(std::uint64_t id, const CheckResult& result) {
    OnResult on_result;
    {
      rt::MutexLock lock(mutex_);
      const auto found = running_.find(id);
      if (found == running_.end()) return;
      on_result = std::move(found->second);
      running_.erase(found);
    }
    on_result(result);
  }

  rt::Runtime& runtime_;
  Book& book_;
  const Script script_;
  rt::TimerQueue timers_;
  rt::Mutex mutex_;
  std::map<std::uint64_t, OnResult> running_ BASALT_GUARDED_BY(mutex_);
  std::uint64_t last_ BASALT_GUARDED_BY(mutex_) = 0;
  bool stopped_ BASALT_GUARDED_BY(mutex_) = false;
};

}  // namespace basalt::node::testing
