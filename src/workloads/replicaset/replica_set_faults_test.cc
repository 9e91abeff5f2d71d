#include <gtest/gtest.h>

#include "workloads/testing/workload_faults.h"

// Whatever goes wrong, no pod is made that was not asked for, and in the end there are as many as were.

namespace basalt::workloads {
namespace {

using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;

void play(Fixture& f) {
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: "
      "{app: web}}, template: " +
      testing::pod_template("web", "i") + "}}");
  f.rest(seconds(10));
  f.cluster.patch(resources::kReplicaSets, "default", "web", R"({"spec":{"replicas":1}})");
  f.rest(seconds(10));
  f.cluster.patch(resources::kReplicaSets, "default", "web", R"({"spec":{"replicas":2}})");
  f.rest(seconds(10));
}

void check_end(Fixture& f) {
  EXPECT_EQ(f.count_ready(), 2u);
  EXPECT_EQ(f.pods().size(), 2u);
  EXPECT_EQ(f.number(resources::kReplicaSets, "web", {"status", "availableReplicas"}), 2);
  EXPECT_EQ(f.number(resources::kReplicaSets, "web", {"status", "observedGeneration"}), 3);
  EXPECT_EQ(f.condition(resources::kReplicaSets, "web", "ReplicaFailure"), "");
}

void check_all(Fixture& f) {
  check_end(f);
  EXPECT_EQ(f.kubelet.names().size(), 4u);
}

testing::WorkloadStory story() { return testing::story_of("replicaset", &play, &check_all); }

TEST(ReplicaSetFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(ReplicaSetFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(ReplicaSetFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(ReplicaSetFaults, FailingCallsAndLateEvents) { testing::play_disturbed(story(), &check_end, 4); }

}  // namespace
}  // namespace basalt::workloads
