#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rt/time.h"
#include "workloads/common/writer.h"
#include "workloads/deployment/deployment_view.h"

namespace basalt::workloads {

// What one pass does about a deployment. The next follows when the caches show it.
struct DeploymentPlan {
  struct Scale {  // of one set, with the annotations that go with it
    Writer::Patch patch;
    std::string event;  // "" if the number stays
  };
  json::Value create;  // the set of a new template; null if none is to be made
  std::vector<Scale> scales;
  std::vector<Writer::Target> deletes;  // old sets beyond the history
  std::int64_t revision = 0;            // for the deployment's annotation; 0: leave it
  json::Value status;
  std::optional<rt::Duration> look_again;
};

// Pure.
[[nodiscard]] DeploymentPlan plan_deployment(const DeploymentView& view, rt::WallTime now);

// The status as it follows from the sets; `created` if a set is made in this pass. (deployment_status.cc)
[[nodiscard]] json::Value deployment_status(const DeploymentView& view, bool created, api::Time now);
// Whether everything is as the present template says.
[[nodiscard]] bool is_complete(const DeploymentView& view, const json::Value& status);
[[nodiscard]] std::optional<rt::Duration> deadline_in(const DeploymentView& view, const json::Value& status,
                                                      rt::WallTime now);
// How the sets share a change of spec.replicas while a roll-out is under way. (deployment_scale.cc)
struct SetSize {
  const SetView* set;
  std::int64_t replicas;
};
[[nodiscard]] bool was_scaled(const DeploymentView& view);
[[nodiscard]] std::vector<SetSize> scaled_sizes(const DeploymentView& view);
// One step of a rolling update: at most one of growing the new and shrinking the old.
[[nodiscard]] std::int64_t next_size_of_new(const DeploymentView& view, std::int64_t present);
[[nodiscard]] std::vector<SetSize> next_sizes_of_old(const DeploymentView& view);

}  // namespace basalt::workloads
