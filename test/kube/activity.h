#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kube/client.h"
#include "rt/runtime.h"

// When a real place has come to rest. A simulation knows; on a real server, on a busy machine, a fixed time is a guess.

namespace basalt::test {

// The calls of all who act at one place. To look, by lists and watches, is no activity.
class Activity {
 public:
  // `patience` is the longest that time just passes.
  Activity(rt::Runtime& runtime, rt::Duration patience)
      : runtime_(runtime), patience_(patience), last_(runtime.now()) {}

  void begin() { ++in_flight_; }
  void end() {
    last_ = runtime_.now();
    --in_flight_;
  }
  // Lets `time` pass or as much of it as patience allows, and then more until nobody has called for a moment. Where
  // somebody always calls, at most kLimit.
  void let_pass(rt::Duration time) {
    runtime_.sleep_for(std::min(time, patience_));
    const rt::Instant deadline = rt::saturating_add(runtime_.now(), kLimit);
    while (!is_quiet() && runtime_.now() < deadline) runtime_.sleep_for(std::chrono::milliseconds(10));
  }

 private:
  static constexpr rt::Duration kMoment = std::chrono::milliseconds(250);
  static constexpr rt::Duration kLimit = std::chrono::seconds(20);
  [[nodiscard]] bool is_quiet() const { return in_flight_ == 0 && runtime_.now() - last_.load() >= kMoment; }

  rt::Runtime& runtime_;
  const rt::Duration patience_;
  std::atomic<int> in_flight_ = 0;
  std::atomic<rt::Instant> last_;
};

// A client whose calls count as activity.
class ActiveClient final : public kube::Client {
 public:
  ActiveClient(std::unique_ptr<kube::Client> inner, Activity& activity)
      : inner_(std::move(inner)), activity_(activity) {}

  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    const Act act(activity_);
    return inner_->call(request, stop);
  }
  Result<kube::ListPage> list(const kube::ListRequest& request, const rt::StopToken& stop) override {
    return inner_->list(request, stop);
  }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest& request,
                                                   const rt::StopToken& stop) override {
    return inner_->watch(request, stop);
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests,
                                               const kube::CallAllOptions& options,
                                               const rt::StopToken& stop) override {
    const Act act(activity_);
    return inner_->call_all(requests, options, stop);
  }

 private:
  class Act {
   public:
    explicit Act(Activity& activity) : activity_(activity) { activity_.begin(); }
    ~Act() { activity_.end(); }
    Act(const Act&) = delete;
    Act& operator=(const Act&) = delete;

   private:
    Activity& activity_;
  };

  const std::unique_ptr<kube::Client> inner_;
  Activity& activity_;
};

}  // namespace basalt::test
