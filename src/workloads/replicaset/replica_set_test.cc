#include <gtest/gtest.h>

#include "rt/sim_test_support.h"
#include "workloads/replicaset/replica_set_plan.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::with_fixture;

PodPtr pod_with(const std::function<void(Pod&)>& change) {
  auto pod = std::make_shared<Pod>();
  pod->metadata.name = "p";
  pod->node_name = "n";
  pod->phase = "Running";
  pod->is_ready = true;
  pod->ready_since = api::Time::from_unix(1000);
  pod->metadata.creation = api::Time::from_unix(900);
  change(*pod);
  return pod;
}

// Each differs from an ordinary pod in one thing, which makes it go before the ones after it.
TEST(DeletionOrder, EachReasonBeforeTheNext) {
  std::vector<PodPtr> pods = {
      pod_with([](Pod& pod) {
        pod.node_name = "";
        pod.metadata.name = "unbound";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "1";
        pod.phase = "Pending";
        pod.metadata.name = "pending";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "2";
        pod.is_ready = false;
        pod.metadata.name = "unready";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "3";
        pod.deletion_cost = -5;
        pod.metadata.name = "cheap";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "crowd";
        pod.metadata.name = "a-crowded";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "crowd";
        pod.metadata.name = "b-crowded";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "4";
        pod.ready_since = api::Time::from_unix(2000);
        pod.metadata.name = "fresh";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "5";
        pod.restarts = 3;
        pod.metadata.name = "restarted";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "6";
        pod.metadata.creation = api::Time::from_unix(950);
        pod.metadata.name = "young";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "7";
        pod.metadata.name = "ordinary";
      }),
      pod_with([](Pod& pod) {
        pod.node_name = "8";
        pod.deletion_cost = 9;
        pod.metadata.name = "dear";
      }),
  };
  std::vector<std::string> expected;
  for (const PodPtr& pod : pods) expected.push_back(pod->metadata.name.str());
  std::reverse(pods.begin(), pods.end());
  sort_for_deletion(pods);
  std::vector<std::string> found;
  for (const PodPtr& pod : pods) found.push_back(pod->metadata.name.str());
  EXPECT_EQ(found, expected);
}

void apply_set(Fixture& f, std::string_view name, int replicas, std::string_view more = "") {
  f.cluster.apply("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: " + std::string(name) +
                  "}, spec: {replicas: " + std::to_string(replicas) + ", selector: {matchLabels: {app: " +
                  std::string(name) + "}}, template: " + testing::pod_template(name, "i") + std::string(more) + "}}");
}

TEST(ReplicaSet, GrowsShrinksAndCounts) {
  with_fixture([](Fixture& f) {
    apply_set(f, "web", 3);
    EXPECT_TRUE(f.wait([&] { return f.number(resources::kReplicaSets, "web", {"status", "availableReplicas"}) == 3; }));
    EXPECT_EQ(f.number(resources::kReplicaSets, "web", {"status", "fullyLabeledReplicas"}), 3);
    EXPECT_EQ(f.number(resources::kReplicaSets, "web", {"status", "observedGeneration"}), 1);
    for (const json::Value& pod : f.pods()) {
      EXPECT_EQ(pod.string_at({"metadata", "generateName"}), "web-");
      EXPECT_TRUE(pod.string_at({"metadata", "name"}).starts_with("web-"));
    }
    f.cluster.patch(resources::kReplicaSets, "default", "web", R"({"spec":{"replicas":1}})");
    EXPECT_TRUE(f.wait(
        [&] { return f.pods().size() == 1 && f.number(resources::kReplicaSets, "web", {"status", "replicas"}) == 1; }));
    EXPECT_EQ(f.number(resources::kReplicaSets, "web", {"status", "observedGeneration"}), 2);
    f.cluster.remove(resources::kPods, "default", f.pods().front().string_at({"metadata", "name"}));
    EXPECT_TRUE(f.wait([&] { return f.count_ready() == 1 && f.kubelet.names().size() == 4; }));
    f.cluster.remove(resources::kReplicaSets, "default", "web");
    EXPECT_TRUE(f.wait([&] { return f.pods().empty(); }));
    const auto writes = f.process->writes("pods");
    f.rest(minutes(10));
    EXPECT_EQ(f.process->writes("pods"), writes);
  });
}

