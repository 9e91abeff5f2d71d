#include "scheduler/plan.h"

#include <gtest/gtest.h>

#include <set>

#include "api/conditions.h"
#include "scheduler/explain.h"
#include "scheduler/testing/planner_world.h"

namespace basalt::scheduler {
namespace {

using namespace testing;
using namespace std::chrono_literals;

// All or nothing.

TEST(Plan, GangIsPlacedAsAWholeOrNotAtAll) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 3));
  world.apply(gang_yaml("big", {.min_member = 4, .pods = 4}) + gang_yaml("fits", {.min_member = 3, .pods = 3}));
  world.settle();
  EXPECT_EQ(world.placed("big"), 0);
  EXPECT_EQ(world.placed("fits"), 3);
  EXPECT_EQ(world.phase("big"), GroupPhase::Inqueue);
  EXPECT_EQ(world.phase("fits"), GroupPhase::Running);
}

TEST(Plan, TooFewPodsWaitForTheOthers) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 8));
  GangOptions gang{.min_member = 3, .pods = 2};
  world.apply(gang_yaml("g", gang));
  world.settle();
  EXPECT_EQ(world.placed("g"), 0);
  EXPECT_EQ(world.kind("g"), PendingKind::NotEnoughPods);
  EXPECT_EQ(world.reason("g").text, "2/3 pods of the gang exist");
  world.apply(pod_yaml("g", 2, gang));
  world.settle();
  EXPECT_EQ(world.placed("g"), 3);
}

TEST(Plan, MoreThanTheMinimumFollowsOneByOne) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4));
  world.apply(gang_yaml("g", {.min_member = 2, .pods = 6}));
  world.settle();
  EXPECT_EQ(world.placed("g"), 4);
  EXPECT_EQ(world.phase("g"), GroupPhase::Running);
  world.apply(node_yaml("n2", 1));
  world.settle();
  EXPECT_EQ(world.placed("g"), 5);
}

TEST(Plan, MinimumOfEveryGangComesBeforeTheRestOfAny) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4));
  world.apply(gang_yaml("a", {.min_member = 1, .pods = 4}) +
              gang_yaml("b", {.min_member = 2, .pods = 2, .created_minute = 1}));
  world.settle();
  EXPECT_EQ(world.placed("a"), 2);
  EXPECT_EQ(world.placed("b"), 2);
}

TEST(Plan, MinTaskMemberOfMoreThanTheGangDoesNotHoldIt) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 3));
  world.apply(gang_yaml("g", {.min_member = 1,
                              .pods = 1,
                              .group_spec = ", minTaskMember: {first: 1, second: 2}",
                              .labels = ", volcano.sh/task-spec: first"}));
  world.settle();
  EXPECT_EQ(world.placed("g"), 1) << "the second task is created when the first one runs";
}

TEST(Plan, MinTaskMemberHoldsTaskByTask) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 3));
  GangOptions master{.min_member = 3,
                     .pods = 1,
                     .group_spec = ", minTaskMember: {master: 1, worker: 2}",
                     .labels = ", volcano.sh/task-spec: master"};
  world.apply(gang_yaml("g", master));
  world.settle();
  EXPECT_EQ(world.kind("g"), PendingKind::NotEnoughPods);
  GangOptions worker = master;
  worker.labels = ", volcano.sh/task-spec: worker";
  world.apply(pod_yaml("g", 1, worker));
  GangOptions other = master;
  other.labels = ", volcano.sh/task-spec: other";
  world.apply(pod_yaml("g", 2, other));
  world.settle();
  EXPECT_EQ(world.kind("g"), PendingKind::NotEnoughPodsOfTask);
  EXPECT_EQ(world.reason("g").text, "1/2 pods of task \"worker\" exist");
  world.apply(pod_yaml("g", 3, worker));
  world.settle();
  EXPECT_EQ(world.placed("g"), 3);
  EXPECT_EQ(world.node_of("g-2"), "") << "what no task needs does not take the place of what one needs";
}

