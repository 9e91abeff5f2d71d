#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/gen/core_objects.h"
#include "api/gen/core_pod.h"
#include "api/resource_list.h"
#include "base/result.h"

namespace basalt::node {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Sets a variable, replacing an earlier one in its place.
void set_variable(Environment& env, std::string_view name, std::string_view value);
[[nodiscard]] const std::string* find_variable(const Environment& env, std::string_view name);

// `$(NAME)` stands for a variable, `$$` for `$`; what is not defined stays as written. Kubernetes' rules.
[[nodiscard]] std::string expand_variables(std::string_view text, const Environment& env);

// What the node knows about a pod beyond the object.
struct PodPlace {
  std::string node_name;
  std::string host_ip;
  std::string pod_ip;
  std::string hostname;
  api::ResourceList allocatable;  // what a container without a limit may use
};

// A token that a volume of a pod shows.
struct TokenWish {
  std::string audience;  // "": the API server
  std::int64_t seconds = 3600;
  auto operator<=>(const TokenWish&) const = default;
};

// Reads the objects that a pod refers to. NotFound is an ordinary answer.
class PodObjects {
 public:
  virtual ~PodObjects() = default;
  virtual Result<api::core::ConfigMap> config_map(const std::string& ns, const std::string& name) = 0;
  virtual Result<api::core::Secret> secret(const std::string& ns, const std::string& name) = 0;
  // Fails if there is no such claim.
  virtual Done claim(const std::string& ns, const std::string& name) = 0;
  // Of the pod's service account, bound to the pod.
  virtual Result<std::string> token(const api::core::Pod& pod, const TokenWish& wish) = 0;
};

// A field of the pod as text (downward API); an error for a path that is not offered.
[[nodiscard]] Result<std::string> field_text(const api::core::Pod& pod, const PodPlace& place, std::string_view path);
// A resource of a container as a whole number of divisors, rounded up.
[[nodiscard]] Result<std::string> resource_text(const api::core::Pod& pod, const PodPlace& place,
                                                const api::core::Container& own,
                                                const api::core::ResourceFieldSelector& selector);

// The container's own variables, added to `base` (which `$(NAME)` may refer to): envFrom, then env, in order. Errors
// name the variable and what it refers to; NotFound if that is missing and not optional.
[[nodiscard]] Result<Environment> container_environment(const api::core::Pod& pod,
                                                        const api::core::Container& container, const PodPlace& place,
                                                        Environment base, PodObjects& objects);

// Data of a Secret or ConfigMap as bytes.
[[nodiscard]] Result<std::map<std::string, std::string>> object_data(const api::core::ConfigMap& object);
[[nodiscard]] Result<std::map<std::string, std::string>> object_data(const api::core::Secret& object);

}  // namespace basalt::node
