#include "rt/sim_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "rt/internal/place.h"
#include "rt/internal/race_detector.h"
#include "rt/internal/sim_fiber.h"
#include "rt/random.h"

namespace basalt::rt {
namespace internal {

class SimRuntimeImpl;

// Set while the calling thread is inside run(), so that a wait from anywhere else is refused.
static thread_local const SimRuntimeImpl* running_simulation = nullptr;

// Its own state is used by all fibers without a lock, and unseen by ThreadSanitizer (UnseenScope). What that sees as
// ordered: a thread after what its starter did; who joined, after what the ended one did; who settled, after all; main,
// which is the test and looks at everything, after all that ran before it goes on, and all others after it. Besides
// these there are locks and atomics only, as on the operating system.
class SimRuntimeImpl final : public SimRuntime {
 public:
  explicit SimRuntimeImpl(Options options)
      : options_(std::move(options)),
        schedule_random_(options_.seed, 1),
        user_random_(options_.seed, 2),
        stacks_(options_.stack_bytes * (has_sanitizer() ? 4 : 1)) {}
  ~SimRuntimeImpl() override {
    BASALT_CHECK_MSG(running_simulation != this, "a simulation was destroyed from inside");
    abandon_all();
  }

  Report run(std::function<void()> main) override;
  void settle(std::source_location where) override;
  [[nodiscard]] std::uint64_t seed() const override { return options_.seed; }
  [[nodiscard]] std::uint64_t switches() const override { return switches_; }
  [[nodiscard]] std::uint64_t trace_hash() const override { return trace_hash_; }
  [[nodiscard]] std::vector<std::string> dump() const override;

  [[nodiscard]] BASALT_UNSEEN_BY_TSAN Instant now() const override { return now_; }
  [[nodiscard]] WallTime wall_now() const override { return options_.start + now().time_since_epoch(); }
  [[nodiscard]] std::uint64_t random() override {
    const UnseenScope unseen;
    return user_random_.next();
  }
  [[nodiscard]] bool is_simulated() const override { return true; }
  // Outside of run() there is one thread, which is none of the fibers.
  [[nodiscard]] BASALT_UNSEEN_BY_TSAN std::uint64_t this_thread_id() const override {
    return running_simulation == this ? current_->id : ~std::uint64_t{0};
  }
  [[nodiscard]] bool was_abandoned() const override { return abandoned_; }

  void sleep_until(Instant deadline, std::source_location where) override;
  void yield(std::source_location where) override;

  // For conditions and handles.
  bool wait_on(SimCondition& condition, Instant deadline, std::source_location where);
  void wake_notified(SimFiber& fiber);
  void join(SimFiber& fiber, std::source_location where);
  [[nodiscard]] std::uint32_t choose(std::size_t count) {
    return count == 1 ? 0 : schedule_random_.below(static_cast<std::uint32_t>(count));
  }

 protected:
  std::unique_ptr<ThreadHandle> start_thread(std::string name, std::function<void()> body) override;
  std::unique_ptr<ConditionImpl> make_condition() override;

 private:
  BASALT_UNSEEN_BY_TSAN static void fiber_main(void* argument);
  void check_inside(std::source_location where) const;
  void make_runnable(SimFiber& fiber);
  void wait(SimFiber::State state, Instant deadline, std::source_location where);
  SimFiber* next_runnable();
  void advance_time();
  void wake_without_reason();
  void hand_over();
  void set_current(SimFiber& fiber);
  [[noreturn]] BASALT_UNSEEN_BY_TSAN void end(SimFiber& fiber);
  void fail(std::string problem);
  void forget(SimFiber& fiber);
  void bury_ended();
  void abandon_all();

  // Fixed after construction.
  const Options options_;

  // Used only by the thread that runs the simulation.
  Random schedule_random_;  // apart from user_random_: code that draws one number more keeps its schedule
  Random user_random_;
  StackPool stacks_;
  Instant now_{};
  std::uint64_t switches_ = 0;
  std::uint64_t trace_hash_ = 0;
  std::uint64_t last_id_ = 0;
  bool started_ = false;
  bool over_ = false;
  bool abandoned_ = false;
  std::string problem_;
  FiberContext* root_ = nullptr;  // of the thread inside run()
  SimFiber* main_ = nullptr;
  SimFiber* current_ = nullptr;
  std::shared_ptr<SimFiber> ended_;              // has given the baton away for the last time; its stack can go
  std::vector<std::shared_ptr<SimFiber>> live_;  // all that have not ended
  std::vector<SimFiber*> runnable_;
  std::vector<SimFiber*> settling_;
  DeadlineHeap<SimFiber> deadlines_;  // of those that wait with a deadline
  // Only their addresses are used, for hand_on() and take_over().
  char done_by_all_ = 0;
  char done_by_main_ = 0;
};

class SimCondition final : public Runtime::ConditionImpl {
 public:
  explicit SimCondition(SimRuntimeImpl& runtime) : runtime_(runtime) {}
  ~SimCondition() override {
    const UnseenScope unseen;
    BASALT_CHECK_MSG(waiters_.empty(), "a condition was destroyed while a thread waits on it");
  }

