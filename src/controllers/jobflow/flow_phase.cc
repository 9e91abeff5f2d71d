#include "controllers/jobflow/flow_phase.h"

#include "api/gen/batch_job.h"
#include "api/gen/flow.h"

namespace basalt::controllers::jobflow {

std::string_view to_string(FlowPhase phase) {
  switch (phase) {
    case FlowPhase::None:
      return "";
    case FlowPhase::Pending:
      return api::flow::job_flow_phase::kPending;
    case FlowPhase::Running:
      return api::flow::job_flow_phase::kRunning;
    case FlowPhase::Succeed:
      return api::flow::job_flow_phase::kSucceed;
    case FlowPhase::Failed:
      return api::flow::job_flow_phase::kFailed;
    case FlowPhase::Terminating:
      return api::flow::job_flow_phase::kTerminating;
  }
  return "";
}

std::optional<FlowPhase> parse_flow_phase(std::string_view text) {
  for (const FlowPhase phase : kFlowPhases) {
    if (to_string(phase) == text) return phase;
  }
  return std::nullopt;
}

JobPhaseMeaning meaning_of(std::string_view job_phase) {
  namespace phases = api::batch::job_phase;
  struct Row {
    std::string_view phase;
    JobPhaseMeaning meaning;
  };
  // The lists are Volcano's: some phases have none, the odd ones share one.
  static constexpr Row kRows[] = {
      {phases::kPending, {JobList::Pending, JobFate::Waiting}},
      {phases::kRunning, {JobList::Running, JobFate::Started}},
      {phases::kCompleting, {JobList::Nowhere, JobFate::Started}},
      {phases::kCompleted, {JobList::Completed, JobFate::Done}},
      {phases::kRestarting, {JobList::Unknown, JobFate::Started}},
      {phases::kFailed, {JobList::Failed, JobFate::Lost}},
      {phases::kTerminating, {JobList::Nowhere, JobFate::Waiting}},
      {phases::kTerminated, {JobList::Terminated, JobFate::Lost}},
      {phases::kAborting, {JobList::Unknown, JobFate::Waiting}},
      {phases::kAborted, {JobList::Unknown, JobFate::Lost}},
  };
  for (const Row& row : kRows) {
    if (row.phase == job_phase) return row.meaning;
  }
  return {};
}

FlowPhase next_phase(FlowPhase current, FlowFacts facts) {
  switch (current) {
    case FlowPhase::Succeed:      // a finished flow stays finished, whatever becomes of its jobs
    case FlowPhase::Terminating:  // set by somebody else, who knows why
      return current;
    case FlowPhase::None:
    case FlowPhase::Pending:
    case FlowPhase::Running:
    case FlowPhase::Failed:
      break;
  }
  if (facts.all_done) return FlowPhase::Succeed;
  if (facts.any_lost) return FlowPhase::Failed;
  if (facts.any_started) return FlowPhase::Running;
  // A flow that ran, or that failed and was given another chance, does not look as if it had never begun.
  const bool has_begun = current == FlowPhase::Running || current == FlowPhase::Failed;
  return has_begun ? FlowPhase::Running : FlowPhase::Pending;
}

}  // namespace basalt::controllers::jobflow
