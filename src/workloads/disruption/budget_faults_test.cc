#include <gtest/gtest.h>

#include "workloads/testing/workload_faults.h"

// Whatever goes wrong, what is said to be allowed in the end is what is.

namespace basalt::workloads {
namespace {

using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;

void play(Fixture& f) {
  f.cluster.apply(
      "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {selector: {matchLabels: {app: "
      "w}}, maxUnavailable: 1}}");
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: w}, spec: {replicas: 2, selector: "
      "{matchLabels: {app: w}}, template: " +
      testing::pod_template("w", "i") + "}}");
  f.rest(seconds(20));
  f.cluster.patch(resources::kReplicaSets, "default", "w", R"({"spec":{"replicas":3}})");
  f.rest(seconds(20));
}

void check_end(Fixture& f) {
  EXPECT_EQ(f.number(resources::kDisruptionBudgets, "b", {"status", "currentHealthy"}), 3);
  EXPECT_EQ(f.number(resources::kDisruptionBudgets, "b", {"status", "desiredHealthy"}), 2);
  EXPECT_EQ(f.number(resources::kDisruptionBudgets, "b", {"status", "expectedPods"}), 3);
  EXPECT_EQ(f.number(resources::kDisruptionBudgets, "b", {"status", "disruptionsAllowed"}), 1);
  EXPECT_EQ(f.condition(resources::kDisruptionBudgets, "b", "DisruptionAllowed"), "True SufficientPods");
}

testing::WorkloadStory story() { return testing::story_of("budget", &play, &check_end); }

TEST(DisruptionBudgetFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(DisruptionBudgetFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(DisruptionBudgetFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(DisruptionBudgetFaults, FailingCallsAndLateEvents) { controllers::testing::play_under_random_faults(story(), 20); }

}  // namespace
}  // namespace basalt::workloads
