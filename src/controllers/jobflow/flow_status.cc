#include "controllers/jobflow/flow_status.h"

#include <algorithm>

#include "controllers/jobflow/flow_planner.h"

namespace basalt::controllers::jobflow {
namespace {

void note_phase(std::vector<api::flow::JobRunningHistory>& histories, const std::string& phase, api::Time now) {
  if (phase.empty() || (!histories.empty() && histories.back().state == phase)) return;
  if (!histories.empty()) histories.back().end_timestamp = now;
  api::flow::JobRunningHistory entry;
  entry.start_timestamp = now;
  entry.state = phase;
  histories.push_back(std::move(entry));
  if (histories.size() > kHistoriesMax)
    histories.erase(histories.begin(), histories.end() - static_cast<std::ptrdiff_t>(kHistoriesMax));
}

}  // namespace

const api::flow::FlowJobStatus* find_record(const api::flow::JobFlowStatus& status, std::string_view job_name) {
  const auto found = std::ranges::find(status.job_status_list, job_name, &api::flow::FlowJobStatus::name);
  return found == status.job_status_list.end() ? nullptr : &*found;
}

void record_job(api::flow::JobFlowStatus& status, const api::batch::Job& job, api::Time now) {
  auto found = std::ranges::find(status.job_status_list, job.metadata.name, &api::flow::FlowJobStatus::name);
  if (found == status.job_status_list.end()) {
    found = status.job_status_list.insert(found, api::flow::FlowJobStatus());
    found->name = job.metadata.name;
  }
  found->state = job.status.state.phase;
  found->start_timestamp = job.metadata.creation_timestamp;
  found->end_timestamp = job.status.running_duration
                             ? job.metadata.creation_timestamp + job.status.running_duration->seconds()
                             : api::Time();
  found->restart_count = job.status.retry_count;
  note_phase(found->running_histories, job.status.state.phase, now);
}

api::flow::FlowCondition condition_of(const api::batch::Job& job) {
  api::flow::FlowCondition condition;
  condition.phase = job.status.state.phase;
  condition.create_time = job.metadata.creation_timestamp;
  condition.running_duration = job.status.running_duration;
  condition.task_status_count = job.status.task_status_count;
  return condition;
}

}  // namespace basalt::controllers::jobflow
