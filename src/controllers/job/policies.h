#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/job/observed.h"
#include "controllers/job/state_machine.h"

// From what is seen to what the user wants done about it. Events are derived from states, not from changes: what was
// not acted upon is found again by the next pass, also after a restart, and what was acted upon is not found again,
// because the action changed the job's version, marked the pod or changed the phase.
namespace basalt::controllers::job {

struct JobEvent {
  std::string_view event;  // api::bus::event
  std::int32_t task = -1;  // position in spec.tasks
  const ObservedPod* pod = nullptr;
  std::int32_t index = -1;  // of the pod, if it is gone too
  std::string subject;      // UID of the pod or group, name of the task: tells two events of one kind apart
  std::string partition;
  std::int32_t exit_code = 0;
  bool is_disruption = false;  // nothing that the job did: a restart for it spends no retry
  std::string text;            // for people: "pod train-worker-3 failed with exit code 137"
};

// The events of the job, in the order of its pods; at the end those of tasks and group. `completed` are the records of
// the tasks with everything that is known now.
[[nodiscard]] std::vector<JobEvent> derive_events(const ObservedJob& observed,
                                                  const std::vector<CompletedIndexes>& completed);

struct PolicyMatch {
  Action action = Action::Other;
  std::string action_text;
  rt::Duration timeout{};
};
// The task's list first, then the job's; in each the first policy that matches.
[[nodiscard]] std::optional<PolicyMatch> resolve(const api::batch::JobSpec& spec, const JobEvent& event);

// The pods that a targeted restart takes away.
struct Target {
  std::vector<const ObservedPod*> pods;
  std::int32_t task = -1;
  std::vector<std::int32_t> indexes;  // that are to run again, whether their pods exist or not
  [[nodiscard]] bool is_empty() const { return task < 0; }
};
// Empty if the event lacks what the action needs: nothing then happens at all.
[[nodiscard]] Target target_of(const ObservedJob& observed, const JobEvent& event, Action action);

// What becomes of an event: act now, later, or not.
struct Decision {
  JobEvent event;
  PolicyMatch match;
};
struct Decisions {
  std::vector<Decision> due;               // in order
  std::vector<ArmedDelay> armed;           // all that are waiting now
  std::vector<Decision> newly_armed;       // those that were not before
  std::optional<rt::Duration> wake_after;  // until the first delay ends
};
struct PlanTime {
  rt::Instant now{};
  rt::WallTime wall{};
};
[[nodiscard]] Decisions decide(const ObservedJob& observed, const std::vector<JobEvent>& events, const PlanTime& time);

}  // namespace basalt::controllers::job