TEST(Plan, SubGroupsAreCompleteOrAbsent) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 3));
  GangOptions gang{
      .min_member = 2,
      .pods = 0,
      .group_spec = ", subGroupPolicy: [{name: s, subGroupSize: 2, minSubGroups: 1, matchLabelKeys: [part]}]"};
  world.apply(group_yaml("g", gang));
  const auto pod = [&](int index, const std::string& part) {
    GangOptions with = gang;
    with.labels = ", part: " + part;
    world.apply(pod_yaml("g", index, with));
  };
  pod(0, "a");
  pod(1, "b");
  world.settle();
  EXPECT_EQ(world.kind("g"), PendingKind::NotEnoughSubGroups);
  EXPECT_EQ(world.placed("g"), 0);
  pod(2, "b");
  world.settle();
  EXPECT_EQ(world.node_of("g-0"), "");
  EXPECT_EQ(world.placed("g"), 2);
  pod(3, "a");
  world.settle();
  EXPECT_EQ(world.placed("g"), 2) << "one CPU is left and a sub-group needs two";
  world.apply(node_yaml("n2", 1));
  world.settle();
  EXPECT_EQ(world.placed("g"), 4);
}

// Nodes.

TEST(Plan, SelectorsTaintsPortsAndDevices) {
  PlannerWorld world;
  world.apply(node_yaml("plain", 8) + node_yaml("ssd", 8, ", disk: ssd") +
              node_yaml("tainted", 8, ", disk: hdd", "{taints: [{key: gpu, value: a, effect: NoSchedule}]}") +
              node_yaml("cordoned", 8, ", disk: hdd", "{unschedulable: true}") +
              node_yaml("device", 8, "", "{}", ", example.com/gpu: '2'"));
  const auto one = [&](const std::string& name, const std::string& spec) {
    world.apply(gang_yaml(name, {.min_member = 1, .pods = 1, .spec = spec}));
  };
  one("select", ", nodeSelector: {disk: ssd}");
  one("hdd", ", nodeSelector: {disk: hdd}");
  one("tolerate", ", nodeSelector: {disk: hdd}, tolerations: [{key: gpu, operator: Exists}]");
  one("affine",
      ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
      "[{matchExpressions: "
      "[{key: disk, operator: NotIn, values: [hdd, ssd]}, {key: kubernetes.io/hostname, operator: In, values: "
      "[plain]}]}]}}}");
  one("wish",
      ", affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, preference: "
      "{matchExpressions: [{key: disk, operator: Exists}]}}]}}");
  world.apply(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: gpu}\nspec: {schedulerName: volcano, containers: [{name: c, image: "
      "i, resources: {limits: {example.com/gpu: 1}}}]}\n");
  for (const char* name : {"p1", "p2"}) {
    world.apply(std::string("apiVersion: v1\nkind: Pod\nmetadata: {name: ") + name +
                "}\nspec: {schedulerName: volcano, nodeSelector: {disk: ssd}, containers: [{name: c, image: i, ports: "
                "[{containerPort: 80, hostPort: 8080}]}]}\n");
  }
  world.settle();
  EXPECT_EQ(world.node_of("select-0"), "ssd");
  EXPECT_EQ(world.node_of("hdd-0"), "");
  EXPECT_EQ(
      world.reason("hdd").text,
      "0/1 pods fit; of 5 nodes 1 unschedulable, 3 did not match the node selector, 1 had a taint that the pod does "
      "not tolerate");
  EXPECT_EQ(world.node_of("tolerate-0"), "tainted");
  EXPECT_EQ(world.node_of("affine-0"), "plain");
  EXPECT_EQ(world.node_of("wish-0"), "ssd");
  EXPECT_EQ(world.node_of("gpu"), "device");
  EXPECT_NE(world.node_of("p1").empty(), world.node_of("p2").empty()) << "one host port, two pods";
}

TEST(Plan, PodAffinityAndAntiAffinity) {
  PlannerWorld world;
  for (const char* name : {"a1", "a2", "b1"}) world.apply(node_yaml(name, 8, std::string(", zone: ") + name[0]));
  const std::string term = "[{labelSelector: {matchLabels: {gang: ";
  world.apply(gang_yaml(
      "apart", {.min_member = 2,
                .pods = 2,
                .spec = ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " + term +
                        "apart}}, topologyKey: zone}]}}"}));
  world.settle();
  EXPECT_EQ((std::set<char>{world.node_of("apart-0")[0], world.node_of("apart-1")[0]}), (std::set<char>{'a', 'b'}));
  world.apply(gang_yaml("near", {.min_member = 2,
                                 .pods = 2,
                                 .spec = ", affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
                                         term + "near}}, topologyKey: kubernetes.io/hostname}]}}",
                                 .created_minute = 1}));
  world.settle();
  EXPECT_EQ(world.node_of("near-0"), world.node_of("near-1"));
  EXPECT_EQ(world.placed("near"), 2);
  world.apply(gang_yaml(
      "third", {.min_member = 3,
                .pods = 3,
                .spec = ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " + term +
                        "third}}, topologyKey: zone}]}}",
                .created_minute = 2}));
  world.settle();
  EXPECT_EQ(world.placed("third"), 0) << "two zones, three pods that keep apart";
}

TEST(Plan, PackFillsNodesAndSpreadSharesThem) {
  for (const Strategy strategy : {Strategy::Pack, Strategy::Spread}) {
    PlannerOptions options = PlannerWorld::quick();
    options.strategy = strategy;
    PlannerWorld world(options);
    for (int n = 0; n < 4; ++n) world.apply(node_yaml("n" + std::to_string(n), 4));
    world.apply(gang_yaml("g", {.min_member = 4, .pods = 4}));
    world.settle();
    std::set<std::string> nodes;
    for (int i = 0; i < 4; ++i) nodes.insert(world.node_of("g-" + std::to_string(i)));
    EXPECT_EQ(nodes.size(), strategy == Strategy::Pack ? 1u : 4u);
  }
}

TEST(Plan, BestEffortPodsFillWhatIsFull) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 2) + queue_yaml("small", "{weight: 1, capability: {cpu: 2}}"));
  world.apply(gang_yaml("busy", {.min_member = 2, .pods = 2, .queue = "small"}));
  world.apply(gang_yaml("free", {.min_member = 3, .pods = 3, .cpu = "", .queue = "small", .created_minute = 1}));
  world.settle();
  EXPECT_EQ(world.placed("busy"), 2);
  EXPECT_EQ(world.placed("free"), 3) << "they ask for nothing, so neither node nor queue is in their way";
}

