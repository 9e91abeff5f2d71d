#pragma once

#include <memory>
#include <vector>

#include "workloads/common/keyed_controller.h"
#include "workloads/deployment/deployment_plan.h"

namespace basalt::workloads {

// Rolls out the template of a Deployment from ReplicaSet to ReplicaSet. See README.md.
class DeploymentController final : public KeyedController {
 public:
  explicit DeploymentController(Context& context);

 private:
  rt::Outcome reconcile(const Object& deployment, const rt::StopToken& stop) override;
  Result<DeploymentView> observe(const Object& deployment, const rt::StopToken& stop);
  Done carry_out(const Object& deployment, DeploymentPlan& plan, const rt::StopToken& stop);
  Done create_set(const Object& deployment, DeploymentPlan& plan, const rt::StopToken& stop);
  void on_pod_gone(const Pod& pod);
};

}  // namespace basalt::workloads
