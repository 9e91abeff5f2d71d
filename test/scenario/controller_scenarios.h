#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "api/gen/core_podcache.h"
#include "sim/actors.h"
#include "sim/driver.h"

namespace basalt::test {

// Where a scenario runs: an API with our CRDs and the controllers on it, a played scheduler and kubelet beside them.
struct World {
  sim::Driver& api;
  bool collects_garbage = true;  // whether somebody deletes what has lost its owner (not the real server alone)
};

struct Scenario {
  std::string_view name;
  void (*run)(World& world);  // expectations are GoogleTest's
};

[[nodiscard]] std::span<const Scenario> controller_scenarios();

// How pods of the scenarios go: by their names and the version of their job.
[[nodiscard]] sim::PodFate scenario_fate(const api::core::PodProjection& pod);

}  // namespace basalt::test
