#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "api/gen/batch_job.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/resource_list.h"
#include "base/result.h"
#include "json/raw.h"

namespace basalt::controllers::job {

// Value of a priority class; 0 for "" and for one that is unknown.
using PriorityOf = std::function<std::int32_t(std::string_view priority_class)>;

// "J-U", the name of the pod group of a job.
[[nodiscard]] std::string pod_group_name(const api::batch::Job& job);

// The pod group that the job needs now (fact sheet job.md 5.4), with owner reference, labels and annotations.
[[nodiscard]] Result<api::scheduling::PodGroup> build_pod_group(const api::batch::Job& job,
                                                                const PriorityOf& priority_of);

// The merge patch that brings `found` to what the job needs, "" if nothing differs. Only priorityClassName, minMember
// with minResources, minTaskMember (entries of unknown tasks stay) and subGroupPolicy are ever changed.
[[nodiscard]] std::string pod_group_patch(const api::scheduling::PodGroup& found,
                                          const api::scheduling::PodGroup& wanted);

// Resources that Kubernetes' quota counts for one pod of the template.
[[nodiscard]] Result<api::ResourceList> pod_usage(const json::Raw& pod_template);

}  // namespace basalt::controllers::job
