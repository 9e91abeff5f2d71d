#include <gtest/gtest.h>

#include <set>

#include "rt/sim_test_support.h"
#include "workloads/daemonset/daemon_set_plan.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::Fate;

void add_node(Fixture& f, const std::string& name, const std::string& labels = "", const std::string& spec = "") {
  f.cluster.apply("{apiVersion: v1, kind: Node, metadata: {name: " + name + ", labels: {" + labels + "}}, spec: {" +
                  spec + "}}");
}

void with_nodes(int nodes, const std::function<void(Fixture&)>& body, const testing::TestKubelet::FateOf& fate = {}) {
  rt::run_seeds(1, 3, [&](rt::SimRuntime& runtime) {
    Fixture fixture(runtime, fate);
    fixture.start();
    for (int i = 0; i < nodes; ++i) add_node(fixture, "n" + std::to_string(i));
    body(fixture);
  });
}

void apply(Fixture& f, std::string_view more = "", std::string_view pod_more = "") {
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {app: d}}, template: "
      "{metadata: {labels: {app: d}}, spec: {containers: [{name: c, image: v1}]" +
      std::string(pod_more) + "}}" + std::string(more) + "}}");
}
void set_image(Fixture& f, std::string_view image) {
  f.cluster.patch(
      resources::kDaemonSets, "default", "d",
      R"({"spec":{"template":{"spec":{"containers":[{"name":"c","image":")" + std::string(image) + R"("}]}}}})");
}
std::int64_t status(Fixture& f, std::string_view name) {
  return f.number(resources::kDaemonSets, "d", {"status", name});
}
// The nodes on which a pod of this image runs.
std::set<std::string> nodes_with(Fixture& f, std::string_view image = "v1") {
  std::set<std::string> nodes;
  for (const json::Value& pod : f.active()) {
    if (list_at(pod, {"spec", "containers"}).front().string_at({"image"}) == image)
      nodes.emplace(pod.string_at({"spec", "nodeName"}));
  }
  return nodes;
}
bool is_up(Fixture& f, std::int64_t count) {
  return status(f, "observedGeneration") == f.number(resources::kDaemonSets, "d", {"metadata", "generation"}) &&
         status(f, "desiredNumberScheduled") == count && status(f, "numberAvailable") == count &&
         status(f, "updatedNumberScheduled") == count && f.pods().size() == static_cast<std::size_t>(count);
}

TEST(DaemonSet, OnePodForEachNodeThatComesAndGoes) {
  with_nodes(2, [](Fixture& f) {
    apply(f);
    ASSERT_TRUE(f.wait([&] { return is_up(f, 2); }));
    EXPECT_EQ(nodes_with(f), (std::set<std::string>{"n0", "n1"}));
    const auto revisions = f.cluster.list(resources::kRevisions, "default");
    ASSERT_EQ(revisions.size(), 1u);
    const auto hash = revisions[0].string_at({"metadata", "labels", kDaemonHashLabel});
    EXPECT_EQ(f.pods()[0].string_at({"metadata", "labels", kDaemonHashLabel}), hash);
    add_node(f, "n2");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 3); }));
    f.cluster.remove({"", "v1", "nodes"}, "", "n0");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 2); }));
    EXPECT_EQ(nodes_with(f), (std::set<std::string>{"n1", "n2"}));
    // One that is taken away comes back.
    f.cluster.remove(resources::kPods, "default", f.pods()[0].string_at({"metadata", "name"}));
    EXPECT_TRUE(f.wait([&] { return f.kubelet.names().size() == 4 && is_up(f, 2); }));
    f.rest(seconds(5));
    const auto writes = f.process->writes("daemonsets");
    f.rest(minutes(30));
    EXPECT_EQ(f.process->writes("daemonsets"), writes);
    f.cluster.remove(resources::kDaemonSets, "default", "d");
    EXPECT_TRUE(f.wait([&] { return f.pods().empty() && f.cluster.list(resources::kRevisions, "default").empty(); }));
  });
}

TEST(DaemonSet, LabelsOfNodesDecide) {
  with_nodes(2, [](Fixture& f) {
    apply(f, "", ", nodeSelector: {color: blue}");
    f.rest(seconds(5));
    EXPECT_TRUE(f.pods().empty());
    EXPECT_EQ(status(f, "desiredNumberScheduled"), 0);
    f.cluster.patch({"", "v1", "nodes"}, "", "n1", R"({"metadata":{"labels":{"color":"blue"}}})");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 1); }));
    EXPECT_EQ(nodes_with(f), std::set<std::string>{"n1"});
    f.cluster.patch({"", "v1", "nodes"}, "", "n1", R"({"metadata":{"labels":{"color":"green"}}})");
    EXPECT_TRUE(f.wait([&] { return f.pods().empty(); }));
    EXPECT_EQ(status(f, "numberMisscheduled"), 0);
  });
}

