#include "rt/gate.h"

#include "base/check.h"

namespace basalt::rt {

Gate::Hold& Gate::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  leave();
  gate_ = other.gate_;
  other.gate_ = nullptr;
  return *this;
}

void Gate::Hold::leave() {
  if (gate_ == nullptr) return;
  Gate& gate = *gate_;
  gate_ = nullptr;
  // Under the lock: once it is released, the gate may be gone.
  MutexLock lock(gate.mutex_);
  if (--gate.inside_ == 0 && gate.closed_) gate.empty_.notify_all();
}

Gate::Gate(Runtime& runtime) : runtime_(runtime), empty_(runtime) {}

Gate::~Gate() {
  MutexLock lock(mutex_);
  BASALT_CHECK_MSG(inside_ == 0 || runtime_.was_abandoned(), "a gate was destroyed while somebody is inside");
}

Gate::Hold Gate::enter() {
  MutexLock lock(mutex_);
  if (closed_) return {};
  ++inside_;
  return Hold(this);
}

void Gate::close(std::source_location where) {
  MutexLock lock(mutex_);
  closed_ = true;
  while (inside_ > 0) empty_.wait(mutex_, where);
}

}  // namespace basalt::rt
