#include "controllers/sharding/breaker.h"

#include <algorithm>

namespace basalt::controllers::sharding {

std::size_t CircuitBreaker::allowance(rt::Instant now) {
  if (state_ == State::Open && now >= open_until_) state_ = State::HalfOpen;
  switch (state_) {
    case State::Closed:
      return SIZE_MAX;
    case State::HalfOpen:
      return 1;
    case State::Open:
      return 0;
  }
  return 0;
}

void CircuitBreaker::record(rt::Instant now, bool succeeded) {
  if (state_ == State::HalfOpen) {
    if (succeeded) {
      state_ = State::Closed;
      pause_ = kPauseMin;
      writes_.clear();
      failures_ = 0;
    } else {
      pause_ = std::min(pause_ * 2, kPauseMax);
      open(now);
    }
    return;
  }
  if (state_ == State::Open) return;
  writes_.push_back({now, !succeeded});
  if (!succeeded) ++failures_;
  while (!writes_.empty() && (now - writes_.front().at > kWindow || writes_.size() > kRememberedMax)) {
    if (writes_.front().failed) --failures_;
    writes_.pop_front();
  }
  if (writes_.size() >= kWritesMin &&
      static_cast<double>(failures_) >= kFailuresShare * static_cast<double>(writes_.size()))
    open(now);
}

void CircuitBreaker::open(rt::Instant now) {
  state_ = State::Open;
  open_until_ = rt::saturating_add(now, pause_);
  writes_.clear();
  failures_ = 0;
}

std::string_view to_string(CircuitBreaker::State state) {
  switch (state) {
    case CircuitBreaker::State::Closed:
      return "closed";
    case CircuitBreaker::State::HalfOpen:
      return "half open";
    case CircuitBreaker::State::Open:
      return "open";
  }
  return "";
}

}  // namespace basalt::controllers::sharding
