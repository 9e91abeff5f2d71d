#include <gtest/gtest.h>

#include "controllers/queue/testing/fault_enumeration.h"
#include "workloads/testing/workload_fixture.h"

// Whatever goes wrong, no pod is made that was not asked for, and in the end there are as many as were.

namespace basalt::workloads {
namespace {

using controllers::testing::FaultStory;
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

FaultStory<Fixture> story() {
  return {"replicaset", [](rt::SimRuntime& runtime) { return std::make_unique<Fixture>(runtime); }, &play, &check_all};
}

TEST(ReplicaSetFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(ReplicaSetFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(ReplicaSetFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
// Steps may merge then, so that fewer pods are made, never more.
TEST(ReplicaSetFaults, FailingCallsAndLateEvents) {
  FaultStory<Fixture> disturbed = story();
  disturbed.check = [](Fixture& f) {
    check_end(f);
    EXPECT_LE(f.kubelet.names().size(), 4u);
  };
  controllers::testing::play_under_random_faults(disturbed, 20);
}

}  // namespace
}  // namespace basalt::workloads
