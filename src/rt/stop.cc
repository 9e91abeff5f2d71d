#include "rt/stop.h"

#include <atomic>
#include <map>
#include <utility>

#include "base/check.h"

namespace basalt::rt {
namespace internal {

struct StopState {
  explicit StopState(Runtime& owner) : runtime(owner), changed(owner) {}

  void request_stop();
  std::uint64_t add(std::function<void()> callback);
  void remove(std::uint64_t id);
  bool wait_until(Instant deadline, std::source_location where);

  // Fixed after construction.
  Runtime& runtime;

  // Written under `mutex`, read without.
  std::atomic<bool> requested{false};

  Mutex mutex;
  Condition changed;  // the stop was requested, or a callback has returned
  std::uint64_t last_id BASALT_GUARDED_BY(mutex) = 0;
  std::map<std::uint64_t, std::function<void()>> callbacks BASALT_GUARDED_BY(mutex);  // in order of registration
  std::uint64_t running BASALT_GUARDED_BY(mutex) = 0;                                 // id of the callback that runs
  std::uint64_t running_on BASALT_GUARDED_BY(mutex) = 0;                              // and the thread it runs on
};

void StopState::request_stop() {
  {
    MutexLock lock(mutex);
    if (requested.exchange(true)) return;
    changed.notify_all();
  }
  for (;;) {
    std::function<void()> callback;
    {
      MutexLock lock(mutex);
      if (running != 0) changed.notify_all();
      running = 0;
      if (callbacks.empty()) return;
      auto first = callbacks.extract(callbacks.begin());
      running = first.key();
      running_on = runtime.this_thread_id();
      callback = std::move(first.mapped());
    }
    // The callback is destroyed before it counts as returned: it may refer to what its owner is about to destroy.
    NoWaitScope scope("a stop callback");
    std::exchange(callback, nullptr)();
  }
}

// 0 if the stop was requested; the callback has then been called.
std::uint64_t StopState::add(std::function<void()> callback) {
  {
    MutexLock lock(mutex);
    if (!requested.load()) {
      callbacks.emplace(++last_id, std::move(callback));
      return last_id;
    }
  }
  NoWaitScope scope("a stop callback");
  callback();
  return 0;
}

void StopState::remove(std::uint64_t id) {
  // It may have to wait, on the operating system, for a callback that wants that very lock. A simulation never gets
  // there, because callbacks do not wait; so it checks always.
  BASALT_CHECK_MSG(locks_held_by_this_thread() == 0 || !runtime.is_simulated(),
                   "a stop registration was destroyed with a lock held");
  std::function<void()> callback;  // destroyed after the lock is released
  MutexLock lock(mutex);
  if (auto found = callbacks.extract(id); !found.empty()) {
    callback = std::move(found.mapped());
    return;
  }
  if (running_on == runtime.this_thread_id()) return;
  while (running == id) changed.wait(mutex);
}

bool StopState::wait_until(Instant deadline, std::source_location where) {
  MutexLock lock(mutex);
  while (!requested.load()) {
    if (!changed.wait_until(mutex, deadline, where) && runtime.now() >= deadline) break;
  }
  return requested.load();
}

}  // namespace internal

bool StopToken::stop_requested() const {
  return state_ != nullptr && state_->requested.load(std::memory_order_acquire);
}

bool StopToken::wait_until(Runtime& runtime, Instant deadline, std::source_location where) const {
  if (state_ != nullptr) return state_->wait_until(deadline, where);
  runtime.sleep_until(deadline, where);
  return false;
}

StopToken::Registration StopToken::on_stop(std::function<void()> callback) const {
  Registration registration;
  if (state_ == nullptr) return registration;
  registration.id_ = state_->add(std::move(callback));
  if (registration.id_ != 0) registration.state_ = state_;
  return registration;
}

StopToken::Registration::Registration(Registration&& other) noexcept
    : state_(std::move(other.state_)), id_(std::exchange(other.id_, 0)) {}

StopToken::Registration& StopToken::Registration::operator=(Registration&& other) noexcept {
  if (this == &other) return *this;
  Registration old(std::move(*this));
  state_ = std::move(other.state_);
  id_ = std::exchange(other.id_, 0);
  return *this;
}

StopToken::Registration::~Registration() {
  if (state_ != nullptr) state_->remove(id_);
}

StopSource::StopSource(Runtime& runtime) : state_(std::make_shared<internal::StopState>(runtime)) {}

StopSource::StopSource(Runtime& runtime, const StopToken& parent) : StopSource(runtime) {
  // The callback owns the state: it may run while this source is being destroyed.
  parent_ = parent.on_stop([state = state_] { state->request_stop(); });
}

StopSource::~StopSource() = default;

void StopSource::request_stop() {
  // Somebody who is woken by this may destroy the source before the last callback has returned.
  const auto state = state_;
  state->request_stop();
}

StopToken StopSource::token() const { return StopToken(state_); }

}  // namespace basalt::rt
