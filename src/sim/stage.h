#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "rt/sim_test_support.h"
#include "sim/cluster.h"
#include "sim/driver.h"

// For tests only: where the scenarios of controllers play. On the simulated cluster, for several seeds; or once at a
// place that the program has chosen, such as a real API server in the kube lane. A scenario does not know which.
namespace basalt::sim {

class Place {
 public:
  virtual ~Place() = default;
  [[nodiscard]] virtual rt::Runtime& runtime() = 0;
  // A cluster that shows nothing of the scenario before. Of the options only `with_default_queue` counts.
  [[nodiscard]] virtual std::unique_ptr<Driver> open(const Cluster::Options& options) = 0;
  // A scenario just lets this time pass. Here time costs time: a shorter one may do, once all has come to rest.
  virtual void let_pass(rt::Duration time) = 0;
};

// Null for the simulated cluster. Set before the first test runs.
inline Place*& chosen_place() {
  static Place* place = nullptr;
  return place;
}

inline std::unique_ptr<Driver> open_cluster(rt::Runtime& runtime, Cluster::Options options = {}) {
  if (Place* place = chosen_place(); place != nullptr) return place->open(options);
  return std::make_unique<Cluster>(runtime, std::move(options));
}

inline void play(std::uint64_t first_seed, std::uint64_t seeds, const std::function<void(rt::Runtime&)>& scenario) {
  if (Place* place = chosen_place(); place != nullptr) return scenario(place->runtime());
  rt::run_seeds(first_seed, seeds, [&](rt::SimRuntime& runtime) { scenario(runtime); });
}

inline void let_pass(rt::Runtime& runtime, rt::Duration time) {
  if (Place* place = chosen_place(); place != nullptr) return place->let_pass(time);
  runtime.sleep_for(time);
}

}  // namespace basalt::sim
