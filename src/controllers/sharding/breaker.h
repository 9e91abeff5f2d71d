#pragma once

#include <cstdint>
#include <deque>
#include <string_view>

#include "rt/time.h"

namespace basalt::controllers::sharding {

// Stops writing when most writes fail, so that an API server in trouble is not beaten. Closed: all pass. Open: none.
// Half open, after the pause: one is tried; if it succeeds all pass again, else the pause doubles. One owner; no clock.
class CircuitBreaker {
 public:
  enum class State : std::uint8_t { Closed, HalfOpen, Open };
  static constexpr rt::Duration kWindow = std::chrono::seconds(30);
  static constexpr std::size_t kWritesMin = 10;  // in the window, before anything is concluded
  static constexpr double kFailuresShare = 0.5;  // of them
  static constexpr rt::Duration kPauseMin = std::chrono::seconds(5);
  static constexpr rt::Duration kPauseMax = std::chrono::seconds(60);
  static constexpr std::size_t kRememberedMax = 1000;

  // How many writes may be sent now.
  [[nodiscard]] std::size_t allowance(rt::Instant now);
  void record(rt::Instant now, bool succeeded);
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] rt::Instant open_until() const { return open_until_; }  // while open

 private:
  void open(rt::Instant now);

  struct Write {
    rt::Instant at;
    bool failed = false;
  };
  std::deque<Write> writes_;
  std::size_t failures_ = 0;
  State state_ = State::Closed;
  rt::Instant open_until_{};
  rt::Duration pause_ = kPauseMin;
};

[[nodiscard]] std::string_view to_string(CircuitBreaker::State state);

}  // namespace basalt::controllers::sharding
