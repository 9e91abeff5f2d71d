#include "controllers/podgroup/pod_usage.h"

#include <string>
#include <string_view>

#include "base/strings.h"

namespace basalt::controllers::podgroup {
namespace {

using api::Quantity;
using api::ResourceList;

constexpr std::string_view kHugePages = "hugepages-";
constexpr std::string_view kDeviceClass = "deviceclass.resource.kubernetes.io/";

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// An extended resource has a domain that is not Kubernetes' own.
bool is_extended(std::string_view name) {
  return name.find('/') != std::string_view::npos && name.find("kubernetes.io/") == std::string_view::npos;
}

// Those that a pod may set for itself as a whole.
bool is_pod_level(std::string_view name) { return name == "cpu" || name == "memory" || starts_with(name, kHugePages); }

enum class Side : std::uint8_t { Requests, Limits };

const ResourceList& side_of(const api::core::ResourceRequirements& resources, Side side) {
  return side == Side::Requests ? resources.requests : resources.limits;
}

ResourceList aggregate(const api::core::PodSpec& spec, Side side) {
  ResourceList sum;
  for (const api::core::Container& container : spec.containers) sum += side_of(container.resources, side);
  ResourceList restartable;  // init containers that go on running
  ResourceList peak;
  for (const api::core::Container& container : spec.init_containers) {
    const ResourceList& own = side_of(container.resources, side);
    if (container.restart_policy == "Always") {
      sum += own;
      restartable += own;
      peak.raise_to(restartable);
    } else {
      peak.raise_to(own + restartable);
    }
  }
  sum.raise_to(peak);
  if (spec.resources) {
    for (const auto& [name, amount] : side_of(*spec.resources, side)) {
      if (is_pod_level(name)) sum.set(name, amount);
    }
  }
  for (const auto& [name, amount] : spec.overhead) {
    // A limit that is not set stays unlimited.
    if (side == Side::Limits && sum.get(name).is_zero()) continue;
    sum[name] += amount;
  }
  return sum;
}

}  // namespace

ResourceList pod_requests(const api::core::PodSpec& spec) { return aggregate(spec, Side::Requests); }
ResourceList pod_limits(const api::core::PodSpec& spec) { return aggregate(spec, Side::Limits); }

ResourceList pod_usage(const api::core::Pod& pod, api::Time now) {
  ResourceList usage{{"count/pods", Quantity::of(1)}};
  const bool is_finished = pod.status.phase == "Succeeded" || pod.status.phase == "Failed";
  const bool is_overdue =
      !pod.metadata.deletion_timestamp.is_zero() && pod.metadata.deletion_grace_period_seconds &&
      now > pod.metadata.deletion_timestamp + std::chrono::seconds(*pod.metadata.deletion_grace_period_seconds);
  if (is_finished || is_overdue) return usage;

  usage.set("pods", Quantity::of(1));
  for (const auto& [name, amount] : pod_requests(pod.spec)) {
    const std::string as_request = "requests." + name;
    if (name == "cpu" || name == "memory" || name == "ephemeral-storage" || starts_with(name, kHugePages) ||
        is_extended(name)) {
      usage.set(name, amount);
      usage.set(as_request, amount);
    } else if (starts_with(name, kDeviceClass)) {
      usage.set(as_request, amount);
    }
  }
  for (const auto& [name, amount] : pod_limits(pod.spec)) {
    if (name == "cpu" || name == "memory" || name == "ephemeral-storage") usage.set("limits." + name, amount);
  }
  return usage;
}

}  // namespace basalt::controllers::podgroup
