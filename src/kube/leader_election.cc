#include "kube/leader_election.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "api/time.h"
#include "base/random_name.h"
#include "base/strings.h"
#include "kube/event_recorder.h"

namespace basalt::kube {
namespace {

const Resource& leases() {
  static const Resource resource{"coordination.k8s.io", "v1", "leases"};
  return resource;
}

// A time that is over on every clock.
constexpr rt::Duration::rep kNotLeader = 0;
// client-go's factor (tools/leaderelection, JitterFactor): candidates must not try in step.
constexpr double kJitter = 1.2;
// How long the release of a lease may hold up the end of the process.
constexpr rt::Duration kReleaseTimeout = std::chrono::seconds(5);

std::string micro_time(rt::Runtime& runtime) {
  return api::MicroTime::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime.wall_now()))
      .to_string();
}

std::int64_t int_at(const json::Value& spec, std::string_view key) {
  const json::Value* value = spec.find(key);
  return value != nullptr && value->is_int() ? value->as_int() : 0;
}

std::int64_t whole_seconds(rt::Duration duration) { return std::chrono::ceil<std::chrono::seconds>(duration).count(); }

}  // namespace

std::string make_identity(rt::Runtime& runtime, std::string_view host) {
  return std::string(host) + "_" + base::random_uuid([&] { return runtime.random(); });
}

Done validate(const LeaderElectionOptions& options) {
  const auto wrong = [](std::string_view flag, std::string_view what) {
    return Error::invalid_input("--leader-elect-" + std::string(flag) + " " + std::string(what));
  };
  if (options.lease_duration < std::chrono::seconds(1)) {
    return wrong("lease-duration", "(leaseDuration) must be at least 1s");
  }
  if (options.renew_deadline <= rt::Duration::zero()) {
    return wrong("renew-deadline", "(renewDeadline) must be greater than zero");
  }
  if (options.retry_period <= rt::Duration::zero()) {
    return wrong("retry-period", "(retryPeriod) must be greater than zero");
  }
  if (options.lease_duration <= options.renew_deadline) {
    return wrong("lease-duration",
                 "(leaseDuration) must be greater than --leader-elect-renew-deadline (renewDeadline)");
  }
  if (std::chrono::duration<double>(options.renew_deadline) <=
      kJitter * std::chrono::duration<double>(options.retry_period)) {
    return wrong("renew-deadline",
                 "(renewDeadline) must be greater than 1.2 times --leader-elect-retry-period (retryPeriod)");
  }
  if (options.ns.empty()) return wrong("resource-namespace", "must not be empty");
  if (options.name.empty()) return wrong("resource-name", "must not be empty");
  if (options.identity.empty()) return Error::invalid_input("leader election needs an identity");
  return Ok();
}

LeaderElector::LeaderElector(rt::Runtime& runtime, Client& client, Logger log, LeaderElectionOptions options,
                             Callbacks callbacks)
    : runtime_(runtime),
      client_(client),
      log_(log.with({{"lease", options.ns + "/" + options.name}, {"identity", options.identity}})),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      leader_until_(kNotLeader),
      leading_(runtime) {
  const Done valid = validate(options_);
  BASALT_CHECK_MSG(valid.ok(), valid.ok() ? "" : valid.error().message);
}

