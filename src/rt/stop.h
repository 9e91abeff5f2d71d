#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>

#include "rt/runtime.h"
#include "rt/time.h"

namespace basalt::rt {

namespace internal {
struct StopState;
}

// Says "stop" to everybody who holds a token. Copies of a token are cheap and outlive the source. A default-made token
// never stops.
class StopToken {
 public:
  StopToken() = default;
  [[nodiscard]] bool stop_requested() const;
  // Waits until the stop or the deadline; true if stopped. This is the way to sleep in a loop that must end.
  [[nodiscard]] bool wait_until(Runtime& runtime, Instant deadline,
                                std::source_location where = std::source_location::current()) const;
  [[nodiscard]] bool wait_for(Runtime& runtime, Duration duration,
                              std::source_location where = std::source_location::current()) const {
    return wait_until(runtime, saturating_add(runtime.now(), duration), where);
  }

  // Calls `callback` once when the stop is requested (at once if it already was), on the stopping thread. Keep it short
  // and without waits (checked). After the registration is destroyed the callback is not called and does not run: the
  // destructor waits for one that runs on another thread, so it may not be called with a Mutex held (simulation
  // checks it).
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();

   private:
    friend class StopToken;
    std::shared_ptr<internal::StopState> state_;
    std::uint64_t id_ = 0;
  };
  [[nodiscard]] Registration on_stop(std::function<void()> callback) const;

 private:
  friend class StopSource;
  explicit StopToken(std::shared_ptr<internal::StopState> state) : state_(std::move(state)) {}
  std::shared_ptr<internal::StopState> state_;
};

class StopSource {
 public:
  explicit StopSource(Runtime& runtime);
  // A child: stops when the parent does, or by itself.
  StopSource(Runtime& runtime, const StopToken& parent);
  ~StopSource();
  StopSource(const StopSource&) = delete;
  StopSource& operator=(const StopSource&) = delete;
  void request_stop();
  [[nodiscard]] StopToken token() const;

 private:
  std::shared_ptr<internal::StopState> state_;
  StopToken::Registration parent_;
};

}  // namespace basalt::rt
