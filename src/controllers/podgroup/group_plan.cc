#include "controllers/podgroup/group_plan.h"

#include "base/strings.h"

namespace basalt::controllers::podgroup {

std::optional<GroupOwner> GroupOwner::parse(const api::ObjectKey& key) {
  const auto parts = base::split(key.name, '/');
  if (parts.size() != 3) return std::nullopt;
  return GroupOwner{key.ns, std::string(parts[0]), std::string(parts[1]), std::string(parts[2])};
}

GroupPlan plan_group(const ObservedGroup& observed) {
  GroupPlan plan;
  if (observed.workload && observed.workload->replicas == 0) {
    // Of the many old ReplicaSets of a cluster few ever had a group; those without cost no call.
    plan.delete_group = observed.exists;
    return plan;
  }
  std::optional<std::size_t> first_live;  // in our group, and in need of it
  for (std::size_t i = 0; i < observed.members.size(); ++i) {
    const ObservedMember& member = observed.members[i];
    if (member.is_being_deleted) continue;
    if (member.group == ObservedMember::Group::None) plan.annotate.push_back(i);
    if (member.group == ObservedMember::Group::Ours && !member.is_finished && !first_live) first_live = i;
  }
  if (!observed.exists) {
    if (!plan.annotate.empty()) {
      plan.create_from = plan.annotate.front();
    } else if (first_live &&
               (!observed.owner_is_workload || (observed.workload && !observed.workload->is_being_deleted))) {
      // Deleted under the feet of its pods, by hand or by a scale to zero and back. They would wait for ever.
      plan.create_from = first_live;
      plan.create_only_if_owner_lives = true;
    }
    return plan;
  }
  if (!observed.workload) return plan;
  // New pods may come from a new template; the group follows it.
  for (const std::size_t i : plan.annotate) {
    const std::string& wanted = observed.workload->update_revision;
    if (!wanted.empty() && observed.members[i].revision != wanted) continue;
    plan.refresh_from = i;
    break;
  }
  return plan;
}

}  // namespace basalt::controllers::podgroup
