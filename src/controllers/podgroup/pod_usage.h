#pragma once

#include "api/gen/core_pod.h"
#include "api/resource_list.h"
#include "api/time.h"

namespace basalt::controllers::podgroup {

// What a pod asks for as a whole: its containers together, raised to the peak of its init containers, plus overhead
// (k8s.io/component-helpers resource/helpers.go, v0.36).
[[nodiscard]] api::ResourceList pod_requests(const api::core::PodSpec& spec);
[[nodiscard]] api::ResourceList pod_limits(const api::core::PodSpec& spec);

// What Kubernetes' quota counts for a pod (pkg/quota/v1/evaluator/core/pods.go, v0.36), and extended resources under
// their own name as well. A pod that is finished, or should be gone by now, counts as an object only.
[[nodiscard]] api::ResourceList pod_usage(const api::core::Pod& pod, api::Time now);

}  // namespace basalt::controllers::podgroup
