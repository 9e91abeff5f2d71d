#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "apiserver/registry/api_server.h"
#include "apiserver/registry/wake_signal.h"
#include "rt/stop.h"

namespace basalt::apiserver {
namespace {

// A blocking stream on a session. Waits only through the runtime, so it runs in simulations too.
class DirectWatchStream final : public kube::WatchStream {
 public:
  DirectWatchStream(rt::Runtime& runtime, std::unique_ptr<WatchSession> session, rt::Instant ends_at,
                    const rt::StopToken& stop)
      : runtime_(runtime),
        session_(std::move(session)),
        ends_at_(ends_at),
        wake_(std::make_shared<WakeSignal>(runtime)) {
    session_->on_ready([wake = wake_] { wake->fire(); });
    stop_ = stop.on_stop([wake = wake_] { wake->end(); });
  }

  Result<std::optional<kube::WatchEvent>> next(rt::Instant deadline) override {
    runtime_.yield();
    while (true) {
      if (wake_->clear()) return cancelled();
      BASALT_TRY(auto event, session_->poll());
      if (event) return event;
      const rt::Instant now = runtime_.now();
      if (now >= ends_at_) return std::optional<kube::WatchEvent>();
      if (now >= deadline) return Error::make(Reason::DeadlineExceeded, "no watch event came in time");
      wake_->wait_until(std::min({deadline, ends_at_, session_->wake_at()}));
    }
  }

  void cancel() override { wake_->end(); }

 private:
  static Error cancelled() { return Error::make(Reason::Cancelled, "the watch was cancelled"); }

  rt::Runtime& runtime_;
  std::unique_ptr<WatchSession> session_;
  rt::Instant ends_at_;
  std::shared_ptr<WakeSignal> wake_;
  rt::StopToken::Registration stop_;
};

// Threads that one call_all takes at most: a group of this size already hides the disk.
constexpr std::size_t kHelpersMax = 32;

class DirectClient final : public kube::Client {
 public:
  DirectClient(rt::Runtime& runtime, ApiServer& server, RequestContext context)
      : runtime_(runtime), server_(server), context_(std::move(context)) {}

  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    runtime_.yield();
    if (stop.stop_requested()) return stopped();
    return server_.call(request, context_);
  }

  Result<kube::ListPage> list(const kube::ListRequest& request, const rt::StopToken& stop) override {
    runtime_.yield();
    if (stop.stop_requested()) return stopped();
    return server_.list(request, context_);
  }

  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest& request,
                                                   const rt::StopToken& stop) override {
    runtime_.yield();
    if (stop.stop_requested()) return stopped();
    BASALT_TRY(auto session, server_.watch(request, context_));
    return std::unique_ptr<kube::WatchStream>(
        std::make_unique<DirectWatchStream>(runtime_, std::move(session), runtime_.now() + request.timeout, stop));
  }

  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests,
                                               const kube::CallAllOptions& options,
                                               const rt::StopToken& stop) override {
    std::vector<std::optional<Result<kube::Response>>> results(requests.size());
    std::atomic<std::size_t> next{0};
    std::atomic<int> failures{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < requests.size(); i = next++) {
        if (options.failures_max > 0 && failures >= options.failures_max) {
          results[i].emplace(Error::make(Reason::Cancelled, "not sent: too many calls before it failed"));
          continue;
        }
        results[i].emplace(call(requests[i], stop));
        if (!results[i]->ok()) ++failures;
      }
    };
    // In memory nothing is gained by more in flight: this thread does the work anyway. Writes that wait for a disk are
    // committed as a group if they come at once.
    std::vector<rt::Thread> helpers;
    if (server_.is_durable()) {
      const std::size_t wanted =
          std::min<std::size_t>(requests.size(), static_cast<std::size_t>(options.in_flight_max));
      for (std::size_t i = 1; i < std::min(wanted, kHelpersMax); ++i) helpers.emplace_back(runtime_, "call-all", work);
    }
    work();
    for (rt::Thread& helper : helpers) helper.join();
    std::vector<Result<kube::Response>> ordered;
    ordered.reserve(results.size());
    for (auto& result : results) ordered.push_back(std::move(*result));
    return ordered;
  }

 private:
  static Error stopped() { return Error::make(Reason::Cancelled, "stopped before the call was made"); }

  rt::Runtime& runtime_;
  ApiServer& server_;
  RequestContext context_;
};

}  // namespace

std::unique_ptr<kube::Client> make_direct_client(rt::Runtime& runtime, ApiServer& server, RequestContext context) {
  return std::make_unique<DirectClient>(runtime, server, std::move(context));
}

}  // namespace basalt::apiserver
