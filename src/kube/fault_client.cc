#include "kube/fault_client.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace basalt::kube {

namespace {

// Repeated events come from the last so many.
constexpr std::size_t kRepeatable = 8;

Error crashed_error() { return Error::make(Reason::Cancelled, "the process has crashed (injected)"); }
Error away_error() { return Error::make(Reason::Unreachable, "the API server is away (injected)"); }

bool is_write(Verb verb) { return verb != Verb::Get; }

}  // namespace

struct FaultClient::State {
  explicit State(rt::Runtime& runtime_in) : runtime(runtime_in) {}

  // True with that chance; counts the fault.
  bool strikes(double chance) BASALT_REQUIRES(mutex) {
    if (chance <= 0 || runtime.random_unit() >= chance) return false;
    ++faults;
    return true;
  }

  struct Admission {
    std::optional<Error> refusal;
    bool crash_after_effect = false;
    std::optional<Error> lost_reply;  // carried out, but answered with this
    rt::Duration delay{};
  };
  // Every call passes here once: numbers it, writes it down, decides whether it is the one that the process dies at.
  Admission admit(std::string_view verb, const Resource& resource, std::string_view ns, std::string_view name);

  // A part of `most`, by chance.
  [[nodiscard]] rt::Duration up_to(rt::Duration most) const {
    if (most <= rt::Duration::zero()) return rt::Duration::zero();
    const auto count = static_cast<std::uint64_t>(most.count());
    return rt::Duration(static_cast<rt::Duration::rep>(runtime.random_below(count + 1)));
  }

  // Ends every open watch: the connection is gone.
  void break_streams() {
    std::vector<std::weak_ptr<WatchStream>> open;
    {
      const rt::MutexLock lock(mutex);
      ++epoch;
      open.swap(streams);
    }
    for (const auto& weak : open) {
      if (const auto stream = weak.lock()) stream->cancel();
    }
  }

  rt::Runtime& runtime;
  mutable rt::Mutex mutex;
  std::uint64_t epoch BASALT_GUARDED_BY(mutex) = 0;  // watches of earlier epochs are broken
  std::vector<std::weak_ptr<WatchStream>> streams BASALT_GUARDED_BY(mutex);
  FaultPlan plan BASALT_GUARDED_BY(mutex);
  bool away BASALT_GUARDED_BY(mutex) = false;
  bool has_crashed BASALT_GUARDED_BY(mutex) = false;
  std::optional<std::uint64_t> crash_at BASALT_GUARDED_BY(mutex);
  CrashPoint crash_point BASALT_GUARDED_BY(mutex) = CrashPoint::AfterEffect;
  std::uint64_t calls BASALT_GUARDED_BY(mutex) = 0;
  std::uint64_t faults BASALT_GUARDED_BY(mutex) = 0;
  std::map<CallPoint, std::uint64_t> by_point BASALT_GUARDED_BY(mutex);
  std::vector<std::string> log BASALT_GUARDED_BY(mutex);
  struct PlannedFailure {
    std::uint64_t call = 0;
    Error error;
    CrashPoint point = CrashPoint::BeforeEffect;
  };
  std::optional<PlannedFailure> planned_failure BASALT_GUARDED_BY(mutex);
  struct PlannedStrike {
    std::uint64_t event = 0;
    EventFault fault = EventFault::Broken;
    rt::Duration late{};
  };
  std::optional<PlannedStrike> planned_strike BASALT_GUARDED_BY(mutex);
  bool has_struck BASALT_GUARDED_BY(mutex) = false;
  std::uint64_t events BASALT_GUARDED_BY(mutex) = 0;
  // Earlier answers to lists, for stale reads, by what was asked.
  std::map<std::string, std::deque<ListPage>> old_lists BASALT_GUARDED_BY(mutex);
};