  bool wait_until(Mutex& mutex, Instant deadline,
                  std::source_location where) override BASALT_NO_THREAD_SAFETY_ANALYSIS {
    check_may_wait(&mutex, where, true);
    mutex.unlock();
    const bool notified = runtime_.wait_on(*this, deadline, where);
    mutex.lock(where);
    return notified;
  }
  // Any waiter may be the one: code that counts on an order is wrong on the operating system too.
  void notify_one() override {
    const UnseenScope unseen;
    if (!waiters_.empty()) runtime_.wake_notified(*waiters_[runtime_.choose(waiters_.size())]);
  }
  void notify_all() override {
    const UnseenScope unseen;
    while (!waiters_.empty()) runtime_.wake_notified(*waiters_.back());
  }

  void add(SimFiber& fiber) { waiters_.push_back(&fiber); }
  void remove(SimFiber& fiber) { std::erase(waiters_, &fiber); }

 private:
  SimRuntimeImpl& runtime_;
  std::vector<SimFiber*> waiters_;
};

namespace {

class SimThreadHandle final : public Runtime::ThreadHandle {
 public:
  SimThreadHandle(SimRuntimeImpl& runtime, std::shared_ptr<SimFiber> fiber)
      : runtime_(runtime), fiber_(std::move(fiber)) {}
  void join(std::source_location where) override { runtime_.join(*fiber_, where); }
  [[nodiscard]] bool is_abandoned() const override { return fiber_->state == SimFiber::State::Abandoned; }