TEST(Plan, ShardsHardAndSoft) {
  for (const ShardMode mode : {ShardMode::None, ShardMode::Soft, ShardMode::Hard}) {
    PlannerOptions options = PlannerWorld::quick();
    options.shard_mode = mode;
    PlannerWorld world(options, mode == ShardMode::Hard);
    world.apply(node_yaml("inside", 2) + node_yaml("outside", 4));
    if (mode != ShardMode::None) world.snapshot.set_shard(true, {"inside"});
    world.apply(gang_yaml("first", {.min_member = 2, .pods = 2}));
    world.settle();
    if (mode != ShardMode::None) {
      EXPECT_EQ(world.node_of("first-0"), "inside");
    }
    world.apply(gang_yaml("second", {.min_member = 2, .pods = 2, .created_minute = 1}));
    world.settle();
    EXPECT_EQ(world.placed("second"), mode == ShardMode::Hard ? 0 : 2);
    if (mode == ShardMode::Hard) {
      EXPECT_NE(world.reason("second").text.find("1 node isn't in scheduler node shard"), std::string::npos)
          << world.reason("second").text;
    }
  }
}

// What is said.

TEST(Plan, EveryWaitingGroupSaysWhyWithNumbers) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4));
  world.apply(gang_yaml("holds", {.min_member = 3, .pods = 3}));
  world.settle();
  world.apply(gang_yaml("first", {.min_member = 3, .pods = 3, .created_minute = 1}));
  world.apply(gang_yaml("second", {.min_member = 2, .pods = 2, .created_minute = 2}));
  world.settle();
  const Group& group = world.group("second");
  const auto* condition = api::find_condition(group.status.conditions, "Unschedulable");
  ASSERT_NE(condition, nullptr);
  EXPECT_EQ(condition->status, "True");
  EXPECT_EQ(condition->reason, "NotEnoughResources");
  EXPECT_EQ(condition->message, "1/2 pods fit; cpu: 2 requested, 1 free, 1 short; of 1 nodes 1 fit");
  EXPECT_EQ(condition->transition_id.substr(0, 8), "session-");
  EXPECT_FALSE(condition->last_transition_time.is_zero());
  const auto reason = decode_reason(group.status.pending);
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->kind, PendingKind::NoRoom);
  EXPECT_EQ(reason->needed, 2);
  EXPECT_EQ(reason->fitted, 1);
  EXPECT_EQ(reason->position, 2u);
  EXPECT_EQ(reason->waiting, 2u);
  EXPECT_EQ(reason->ahead, "default/first");
  EXPECT_EQ(reason->holder, "default/holds");
  EXPECT_EQ(reason->unblock, "1 of cpu becoming free on nodes that match; most of it is held by default/holds");
  ASSERT_EQ(reason->shortages.size(), 1u);
  EXPECT_EQ(reason->shortages[0], (ResourceShortage{"cpu", "2", "1", "1"}));
  // When it runs, nothing of this is left.
  world.apply(node_yaml("n2", 8));
  world.settle();
  EXPECT_EQ(world.phase("second"), GroupPhase::Running);
  EXPECT_EQ(group.status.pending, "");
  EXPECT_EQ(api::find_condition(group.status.conditions, "Unschedulable"), nullptr);
  const auto* placed = api::find_condition(group.status.conditions, "Scheduled");
  ASSERT_NE(placed, nullptr);
  EXPECT_EQ(placed->status, "True");
  EXPECT_EQ(placed->reason, "tasks in gang are ready to be scheduled");
}

