#include "scheduler/reason.h"

#include "api/gen/scheduling_podgroup.h"

namespace basalt::scheduler {

std::string_view to_string(PendingKind kind) {
  switch (kind) {
    case PendingKind::None:
      return "None";
    case PendingKind::GroupMissing:
      return "GroupMissing";
    case PendingKind::QueueMissing:
      return "QueueMissing";
    case PendingKind::QueueClosed:
      return "QueueClosed";
    case PendingKind::QueueCapability:
      return "QueueCapability";
    case PendingKind::ReservedForOthers:
      return "ReservedForOthers";
    case PendingKind::ClusterTooSmall:
      return "ClusterTooSmall";
    case PendingKind::ClusterFull:
      return "ClusterFull";
    case PendingKind::NotEnoughPods:
      return "NotEnoughPods";
    case PendingKind::NotEnoughPodsOfTask:
      return "NotEnoughPodsOfTask";
    case PendingKind::NotEnoughSubGroups:
      return "NotEnoughSubGroups";
    case PendingKind::Gated:
      return "Gated";
    case PendingKind::NoRoom:
      return "NoRoom";
    case PendingKind::MakingRoom:
      return "MakingRoom";
    case PendingKind::QueueBlocked:
      return "QueueBlocked";
    case PendingKind::Refused:
      return "Refused";
  }
  return "";
}

PendingKind pending_kind_of(std::string_view word) {
  for (int i = 0; i <= static_cast<int>(PendingKind::Refused); ++i) {
    if (to_string(static_cast<PendingKind>(i)) == word) return static_cast<PendingKind>(i);
  }
  return PendingKind::None;
}

std::string_view condition_reason_of(PendingKind kind) {
  namespace reasons = api::scheduling::pod_group_condition_reason;
  switch (kind) {
    case PendingKind::NotEnoughPods:
    case PendingKind::NotEnoughSubGroups:
    case PendingKind::Gated:
      return reasons::kNotEnoughTasks;
    case PendingKind::NotEnoughPodsOfTask:
      return reasons::kNotEnoughPodsOfTask;
    case PendingKind::QueueMissing:
    case PendingKind::QueueClosed:
    case PendingKind::QueueBlocked:
    case PendingKind::Refused:
    case PendingKind::GroupMissing:
      return to_string(kind);
    default:
      return reasons::kNotEnoughResources;
  }
}

}  // namespace basalt::scheduler
