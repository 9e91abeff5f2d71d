#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace basalt::controllers::sharding {

inline constexpr std::size_t kExtraMax = 8;    // resources beside cpu and memory
inline constexpr std::size_t kMetricsMax = 8;  // numbers read from labels or annotations
inline constexpr std::size_t kLabelsMax = 32;  // pairs of label and value

// Which of a pod's containers count.
enum class RequestModel : std::uint8_t {
  Containers,  // the sum over spec.containers, as Volcano counts
  Effective,   // what the Kubernetes scheduler reserves: init containers, overhead and pod-level requests, too
};
// What the requests are divided by.
enum class UtilizationBase : std::uint8_t { Capacity, Allocatable };

// What has to be read of pods and nodes for one configuration. Nothing else of them is kept.
struct Catalog {
  std::vector<std::string> resources;                       // beside cpu and memory
  std::vector<std::pair<std::string, std::string>> labels;  // a node that has it gets the bit of this place
  std::vector<std::string> annotations;                     // whose numbers are metrics
  std::vector<std::string> metric_labels;                   // the same from labels; their metrics follow those
  RequestModel request_model = RequestModel::Containers;
  UtilizationBase base = UtilizationBase::Capacity;
  bool operator==(const Catalog&) const = default;
};

// What policies see of a node. Shares are requests by capacity, at most 1.
struct NodeFacts {
  double cpu = 0;
  double memory = 0;
  std::array<double, kExtraMax> shares{};     // by Catalog::resources; negative if the node has none of it
  std::array<double, kMetricsMax> metrics{};  // annotations, then labels; NaN if absent or no number
  std::uint32_t label_bits = 0;
  std::uint32_t pods = 0;
  std::int16_t forecast = -1;  // bucket; negative if there is no forecast to be trusted
};

// Utilisation in whole percent, halves away from zero. All comparisons are of these.
[[nodiscard]] inline int bucket_of(double share) {
  const double percent = std::round(share * 100);
  if (!(percent > -1e6)) return -1'000'000;
  return percent < 1e6 ? static_cast<int>(percent) : 1'000'000;
}

}  // namespace basalt::controllers::sharding