// users.md C, volcano#4971: the text follows the numbers.
TEST(Plan, UsersC_NumbersAreBroughtUpToDate) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 1));
  world.apply(gang_yaml("g", {.min_member = 4, .pods = 4}));
  world.settle();
  EXPECT_NE(world.group("g").status.pending.find("1/4 pods fit"), std::string::npos);
  world.apply(node_yaml("n2", 2));
  world.settle();
  world.cycle(31s);
  EXPECT_NE(world.group("g").status.pending.find("3/4 pods fit"), std::string::npos) << world.group("g").status.pending;
  // And a quiet cluster is not written to.
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(world.cycle(31s).statuses.empty());
}

// users.md C, volcano#1295: what can never fit is called so.
TEST(Plan, UsersC_WhatIsLargerThanTheClusterIsCalledSo) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4));
  world.apply(gang_yaml("g", {.min_member = 8, .pods = 0, .group_spec = ", minResources: {cpu: 8}"}));
  world.settle();
  EXPECT_EQ(world.phase("g"), GroupPhase::Pending);
  EXPECT_EQ(world.kind("g"), PendingKind::ClusterTooSmall);
  EXPECT_EQ(world.reason("g").text, "the gang needs more than all nodes have: cpu: 8 requested, 4 free, 4 short");
  EXPECT_EQ(world.reason("g").unblock, "it can never fit as it is: add nodes with 4 of cpu, or ask for less");
}

TEST(Plan, GatedPodsAndMissingGroupsAreNamed) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4));
  world.apply(gang_yaml("gated", {.min_member = 2, .pods = 2, .spec = ", schedulingGates: [{name: hold}]"}));
  world.apply(pod_yaml("orphan", 0, {}));
  world.settle();
  world.settle();
  EXPECT_EQ(world.kind("orphan"), PendingKind::GroupMissing);
  EXPECT_EQ(world.placed("gated"), 0);
}

TEST(Plan, PhasesFollowThePods) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 2) + node_yaml("n2", 1));
  GangOptions gang{.min_member = 3, .pods = 3};
  world.apply(gang_yaml("g", gang));
  world.settle();
  for (int i = 0; i < 3; ++i) world.set_phase("g-" + std::to_string(i), "Running");
  world.settle();
  EXPECT_EQ(world.phase("g"), GroupPhase::Running);
  world.cycle(2s);
  EXPECT_EQ(world.group("g").status.running, 3);
  // A node is lost with its pod; the new pod finds no room.
  world.remove_node("n2");
  std::string lost;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "g-" + std::to_string(i);
    if (world.node_of(name) == "n2") lost = name;
  }
  ASSERT_FALSE(lost.empty());
  world.remove_pod(lost);
  world.apply(pod_yaml("g", 9, gang));
  world.settle();
  EXPECT_EQ(world.phase("g"), GroupPhase::Unknown);
  world.apply(node_yaml("n3", 1));
  world.settle();
  EXPECT_EQ(world.phase("g"), GroupPhase::Running);
  for (const char* name : {"g-0", "g-1", "g-2", "g-9"}) {
    if (name != lost) world.set_phase(name, "Succeeded");
  }
  world.cycle(2s);
  world.settle();
  EXPECT_EQ(world.phase("g"), GroupPhase::Completed);
  EXPECT_EQ(world.group("g").status.succeeded, 3);
}

}  // namespace
}  // namespace basalt::scheduler