FaultClient::State::Admission FaultClient::State::admit(std::string_view verb, const Resource& resource,
                                                        std::string_view ns, std::string_view name) {
  Admission admission;
  const rt::MutexLock lock(mutex);
  if (has_crashed || (crash_at && *crash_at == 0)) {
    has_crashed = true;
    admission.refusal = crashed_error();
    return admission;
  }
  ++calls;
  ++by_point[{std::string(verb), resource.to_string()}];
  if (log.size() < kLogMax) {
    std::string line = std::string(verb) + " " + resource.to_string() + " ";
    if (!ns.empty()) line += std::string(ns) + "/";
    log.push_back(line + std::string(name));
  }
  if (crash_at && calls >= *crash_at) {
    has_crashed = true;
    if (crash_point == CrashPoint::AfterEffect) {
      admission.crash_after_effect = true;
    } else {
      admission.refusal = crashed_error();
    }
    return admission;
  }
  admission.delay = up_to(plan.delay_max);
  if (away) admission.refusal = away_error();
  if (planned_failure && planned_failure->call == calls) {
    const PlannedFailure failure = *std::exchange(planned_failure, std::nullopt);
    if (failure.error.is(Reason::Conflict) && verb != to_string(Verb::Update) && verb != to_string(Verb::Patch))
      return admission;
    has_struck = true;
    (failure.point == CrashPoint::AfterEffect ? admission.lost_reply : admission.refusal) = failure.error;
  }
  return admission;
}

class FaultClient::Stream final : public WatchStream {
 public:
  Stream(std::shared_ptr<State> state, std::shared_ptr<WatchStream> inner)
      : state_(std::move(state)), inner_(std::move(inner)) {
    const rt::MutexLock lock(state_->mutex);
    epoch_ = state_->epoch;
    std::erase_if(state_->streams, [](const auto& weak) { return weak.expired(); });
    state_->streams.push_back(inner_);
  }

  Result<std::optional<WatchEvent>> next(rt::Instant deadline) override {
    if (auto failure = check()) return *failure;
    if (!again_.empty()) {
      WatchEvent event = std::move(again_.front());
      again_.pop_front();
      return std::optional<WatchEvent>(std::move(event));
    }
    Result<std::optional<WatchEvent>> next = inner_->next(deadline);
    if (auto failure = check()) return *failure;
    if (!next.ok() || !*next) return next;
    rt::Duration delay{};
    {
      const rt::MutexLock lock(state_->mutex);
      const FaultPlan plan = state_->plan;
      delay = planned_strike(**next);
      if (broken_) {
        // By plan.
      } else if (state_->strikes(plan.watch_broken)) {
        broken_ = Error::make(Reason::ConnectionLost, "the watch broke (injected)");
      } else if (state_->strikes(plan.watch_expired)) {
        broken_ = Error::make(Reason::Expired, "the resource version is too old (injected)");
      } else if (!recent_.empty() && state_->strikes(plan.event_repeated)) {
        again_.push_back(recent_[state_->runtime.random_below(recent_.size())]);
      }
      delay += state_->up_to(plan.event_delay_max);
    }
    if (broken_) {
      inner_->cancel();
      return *broken_;
    }
    if (delay > rt::Duration::zero()) state_->runtime.sleep_for(delay);
    if ((*next)->type != WatchEventType::Bookmark) {
      recent_.push_back(**next);
      if (recent_.size() > kRepeatable) recent_.pop_front();
    }
    return next;
  }

  void cancel() override { inner_->cancel(); }

 private:
  // The one fault of strike_event(), if this is its event. Returns how much later the event comes.
  rt::Duration planned_strike(const WatchEvent& event) BASALT_REQUIRES(state_->mutex) {
    if (event.type == WatchEventType::Bookmark) return {};
    ++state_->events;
    if (!state_->planned_strike || state_->planned_strike->event != state_->events) return {};
    const State::PlannedStrike strike = *std::exchange(state_->planned_strike, std::nullopt);
    state_->has_struck = true;
    switch (strike.fault) {
      case EventFault::Broken:
        broken_ = Error::make(Reason::ConnectionLost, "the watch broke (injected)");
        return {};
      case EventFault::Expired:
        broken_ = Error::make(Reason::Expired, "the resource version is too old (injected)");
        return {};
      case EventFault::Repeated:
        again_.push_back(event);
        if (!recent_.empty()) again_.push_back(recent_.front());
        return {};
      case EventFault::Late:
        break;
    }
    return strike.late;
  }

  std::optional<Error> check() {
    if (broken_) return broken_;
    const rt::MutexLock lock(state_->mutex);
    if (state_->has_crashed) {
      broken_ = crashed_error();
    } else if (state_->away || state_->epoch != epoch_) {
      broken_ = Error::make(Reason::ConnectionLost, "the API server went away (injected)");
    }
    return broken_;
  }