TEST(ReplicaSet, AdoptsWhatFitsAndReleasesWhatDoesNot) {
  with_fixture([](Fixture& f) {
    f.cluster.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: stray, labels: {app: web}}, spec: {containers: [{name: c, image: "
        "i}]}}");
    f.rest(seconds(1));
    apply_set(f, "web", 2);
    EXPECT_TRUE(f.wait([&] { return f.number(resources::kReplicaSets, "web", {"status", "readyReplicas"}) == 2; }));
    EXPECT_EQ(f.pods().size(), 2u);
    const auto stray = f.cluster.get(resources::kPods, "default", "stray");
    EXPECT_EQ(list_at(*stray, {"metadata", "ownerReferences"}).front().string_at({"name"}), "web");
    f.cluster.patch(resources::kPods, "default", "stray", R"({"metadata":{"labels":{"app":"other"}}})");
    EXPECT_TRUE(f.wait([&] { return f.pods().size() == 3; }));
    EXPECT_TRUE(f.wait([&] {
      return list_at(*f.cluster.get(resources::kPods, "default", "stray"), {"metadata", "ownerReferences"}).empty();
    }));
    // It fits again: there is one too many then.
    f.cluster.patch(resources::kPods, "default", "stray", R"({"metadata":{"labels":{"app":"web"}}})");
    EXPECT_TRUE(f.wait([&] { return f.pods().size() == 2; }));
  });
}

TEST(ReplicaSet, PodsAreAvailableOnlyAfterAWhile) {
  with_fixture([](Fixture& f) {
    apply_set(f, "web", 2, ", minReadySeconds: 20");
    EXPECT_TRUE(f.wait([&] { return f.number(resources::kReplicaSets, "web", {"status", "readyReplicas"}) == 2; }));
    f.rest(seconds(15));
    EXPECT_EQ(f.number(resources::kReplicaSets, "web", {"status", "availableReplicas"}), 0);
    EXPECT_TRUE(f.wait([&] { return f.number(resources::kReplicaSets, "web", {"status", "availableReplicas"}) == 2; },
                       seconds(8)));
  });
}

TEST(ReplicaSet, FailedPodsAreReplacedAndARefusalIsSaid) {
  with_fixture(
      [](Fixture& f) {
        apply_set(f, "web", 1);
        EXPECT_TRUE(f.wait([&] { return f.kubelet.names().size() >= 3; }));
        // A set in a namespace that is going, say: the API refuses its pods.
        f.process->faults().fail_call(f.process->faults().calls() + 1, Error::make(Reason::Forbidden, "no more pods"));
        f.rest(seconds(20));
        EXPECT_EQ(f.active().size(), 1u);
      },
      [](const Pod&) { return testing::Fate{.run_for = seconds(2), .exit_code = 1}; });
}

// Its selector is a plain map; all else is as with a ReplicaSet, and the two do not meddle with each other's pods.
// Each pod that is refused has another name. To write the name down would wake the controller, which would try the
// next.
TEST(ReplicaSet, ARefusalIsSaidOnceAndDoesNotMakeAStorm) {
  with_fixture([](Fixture& f) {
    f.cluster.apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: '1'}}}");
    apply_set(f, "web", 2);
    ASSERT_TRUE(
        f.wait([&] { return f.condition(resources::kReplicaSets, "web", "ReplicaFailure") == "True FailedCreate"; }));
    f.rest(seconds(5));
    const std::uint64_t before = f.process->writes("replicasets");
    f.rest(minutes(1));
    EXPECT_EQ(f.process->writes("replicasets"), before);
    f.cluster.remove({"", "v1", "resourcequotas"}, "default", "q");
    EXPECT_TRUE(f.wait([&] { return f.count_ready() == 2; }, minutes(10)));
    EXPECT_TRUE(f.wait([&] { return f.condition(resources::kReplicaSets, "web", "ReplicaFailure").empty(); }));
  });
}

TEST(ReplicationController, GrowsShrinksAndCounts) {
  with_fixture([](Fixture& f) {
    f.cluster.apply(
        "{apiVersion: v1, kind: ReplicationController, metadata: {name: old}, spec: {replicas: 3, selector: {app: "
        "old}, "
        "template: " +
        testing::pod_template("old", "i") + "}}");
    apply_set(f, "web", 1);
    const auto& controllers = resources::kReplicationControllers;
    EXPECT_TRUE(f.wait([&] { return f.number(controllers, "old", {"status", "availableReplicas"}) == 3; }));
    EXPECT_EQ(f.number(controllers, "old", {"status", "observedGeneration"}), 1);
    for (const json::Value& pod : f.pods("app=old")) {
      EXPECT_EQ(list_at(pod, {"metadata", "ownerReferences"}).front().string_at({"kind"}), "ReplicationController");
      EXPECT_EQ(list_at(pod, {"metadata", "ownerReferences"}).front().string_at({"apiVersion"}), "v1");
    }
    f.cluster.patch(controllers, "default", "old", R"({"spec":{"replicas":1}})");
    EXPECT_TRUE(f.wait(
        [&] { return f.pods("app=old").size() == 1 && f.number(controllers, "old", {"status", "replicas"}) == 1; }));
    const std::string name(f.pods("app=old").front().string_at({"metadata", "name"}));
    f.cluster.patch(resources::kPods, "default", name, R"({"metadata":{"labels":{"app":"free"}}})");
    EXPECT_TRUE(f.wait([&] { return f.pods("app=old").size() == 1; }));
    EXPECT_TRUE(list_at(*f.cluster.get(resources::kPods, "default", name), {"metadata", "ownerReferences"}).empty());
    f.cluster.patch(controllers, "default", "old", R"({"spec":{"replicas":2}})");
    f.cluster.patch(resources::kPods, "default", name, R"({"metadata":{"labels":{"app":"old"}}})");
    EXPECT_TRUE(f.wait([&] { return f.pods("app=old").size() == 2 && f.count_ready("app=old") == 2; }));
    f.cluster.remove(controllers, "default", "old");
    EXPECT_TRUE(f.wait([&] { return f.pods("app=old").empty(); }));
    EXPECT_EQ(f.pods("app=web").size(), 1u);
  });
}

}  // namespace
}  // namespace basalt::workloads
