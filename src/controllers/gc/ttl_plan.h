#pragma once

#include <cstdint>
#include <string_view>

#include "api/gen/batch_job.h"
#include "rt/time.h"

namespace basalt::controllers::gc {

// Completed, Failed and Terminated jobs are over for good. An Aborted one can be resumed, so it is not finished.
[[nodiscard]] bool is_finished(std::string_view job_phase);

// Whether the job will be deleted some day if nobody changes it.
[[nodiscard]] bool has_expiry(const api::batch::Job& job);

struct TtlPlan {
  enum class Kind : std::uint8_t {
    Nothing,      // no TTL, not finished, or being deleted already
    Wait,         // look again after `delay`
    Delete,       // the time has come
    NoFinishTime  // finished, but status.state.lastTransitionTime is missing
  };
  Kind kind = Kind::Nothing;
  rt::Duration delay{};
  bool finished_in_future = false;  // by our clock; it only waits longer
  bool operator==(const TtlPlan&) const = default;
};
// Pure. The delay is exact, but at most kLookAgainAfterMax, so that a step of the clock is noticed.
[[nodiscard]] TtlPlan plan_ttl(const api::batch::Job& job, rt::WallTime now);
inline constexpr rt::Duration kLookAgainAfterMax = std::chrono::hours(1);

}  // namespace basalt::controllers::gc
