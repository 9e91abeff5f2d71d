#include "controllers/podgroup/pod_group_controller.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "controllers/podgroup/testing/pod_group_fixture.h"
#include "rt/sim_test_support.h"
#include "rt/test_size.h"

// The scenarios of the fact sheet (section 7, PodGroup controller), by number, and those of users' reports.

namespace basalt::controllers::podgroup {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::int_at;
using Fixture = testing::PodGroupFixture;
namespace resources = sim::resources;

void with_fixture(const std::function<void(Fixture&)>& body, const PodGroupControllerOptions& options = {}) {
  sim::play(1, 5, [&](rt::Runtime& runtime) {
    Fixture fixture(runtime, options);
    body(fixture);
  });
}

TEST(PodGroupScenario, P1P7P9_Users755_ABarePod) {
  with_fixture([](Fixture& f) {
    f.start();
    const std::string uid = f.pod("p");
    f.pod("in-q", {.annotations = "scheduling.volcano.sh/queue-name: q"});
    f.pod("foreign", {.scheduler = "default-scheduler"});
    const json::Value group = f.wait_group("p");
    EXPECT_EQ(group.string_at({"metadata", "name"}), "podgroup-" + uid);
    EXPECT_EQ(int_at(group, {"spec", "minMember"}), 1);
    EXPECT_EQ(group.string_at({"spec", "queue"}), "default");
    EXPECT_EQ(group.string_at({"status", "phase"}), "Pending");
    const json::Value& owner = group.find_path({"metadata", "ownerReferences"})->as_array().at(0);
    EXPECT_EQ(owner.string_at({"uid"}), uid);
    EXPECT_TRUE(owner.find("controller")->as_bool());
    EXPECT_EQ(f.wait_group("in-q").string_at({"spec", "queue"}), "q");
    f.rest();
    f.check();
    EXPECT_EQ(f.process->writes("podgroups"), 2u);
    EXPECT_EQ(f.process->writes("pods"), 2u);
    // volcano#755: the group goes with its pod.
    f.cluster.remove(resources::kPods, "default", "p");
    EXPECT_TRUE(f.cluster.wait_until([&] { return !f.group("podgroup-" + uid); }, seconds(10)));
    f.rest();
    f.check();
  });
}

TEST(PodGroupScenario, P3P6TheOwnerTellsTheSize) {
  with_fixture([](Fixture& f) {
    f.start();
    const std::string owner = f.workload("ReplicaSet", "rs", 3,
                                         "scheduling.volcano.sh/group-min-member: '3', volcano.sh/a: '1', "
                                         "scheduling.volcano.sh/b: '2', other/c: '3'");
    for (const char* name : {"a", "b", "c"}) f.pod(name, {.owner = owner});
    const json::Value group = f.wait_group("c");
    EXPECT_EQ(int_at(group, {"spec", "minMember"}), 3);
    EXPECT_EQ(group.string_at({"spec", "minResources", "cpu"}), "3");
    EXPECT_EQ(group.string_at({"spec", "minResources", "pods"}), "3");
    EXPECT_EQ(group.find_path({"metadata", "annotations"})->to_text(), R"({"volcano.sh/a":"1"})");  // P6
    f.rest();
    f.check();
    EXPECT_EQ(f.cluster.list(resources::kPodGroups).size(), 1u);
    EXPECT_EQ(f.process->writes("podgroups"), 1u);
    EXPECT_EQ(f.process->writes("pods"), 3u);
  });
}

TEST(PodGroupScenario, P4SizesThatAreNone) {
  with_fixture([](Fixture& f) {
    f.start();
    for (const char* size : {"x", "-2", "0"}) {
      const std::string name = size == std::string("-2") ? "negative" : size == std::string("0") ? "zero" : "word";
      f.pod(name, {.owner = f.workload("ReplicaSet", "rs-" + name, 1,
                                       "scheduling.volcano.sh/group-min-member: '" + std::string(size) + "'")});
    }
    EXPECT_EQ(int_at(f.wait_group("word"), {"spec", "minMember"}), 1);
    EXPECT_EQ(int_at(f.wait_group("negative"), {"spec", "minMember"}), 1);
    const json::Value none = f.wait_group("zero");
    EXPECT_EQ(none.find_path({"spec", "minMember"}), nullptr);
    EXPECT_EQ(none.find_path({"spec", "minResources"})->to_text(), "{}");
  });
}

TEST(PodGroupScenario, P10P15DevicesAndTopology) {
  with_fixture([](Fixture& f) {
    f.start();
    const auto pod = [&](const std::string& name, const std::string& annotations) {
      f.cluster.apply("{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: default, annotations: {" +
                      annotations +
                      "}}, spec: {schedulerName: volcano, containers: [{name: c, image: i, resources: {requests: "
                      "{nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}}]}}");
    };
    pod("soft", "volcano.sh/network-topology-mode: Soft, volcano.sh/network-topology-highest-tier: '2'");
    pod("odd", "volcano.sh/network-topology-mode: foo");
    const json::Value group = f.wait_group("soft");
    const json::Value& least = *group.find_path({"spec", "minResources"});
    EXPECT_EQ(least.string_at({"nvidia.com/gpu"}), "2");
    EXPECT_EQ(least.string_at({"requests.nvidia.com/gpu"}), "2");
    EXPECT_EQ(least.find("limits.nvidia.com/gpu"), nullptr);
    EXPECT_EQ(group.string_at({"spec", "networkTopology", "mode"}), "soft");
    EXPECT_EQ(int_at(group, {"spec", "networkTopology", "highestTierAllowed"}), 2);
    EXPECT_EQ(f.wait_group("odd").string_at({"spec", "networkTopology", "mode"}), "hard");
  });
}

TEST(PodGroupScenario, P5WithoutInheritanceTheOwnerIsNotRead) {
  with_fixture(
      [](Fixture& f) {
        f.start();
        f.pod("p", {.owner = f.workload("ReplicaSet", "rs", 3, "scheduling.volcano.sh/group-min-member: '3'")});
        EXPECT_EQ(int_at(f.wait_group("p"), {"spec", "minMember"}), 1);
        f.rest();
        for (const std::string& call : f.process->faults().call_log())
          EXPECT_EQ(call.find("Get replicasets"), std::string::npos);
      },
      {.inherit_owner_annotations = false});
}

TEST(PodGroupScenario, APodWithAGroupIsLeftAlone) {
  with_fixture([](Fixture& f) {
    f.start();
    f.pod("p", {.annotations = "scheduling.k8s.io/group-name: job-uid"});
    f.pod("odd", {.annotations = "scheduling.k8s.io/group-name: podgroup-of-somebody"});
    f.rest(minutes(1));
    EXPECT_TRUE(f.cluster.list(resources::kPodGroups).empty());
    EXPECT_EQ(f.process->writes("pods"), 0u);
    EXPECT_EQ(f.process->writes("podgroups"), 0u);
  });
}

TEST(PodGroupScenario, P11_Users1853_OldRevisionsLoseTheirGroup) {
  with_fixture([](Fixture& f) {
    f.start();
    const std::string old_owner = f.workload("ReplicaSet", "old", 1);
    f.pod("old-1", {.owner = old_owner});
    const std::string old_group(f.wait_group("old-1").string_at({"metadata", "name"}));
    f.pod("new-1", {.owner = f.workload("ReplicaSet", "new", 1)});
    f.wait_group("new-1");
    f.scale(resources::kReplicaSets, "old", 0);
    f.cluster.remove(resources::kPods, "default", "old-1", 0);
    EXPECT_TRUE(f.cluster.wait_until([&] { return !f.group(old_group); }, seconds(5)));
    f.rest();
    f.check();
  });
}

TEST(PodGroupScenario, P12AStatefulSetGoesToZeroAndBack) {
  with_fixture([](Fixture& f) {
    f.start();
    const std::string owner = f.workload("StatefulSet", "s", 1);
    f.pod("s-0", {.owner = owner});
    const std::string name(f.wait_group("s-0").string_at({"metadata", "name"}));
    f.scale(resources::kStatefulSets, "s", 0);
    f.cluster.remove(resources::kPods, "default", "s-0", 0);
    EXPECT_TRUE(f.cluster.wait_until([&] { return !f.group(name); }, seconds(5)));
    f.scale(resources::kStatefulSets, "s", 1);
    f.pod("s-0", {.owner = owner});
    EXPECT_EQ(f.wait_group("s-0").string_at({"metadata", "name"}), name);
    f.rest();
    f.check();
  });
}

// users.md, theme H: volcano#3374, #3563. Whatever the timing, the pod of the last scale has its group.
TEST(PodGroupScenario, Users3374_Users3563_AFastScaleToZeroAndBackKeepsTheGroup) {
  sim::play(1, 60, [](rt::Runtime& runtime) {
    Fixture f(runtime);
    f.start();
    f.process->faults().set_plan({.delay_max = milliseconds(20), .event_delay_max = milliseconds(50)});
    const std::string owner = f.workload("ReplicaSet", "rs", 1);
    f.pod("first", {.owner = owner});
    for (int i = 0; i < 3; ++i) {
      f.rest(milliseconds(static_cast<int>(runtime.random_below(60))));
      f.scale(resources::kReplicaSets, "rs", 0);
      if (i == 0) f.cluster.remove(resources::kPods, "default", "first", 0);
      f.rest(milliseconds(static_cast<int>(runtime.random_below(60))));
      f.scale(resources::kReplicaSets, "rs", 1);
    }
    f.pod("last", {.owner = owner});
    f.rest(seconds(10));
    f.wait_group("last");
    f.check();
  });
}

TEST(PodGroupScenario, P13EqualWorkloadsInTwoNamespacesDoNotMeet) {
  with_fixture([](Fixture& f) {
    f.cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: other}}");
    f.start();
    const std::string one = f.workload("StatefulSet", "s", 1, "scheduling.volcano.sh/group-min-member: '2'");
    const std::string two = f.workload("StatefulSet", "s", 1, {}, "other");
    f.pod("s-0", {.owner = two, .ns = "other"});
    EXPECT_EQ(int_at(f.wait_group("s-0", "other"), {"spec", "minMember"}), 1);
    f.rest();
    EXPECT_TRUE(f.cluster.list(resources::kPodGroups, "default").empty());
    f.pod("s-0", {.owner = one});
    EXPECT_EQ(int_at(f.wait_group("s-0"), {"spec", "minMember"}), 2);
    f.rest();
    EXPECT_EQ(f.cluster.list(resources::kPodGroups, "other").size(), 1u);
  });
}