 private:
  SimRuntimeImpl& runtime_;
  const std::shared_ptr<SimFiber> fiber_;
};

}  // namespace

SimRuntime::Report SimRuntimeImpl::run(std::function<void()> main) {
  BASALT_CHECK_MSG(!started_, "a simulation runs once");
  started_ = true;
  share_errno();
  FiberContext root;
  root_ = &root;
  const auto* outer = std::exchange(running_simulation, this);
  start_thread("main", std::move(main));
  const UnseenScope unseen;
  main_ = live_.back().get();
  if (SimFiber* first = next_runnable(); first != nullptr) {
    set_current(*first);
    root.switch_to(*first->context);
    take_over(&done_by_all_);
  }
  bury_ended();
  over_ = true;
  current_ = nullptr;
  root_ = nullptr;
  running_simulation = outer;
  abandon_all();
  return {.completed = problem_.empty(),
          .problem = problem_,
          .switches = switches_,
          .virtual_time = now_.time_since_epoch(),
          .trace_hash = trace_hash_};
}

std::unique_ptr<Runtime::ThreadHandle> SimRuntimeImpl::start_thread(std::string name, std::function<void()> body) {
  const UnseenScope unseen;
  BASALT_CHECK_MSG(!over_, "a thread was started after the simulation: " + name);
  auto fiber = std::make_shared<SimFiber>();
  fiber->id = ++last_id_;
  fiber->name = std::move(name);
  fiber->body = std::move(body);
  fiber->context = std::make_unique<FiberContext>(stacks_.take(), &SimRuntimeImpl::fiber_main, this);
  fiber->index = live_.size();
  live_.push_back(fiber);
  runnable_.push_back(fiber.get());
  hand_on(fiber.get());
  return std::make_unique<SimThreadHandle>(*this, std::move(fiber));
}

std::unique_ptr<Runtime::ConditionImpl> SimRuntimeImpl::make_condition() {
  return std::make_unique<SimCondition>(*this);
}

// An exception that leaves `body` ends the process here, by noexcept: there is nobody above to catch it.
void SimRuntimeImpl::fiber_main(void* argument) {
  auto& self = *static_cast<SimRuntimeImpl*>(argument);
  SimFiber& fiber = *self.current_;
  unseen_begins();
  fiber.context->entered();
  self.bury_ended();
  unseen_ends();
  take_over(&fiber);
  [&]() noexcept {
    const std::function<void()> body = std::move(fiber.body);
    body();
  }();
  self.end(fiber);
}

void SimRuntimeImpl::check_inside(std::source_location where) const {
  if (running_simulation != this)
    base::check_failed(where.file_name(), static_cast<int>(where.line()), "a simulated wait outside of run()",
                       problem_.empty() ? std::string_view() : std::string_view(problem_));
}

void SimRuntimeImpl::make_runnable(SimFiber& fiber) {
  fiber.state = SimFiber::State::Runnable;
  runnable_.push_back(&fiber);
}

// Returns when the current fiber has the baton again. The caller has put it where somebody will wake it.
void SimRuntimeImpl::wait(SimFiber::State state, Instant deadline, std::source_location where) {
  SimFiber& self = *current_;
  self.state = state;
  self.place = where;
  self.deadline = deadline;
  if (state == SimFiber::State::Runnable) runnable_.push_back(&self);
  if (deadline != kNever) deadlines_.insert(self);
  hand_over();
}

void SimRuntimeImpl::hand_over() {
  SimFiber& self = *current_;
  SimFiber* next = next_runnable();
  if (next == nullptr) {
    hand_on(&done_by_all_);
    self.context->switch_to(*root_);
    base::check_failed(__FILE__, __LINE__, "a fiber went on after its simulation");
  }
  set_current(*next);
  if (next == &self) return;
  hand_on(&done_by_all_);
  if (&self == main_) hand_on(&done_by_main_);
  self.context->switch_to(*next->context);
  take_over(&self == main_ ? &done_by_all_ : &done_by_main_);
  bury_ended();
}

void SimRuntimeImpl::set_current(SimFiber& fiber) {
  fiber.state = SimFiber::State::Running;
  current_ = &fiber;
  // The line stands for the place: the same in every build, and enough to tell two schedules apart.
  const std::uint64_t place = fiber.place.line() * kGoldenGamma;
  trace_hash_ = mix64(trace_hash_ + kGoldenGamma * fiber.id) ^ place ^
                static_cast<std::uint64_t>(now_.time_since_epoch().count());
  if (options_.on_switch) options_.on_switch({fiber.name, fiber.id, fiber.place, now_});
}

// Null if the run is over; problem_ then says why.
SimFiber* SimRuntimeImpl::next_runnable() {
  if (++switches_ > options_.switches_max) {
    fail(fmt::format("endless: more than {} switches", options_.switches_max));
    return nullptr;
  }
  if (options_.spurious_wakeups > 0) wake_without_reason();
  if (runnable_.empty() && !settling_.empty()) {
    const std::size_t index = choose(settling_.size());
    make_runnable(*settling_[index]);
    settling_.erase(settling_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  if (runnable_.empty()) advance_time();
  if (runnable_.empty()) return nullptr;
  const std::size_t index = choose(runnable_.size());
  SimFiber* fiber = runnable_[index];
  runnable_[index] = runnable_.back();
  runnable_.pop_back();
  return fiber;
}

void SimRuntimeImpl::wake_without_reason() {
  if (runnable_.empty()) return;  // or a deadlock would be put off for ever
  const double drawn = static_cast<double>(schedule_random_.next() >> 11) * 0x1.0p-53;
  if (drawn >= options_.spurious_wakeups) return;
  SimFiber& fiber = *live_[choose(live_.size())];
  if (fiber.condition != nullptr) wake_notified(fiber);
}

void SimRuntimeImpl::advance_time() {
  if (deadlines_.empty()) {
    fail("deadlock: nothing can ever run again");
    return;
  }
  const Instant next = deadlines_.first().deadline;
  if (next.time_since_epoch() > options_.time_max) {
    fail(fmt::format("endless: more than {}s of virtual time",
                     std::chrono::duration_cast<std::chrono::seconds>(options_.time_max).count()));
    return;
  }
  now_ = std::max(now_, next);
  while (!deadlines_.empty() && deadlines_.first().deadline <= now_) {
    SimFiber& fiber = deadlines_.first();
    deadlines_.erase(fiber);
    if (fiber.condition != nullptr) std::exchange(fiber.condition, nullptr)->remove(fiber);
    make_runnable(fiber);
  }
}

void SimRuntimeImpl::sleep_until(Instant deadline, std::source_location where) {
  check_may_wait(nullptr, where, true);
  check_inside(where);
  const UnseenScope unseen;
  if (deadline <= now_) return wait(SimFiber::State::Runnable, kNever, where);
  wait(SimFiber::State::Sleeping, deadline, where);
}

void SimRuntimeImpl::yield(std::source_location where) {
  check_may_wait(nullptr, where, true);
  check_inside(where);
  const UnseenScope unseen;
  wait(SimFiber::State::Runnable, kNever, where);
}

void SimRuntimeImpl::settle(std::source_location where) {
  check_may_wait(nullptr, where, true);
  check_inside(where);
  const UnseenScope unseen;
  settling_.push_back(current_);
  wait(SimFiber::State::Settling, kNever, where);
  take_over(&done_by_all_);
}

bool SimRuntimeImpl::wait_on(SimCondition& condition, Instant deadline, std::source_location where) {
  check_inside(where);
  const UnseenScope unseen;
  SimFiber& self = *current_;
  self.notified = false;
  if (deadline <= now_) {
    wait(SimFiber::State::Runnable, kNever, where);
    return false;
  }
  self.condition = &condition;
  condition.add(self);
  wait(SimFiber::State::Waiting, deadline, where);
  return self.notified;
}

void SimRuntimeImpl::wake_notified(SimFiber& fiber) {
  std::exchange(fiber.condition, nullptr)->remove(fiber);
  deadlines_.erase(fiber);
  fiber.notified = true;
  make_runnable(fiber);
}

void SimRuntimeImpl::join(SimFiber& fiber, std::source_location where) {
  check_may_wait(nullptr, where, true);
  const UnseenScope unseen;
  // Abandoned: so that destructors of what outlives the run need not know how it ended.
  if (fiber.state == SimFiber::State::Ended || fiber.state == SimFiber::State::Abandoned) return take_over(&fiber);
  check_inside(where);
  BASALT_CHECK_MSG(&fiber != current_ && fiber.joiner == nullptr, place_text(where));
  fiber.joiner = current_;
  current_->joined = &fiber;
  wait(SimFiber::State::Joining, kNever, where);
  take_over(&fiber);
}

void SimRuntimeImpl::forget(SimFiber& fiber) {
  live_.back()->index = fiber.index;
  std::swap(live_[fiber.index], live_.back());
  live_.pop_back();
}

void SimRuntimeImpl::end(SimFiber& fiber) {
  hand_on(&fiber);
  hand_on(&done_by_all_);
  if (&fiber == main_) hand_on(&done_by_main_);
  unseen_begins();
  fiber.state = SimFiber::State::Ended;
  ended_ = live_[fiber.index];
  forget(fiber);
  if (fiber.joiner != nullptr) make_runnable(*fiber.joiner);
  SimFiber* next = nullptr;
  if (&fiber != main_) {
    next = next_runnable();
  } else if (!live_.empty()) {
    fail("main returned while other threads had not ended");
  }
  if (next == nullptr) fiber.context->exit_to(*root_);
  set_current(*next);
  fiber.context->exit_to(*next->context);
}

// By whoever runs next, because nobody can take away the stack under his own feet.
void SimRuntimeImpl::bury_ended() {
  if (ended_ == nullptr) return;
  stacks_.give(ended_->context->stack());
  ended_->context.reset();
  ended_.reset();
}

void SimRuntimeImpl::fail(std::string problem) {
  problem_ = fmt::format("{} (seed {}, {} switches, {:.6f}s)", problem, options_.seed, switches_,
                         std::chrono::duration<double>(now_.time_since_epoch()).count());
  for (const std::string& line : dump()) problem_ += "\n  " + line;
}

void SimRuntimeImpl::abandon_all() {
  if (live_.empty()) return;
  abandoned_ = true;
  for (const auto& fiber : live_) {
    if (fiber->condition != nullptr) fiber->condition->remove(*fiber);
    fiber->state = SimFiber::State::Abandoned;
    // A body that never started owns things whose destructors would want their threads to have ended.
    if (fiber->body) leak_on_purpose(new std::function<void()>(std::move(fiber->body)));
    const FiberStack stack = fiber->context->stack();
    fiber->context.reset();
    stacks_.abandon(stack);
  }
  live_.clear();
  runnable_.clear();
  settling_.clear();
  deadlines_ = {};
}

std::vector<std::string> SimRuntimeImpl::dump() const {
  std::vector<std::shared_ptr<SimFiber>> fibers = live_;
  std::sort(fibers.begin(), fibers.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  std::vector<std::string> lines;
  lines.reserve(fibers.size());
  for (const auto& fiber : fibers) lines.push_back(describe(*fiber));
  return lines;
}

}  // namespace internal

std::unique_ptr<SimRuntime> SimRuntime::make(Options options) {
  return std::make_unique<internal::SimRuntimeImpl>(std::move(options));
}

}  // namespace basalt::rt
