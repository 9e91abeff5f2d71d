#include <gtest/gtest.h>

#include "workloads/testing/workload_faults.h"

// Whatever goes wrong, pods come in order, each once for each template, and keep their claims.

namespace basalt::workloads {
namespace {

using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;

void play(Fixture& f) {
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, replicas: 2, selector: "
      "{matchLabels: {app: db}}, template: " +
      testing::pod_template("db", "v1") +
      ", volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: "
      "{storage: 1Gi}}}}]}}");
  f.rest(seconds(25));
  f.cluster.patch(resources::kStatefulSets, "default", "db",
                  R"({"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2"}]}}}})");
  f.rest(seconds(10));
}

void check_end(Fixture& f) {
  EXPECT_EQ(f.count_ready(), 2u);
  for (const json::Value& pod : f.pods())
    EXPECT_EQ(list_at(pod, {"spec", "containers"}).front().string_at({"image"}), "v2");
  EXPECT_EQ(f.cluster.list(resources::kClaims, "default").size(), 2u);
  EXPECT_EQ(f.cluster.list(resources::kRevisions, "default").size(), 2u);
  EXPECT_EQ(f.number(resources::kStatefulSets, "db", {"status", "updatedReplicas"}), 2);
  EXPECT_EQ(f.number(resources::kStatefulSets, "db", {"status", "availableReplicas"}), 2);
  EXPECT_EQ(f.text(resources::kStatefulSets, "db", {"status", "currentRevision"}),
            f.text(resources::kStatefulSets, "db", {"status", "updateRevision"}));
}

void check_all(Fixture& f) {
  check_end(f);
  EXPECT_EQ(f.kubelet.names(), (std::vector<std::string>{"db-0", "db-1", "db-1", "db-0"}));
}

testing::WorkloadStory story() { return testing::story_of("statefulset", &play, &check_all); }

TEST(StatefulSetFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(StatefulSetFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(StatefulSetFaults, FailingCallsAndLateEvents) { testing::play_disturbed(story(), &check_end, 4); }

}  // namespace
}  // namespace basalt::workloads
