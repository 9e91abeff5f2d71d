#include "federation/placement.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "api/gen/names.h"
#include "api/labels.h"
#include "base/strings.h"

namespace basalt::federation {
namespace {

using api::karmada::Placement;

constexpr std::int64_t kEndless = std::numeric_limits<std::int32_t>::max();

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <class Affinity>
bool affinity_allows(const Affinity& affinity, const Candidate& cluster) {
  if (contains(affinity.exclude, cluster.name)) return false;
  if (!affinity.cluster_names.empty() && !contains(affinity.cluster_names, cluster.name)) return false;
  if (affinity.label_selector) {
    const auto selector = api::Selector::from(*affinity.label_selector);
    if (!selector.ok() || !selector->matches(cluster.labels)) return false;
  }
  return true;
}

struct Spread {
  std::int64_t groups_min = 1;
  std::int64_t groups_max = kEndless;
};

Spread spread_of(const Placement& placement) {
  Spread spread;
  for (const auto& constraint : placement.spread_constraints) {
    if (!constraint.spread_by_field.empty() && constraint.spread_by_field != "cluster") continue;
    if (constraint.min_groups > 0) spread.groups_min = constraint.min_groups;
    if (constraint.max_groups > 0) spread.groups_max = constraint.max_groups;
  }
  return spread;
}

struct Scored {
  const Candidate* cluster = nullptr;
  std::int64_t room = 0;
  bool is_present = false;
};

// The best first.
bool comes_before(const Scored& a, const Scored& b) {
  return std::tuple(!a.is_present, -a.room, a.cluster->jobs, std::string_view(a.cluster->name)) <
         std::tuple(!b.is_present, -b.room, b.cluster->jobs, std::string_view(b.cluster->name));
}

std::string describe(const Wish& wish, const std::vector<Candidate>& clusters) {
  std::size_t away = 0;
  std::size_t excluded = 0;
  for (const Candidate& cluster : clusters) {
    if (!is_allowed(*wish.placement, cluster)) {
      ++excluded;
    } else if (!cluster.is_ready) {
      ++away;
    }
  }
  return "0/" + std::to_string(clusters.size()) + " clusters are available: " + std::to_string(excluded) +
         " cluster(s) did not match the placement cluster affinity constraint, " + std::to_string(away) +
         " cluster(s) are not ready";
}

Choice no_room(std::int64_t groups) {
  return {{},
          std::string(api::condition_reasons::kSchedulerError),
          "no enough resource when selecting " + std::to_string(groups) + " clusters"};
}

Choice divide(const Wish& wish, std::vector<Scored> scored, const Spread& spread) {
  Choice choice;
  std::int64_t left = std::max<std::int64_t>(wish.replicas, 0);
  for (const Scored& one : scored) {
    if (static_cast<std::int64_t>(choice.clusters.size()) >= spread.groups_max) break;
    // A job without replicas still goes somewhere.
    const std::int64_t share = std::min(left, one.room);
    if (share == 0 && !(wish.replicas <= 0 && choice.clusters.empty())) continue;
    choice.clusters.push_back({one.cluster->name, static_cast<std::int32_t>(share), {}});
    left -= share;
    if (left == 0) break;
  }
  if (left > 0) return no_room(std::min(spread.groups_max, static_cast<std::int64_t>(scored.size())));
  return choice;
}

}  // namespace

bool is_allowed(const Placement& placement, const Candidate& cluster) {
  if (placement.cluster_affinity) return affinity_allows(*placement.cluster_affinity, cluster);
  if (placement.cluster_affinities.empty()) return true;
  return std::any_of(placement.cluster_affinities.begin(), placement.cluster_affinities.end(),
                     [&](const auto& term) { return affinity_allows(term, cluster); });
}

std::int64_t room_for(const Candidate& cluster, const api::ResourceList& request) {
  std::int64_t room = kEndless;
  for (const auto& [name, amount] : request) {
    const std::int64_t wanted = amount.milli_value();
    if (wanted <= 0) continue;
    // A cluster that never said what it has offers nothing.
    const std::int64_t free = cluster.free ? std::max<std::int64_t>(cluster.free->get(name).milli_value(), 0) : 0;
    room = std::min(room, free / wanted);
  }
  return room;
}

Choice choose_clusters(const Wish& wish, const std::vector<Candidate>& clusters) {
  const Spread spread = spread_of(*wish.placement);
  std::vector<Scored> scored;
  for (const Candidate& cluster : clusters) {
    if (!cluster.is_ready || !is_allowed(*wish.placement, cluster)) continue;
    scored.push_back({&cluster, room_for(cluster, wish.request), contains(wish.present, cluster.name)});
  }
  std::sort(scored.begin(), scored.end(), comes_before);
  if (scored.empty() || static_cast<std::int64_t>(scored.size()) < spread.groups_min)
    return {{}, std::string(api::condition_reasons::kNoClusterFit), describe(wish, clusters)};
  const bool is_divided =
      wish.placement->replica_scheduling && wish.placement->replica_scheduling->replica_scheduling_type == "Divided";
  if (is_divided) return divide(wish, std::move(scored), spread);
  Choice choice;
  for (const Scored& one : scored) {
    if (static_cast<std::int64_t>(choice.clusters.size()) >= spread.groups_max) break;
    choice.clusters.push_back({one.cluster->name, wish.replicas, {}});
  }
  return choice;
}

}  // namespace basalt::federation
