#include <gtest/gtest.h>

#include "rt/sim_test_support.h"
#include "workloads/statefulset/stateful_set_plan.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::Fate;
using testing::with_fixture;

TEST(StatefulNames, OrdinalsAreReadStrictly) {
  EXPECT_EQ(ordinal_of("db", "db-0"), 0);
  EXPECT_EQ(ordinal_of("db", "db-17"), 17);
  for (const char* name : {"db", "db-", "db-01", "db-x", "db-1x", "dbb-1", "db-1-2", "db-99999999999", "db--1"})
    EXPECT_EQ(ordinal_of("db", name), std::nullopt) << name;
}

void apply(Fixture& f, int replicas, std::string_view more = "") {
  f.cluster.apply("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, replicas: " +
                  std::to_string(replicas) + ", selector: {matchLabels: {app: db}}, template: " +
                  testing::pod_template("db", "v1") + std::string(more) + "}}");
}
void set_image(Fixture& f, std::string_view image) {
  f.cluster.patch(
      resources::kStatefulSets, "default", "db",
      R"({"spec":{"template":{"spec":{"containers":[{"name":"c","image":")" + std::string(image) + R"("}]}}}})");
}
bool is_up(Fixture& f, std::int64_t replicas) {
  const auto set = f.cluster.get(resources::kStatefulSets, "default", "db");
  return int_at(*set, {"status", "observedGeneration"}) == int_at(*set, {"metadata", "generation"}) &&
         int_at(*set, {"status", "readyReplicas"}) == replicas && int_at(*set, {"status", "replicas"}) == replicas &&
         f.pods().size() == static_cast<std::size_t>(replicas);
}
std::string image_of(Fixture& f, std::string_view pod) {
  const auto object = f.cluster.get(resources::kPods, "default", pod);
  return object ? std::string(list_at(*object, {"spec", "containers"}).front().string_at({"image"})) : "(none)";
}

TEST(StatefulSet, ComesUpInOrderAndGoesInReverse) {
  with_fixture([](Fixture& f) {
    apply(f, 3);
    for (int i = 0; i < 500 && !is_up(f, 3); ++i) {
      f.rest(std::chrono::milliseconds(10));
      const auto pods = f.pods();
      // Each is there only if all before it are ready.
      EXPECT_GE(f.count_ready() + 1, pods.size());
    }
    ASSERT_TRUE(is_up(f, 3));
    EXPECT_EQ(f.kubelet.names(), (std::vector<std::string>{"db-0", "db-1", "db-2"}));
    const auto pod = *f.cluster.get(resources::kPods, "default", "db-1");
    EXPECT_EQ(pod.string_at({"spec", "hostname"}), "db-1");
    EXPECT_EQ(pod.string_at({"spec", "subdomain"}), "db");
    EXPECT_EQ(pod.string_at({"metadata", "labels", "apps.kubernetes.io/pod-index"}), "1");
    EXPECT_EQ(pod.string_at({"metadata", "labels", "statefulset.kubernetes.io/pod-name"}), "db-1");
    f.cluster.patch(resources::kStatefulSets, "default", "db", R"({"spec":{"replicas":1}})");
    EXPECT_TRUE(f.wait([&] { return f.cluster.get(resources::kPods, "default", "db-2") == std::nullopt; }));
    EXPECT_TRUE(f.wait([&] { return is_up(f, 1); }));
    // The same name comes back.
    f.cluster.remove(resources::kPods, "default", "db-0");
    EXPECT_TRUE(f.wait([&] { return f.kubelet.names().size() == 4 && is_up(f, 1); }));
    EXPECT_EQ(f.kubelet.names().back(), "db-0");
    f.rest(seconds(5));
    const auto writes = f.process->writes("statefulsets");
    f.rest(minutes(30));
    EXPECT_EQ(f.process->writes("statefulsets"), writes);
  });
}

TEST(StatefulSet, ParallelDoesNotWait) {
  with_fixture(
      [](Fixture& f) {
        apply(f, 3, ", podManagementPolicy: Parallel");
        EXPECT_TRUE(f.wait([&] { return f.pods().size() == 3; }, seconds(3)));
        f.cluster.patch(resources::kStatefulSets, "default", "db", R"({"spec":{"replicas":0}})");
        EXPECT_TRUE(f.wait([&] { return f.pods().empty(); }, seconds(3)));
      },
      [](const Pod&) { return Fate{.becomes_ready = false}; });
}

