#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/quantity.h"
#include "apiserver/builtin/fields.h"

// Names and amounts of resources.

namespace basalt::apiserver {

// "cpu", "memory", "hugepages-2Mi", "example.com/gpu", ...
[[nodiscard]] bool is_native_resource(std::string_view name);
// Resources that one may limit above what one requests: all native ones but huge pages.
[[nodiscard]] bool allows_overcommit(std::string_view name);
[[nodiscard]] bool is_extended_resource(std::string_view name);

// A name that a container may request.
void check_container_resource_name(std::string_view name, const FieldPath& path, Causes& causes);
// A quantity that is not negative, and whole for resources that come in pieces. Nothing if it is no quantity at all.
std::optional<api::Quantity> check_quantity(std::string_view resource, const json::Value& value, const FieldPath& path,
                                            Causes& causes);
// limits, requests and claims of a container; `claims` are the names in spec.resourceClaims.
void check_resource_requirements(const json::Value& requirements, std::span<const std::string_view> claims,
                                 const FieldPath& path, Causes& causes);

}  // namespace basalt::apiserver
