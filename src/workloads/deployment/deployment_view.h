#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "workloads/common/object.h"

namespace basalt::workloads {

namespace deployment_keys {
inline constexpr std::string_view kRevision = "deployment.kubernetes.io/revision";
inline constexpr std::string_view kRevisionHistory = "deployment.kubernetes.io/revision-history";
inline constexpr std::string_view kDesired = "deployment.kubernetes.io/desired-replicas";
inline constexpr std::string_view kMax = "deployment.kubernetes.io/max-replicas";
inline constexpr std::string_view kHash = "pod-template-hash";
}  // namespace deployment_keys

// One ReplicaSet of a deployment.
struct SetView {
  std::shared_ptr<const Object> object;
  std::int64_t replicas = 0;  // wanted
  std::int64_t actual = 0;    // there are
  std::int64_t ready = 0;
  std::int64_t available = 0;  // never more than are wanted: those beyond are going
  std::int64_t revision = 0;
  std::optional<std::int64_t> desired;  // what the deployment wanted when it was scaled last
  std::optional<std::int64_t> max;
};
[[nodiscard]] SetView view_of(std::shared_ptr<const Object> set);

// A deployment with its sets, as one pass sees them.
struct DeploymentView {
  const Object& object;
  std::int64_t replicas = 1;
  std::int64_t surge = 0;
  std::int64_t unavailable = 0;
  std::int64_t min_ready = 0;
  std::int64_t history_limit = 10;
  std::optional<std::int64_t> deadline;  // progressDeadlineSeconds
  bool is_paused = false;
  bool recreates = false;
  std::optional<SetView> current;  // the set of the present template, if there is one
  std::vector<SetView> old;        // the others, oldest first
  bool has_old_pods = false;       // even such as are ending

  [[nodiscard]] std::int64_t all_replicas() const;  // wanted, over all sets
  [[nodiscard]] std::int64_t all_available() const;
  [[nodiscard]] std::int64_t max_total() const { return replicas + (recreates ? 0 : surge); }
};
// Without has_old_pods. An error names the field that cannot be used.
[[nodiscard]] Result<DeploymentView> view_of(const Object& deployment,
                                             const std::vector<std::shared_ptr<const Object>>& sets);

// The template as it was before the hash was added, in a form that can be compared.
[[nodiscard]] json::Value plain_template(const json::Value& workload);

}  // namespace basalt::workloads
