#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kube/client.h"
#include "rt/runtime.h"

namespace basalt::kube {

// How often each fault strikes, as a chance for one call (or one watch event). All are drawn from the runtime's random
// source, so a simulation repeats them by its seed.
struct FaultPlan {
  // Before the call takes effect.
  double conflict = 0;        // 409, on updates and patches
  double too_many = 0;        // 429 with Retry-After
  double internal_error = 0;  // 500; half of them after a write took effect
  double unavailable = 0;     // 503
  double unreachable = 0;
  // After a write took effect: the answer is lost.
  double lost_reply = 0;  // ConnectionLost
  double timed_out = 0;   // DeadlineExceeded; half of them before it took effect
  // Latency of each call, up to this; by chance on the way to the server or on the way back.
  rt::Duration delay_max{};
  // Watches. A real server never skips or reorders events; it breaks the stream, which then lacks them.
  double watch_refused = 0;   // 500 at the start
  double watch_expired = 0;   // 410 in the stream
  double watch_broken = 0;    // before an event: it and all after it are lost to this stream
  double event_repeated = 0;  // an event that came before comes again
  rt::Duration event_delay_max{};
  // A list with resource version "0" answers from a state up to this many list calls old.
  int stale_lists_max = 0;
};

// A Client that fails by plan. Thread-safe. Every call has a number, in the order in which calls arrive: a test counts
// the calls of a fault-free run, then repeats it with `crash_after` 0, 1, 2, ... that many.
class FaultClient : public Client {
 public:
  FaultClient(rt::Runtime& runtime, Client& inner, FaultPlan plan = {});
  ~FaultClient() override;

  Result<Response> call(const Request& request, const rt::StopToken& stop) override;
  Result<ListPage> list(const ListRequest& request, const rt::StopToken& stop) override;
  Result<std::unique_ptr<WatchStream>> watch(const WatchRequest& request, const rt::StopToken& stop) override;
  std::vector<Result<Response>> call_all(std::span<const Request> requests, const CallAllOptions& options,
                                         const rt::StopToken& stop) override;

  // Faults begin and end with these; the plan is copied.
  void set_plan(const FaultPlan& plan);
  // The API is away: every call is Unreachable and every watch breaks, until it is back.
  void set_away(bool away);
  // The process dies right after its call number `calls` (1 = the first) took effect: that call and everything after it
  // is Cancelled, and nothing reaches the inner client any more. 0 = at once. Watches count as calls.
  void crash_after(std::uint64_t calls);
  enum class CrashPoint : std::uint8_t { BeforeEffect, AfterEffect };
  void crash_after(std::uint64_t calls, CrashPoint point);
  [[nodiscard]] bool crashed() const;
  // One fault at one place, so that a test can go through all places. Call number `call` is answered with this error,
  // once; with AfterEffect it is carried out first. A Conflict strikes only an update or a patch.
  void fail_call(std::uint64_t call, Error error, CrashPoint point = CrashPoint::BeforeEffect);
  // What befalls watch event number `event` (1 = the first over all watches; bookmarks do not count), once.
  enum class EventFault : std::uint8_t {
    Broken,    // the stream breaks; this event and those after it are lost to it
    Expired,   // it breaks and cannot be continued: 410
    Repeated,  // the event comes twice, and the oldest of the last ones once more after it
    Late       // it and all after it come `late` later than they could
  };
  void strike_event(std::uint64_t event, EventFault fault, rt::Duration late = std::chrono::seconds(3));
  [[nodiscard]] bool struck() const;  // fail_call() or strike_event() has had its effect
  [[nodiscard]] std::uint64_t events() const;

  struct CallPoint {
    std::string verb;  // Get, Create, ..., List, Watch
    std::string resource;
    auto operator<=>(const CallPoint&) const = default;
  };
  [[nodiscard]] std::uint64_t calls() const;
  [[nodiscard]] std::map<CallPoint, std::uint64_t> calls_by_point() const;
  // What was called, in order, up to kLogMax: "Create pods/v1 default/a-0".
  [[nodiscard]] std::vector<std::string> call_log() const;
  [[nodiscard]] std::uint64_t faults() const;
  static constexpr std::size_t kLogMax = 100'000;

 private:
  class Stream;
  struct State;
  std::shared_ptr<State> state_;
  Client& inner_;
};

}  // namespace basalt::kube
