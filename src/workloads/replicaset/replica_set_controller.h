#pragma once

#include <vector>

#include "workloads/common/keyed_controller.h"
#include "workloads/replicaset/replica_set_plan.h"

namespace basalt::workloads {

// Keeps as many pods of a template as a ReplicaSet, or a ReplicationController, asks for: one controller for each of
// the two kinds. See README.md.
class ReplicaSetController final : public KeyedController {
 public:
  // `kind` is kReplicaSetKind or kReplicationControllerKind.
  ReplicaSetController(Context& context, const OwnerKind& kind);

 private:
  rt::Outcome reconcile(const Object& set, const rt::StopToken& stop) override;
  Done carry_out(const Object& set, const ReplicaSetPlan& plan, const rt::StopToken& stop);
};

}  // namespace basalt::workloads
