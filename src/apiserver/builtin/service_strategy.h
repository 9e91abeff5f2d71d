#pragma once

#include <memory>

#include "apiserver/registry/resource_type.h"

namespace basalt::apiserver {

// Services: ports, types and addresses. Addresses and node ports are given out by admission (service_admission.h).
[[nodiscard]] std::shared_ptr<const ResourceType> service_type();

}  // namespace basalt::apiserver
