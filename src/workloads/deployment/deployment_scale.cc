#include <algorithm>
#include <cmath>

#include "workloads/deployment/deployment_plan.h"

namespace basalt::workloads {
namespace {

std::vector<const SetView*> active_sets(const DeploymentView& view) {
  std::vector<const SetView*> active;
  if (view.current && view.current->replicas > 0) active.push_back(&*view.current);
  for (const SetView& set : view.old) {
    if (set.replicas > 0) active.push_back(&set);
  }
  return active;
}

// The largest first, of equals the newest when growing and the oldest when shrinking.
void sort_for_share(std::vector<const SetView*>& sets, bool grows) {
  std::sort(sets.begin(), sets.end(), [&](const SetView* a, const SetView* b) {
    if (a->replicas != b->replicas) return a->replicas > b->replicas;
    const auto& x = a->object->metadata;
    const auto& y = b->object->metadata;
    if (x.creation != y.creation) return grows ? x.creation > y.creation : x.creation < y.creation;
    return x.name < y.name;
  });
}

std::int64_t share_of(const SetView& set, std::int64_t allowed, std::int64_t left) {
  const std::int64_t before = std::max<std::int64_t>(set.max.value_or(allowed), 1);
  const double size = static_cast<double>(set.replicas) * static_cast<double>(allowed) / static_cast<double>(before);
  const std::int64_t change = std::llround(size) - set.replicas;
  return left > 0 ? std::clamp<std::int64_t>(change, 0, left) : std::clamp<std::int64_t>(change, left, 0);
}

std::vector<SetSize> proportional(const DeploymentView& view, std::vector<const SetView*> active) {
  const std::int64_t allowed = view.replicas > 0 ? view.max_total() : 0;
  std::int64_t present = 0;
  for (const SetView* set : active) present += set->replicas;
  std::int64_t left = allowed - present;
  sort_for_share(active, left > 0);
  std::vector<SetSize> sizes;
  for (const SetView* set : active) {
    const std::int64_t change = left == 0 ? 0 : share_of(*set, allowed, left);
    sizes.push_back({set, set->replicas + change});
    left -= change;
  }
  // What rounding left over goes to the largest.
  if (!sizes.empty()) sizes.front().replicas = std::max<std::int64_t>(0, sizes.front().replicas + left);
  return sizes;
}

}  // namespace

bool was_scaled(const DeploymentView& view) {
  for (const SetView* set : active_sets(view)) {
    if (set->desired && *set->desired != view.replicas) return true;
  }
  return false;
}

std::vector<SetSize> scaled_sizes(const DeploymentView& view) {
  const std::vector<const SetView*> active = active_sets(view);
  if (active.size() == 1) return {{active.front(), view.replicas}};
  if (active.empty()) {
    if (view.current) return {{&*view.current, view.replicas}};
    return {};
  }
  const bool is_saturated = view.current && view.current->desired == view.replicas &&
                            view.current->replicas == view.replicas && view.current->available == view.replicas;
  if (is_saturated) {
    std::vector<SetSize> sizes;
    for (const SetView& set : view.old) {
      if (set.replicas > 0) sizes.push_back({&set, 0});
    }
    return sizes;
  }
  return view.recreates ? std::vector<SetSize>{} : proportional(view, active);
}

std::int64_t next_size_of_new(const DeploymentView& view, std::int64_t present) {
  if (view.recreates || present >= view.replicas) return view.replicas;
  const std::int64_t room = view.max_total() - view.all_replicas();
  return present + std::clamp<std::int64_t>(room, 0, view.replicas - present);
}

std::vector<SetSize> next_sizes_of_old(const DeploymentView& view) {
  const SetView& current = *view.current;
  const std::int64_t min_available = view.replicas - view.unavailable;
  std::int64_t left = view.all_replicas() - min_available - (current.replicas - current.available);
  std::vector<SetSize> sizes;
  for (const SetView& set : view.old) sizes.push_back({&set, set.replicas});
  // Those that do not work go first: nobody misses them.
  for (SetSize& size : sizes) {
    const std::int64_t broken = std::clamp<std::int64_t>(left, 0, size.replicas - size.set->available);
    size.replicas -= broken;
    left -= broken;
  }
  std::int64_t spare = std::min(left, view.all_available() - min_available);
  for (SetSize& size : sizes) {
    const std::int64_t fewer = std::clamp<std::int64_t>(spare, 0, size.replicas);
    size.replicas -= fewer;
    spare -= fewer;
  }
  std::erase_if(sizes, [](const SetSize& size) { return size.replicas == size.set->replicas; });
  return sizes;
}

}  // namespace basalt::workloads
