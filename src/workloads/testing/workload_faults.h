#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "controllers/queue/testing/fault_enumeration.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads::testing {

using WorkloadStory = controllers::testing::FaultStory<WorkloadFixture>;
using WorkloadStep = std::function<void(WorkloadFixture&)>;

inline WorkloadStory story_of(std::string name, WorkloadStep play, WorkloadStep check) {
  return {std::move(name), [](rt::SimRuntime& runtime) { return std::make_unique<WorkloadFixture>(runtime); },
          std::move(play), std::move(check)};
}

// Calls fail and events come late at random. Steps may merge then, so that fewer pods are made, never more.
inline void play_disturbed(WorkloadStory story, WorkloadStep check_end, std::size_t pods_max) {
  story.check = [check_end = std::move(check_end), pods_max](WorkloadFixture& fixture) {
    check_end(fixture);
    EXPECT_LE(fixture.kubelet.names().size(), pods_max);
  };
  controllers::testing::play_under_random_faults(story, 20);
}

}  // namespace basalt::workloads::testing
