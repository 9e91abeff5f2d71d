#include "rt/runtime.h"

#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "rt/internal/place.h"

namespace basalt::rt {

std::string place_text(std::source_location where) {
  std::string_view file = where.file_name();
  if (file.starts_with("./")) file.remove_prefix(2);
  return std::string(file) + ":" + std::to_string(where.line());
}

std::uint64_t Runtime::random_below(std::uint64_t bound) {
  BASALT_CHECK(bound > 0);
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  // Draws from the incomplete last run of `bound` values would favour the small ones.
  const std::uint64_t excess = (kMax % bound + 1) % bound;
  std::uint64_t drawn = random();
  while (drawn > kMax - excess) drawn = random();
  return drawn % bound;
}

double Runtime::random_unit() {
  // 53 bits are what a double holds exactly.
  return static_cast<double>(random() >> 11) * 0x1.0p-53;
}

Duration Runtime::jitter(Duration duration, double factor) {
  if (factor <= 0 || duration <= Duration::zero()) return duration;
  const double extra = static_cast<double>(duration.count()) * factor * random_unit();
  const double room = static_cast<double>((Duration::max() - duration).count());
  if (extra >= room) return Duration::max();
  return duration + Duration(static_cast<Duration::rep>(extra));
}

Thread::Thread(Runtime& runtime, std::string name, std::function<void()> body)
    : handle_(runtime.start_thread(std::move(name), std::move(body))) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  BASALT_CHECK_MSG(!joinable() || handle_->is_abandoned(), "a thread was replaced before it was joined");
  handle_ = std::move(other.handle_);
  return *this;
}

Thread::~Thread() {
  BASALT_CHECK_MSG(!joinable() || handle_->is_abandoned(), "a thread was destroyed before it was joined");
}

void Thread::join(std::source_location where) {
  BASALT_CHECK_MSG(joinable(), place_text(where));
  handle_->join(where);
  handle_.reset();
}

Condition::Condition(Runtime& runtime) : impl_(runtime.make_condition()) {}
Condition::~Condition() = default;

void Condition::wait(Mutex& mutex, std::source_location where) { impl_->wait_until(mutex, kNever, where); }

bool Condition::wait_until(Mutex& mutex, Instant deadline, std::source_location where) {
  return impl_->wait_until(mutex, deadline, where);
}

void Condition::notify_one() { impl_->notify_one(); }
void Condition::notify_all() { impl_->notify_all(); }

}  // namespace basalt::rt
