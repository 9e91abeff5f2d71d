#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kube/event_recorder.h"
#include "rt/time.h"
#include "workloads/common/object.h"
#include "workloads/common/pod.h"
#include "workloads/job/index_set.h"

namespace basalt::workloads {

// What one pass does about a core Job. Pods are counted exactly once, whatever fails between: a finished pod is first
// named in status.uncountedTerminatedPods, then loses its finalizer, and is added to the count when it is seen without.
struct JobPlan {
  struct Create {
    std::optional<std::int64_t> index;            // of an Indexed job
    std::optional<std::int64_t> failures_before;  // of this index, if they are limited one by one
  };
  struct Event {
    kube::EventType type = kube::EventType::Normal;
    std::string reason;
    std::string message;
  };
  json::Value status;
  std::vector<PodPtr> releases;  // lose the finalizer once the status is written
  std::vector<PodPtr> deletes;   // lose the finalizer, so that they do not count as failed, and go
  std::vector<PodPtr> kills;     // go, and count as failed
  std::vector<Create> creates;
  std::vector<Event> events;
  bool expires = false;  // the time after the finish is over
  std::optional<rt::Duration> look_again;
};

// Pods made or deleted, and named as uncounted, in one pass.
inline constexpr std::int64_t kJobPodsAtOnceMax = 500;
// Before a failed pod is replaced; doubles with every further failure in a row.
inline constexpr std::chrono::seconds kFailurePause{10};
inline constexpr std::chrono::seconds kFailurePauseMax{600};

// Pure. `pods` are all that the job controls.
[[nodiscard]] JobPlan plan_job(const Object& job, const std::vector<PodPtr>& pods, rt::WallTime now);

// spec.podFailurePolicy about one failed pod. (failure_policy.cc)
enum class FailureAction : std::uint8_t { Count, Ignore, FailIndex, FailJob };
struct FailureVerdict {
  FailureAction action = FailureAction::Count;
  std::string message;
};
[[nodiscard]] FailureVerdict judge_failure(const Object& job, const Pod& pod);

// spec.successPolicy: what is said of the first rule that the succeeded indexes fulfil, "" if there is none.
// (success_policy.cc)
[[nodiscard]] std::string judge_success(const json::Value& spec, const IndexSet& succeeded);

// True if it has ended for good, well or not.
[[nodiscard]] bool is_finished_job(const json::Value& status);

}  // namespace basalt::workloads