  const std::shared_ptr<State> state_;
  const std::shared_ptr<WatchStream> inner_;
  std::uint64_t epoch_ = 0;
  std::optional<Error> broken_;
  std::deque<WatchEvent> recent_;
  std::deque<WatchEvent> again_;
};

FaultClient::FaultClient(rt::Runtime& runtime, Client& inner, FaultPlan plan)
    : state_(std::make_shared<State>(runtime)), inner_(inner) {
  set_plan(plan);
}

FaultClient::~FaultClient() = default;

Result<Response> FaultClient::call(const Request& request, const rt::StopToken& stop) {
  State& state = *state_;
  const State::Admission admission = state.admit(to_string(request.verb), request.resource, request.ns, request.name);
  // Part of the way to the server, the rest on the way back: whoever watches may know of a write before its sender.
  const rt::Duration way_back = state.up_to(admission.delay);
  const rt::Duration way_there = admission.delay - way_back;
  if (way_there > rt::Duration::zero() && stop.wait_for(state.runtime, way_there)) {
    return Error::make(Reason::Cancelled, "stopped");
  }
  if (admission.refusal) {
    if (admission.refusal->is(Reason::Cancelled)) state.break_streams();
    return *admission.refusal;
  }
  const bool write = is_write(request.verb);
  bool lose_reply = false;
  Error lost = crashed_error();
  if (!admission.crash_after_effect) {
    const rt::MutexLock lock(state.mutex);
    const FaultPlan plan = state.plan;
    const bool can_conflict = request.verb == Verb::Update || request.verb == Verb::Patch;
    if (can_conflict && state.strikes(plan.conflict)) {
      return Error::make(Reason::Conflict, "the object has been modified (injected)");
    }
    if (state.strikes(plan.too_many)) {
      Error error = Error::make(Reason::TooManyRequests, "too many requests (injected)");
      error.retry_after = std::chrono::seconds(1);
      return error;
    }
    if (state.strikes(plan.unavailable)) return Error::make(Reason::ServiceUnavailable, "unavailable (injected)");
    if (state.strikes(plan.unreachable)) return Error::make(Reason::Unreachable, "unreachable (injected)");
    if (state.strikes(plan.internal_error)) {
      lost = Error::make(Reason::InternalError, "internal error (injected)");
      if (!write || state.runtime.random_below(2) == 0) return lost;
      lose_reply = true;
    } else if (state.strikes(plan.timed_out)) {
      lost = Error::make(Reason::DeadlineExceeded, "timed out (injected)");
      if (!write || state.runtime.random_below(2) == 0) return lost;
      lose_reply = true;
    } else if (state.strikes(plan.lost_reply)) {
      lost = Error::make(Reason::ConnectionLost, "the reply was lost (injected)");
      lose_reply = true;
    }
  }
  Result<Response> response = inner_.call(request, stop);
  if (way_back > rt::Duration::zero()) (void)stop.wait_for(state.runtime, way_back);
  if (admission.crash_after_effect) {
    state.break_streams();
    return crashed_error();
  }
  if (admission.lost_reply) return *admission.lost_reply;
  if (lose_reply && response.ok()) return lost;
  return response;
}

Result<ListPage> FaultClient::list(const ListRequest& request, const rt::StopToken& stop) {
  State& state = *state_;
  const State::Admission admission = state.admit("List", request.resource, request.ns, request.continue_token);
  if (admission.delay > rt::Duration::zero() && stop.wait_for(state.runtime, admission.delay)) {
    return Error::make(Reason::Cancelled, "stopped");
  }
  if (admission.refusal) {
    if (admission.refusal->is(Reason::Cancelled)) state.break_streams();
    return *admission.refusal;
  }
  const std::string what =
      request.resource.to_string() + "|" + request.ns + "|" + request.label_selector + "|" + request.field_selector;
  if (!admission.crash_after_effect) {
    const rt::MutexLock lock(state.mutex);
    if (state.strikes(state.plan.internal_error)) {
      return Error::make(Reason::InternalError, "internal error (injected)");
    }
    if (state.strikes(state.plan.unavailable)) {
      return Error::make(Reason::ServiceUnavailable, "unavailable (injected)");
    }
    if (state.strikes(state.plan.timed_out)) return Error::make(Reason::DeadlineExceeded, "timed out (injected)");
    if (!request.continue_token.empty() && state.strikes(state.plan.watch_expired)) {
      return Error::make(Reason::Expired, "the continue token is too old (injected)");
    }
    const auto old = state.old_lists.find(what);
    const bool may_be_stale = request.resource_version == "0" && state.plan.stale_lists_max > 0;
    if (may_be_stale && old != state.old_lists.end() && state.strikes(0.5)) {
      return old->second[state.runtime.random_below(old->second.size())];
    }
  }
  Result<ListPage> page = inner_.list(request, stop);
  if (admission.crash_after_effect) {
    state.break_streams();
    return crashed_error();
  }
  if (admission.lost_reply) return *admission.lost_reply;
  const rt::MutexLock lock(state.mutex);
  if (page.ok() && state.plan.stale_lists_max > 0 && request.continue_token.empty() && page->continue_token.empty()) {
    auto& pages = state.old_lists[what];
    pages.push_back(*page);
    while (pages.size() > static_cast<std::size_t>(state.plan.stale_lists_max)) pages.pop_front();
  }
  return page;
}

