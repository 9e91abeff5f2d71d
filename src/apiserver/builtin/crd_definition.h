#pragma once

#include <memory>

#include "apiserver/registry/resource_type.h"

namespace basalt::apiserver {

// Held by a CRD until its objects are gone.
inline constexpr std::string_view kCrdCleanupFinalizer = "customresourcecleanup.apiextensions.k8s.io";

// The resource customresourcedefinitions itself. A CRD that passes validation is established at once: its status says
// so from the moment it is stored, and the server serves it before it answers the create.
[[nodiscard]] std::shared_ptr<const ResourceType> crd_definition_type();

}  // namespace basalt::apiserver
