#pragma once

#include <cstddef>
#include <optional>

#include "rt/runtime.h"

namespace basalt::net {

// When streams are read. After a quiet moment what comes is read at once. While events come close together, the sockets
// are left alone for a few milliseconds each time, and then one look, one hand-over and one wake of the reader carries
// them all: an API server sends each event of a watch by itself, in packets and records of its own, and reading them
// one by one costs more than what they say. The longer it goes on like this, the longer the pauses. Used by one thread.
class StreamPace {
 public:
  static constexpr rt::Duration kPauseMin = std::chrono::milliseconds(5);
  static constexpr rt::Duration kPauseMax = std::chrono::milliseconds(20);
  // So much in one round is no trickle (a list, say): it is read as fast as it comes.
  static constexpr std::size_t kFloodBytes = 64u << 10;

  // After a round that read so much; `was_due` if it looked at the sockets because the pause was over.
  void note(rt::Instant now, std::size_t bytes, bool was_due);
  [[nodiscard]] bool is_pausing() const { return until_ != rt::kNever; }
  [[nodiscard]] rt::Instant pauses_until() const { return until_; }  // kNever if there is no pause

 private:
  rt::Instant until_ = rt::kNever;
  rt::Duration pause_ = kPauseMin;
  std::optional<rt::Instant> read_at_;
};

}  // namespace basalt::net
