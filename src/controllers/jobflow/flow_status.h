#pragma once

#include "api/gen/batch_job.h"
#include "api/gen/flow.h"
#include "api/time.h"

// The parts of a flow's status that describe one job. Pure.
namespace basalt::controllers::jobflow {

// The entry of status.jobStatusList with this name; null if there is none.
[[nodiscard]] const api::flow::FlowJobStatus* find_record(const api::flow::JobFlowStatus& status,
                                                          std::string_view job_name);
// Brings the job's entry of status.jobStatusList up to date, or adds it.
void record_job(api::flow::JobFlowStatus& status, const api::batch::Job& job, api::Time now);
[[nodiscard]] api::flow::FlowCondition condition_of(const api::batch::Job& job);

}  // namespace basalt::controllers::jobflow
