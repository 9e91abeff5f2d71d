#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/flow.h"
#include "api/time.h"
#include "controllers/jobflow/flow_phase.h"

// What a flow needs now: its status, the jobs to make, the jobs to delete. Pure.
namespace basalt::controllers::jobflow {

// Jobs made or deleted in one look at a flow. The rest follows at once, after the other flows had their turn.
inline constexpr std::size_t kJobsAtOnceMax = 50;
// Entries of a job's history in the status; of more, the oldest go.
inline constexpr std::size_t kHistoriesMax = 64;

using JobPtr = std::shared_ptr<const api::batch::Job>;

[[nodiscard]] std::string job_name_of(std::string_view flow, std::string_view step);

struct TemplateFacts {
  bool exists = false;
  bool expires = false;  // its jobs delete themselves some time after they finished
};

struct ObservedFlow {
  const api::flow::JobFlow* flow = nullptr;
  std::vector<JobPtr> jobs;                         // those that the flow controls
  std::map<std::string, JobPtr, std::less<>> gone;  // by name: finished jobs of the flow, as they last were
  std::set<std::string, std::less<>> foreign;       // names of jobs that exist and that the flow does not control
  std::map<std::string, TemplateFacts, std::less<>> templates;  // of the steps without a job
  api::Time now;
};

struct LostJob {
  std::string name;
  std::string phase;
  std::string why;  // what the job says of it; may be empty
  bool exists = true;
};

struct FlowPlan {
  api::flow::JobFlowStatus status;  // all of it, as it is to be
  FlowPhase phase = FlowPhase::None;
  bool has_news = false;              // the status differs from what the flow has
  std::vector<std::string> create;    // steps whose jobs are to be made, in order, at most kJobsAtOnceMax
  std::vector<JobPtr> remove;         // jobs to delete, at most kJobsAtOnceMax
  bool has_more = false;              // there is more to make or to delete than that
  std::vector<LostJob> lost;          // why the flow is Failed
  std::vector<std::string> problems;  // what keeps steps from ever starting, in sentences
  bool waits_for_foreign = false;     // one of them is a job of somebody else
};
[[nodiscard]] FlowPlan plan_flow(const ObservedFlow& observed);

// What is wrong with the steps themselves: targets that are no steps, and cycles. Empty if nothing is. Takes time in
// proportion to steps and targets.
[[nodiscard]] std::vector<std::string> graph_problems(const api::flow::JobFlowSpec& spec);

}  // namespace basalt::controllers::jobflow
