#include "sim/cluster.h"

#include <gtest/gtest.h>

#include "rt/sim_test_support.h"
#include "sim/actors.h"

namespace basalt::sim {
namespace {

constexpr std::string_view kGangOfTwo = R"(
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 2, queue: default}
---
apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {scheduling.k8s.io/group-name: gang}}
spec: {schedulerName: volcano, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, annotations: {scheduling.k8s.io/group-name: gang}}
spec: {schedulerName: volcano, containers: [{name: c, image: i}]}
)";

std::string phase_of(Cluster& cluster, const kube::Resource& resource, std::string_view name) {
  const auto object = cluster.get(resource, "default", name);
  return object ? std::string(object->string_at({"status", "phase"})) : "gone";
}

TEST(SimCluster, HasTheKindsAndQueuesThatControllersExpect) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    Cluster cluster(runtime);
    EXPECT_EQ(cluster.list(resources::kQueues).size(), 2u);
    EXPECT_EQ(cluster.get(resources::kQueues, "", "default")->string_at({"status", "state"}), "Open");
    EXPECT_TRUE(cluster.list(resources::kJobs).empty());
    EXPECT_FALSE(cluster.try_create("{apiVersion: v1, kind: Nothing, metadata: {name: a}}").ok());
  });
}

TEST(SimCluster, PlayedActorsTakeAGangThroughItsLife) {
  rt::run_seeds(1, 20, [](rt::SimRuntime& runtime) {
    Cluster cluster(runtime);
    PlayedScheduler scheduler(runtime, cluster.client());
    PlayedKubelet kubelet(runtime, cluster.client(), [](const api::core::PodProjection& pod) {
      PodFate fate;
      fate.exit_code = std::string_view(pod.metadata.name) == "b" ? 3 : 0;
      return fate;
    });
    scheduler.start();
    kubelet.start();
    cluster.apply(kGangOfTwo);
    EXPECT_TRUE(cluster.wait_until([&] {
      return phase_of(cluster, resources::kPods, "a") == "Succeeded" &&
             phase_of(cluster, resources::kPods, "b") == "Failed";
    }));
    EXPECT_TRUE(cluster.wait_until([&] { return phase_of(cluster, resources::kPodGroups, "gang") == "Running"; }));
    cluster.remove(resources::kPods, "default", "a");
    EXPECT_TRUE(cluster.wait_until([&] { return phase_of(cluster, resources::kPods, "a") == "gone"; }));
    kubelet.stop();
    scheduler.stop();
  });
}

}  // namespace
}  // namespace basalt::sim
