#pragma once

#include <string>
#include <string_view>

#include "apiserver/registry/resource_type.h"
#include "base/error.h"
#include "kube/client.h"

// The errors of an API server with the texts and details that Kubernetes clients know.

namespace basalt::apiserver {

// "jobs.batch.volcano.sh", "pods"
[[nodiscard]] std::string qualified_resource(std::string_view group, std::string_view plural);

[[nodiscard]] Error no_such_resource();
[[nodiscard]] Error not_found(const ResourceType& type, std::string_view name);
[[nodiscard]] Error already_exists(const ResourceType& type, std::string_view name);
[[nodiscard]] Error modified_conflict(const ResourceType& type, std::string_view name);
[[nodiscard]] Error conflict(const ResourceType& type, std::string_view name, std::string_view why);
[[nodiscard]] Error forbidden(const ResourceType& type, std::string_view name, std::string_view why);
[[nodiscard]] Error invalid(const ResourceType& type, std::string_view name, Causes causes);
[[nodiscard]] Error method_not_allowed(const ResourceType& type, std::string_view verb);
[[nodiscard]] Error bad_request(std::string message);
// A query parameter of a list or watch that cannot be: 422, about ListOptions.
[[nodiscard]] Error invalid_options(Cause cause);
[[nodiscard]] Error expired(std::string message);

// Causes as Kubernetes words them.
[[nodiscard]] Cause required(std::string field, std::string_view detail = {});
[[nodiscard]] Cause invalid_value(std::string field, std::string_view value, std::string_view detail);
[[nodiscard]] Cause forbidden_field(std::string field, std::string_view detail);
[[nodiscard]] Cause duplicate_value(std::string field, std::string_view value);
[[nodiscard]] Cause not_supported(std::string field, std::string_view value, std::span<const std::string_view> allowed);
[[nodiscard]] Cause too_long(std::string field, std::size_t bytes_max);
[[nodiscard]] Cause too_many(std::string field, std::size_t count, std::size_t count_max);
[[nodiscard]] Cause wrong_type(std::string field, std::string_view value, std::string_view detail);
// A value as it stands in such a message: strings quoted, the rest as JSON.
[[nodiscard]] std::string shown(const json::Value& value);

}  // namespace basalt::apiserver
