#pragma once

#include <map>
#include <string>
#include <utility>

#include "api/time.h"
#include "json/value.h"
#include "node/pod_environment.h"
#include "node/pod_machine.h"

namespace basalt::node {

// Why containers that could start do not, if so.
struct WaitNote {
  std::string reason;  // CreateContainerConfigError, ...
  std::string message;
};

// Since when each condition has the status that we last wrote: type -> status, time.
using ConditionTimes = std::map<std::string, std::pair<std::string, api::Time>, std::less<>>;

[[nodiscard]] ConditionTimes condition_times(const api::core::Pod& pod);

// The pod's status as its node writes it. PodScheduled is the scheduler's: it is added only where it is absent.
// `times` is brought up to date.
[[nodiscard]] json::Value pod_status(const PodMachine& machine, const PodPlace& place, api::Time start_time,
                                     const WaitNote& note, ConditionTimes& times, api::Time now);

}  // namespace basalt::node
