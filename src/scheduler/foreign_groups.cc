#include "scheduler/foreign_groups.h"

#include <algorithm>

namespace basalt::scheduler {

ForeignGroups::ForeignGroups(std::vector<std::string> own_names) : own_names_(std::move(own_names)) {
  std::sort(own_names_.begin(), own_names_.end());
}

void ForeignGroups::note(const api::ObjectKey& key, const SchedulablePod* pod) {
  const bool counts = pod != nullptr && !pod->group.empty() &&
                      !std::binary_search(own_names_.begin(), own_names_.end(), pod->scheduler_name.str());
  const auto old = pods_.find(key);
  if (old != pods_.end()) {
    if (counts && old->second.group.name == pod->group.view() && old->second.scheduler == pod->scheduler_name.view())
      return;
    const auto group = groups_.find(old->second.group);
    if (const auto own = group->second.find(old->second.scheduler); --own->second == 0) group->second.erase(own);
    changed_.insert(group->first);
    if (group->second.empty()) groups_.erase(group);
    pods_.erase(old);
  }
  if (!counts) return;
  Member member{{key.ns, pod->group.str()}, pod->scheduler_name.str()};
  ++groups_[member.group][member.scheduler];
  changed_.insert(member.group);
  pods_.emplace(key, std::move(member));
}

bool ForeignGroups::is_foreign(const api::ObjectKey& group, bool has_own_pods) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return false;
  return !has_own_pods || own_names_.empty() || found->second.begin()->first < own_names_.front();
}

}  // namespace basalt::scheduler