TEST(StatefulSet, RollsFromTheEndDownToThePartition) {
  with_fixture([](Fixture& f) {
    apply(f, 3, ", updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 3); }));
    set_image(f, "v2");
    EXPECT_TRUE(f.wait([&] { return image_of(f, "db-2") == "v2" && is_up(f, 3); }));
    f.rest(seconds(10));
    EXPECT_EQ(image_of(f, "db-1"), "v1");
    EXPECT_EQ(f.number(resources::kStatefulSets, "db", {"status", "updatedReplicas"}), 1);
    EXPECT_NE(f.text(resources::kStatefulSets, "db", {"status", "updateRevision"}),
              f.text(resources::kStatefulSets, "db", {"status", "currentRevision"}));
    // Below the partition a pod comes back as it was.
    f.cluster.remove(resources::kPods, "default", "db-0");
    EXPECT_TRUE(f.wait([&] { return f.kubelet.names().size() == 5 && is_up(f, 3); }));
    EXPECT_EQ(image_of(f, "db-0"), "v1");
    f.cluster.patch(resources::kStatefulSets, "default", "db",
                    R"({"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}})");
    EXPECT_TRUE(f.wait([&] {
      return image_of(f, "db-0") == "v2" && image_of(f, "db-1") == "v2" && is_up(f, 3) &&
             f.text(resources::kStatefulSets, "db", {"status", "updateRevision"}) ==
                 f.text(resources::kStatefulSets, "db", {"status", "currentRevision"});
    }));
    EXPECT_EQ(f.number(resources::kStatefulSets, "db", {"status", "currentReplicas"}), 3);
    EXPECT_EQ(f.cluster.list(resources::kRevisions, "default").size(), 2u);
    // Back again: the first revision is used once more, as the newest.
    set_image(f, "v1");
    EXPECT_TRUE(f.wait([&] { return image_of(f, "db-0") == "v1" && is_up(f, 3); }));
    EXPECT_EQ(f.cluster.list(resources::kRevisions, "default").size(), 2u);
  });
}

TEST(StatefulSet, OnDeleteLeavesPodsAlone) {
  with_fixture([](Fixture& f) {
    apply(f, 2, ", updateStrategy: {type: OnDelete}");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 2); }));
    set_image(f, "v2");
    f.rest(seconds(10));
    EXPECT_EQ(f.kubelet.names().size(), 2u);
    f.cluster.remove(resources::kPods, "default", "db-0");
    EXPECT_TRUE(f.wait([&] { return image_of(f, "db-0") == "v2" && is_up(f, 2); }));
    EXPECT_EQ(image_of(f, "db-1"), "v1");
  });
}

constexpr std::string_view kClaims =
    ", volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: "
    "{storage: 1Gi}}}}]";

TEST(StatefulSet, ClaimsStayUnlessToldOtherwise) {
  with_fixture([](Fixture& f) {
    apply(f, 2, kClaims);
    ASSERT_TRUE(f.wait([&] { return is_up(f, 2); }));
    const auto claim = f.cluster.get(resources::kClaims, "default", "data-db-1");
    ASSERT_TRUE(claim.has_value());
    const auto pod = *f.cluster.get(resources::kPods, "default", "db-1");
    bool uses_claim = false;
    for (const json::Value& volume : list_at(pod, {"spec", "volumes"}))
      uses_claim |= volume.string_at({"persistentVolumeClaim", "claimName"}) == "data-db-1";
    EXPECT_TRUE(uses_claim);
    f.cluster.patch(resources::kStatefulSets, "default", "db", R"({"spec":{"replicas":1}})");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 1); }));
    f.rest(seconds(10));
    EXPECT_TRUE(f.cluster.get(resources::kClaims, "default", "data-db-1").has_value());
    f.cluster.patch(
        resources::kStatefulSets, "default", "db",
        R"({"spec":{"replicas":2,"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete","whenDeleted":"Delete"}}})");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 2); }));
    f.cluster.patch(resources::kStatefulSets, "default", "db", R"({"spec":{"replicas":1}})");
    EXPECT_TRUE(f.wait([&] { return !f.cluster.get(resources::kClaims, "default", "data-db-1").has_value(); }));
    EXPECT_TRUE(f.cluster.get(resources::kClaims, "default", "data-db-0").has_value());
    f.cluster.remove(resources::kStatefulSets, "default", "db");
    EXPECT_TRUE(f.wait([&] { return f.cluster.list(resources::kClaims, "default").empty() && f.pods().empty(); }));
  });
}

}  // namespace
}  // namespace basalt::workloads
