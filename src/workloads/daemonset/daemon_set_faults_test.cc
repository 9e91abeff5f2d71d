#include <gtest/gtest.h>

#include <set>

#include "workloads/daemonset/daemon_set_plan.h"
#include "workloads/testing/workload_faults.h"

// Whatever goes wrong, each node ends with one pod of the last template, and no more than one pod of a node is made for
// each template.

namespace basalt::workloads {
namespace {

using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;

void play(Fixture& f) {
  for (const char* name : {"n0", "n1"})
    f.cluster.apply("{apiVersion: v1, kind: Node, metadata: {name: " + std::string(name) + "}}");
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {app: d}}, "
      "template: " +
      testing::pod_template("d", "v1") + "}}");
  f.rest(seconds(15));
  f.cluster.patch(resources::kDaemonSets, "default", "d",
                  R"({"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2"}]}}}})");
  f.rest(seconds(30));
}

void check_end(Fixture& f) {
  std::set<std::string> nodes;
  const auto pods = f.pods();
  for (const json::Value& pod : pods) {
    EXPECT_EQ(list_at(pod, {"spec", "containers"}).front().string_at({"image"}), "v2");
    nodes.emplace(pod.string_at({"spec", "nodeName"}));
  }
  EXPECT_EQ(pods.size(), 2u);
  EXPECT_EQ(nodes, (std::set<std::string>{"n0", "n1"}));
  EXPECT_EQ(f.number(resources::kDaemonSets, "d", {"status", "numberAvailable"}), 2);
  EXPECT_EQ(f.number(resources::kDaemonSets, "d", {"status", "updatedNumberScheduled"}), 2);
}
void check_all(Fixture& f) {
  check_end(f);
  EXPECT_EQ(f.cluster.list(resources::kRevisions, "default").size(), 2u);
  EXPECT_EQ(f.kubelet.names().size(), 4u);
}

testing::WorkloadStory story() { return testing::story_of("daemonset", &play, &check_all); }

TEST(DaemonSetFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(DaemonSetFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(DaemonSetFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(DaemonSetFaults, FailingCallsAndLateEvents) { testing::play_disturbed(story(), &check_end, 4); }

}  // namespace
}  // namespace basalt::workloads
