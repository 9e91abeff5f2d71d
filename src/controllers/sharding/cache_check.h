#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/log.h"
#include "controllers/sharding/cluster_state.h"
#include "kube/client.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::controllers::sharding {

// Compares one node at a time, chosen by chance, with what the API server says about it and its pods. A watch is always
// a little behind, so only a difference that stays the same three times in a row counts. One thread.
class CacheCheck {
 public:
  CacheCheck(rt::Runtime& runtime, kube::Client& client, Logger log, kube::Metrics& metrics);

  // One comparison: two small lists. True if the state was found out of step and should be listed anew.
  [[nodiscard]] bool step(const ClusterState& state, const rt::StopToken& stop);
  // How soon the next is due, if once in `period` is wanted.
  [[nodiscard]] rt::Duration pause(rt::Duration period) const;

  static constexpr int kRepetitions = 3;
  static constexpr rt::Duration kRepeatAfter = std::chrono::seconds(5);

 private:
  struct Difference {
    bool node_is_missing = false;  // here or there
    std::int64_t cpu = 0;
    std::int64_t memory = 0;
    bool operator==(const Difference&) const = default;
  };
  // Nothing if the server could not be asked.
  [[nodiscard]] std::optional<Difference> compare(const ClusterState& state, const std::string& node,
                                                  const rt::StopToken& stop);

  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::Counter checks_counter_, mismatch_counter_;
  std::string suspect_;
  Difference difference_;
  int repetitions_ = 0;
};

}  // namespace basalt::controllers::sharding
