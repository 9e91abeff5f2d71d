#include "net/stream_pace.h"

#include <algorithm>

namespace basalt::net {

void StreamPace::note(rt::Instant now, std::size_t bytes, bool was_due) {
  if (bytes == 0) {
    if (!was_due || !read_at_) return;
    // A whole pause without anything ends the busy time; a flood that has ebbed away is followed by a pause.
    until_ = *read_at_ + pause_ <= now ? rt::kNever : *read_at_ + pause_;
    if (until_ == rt::kNever) pause_ = kPauseMin;
    return;
  }
  const bool is_busy = is_pausing() || (read_at_ && now - *read_at_ <= kPauseMin);
  read_at_ = now;
  if (bytes >= kFloodBytes) {
    if (is_pausing()) until_ = now;
  } else if (is_busy) {
    if (was_due) pause_ = std::min(2 * pause_, kPauseMax);
    until_ = now + pause_;
  }
}

}  // namespace basalt::net
