#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/karmada_binding.h"
#include "api/gen/karmada_policy.h"
#include "api/resource_list.h"
#include "api/string_map.h"

namespace basalt::federation {

// Where a job goes. Pure.

// One cluster as the choice sees it.
struct Candidate {
  std::string name;
  api::StringMap labels;
  std::string provider;
  std::string region;
  std::string zone;
  bool is_ready = false;
  // What unfinished jobs of the federation leave of what the nodes have; nothing if that is not known.
  std::optional<api::ResourceList> free;
  std::int64_t jobs = 0;  // unfinished ones, to share out evenly
};

struct Wish {
  const api::karmada::Placement* placement = nullptr;
  std::int32_t replicas = 0;
  api::ResourceList request;         // of one replica
  std::vector<std::string> present;  // clusters that have the job now: they are kept if they may be
};

struct Choice {
  std::vector<api::karmada::TargetCluster> clusters;  // empty: none, and why:
  std::string reason;                                 // NoClusterFit, SchedulerError
  std::string message;
};

// Whether the placement allows a cluster of this name and these labels at all.
[[nodiscard]] bool is_allowed(const api::karmada::Placement& placement, const Candidate& cluster);
// How many replicas fit; without requests all that anybody could ask for.
[[nodiscard]] std::int64_t room_for(const Candidate& cluster, const api::ResourceList& request);

// Affinity, readiness, then the spread constraint over clusters: with at most one group everything goes to the cluster
// with the most room (of equals the one with the fewest jobs, then the first name). Duplicated: every chosen cluster
// gets all replicas. Divided: the fewest clusters that have room share them.
[[nodiscard]] Choice choose_clusters(const Wish& wish, const std::vector<Candidate>& clusters);

}  // namespace basalt::federation