TEST(PodGroupScenario, D7ANewTemplateIsFollowedAndForeignFieldsStay) {
  with_fixture([](Fixture& f) {
    f.start();
    const std::string owner = f.workload("StatefulSet", "s", 2);
    f.cluster.patch(resources::kStatefulSets, "default", "s", R"({"status":{"updateRevision":"r2","replicas":0}})",
                    "status");
    f.pod("s-0", {.owner = owner, .labels = "controller-revision-hash: r2"});
    const std::string name(f.wait_group("s-0").string_at({"metadata", "name"}));
    f.cluster.patch(
        resources::kPodGroups, "default", name,
        R"({"metadata":{"labels":{"foreign":"1"}},"spec":{"queue":"by-namespace"},"status":{"phase":"Running"}})");
    f.rest();
    f.pod("s-1", {.owner = owner, .labels = "controller-revision-hash: r2", .cpu = "5"});
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.group(name)->string_at({"spec", "minResources", "cpu"}) == "5"; },
                                     seconds(5)));
    f.wait_group("s-1");
    const json::Value group = *f.group(name);
    EXPECT_EQ(group.string_at({"spec", "queue"}), "by-namespace");
    EXPECT_EQ(group.string_at({"metadata", "labels", "foreign"}), "1");
    EXPECT_EQ(group.string_at({"status", "phase"}), "Running");
    // A pod of an older revision changes nothing.
    f.pod("s-2", {.owner = owner, .labels = "controller-revision-hash: r1", .cpu = "7"});
    f.wait_group("s-2");
    f.rest();
    EXPECT_EQ(f.group(name)->string_at({"spec", "minResources", "cpu"}), "5");
    f.check();
  });
}