rt::Instant LeaderElector::clock() const {
  if (runtime_.is_simulated()) return runtime_.now();
  // Goes on while the machine sleeps, unlike the runtime's clock.
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return rt::Instant(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

rt::Instant LeaderElector::is_leader_until() const {
  return rt::Instant(rt::Duration(leader_until_.load(std::memory_order_acquire)));
}

bool LeaderElector::still_leader() const { return clock() < is_leader_until(); }

std::string LeaderElector::leader() const {
  const rt::MutexLock lock(mutex_);
  return leader_;
}

Done LeaderElector::run(const rt::StopToken& stop) {
  log_.info("taking part in the election of a leader");
  if (!acquire(stop)) return Ok();
  log_.info("became leader");
  emit_event("became leader");
  if (callbacks_.started) callbacks_.started();
  const Error ended = hold(stop);
  const bool was_asked = ended.is(Reason::Cancelled);
  // Lost: nothing may be written any more, whoever works need not know yet. Asked to stop: what is under way may end.
  if (!was_asked) give_up();
  if (callbacks_.stopped) callbacks_.stopped();
  give_up();
  emit_event("stopped leading");
  if (!was_asked) {
    log_.warn("lost the leadership", {{"error", ended}});
    return ended;
  }
  log_.info("stopped leading as asked");
  if (options_.release_on_stop) release();
  return Ok();
}

void LeaderElector::give_up() {
  leader_until_.store(kNotLeader, std::memory_order_release);
  leading_.request_stop();
}

bool LeaderElector::acquire(const rt::StopToken& stop) {
  while (!stop.stop_requested()) {
    const Done done = try_once(stop);
    announce();
    if (done.ok()) return true;
    if (done.error().is_transient()) log_.debug("the lease cannot be reached", {{"error", done.error()}});
    if (stop.wait_for(runtime_, acquire_pause())) break;
  }
  // A request that was on its way when we were stopped may have made us the holder.
  if (wrote_unconfirmed_ && options_.release_on_stop && read_lease({}).ok() && record_.holder == options_.identity) {
    release();
  }
  return false;
}

Error LeaderElector::hold(const rt::StopToken& stop) {
  std::optional<Error> last;
  while (true) {
    const rt::Instant now = clock();
    const rt::Instant until = is_leader_until();
    if (now >= until) {
      Error lost = Error::make(Reason::DeadlineExceeded, "the lease could not be renewed before the deadline");
      if (last) lost.message += ": " + last->message;
      return lost;
    }
    if (stop.wait_for(runtime_, std::min<rt::Duration>(options_.retry_period, until - now))) {
      return Error::make(Reason::Cancelled, "stopped");
    }
    if (clock() >= is_leader_until()) continue;
    const Done renewed = try_once(stop);
    announce();
    last.reset();
    if (!renewed.ok()) last = renewed.error();
    // Somebody else holds it, although our time is not over: deleted by hand, or clocks that cannot be.
    if (record_.holder != options_.identity) {
      return Error::make(Reason::Conflict, "the lease is held by " + base::quote(record_.holder));
    }
  }
}

// One attempt to become or stay the holder. Success: we hold it from before the request was sent.
Done LeaderElector::try_once(const rt::StopToken& stop) {
  const bool believes_leader = still_leader() && lease_ && record_.holder == options_.identity;
  if (believes_leader) {
    // The optimistic way: nobody else writes a lease that is held, so what we saw last is what is there.
    const Done written = write_lease(false, next_record(), attempt_timeout(), stop);
    if (written.ok() || !(written.error().is(Reason::Conflict) || written.error().is(Reason::NotFound))) return written;
  }
  const Done read = read_lease(stop);
  if (!read.ok() && !read.error().is(Reason::NotFound)) return read;
  // Also if the lease was deleted meanwhile: whoever held it still believes so for a while.
  if (record_.holder != options_.identity && !lease_is_free()) {
    return Error::make(Reason::Conflict, "the lease is held by " + base::quote(record_.holder));
  }
  return write_lease(!read.ok(), next_record(), attempt_timeout(), stop);
}

// Between two tries to become the holder: a retry period and up to 1.2 of it more. Differs: not past the end of the
// lease that we wait for by more than a quarter of a period, so that a fail-over takes 20 s instead of 24 s at most.
rt::Duration LeaderElector::acquire_pause() {
  const rt::Duration usual = runtime_.jitter(options_.retry_period, kJitter);
  if (lease_is_free()) return usual;
  const rt::Duration left = observed_at_ + record_.duration - clock();
  return std::min<rt::Duration>(usual, left + runtime_.jitter(options_.retry_period / 8, 1.0));
}

// Leaves time for a second attempt if the first gets no answer, and never lasts longer than our own leadership, whose
// end must be noticed in time.
rt::Duration LeaderElector::attempt_timeout() const {
  const rt::Duration half = options_.renew_deadline / 2;
  const rt::Duration left = is_leader_until() - clock();
  return left > rt::Duration::zero() ? std::min<rt::Duration>(half, left) : half;
}

bool LeaderElector::lease_is_free() const {
  if (record_.holder.empty()) return true;
  return clock() >= observed_at_ + record_.duration;
}

LeaderElector::Record LeaderElector::next_record() const {
  Record next;
  next.holder = options_.identity;
  next.duration = options_.lease_duration;
  next.renew_time = micro_time(runtime_);
  if (record_.holder == options_.identity) {
    next.acquire_time = record_.acquire_time;
    next.transitions = record_.transitions;
  } else {
    next.acquire_time = next.renew_time;
    next.transitions = was_seen_ ? record_.transitions + 1 : 0;
  }
  return next;
}

Done LeaderElector::read_lease(const rt::StopToken& stop) {
  Request request;
  request.resource = leases();
  request.ns = options_.ns;
  request.name = options_.name;
  request.timeout = attempt_timeout();
  Result<Response> response = client_.call(request, stop);
  if (!response.ok()) {
    if (response.error().is(Reason::NotFound)) lease_.reset();
    return response.error();
  }
  observe(*response->body);
  return Ok();
}

Done LeaderElector::write_lease(bool create, const Record& record, rt::Duration timeout, const rt::StopToken& stop) {
  json::Value lease = create || !lease_ ? json::Value(json::Object()) : *lease_;
  lease.ensure_path({"apiVersion"}) = "coordination.k8s.io/v1";
  lease.ensure_path({"kind"}) = "Lease";
  lease.ensure_path({"metadata", "name"}) = options_.name;
  lease.ensure_path({"metadata", "namespace"}) = options_.ns;
  lease.ensure_path({"spec", "holderIdentity"}) = record.holder;
  lease.ensure_path({"spec", "leaseDurationSeconds"}) = whole_seconds(record.duration);
  lease.ensure_path({"spec", "acquireTime"}) = record.acquire_time;
  lease.ensure_path({"spec", "renewTime"}) = record.renew_time;
  lease.ensure_path({"spec", "leaseTransitions"}) = record.transitions;
  Request request;
  request.verb = create ? Verb::Create : Verb::Update;
  request.resource = leases();
  request.ns = options_.ns;
  if (!create) request.name = options_.name;
  request.body = lease.to_text();
  request.timeout = timeout;
  // From before it was sent: another that sees our record counts from later, so our time ends first. A retry inside
  // the client would only make it later.
  const rt::Instant sent = clock();
  Result<Response> response = client_.call(request, stop);
  wrote_unconfirmed_ = !response.ok() && response.error().outcome_is_unknown();
  if (!response.ok()) return response.error();
  observe(*response->body);
  const bool holds = record.holder == options_.identity && record_.holder == options_.identity;
  if (holds) {
    leader_until_.store((sent + options_.renew_deadline).time_since_epoch().count(), std::memory_order_release);
  }
  return Ok();
}

void LeaderElector::observe(std::string_view text) {
  Result<json::Value> lease = json::Value::parse(text, {.duplicate_keys_are_errors = false});
  if (!lease.ok()) {
    log_.warn("the lease cannot be read", {{"error", lease.error()}});
    return;
  }
  Record seen;
  if (const json::Value* spec = lease->find("spec")) {
    seen.holder = spec->string_at({"holderIdentity"});
    seen.duration = std::chrono::seconds(std::clamp<std::int64_t>(int_at(*spec, "leaseDurationSeconds"), 0, 86'400));
    seen.transitions = int_at(*spec, "leaseTransitions");
    seen.acquire_time = spec->string_at({"acquireTime"});
    seen.renew_time = spec->string_at({"renewTime"});
  }
  // The times are compared for equality only; whose clock they are from does not matter.
  if (!was_seen_ || seen != record_) observed_at_ = clock();
  was_seen_ = true;
  record_ = std::move(seen);
  lease_ = std::move(lease).value();
}

void LeaderElector::release() {
  Record record;
  record.holder = "";
  record.duration = std::chrono::seconds(1);
  record.renew_time = record.acquire_time = micro_time(runtime_);
  record.transitions = record_.transitions;
  const Done released = write_lease(false, record, kReleaseTimeout, {});
  leader_until_.store(kNotLeader, std::memory_order_release);
  if (!released.ok()) log_.warn("the lease could not be released; it expires by itself", {{"error", released.error()}});
}

void LeaderElector::announce() {
  if (record_.holder.empty() || record_.holder == announced_) return;
  announced_ = record_.holder;
  {
    const rt::MutexLock lock(mutex_);
    leader_ = announced_;
  }
  if (announced_ != options_.identity) log_.info("another is the leader", {{"leader", announced_}});
  if (callbacks_.new_leader) callbacks_.new_leader(announced_);
}

void LeaderElector::emit_event(std::string_view what) const {
  if (options_.recorder == nullptr) return;
  ObjectReference lease;
  lease.api_version = "coordination.k8s.io/v1";
  lease.kind = "Lease";
  lease.ns = options_.ns;
  lease.name = options_.name;
  if (lease_) {
    lease.uid = lease_->string_at({"metadata", "uid"});
    lease.resource_version = lease_->string_at({"metadata", "resourceVersion"});
  }
  options_.recorder->event(lease, EventType::Normal, "LeaderElection", options_.identity + " " + std::string(what));
}

}  // namespace basalt::kube
