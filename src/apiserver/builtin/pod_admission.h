#pragma once

#include <memory>

#include "apiserver/registry/admission.h"
#include "apiserver/store/store.h"

namespace basalt::apiserver {

// What Kubernetes' default admission adds to new pods: the priority of their class, a service account (its token
// volume: token_volume.h), and tolerations for nodes that are not ready or cannot be reached. Keeps the priority of
// pods that are written back without it.
[[nodiscard]] std::shared_ptr<AdmissionHook> pod_admission(Store& store);

// One priority class at most is the default.
[[nodiscard]] std::shared_ptr<AdmissionHook> priority_class_admission(Store& store);

// The namespaces that a cluster cannot do without stay.
[[nodiscard]] std::shared_ptr<AdmissionHook> namespace_admission();

}  // namespace basalt::apiserver
