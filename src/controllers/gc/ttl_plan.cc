#include "controllers/gc/ttl_plan.h"

#include <algorithm>

namespace basalt::controllers::gc {

bool is_finished(std::string_view job_phase) {
  namespace phases = api::batch::job_phase;
  return job_phase == phases::kCompleted || job_phase == phases::kFailed || job_phase == phases::kTerminated;
}

bool has_expiry(const api::batch::Job& job) {
  return job.metadata.deletion_timestamp.is_zero() && job.spec.ttl_seconds_after_finished.has_value() &&
         is_finished(job.status.state.phase);
}

TtlPlan plan_ttl(const api::batch::Job& job, rt::WallTime now) {
  if (!has_expiry(job)) return {};
  const api::Time finished = job.status.state.last_transition_time;
  if (finished.is_zero()) return {.kind = TtlPlan::Kind::NoFinishTime};
  const rt::WallTime finish_time(finished.to_time_point());
  const rt::WallTime expiry = finish_time + std::chrono::seconds(*job.spec.ttl_seconds_after_finished);
  TtlPlan plan;
  plan.finished_in_future = finish_time > now;
  plan.kind = expiry <= now ? TtlPlan::Kind::Delete : TtlPlan::Kind::Wait;
  if (plan.kind == TtlPlan::Kind::Wait) plan.delay = std::min<rt::Duration>(expiry - now, kLookAgainAfterMax);
  return plan;
}

}  // namespace basalt::controllers::gc
