#include <gtest/gtest.h>

#include "controllers/queue/testing/fault_enumeration.h"
#include "workloads/testing/workload_fixture.h"

// Whatever goes wrong, a roll-out ends with the pods of the last template, in two sets and no more.

namespace basalt::workloads {
namespace {

using controllers::testing::FaultStory;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;

void play(Fixture& f) {
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: "
      "{app: web}}, template: " +
      testing::pod_template("web", "v1") + "}}");
  f.rest(seconds(20));
  f.cluster.patch(resources::kDeployments, "default", "web",
                  R"({"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2"}]}}}})");
  f.rest(seconds(10));
}

void check_end(Fixture& f) {
  EXPECT_EQ(f.count_ready(), 2u);
  EXPECT_EQ(f.pods().size(), 2u);
  for (const json::Value& pod : f.pods())
    EXPECT_EQ(list_at(pod, {"spec", "containers"}).front().string_at({"image"}), "v2");
  EXPECT_EQ(f.cluster.list(resources::kReplicaSets, "default").size(), 2u);
  EXPECT_EQ(f.number(resources::kDeployments, "web", {"status", "updatedReplicas"}), 2);
  EXPECT_EQ(f.number(resources::kDeployments, "web", {"status", "availableReplicas"}), 2);
  EXPECT_EQ(f.number(resources::kDeployments, "web", {"status", "observedGeneration"}), 2);
  EXPECT_EQ(f.condition(resources::kDeployments, "web", "Progressing"), "True NewReplicaSetAvailable");
  EXPECT_EQ(f.text(resources::kDeployments, "web", {"metadata", "annotations", "deployment.kubernetes.io/revision"}),
            "2");
}

void check_all(Fixture& f) {
  check_end(f);
  EXPECT_EQ(f.kubelet.names().size(), 4u);
}

FaultStory<Fixture> story() {
  return {"deployment", [](rt::SimRuntime& runtime) { return std::make_unique<Fixture>(runtime); }, &play, &check_all};
}

TEST(DeploymentFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(DeploymentFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
// Steps may merge then, so that fewer pods are made, never more.
TEST(DeploymentFaults, FailingCallsAndLateEvents) {
  FaultStory<Fixture> disturbed = story();
  disturbed.check = [](Fixture& f) {
    check_end(f);
    EXPECT_LE(f.kubelet.names().size(), 4u);
  };
  controllers::testing::play_under_random_faults(disturbed, 20);
}

}  // namespace
}  // namespace basalt::workloads