TEST(DaemonSet, TaintsKeepPodsAwayAndDriveThemOut) {
  with_nodes(1, [](Fixture& f) {
    apply(f);
    ASSERT_TRUE(f.wait([&] { return is_up(f, 1); }));
    // A pod that is there bears NoSchedule.
    f.cluster.patch({"", "v1", "nodes"}, "", "n0", R"({"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}})");
    EXPECT_TRUE(f.wait([&] { return status(f, "numberMisscheduled") == 1; }));
    EXPECT_EQ(f.active().size(), 1u);
    f.cluster.patch({"", "v1", "nodes"}, "", "n0", R"({"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}})");
    EXPECT_TRUE(f.wait([&] { return f.pods().empty(); }));
    // A node that is closed for others is not closed for these.
    f.cluster.patch({"", "v1", "nodes"}, "", "n0",
                    R"({"spec":{"taints":[{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"},)"
                    R"({"key":"node.kubernetes.io/not-ready","effect":"NoExecute"}],"unschedulable":true}})");
    EXPECT_TRUE(f.wait([&] { return is_up(f, 1); }));
  });
}

TEST(DaemonSet, RollsNodeByNode) {
  with_nodes(4, [](Fixture& f) {
    apply(f);
    ASSERT_TRUE(f.wait([&] { return is_up(f, 4); }));
    set_image(f, "v2");
    for (int i = 0; i < 2000 && !(is_up(f, 4) && nodes_with(f, "v2").size() == 4); ++i) {
      f.rest(std::chrono::milliseconds(10));
      ASSERT_GE(f.count_ready() + 1, 4u);
    }
    EXPECT_EQ(nodes_with(f, "v2").size(), 4u);
    EXPECT_EQ(f.cluster.list(resources::kRevisions, "default").size(), 2u);
    // Back: the old revision is the newest again, and no third one is made.
    set_image(f, "v1");
    EXPECT_TRUE(f.wait([&] { return is_up(f, 4) && nodes_with(f, "v1").size() == 4; }));
    EXPECT_EQ(f.cluster.list(resources::kRevisions, "default").size(), 2u);
  });
}

TEST(DaemonSet, ABadUpdateStopsAndIsTakenBackWithoutRestarts) {
  with_nodes(
      4,
      [](Fixture& f) {
        apply(f);
        ASSERT_TRUE(f.wait([&] { return is_up(f, 4); }));
        // A pod's fate is told from its ports.
        f.cluster.patch(resources::kDaemonSets, "default", "d",
                        R"({"spec":{"template":{"spec":{"containers":[)"
                        R"({"name":"c","image":"bad","ports":[{"name":"p","containerPort":80}]}]}}}})");
        f.rest(seconds(30));
        EXPECT_EQ(nodes_with(f, "bad").size(), 1u);
        EXPECT_EQ(nodes_with(f, "v1").size(), 3u);
        set_image(f, "v1");
        EXPECT_TRUE(f.wait([&] { return is_up(f, 4) && nodes_with(f, "v1").size() == 4; }));
        EXPECT_EQ(f.kubelet.names().size(), 6u);  // the bad one and its replacement
      },
      [](const Pod& pod) { return Fate{.becomes_ready = pod.ports.empty()}; });
}

TEST(DaemonSet, SurgeMakesTheNewPodFirst) {
  with_nodes(3, [](Fixture& f) {
    apply(f, ", updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 3); }));
    set_image(f, "v2");
    for (int i = 0; i < 2000 && !(is_up(f, 3) && nodes_with(f, "v2").size() == 3); ++i) {
      f.rest(std::chrono::milliseconds(10));
      ASSERT_GE(f.count_ready(), 3u);
      ASSERT_LE(f.active().size(), 4u);
    }
    EXPECT_EQ(nodes_with(f, "v2").size(), 3u);
  });
}

TEST(DaemonSet, OnDeleteLeavesPodsAlone) {
  with_nodes(2, [](Fixture& f) {
    apply(f, ", updateStrategy: {type: OnDelete}");
    ASSERT_TRUE(f.wait([&] { return is_up(f, 2); }));
    set_image(f, "v2");
    f.rest(seconds(20));
    EXPECT_EQ(nodes_with(f, "v1").size(), 2u);
    EXPECT_EQ(status(f, "updatedNumberScheduled"), 0);
    f.cluster.remove(resources::kPods, "default", f.pods()[0].string_at({"metadata", "name"}));
    EXPECT_TRUE(f.wait([&] { return nodes_with(f, "v2").size() == 1; }));
    EXPECT_EQ(nodes_with(f, "v1").size(), 1u);
  });
}

TEST(DaemonSet, PodsThatEndComeBackButNotTooOften) {
  with_nodes(
      1,
      [](Fixture& f) {
        apply(f);
        f.rest(minutes(10));
        // 1, 2, 4, ... seconds: about nine in ten minutes.
        EXPECT_GE(f.kubelet.names().size(), 6u);
        EXPECT_LE(f.kubelet.names().size(), 12u);
        const auto reasons = f.event_reasons("d");
        EXPECT_NE(std::find(reasons.begin(), reasons.end(), "FailedDaemonPod"), reasons.end());
      },
      [](const Pod&) { return Fate{.run_for = std::chrono::milliseconds(100), .exit_code = 1}; });
}

}  // namespace
}  // namespace basalt::workloads