TEST(PodGroupScenario, P16ARestartWritesNothingAndOldReplicaSetsCostNothing) {
  sim::play(1, 1, [](rt::Runtime& runtime) {
    Fixture f(runtime);
    f.start();
    for (int i = 0; i < 100; ++i) f.workload("ReplicaSet", "old-" + std::to_string(i), 0);
    const int pods = rt::test_size(1000);
    const std::string owner = f.workload("ReplicaSet", "rs", pods);
    for (int i = 0; i < pods; ++i)
      f.pod("p" + std::to_string(i), i % 2 == 0 ? Fixture::PodOptions{.owner = owner} : Fixture::PodOptions{});
    f.rest(seconds(10));
    f.check();
    f.stop();
    f.start();
    f.rest(minutes(10));
    for (const auto& [point, count] : f.process->faults().calls_by_point()) {
      EXPECT_TRUE(point.verb == "List" || point.verb == "Watch")
          << count << " calls of " << point.verb << " " << point.resource;
    }
    f.check();
  });
}

TEST(PodGroupScenario, P17SeveralSchedulers) {
  with_fixture(
      [](Fixture& f) {
        f.start();
        f.pod("a", {.scheduler = "a"});
        f.pod("b", {.scheduler = "b"});
        f.pod("v", {.scheduler = "volcano"});
        f.wait_group("a");
        f.wait_group("b");
        f.rest();
        EXPECT_EQ(f.group_of("v"), "");
      },
      {.scheduler_names = {"a", "b"}});
}

