#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "controllers/sharding/facts.h"
#include "controllers/sharding/pod_table.h"
#include "kube/identity.h"

namespace basalt::controllers::sharding {

// What is read of a pod. The rest of its text is skipped without being stored anywhere.
struct PodReading {
  PodUid uid;
  kube::Revision revision = 0;
  std::string node;     // "" if unbound
  bool counts = false;  // bound, not in a final phase, not the mirror of a static pod
  Amounts requests;
};
[[nodiscard]] Result<PodReading> read_pod(std::string_view json, const Catalog& catalog);

struct NodeReading {
  std::string name;
  kube::Revision revision = 0;
  Amounts capacity;          // or what is allocatable, by the catalog
  std::uint32_t extras = 0;  // bits of the extra resources that the node has
  std::uint32_t label_bits = 0;
  std::array<double, kMetricsMax> metrics{};
};
[[nodiscard]] Result<NodeReading> read_node(std::string_view json, const Catalog& catalog);

}  // namespace basalt::controllers::sharding
