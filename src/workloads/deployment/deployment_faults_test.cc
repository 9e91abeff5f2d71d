#include <gtest/gtest.h>

#include "workloads/testing/workload_faults.h"

// Whatever goes wrong, a roll-out ends with the pods of the last template, in two sets and no more.

namespace basalt::workloads {
namespace {

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

testing::WorkloadStory story() { return testing::story_of("deployment", &play, &check_all); }

TEST(DeploymentFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(DeploymentFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(DeploymentFaults, FailingCallsAndLateEvents) { testing::play_disturbed(story(), &check_end, 4); }

}  // namespace
}  // namespace basalt::workloads