TEST(PodGroupScenario, ADriverAndItsExecutorsAreOneGroup) {
  with_fixture([](Fixture& f) {
    f.start();
    const std::string uid = f.pod("driver");
    f.wait_group("driver");
    f.pod("exec", {.owner = "{apiVersion: v1, kind: Pod, name: driver, uid: " + uid + ", controller: true}"});
    EXPECT_EQ(f.wait_group("exec").string_at({"metadata", "name"}), "podgroup-" + uid);
    f.rest();
    f.check();
  });
}

TEST(PodGroupScenario, AGroupDeletedUnderLivePodsComesBack) {
  with_fixture([](Fixture& f) {
    f.start();
    f.pod("bare");
    const std::string owner = f.workload("ReplicaSet", "rs", 1);
    f.pod("rs-1", {.owner = owner});
    f.pod("done");
    for (const char* name : {"bare", "rs-1", "done"}) f.wait_group(name);
    f.rest();
    f.cluster.set_pod_phase("default", "done", "Succeeded");
    f.rest();
    for (const char* name : {"bare", "rs-1", "done"})
      f.cluster.remove(resources::kPodGroups, "default", f.group_of(name));
    f.wait_group("bare");
    f.wait_group("rs-1");
    f.rest();
    EXPECT_FALSE(f.group(f.group_of("done")).has_value());  // it needs none any more
  });
}

// Says no to pod groups, as the webhook does while their queue is closed.
class ClosedQueue final : public apiserver::AdmissionHook {
 public:
  std::atomic<bool> is_closed = true;
  [[nodiscard]] bool handles(const apiserver::AdmissionRequest& request) const override {
    return request.type.plural == "podgroups";
  }
  Done mutate(apiserver::AdmissionRequest&, json::Value&) override { return Ok{}; }
  Done validate(apiserver::AdmissionRequest&, const json::Value*) override {
    if (!is_closed) return Ok{};
    return Error::make(Reason::Forbidden, "can only submit PodGroup to queue with state `Open`");
  }
};

TEST(PodGroupScenario, Users5027_ARefusalIsSaidOnThePodAndTriedAgain) {
  sim::play(1, 5, [](rt::Runtime& runtime) {
    const auto hook = std::make_shared<ClosedQueue>();
    Fixture f(runtime, {}, {hook});
    f.start();
    f.pod("p");
    f.rest(hours(1));
    EXPECT_EQ(f.group_of("p"), "");
    const auto events = f.cluster.list(resources::kEvents, "default");
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].string_at({"reason"}), "PodGroupError");
    EXPECT_NE(events[0].string_at({"message"}).find("state `Open`"), std::string::npos);
    EXPECT_LE(f.process->writes("podgroups"), 130u);  // one in 30 seconds
    EXPECT_EQ(f.process->writes("events"), 1u);
    hook->is_closed = false;
    f.wait_group("p", "default", seconds(40));
  });
}

}  // namespace
}  // namespace basalt::controllers::podgroup
