#pragma once

#include <string>
#include <string_view>

#include "api/gen/flow.h"
#include "kube/client.h"
#include "kube/event_recorder.h"

// What the controllers of this folder send. Pure.
namespace basalt::controllers::jobflow {

inline constexpr std::string_view kFlowApiVersion = "flow.volcano.sh/v1alpha1";

// The body of the job that a step of the flow becomes.
[[nodiscard]] std::string job_body(const api::flow::JobFlow& flow, const api::flow::JobTemplate& job_template);
// Replaces the whole status, if the flow is still as it was read.
[[nodiscard]] kube::Request status_update(const api::flow::JobFlow& flow, const api::flow::JobFlowStatus& status);
// status.jobDependsOnList and nothing else.
[[nodiscard]] kube::Request users_patch(const api::flow::JobTemplate& job_template,
                                        const std::vector<std::string>& jobs);
[[nodiscard]] kube::ObjectReference reference_of(const api::flow::JobFlow& flow);
// Whether jobs of this template delete themselves some time after they finished.
[[nodiscard]] bool makes_expiring_jobs(const api::flow::JobTemplate& job_template);

}  // namespace basalt::controllers::jobflow