Result<std::unique_ptr<WatchStream>> FaultClient::watch(const WatchRequest& request, const rt::StopToken& stop) {
  State& state = *state_;
  const State::Admission admission = state.admit("Watch", request.resource, request.ns, request.resource_version);
  if (admission.delay > rt::Duration::zero() && stop.wait_for(state.runtime, admission.delay)) {
    return Error::make(Reason::Cancelled, "stopped");
  }
  if (admission.crash_after_effect || (admission.refusal && admission.refusal->is(Reason::Cancelled))) {
    state.break_streams();
    return crashed_error();
  }
  if (admission.refusal) return *admission.refusal;
  if (admission.lost_reply) return *admission.lost_reply;
  {
    const rt::MutexLock lock(state.mutex);
    if (state.strikes(state.plan.watch_refused)) {
      return Error::make(Reason::InternalError, "the watch was refused (injected)");
    }
  }
  BASALT_TRY(auto inner, inner_.watch(request, stop));
  return std::unique_ptr<WatchStream>(std::make_unique<Stream>(state_, std::move(inner)));
}

// One after the other: the order of calls, and with it their numbers, is then the order of the requests.
std::vector<Result<Response>> FaultClient::call_all(std::span<const Request> requests, const CallAllOptions& options,
                                                    const rt::StopToken& stop) {
  std::vector<Result<Response>> results;
  results.reserve(requests.size());
  int failures = 0;
  for (const Request& request : requests) {
    if (options.failures_max > 0 && failures >= options.failures_max) {
      results.emplace_back(Error::make(Reason::Cancelled, "not sent: too many failures before it"));
      continue;
    }
    results.push_back(call(request, stop));
    if (!results.back().ok()) ++failures;
  }
  return results;
}

void FaultClient::set_plan(const FaultPlan& plan) {
  const rt::MutexLock lock(state_->mutex);
  state_->plan = plan;
}

void FaultClient::set_away(bool away) {
  {
    const rt::MutexLock lock(state_->mutex);
    state_->away = away;
  }
  if (away) state_->break_streams();
}

void FaultClient::crash_after(std::uint64_t calls) { crash_after(calls, CrashPoint::AfterEffect); }

void FaultClient::crash_after(std::uint64_t calls, CrashPoint point) {
  {
    const rt::MutexLock lock(state_->mutex);
    state_->crash_at = calls;
    state_->crash_point = point;
    if (calls == 0) state_->has_crashed = true;
  }
  if (calls == 0) state_->break_streams();
}

bool FaultClient::crashed() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->has_crashed;
}

void FaultClient::fail_call(std::uint64_t call, Error error, CrashPoint point) {
  const rt::MutexLock lock(state_->mutex);
  state_->planned_failure = State::PlannedFailure{call, std::move(error), point};
}

void FaultClient::strike_event(std::uint64_t event, EventFault fault, rt::Duration late) {
  const rt::MutexLock lock(state_->mutex);
  state_->planned_strike = State::PlannedStrike{event, fault, late};
}

bool FaultClient::struck() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->has_struck;
}

std::uint64_t FaultClient::events() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->events;
}

std::uint64_t FaultClient::calls() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->calls;
}

std::map<FaultClient::CallPoint, std::uint64_t> FaultClient::calls_by_point() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->by_point;
}

std::vector<std::string> FaultClient::call_log() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->log;
}

std::uint64_t FaultClient::faults() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->faults;
}

}  // namespace basalt::kube
