// Groups whose pods do not exist yet are let in when evictions could make their room; who is evicted then, and who
// never.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "scheduler/testing/planner_world.h"

namespace basalt::scheduler {
namespace {

using namespace testing;
using namespace std::chrono_literals;

// A cluster of ten nodes with four cpus each, and classes of priority.
constexpr int kCluster = 40;

void make_cluster(PlannerWorld& world) {
  world.apply(priority_class_yaml("high", 1000) + priority_class_yaml("middle", 100) + priority_class_yaml("low", 10));
  for (int i = 0; i < 10; ++i) world.apply(node_yaml("n" + std::to_string(i), 4));
}

// A gang as a job makes it: the group first, with its minResources; the pods when it was let in.
GangOptions as_job(GangOptions gang) {
  gang.group_spec += ", minResources: {cpu: '" + std::to_string(gang.min_member) + "'}";
  return gang;
}

void submit(PlannerWorld& world, const std::string& name, const GangOptions& gang) {
  world.apply(group_yaml(name, as_job(gang)));
  world.settle();
  if (world.phase(name) != GroupPhase::Inqueue) return;
  for (int i = 0; i < gang.pods; ++i) world.apply(pod_yaml(name, i, gang));
  world.settle();
}

std::set<std::string> gangs_evicted(const PlannerWorld& world) {
  std::set<std::string> gangs;
  for (const auto& [pod, message] : world.victims) gangs.insert(pod.substr(0, pod.rfind('-')));
  return gangs;
}

TEST(Admit, AGangOfTheSizeOfTheClusterPreemptsItsWholeQueue) {
  PlannerWorld world;
  make_cluster(world);
  for (int i = 0; i < 5; ++i)
    submit(world, "low" + std::to_string(i),
           {.min_member = 8, .pods = 8, .priority_class = "low", .created_minute = i});
  submit(world, "huge", {.min_member = kCluster, .pods = kCluster, .priority_class = "high", .created_minute = 9});
  EXPECT_EQ(world.kind("huge"), PendingKind::MakingRoom);
  EXPECT_EQ(world.victims.size(), 40u);
  // A second one of the same priority is not let in for the same victims.
  submit(world, "second", {.min_member = kCluster, .pods = kCluster, .priority_class = "high", .created_minute = 10});
  EXPECT_EQ(world.phase("second"), GroupPhase::Pending);
  EXPECT_EQ(world.kind("second"), PendingKind::ClusterFull);
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("huge"), kCluster);
}

TEST(Admit, WithoutVictimsOrRightsTheGangStaysOutside) {
  const struct {
    const char* what;
    GangOptions running;
    GangOptions wanting;
    bool preempt;
  } cases[] = {
      {"same priority", {.priority_class = "high"}, {.priority_class = "high"}, true},
      {"not preemptable", {.annotations = ", volcano.sh/preemptable: 'false'"}, {.priority_class = "high"}, true},
      {"never preempts", {}, {.priority_class = "polite"}, true},
      {"preemption is off", {}, {.priority_class = "high"}, false},
      {"more than the cluster has", {}, {.min_member = kCluster + 1, .priority_class = "high"}, true},
  };
  for (const auto& c : cases) {
    PlannerOptions options = PlannerWorld::quick();
    options.preempt = c.preempt;
    PlannerWorld world(options);
    make_cluster(world);
    world.apply(priority_class_yaml("polite", 2000, "preemptionPolicy: Never\n"));
    GangOptions running = c.running;
    running.min_member = running.pods = kCluster;
    submit(world, "running", running);
    ASSERT_EQ(world.placed("running"), kCluster) << c.what;
    GangOptions wanting = c.wanting;
    wanting.min_member = std::max(wanting.min_member, kCluster);
    wanting.pods = wanting.min_member;
    wanting.created_minute = 1;
    submit(world, "wanting", wanting);
    EXPECT_EQ(world.phase("wanting"), GroupPhase::Pending) << c.what;
    EXPECT_EQ(world.kind("wanting"),
              wanting.min_member > kCluster ? PendingKind::ClusterTooSmall : PendingKind::ClusterFull)
        << c.what;
    EXPECT_TRUE(world.victims.empty()) << c.what;
  }
}

TEST(Admit, WhatMayBePreemptedFollowsThePods) {
  PlannerWorld world;
  make_cluster(world);
  const GangOptions firm{.min_member = kCluster, .pods = kCluster, .annotations = ", volcano.sh/preemptable: 'false'"};
  submit(world, "firm", firm);
  const auto held = [&] {
    std::int64_t cpu = 0;
    for (const auto& [priority, amounts] : world.snapshot.queues()[world.snapshot.find_queue("default")].evictable)
      cpu += at(amounts, ResourceTable::kCpu);
    return cpu;
  };
  EXPECT_EQ(held(), 0);
  // One pod allows it now; then its group gets another priority, then another queue, then it goes.
  GangOptions soft = firm;
  soft.annotations = "";
  soft.spec = ", nodeName: " + world.node_of("firm-0");
  world.apply(pod_yaml("firm", 0, soft));
  EXPECT_EQ(held(), 1000);
  GangOptions raised = as_job(firm);
  raised.priority_class = "middle";
  world.apply(group_yaml("firm", raised));
  EXPECT_EQ(held(), 1000);
  EXPECT_EQ(world.snapshot.queues()[world.snapshot.find_queue("default")].evictable.begin()->first, 100);
  world.apply(queue_yaml("other"));
  raised.queue = "other";
  world.apply(group_yaml("firm", raised));
  EXPECT_EQ(held(), 0);
  raised.queue = "default";
  world.apply(group_yaml("firm", raised));
  EXPECT_EQ(held(), 1000);
  world.remove_pod("firm-0");
  EXPECT_EQ(held(), 0);
  EXPECT_TRUE(world.snapshot.queues()[world.snapshot.find_queue("default")].evictable.empty());
}

TEST(Admit, AFullQueueLetsInWhatMayPreemptInIt) {
  PlannerWorld world;
  make_cluster(world);
  world.apply(queue_yaml("q", "{weight: 1, capability: {cpu: 8}}"));
  submit(world, "low", {.min_member = 8, .pods = 8, .queue = "q", .priority_class = "low"});
  submit(world, "same", {.min_member = 8, .pods = 8, .queue = "q", .priority_class = "low", .created_minute = 1});
  EXPECT_EQ(world.phase("same"), GroupPhase::Pending);
  EXPECT_EQ(world.kind("same"), PendingKind::QueueCapability);
  submit(world, "high", {.min_member = 8, .pods = 8, .queue = "q", .priority_class = "high", .created_minute = 2});
  EXPECT_EQ(world.victims.size(), 8u);
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("high"), 8);
}

// Reclaim.

TEST(Admit, AQueueBelowItsDueReclaimsMoreThanTheSlack) {
  PlannerWorld world;
  make_cluster(world);
  world.apply(queue_yaml("a", "{weight: 1, deserved: {cpu: 10}}") +
              queue_yaml("b", "{weight: 1, deserved: {cpu: 30}}"));
  for (int i = 0; i < 10; ++i)
    submit(world, "a" + std::to_string(i), {.min_member = 4, .pods = 4, .queue = "a", .created_minute = i});
  submit(world, "b", {.min_member = 28, .pods = 28, .queue = "b", .created_minute = 20});
  EXPECT_EQ(world.kind("b"), PendingKind::MakingRoom);
  EXPECT_EQ(gangs_evicted(world), (std::set<std::string>{"a3", "a4", "a5", "a6", "a7", "a8", "a9"}));
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("b"), 28);
  // Beyond its due it takes nothing more.
  submit(world, "b2", {.min_member = 10, .pods = 10, .queue = "b", .created_minute = 21});
  EXPECT_EQ(world.phase("b2"), GroupPhase::Pending);
  EXPECT_TRUE(world.victims.empty());
}

TEST(Admit, WhatIsGuaranteedIsNotReclaimed) {
  PlannerWorld world;
  make_cluster(world);
  // Its due in cpu is small, but so much memory is guaranteed to it that no gang of it may go.
  world.apply(queue_yaml("a", "{weight: 1, deserved: {cpu: 4}, guarantee: {resource: {memory: 40Mi}}}") +
              queue_yaml("b", "{weight: 1, deserved: {cpu: 36}}"));
  GangOptions gang{.min_member = 4, .pods = 4, .queue = "a"};
  gang.cpu = "1', memory: '1Mi";
  for (int i = 0; i < 10; ++i) {
    gang.created_minute = i;
    submit(world, "a" + std::to_string(i), gang);
  }
  submit(world, "b", {.min_member = 4, .pods = 4, .queue = "b", .created_minute = 20});
  EXPECT_TRUE(world.victims.empty());
  EXPECT_EQ(world.placed("b"), 0);
  // With less guaranteed it is only so much that goes.
  world.apply(queue_yaml("a", "{weight: 1, deserved: {cpu: 4}, guarantee: {resource: {memory: 36Mi}}}"));
  world.settle();
  EXPECT_EQ(gangs_evicted(world), std::set<std::string>{"a9"});
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("b"), 4);
  submit(world, "b2", {.min_member = 4, .pods = 4, .queue = "b", .created_minute = 21});
  EXPECT_TRUE(world.victims.empty());
}

TEST(Admit, PriorityAndDueTogetherMakeTheRoom) {
  PlannerWorld world;
  make_cluster(world);
  world.apply(queue_yaml("a") + queue_yaml("b"));
  submit(world, "own", {.min_member = 8, .pods = 8, .queue = "b", .priority_class = "low"});
  for (int i = 0; i < 8; ++i)
    submit(world, "a" + std::to_string(i), {.min_member = 4, .pods = 4, .queue = "a", .created_minute = i});
  // Half of the cluster is its due: neither the eight of its own queue nor the twelve beyond the other's due suffice.
  submit(world, "big", {.min_member = 20, .pods = 20, .queue = "b", .priority_class = "high", .created_minute = 20});
  EXPECT_EQ(gangs_evicted(world), (std::set<std::string>{"own", "a5", "a6", "a7"}));
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("big"), 20);
}

TEST(Admit, BelowAFullParentASiblingGivesBack) {
  PlannerWorld world;
  make_cluster(world);
  world.apply(queue_yaml("team", "{weight: 1, capability: {cpu: 16}}") + queue_yaml("a", "{weight: 1, parent: team}") +
              queue_yaml("b", "{weight: 1, parent: team}"));
  for (int i = 0; i < 4; ++i)
    submit(world, "a" + std::to_string(i), {.min_member = 4, .pods = 4, .queue = "a", .created_minute = i});
  ASSERT_EQ(world.placed("a3"), 4);
  submit(world, "b", {.min_member = 8, .pods = 8, .queue = "b", .created_minute = 20});
  EXPECT_EQ(gangs_evicted(world), (std::set<std::string>{"a2", "a3"}));
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("b"), 8);
}

// Who goes.

TEST(Victims, LowestPriorityThenNewestAndNoMoreGangsThanNeeded) {
  PlannerWorld world;
  make_cluster(world);
  submit(world, "middle", {.min_member = 8, .pods = 8, .priority_class = "middle", .created_minute = 8});
  submit(world, "old", {.min_member = 8, .pods = 8, .priority_class = "low", .created_minute = 1});
  submit(world, "newer", {.min_member = 8, .pods = 8, .priority_class = "low", .created_minute = 3});
  submit(world, "newest", {.min_member = 4, .pods = 4, .priority_class = "low", .created_minute = 5});
  submit(world, "older", {.min_member = 12, .pods = 12, .priority_class = "low", .created_minute = 2});
  ASSERT_EQ(world.placed("older"), 12);
  submit(world, "high", {.min_member = 10, .pods = 10, .priority_class = "high", .created_minute = 9});
  EXPECT_EQ(gangs_evicted(world), (std::set<std::string>{"newest", "newer"}));
  EXPECT_EQ(world.victims.size(), 12u) << "a gang goes as a whole";
}

TEST(Victims, OneGangThatSufficesGoesAlone) {
  PlannerWorld world;
  make_cluster(world);
  submit(world, "large", {.min_member = 20, .pods = 20, .priority_class = "low", .created_minute = 1});
  for (int i = 0; i < 5; ++i)
    submit(world, "s" + std::to_string(i), {.min_member = 4, .pods = 4, .priority_class = "low", .created_minute = 2});
  submit(world, "high", {.min_member = 24, .pods = 24, .priority_class = "high", .created_minute = 9});
  EXPECT_EQ(gangs_evicted(world).size(), 2u) << "the large one and one more; the other four are not touched";
}

TEST(Victims, SparePodsOfTheSamePriorityGoBeforeAnyGang) {
  PlannerWorld world;
  make_cluster(world);
  submit(world, "elastic", {.min_member = 4, .pods = 20, .priority_class = "low", .created_minute = 1});
  submit(world, "firm", {.min_member = 20, .pods = 20, .priority_class = "low", .created_minute = 5});
  submit(world, "high", {.min_member = 16, .pods = 16, .priority_class = "high", .created_minute = 9});
  EXPECT_EQ(gangs_evicted(world), std::set<std::string>{"elastic"});
  EXPECT_EQ(world.victims.size(), 16u);
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("elastic"), 4);
  EXPECT_EQ(world.placed("high"), 16);
}

TEST(Victims, NobodyGoesIfTheNodesWouldStillNotDo) {
  PlannerWorld world;
  make_cluster(world);
  for (int i = 0; i < 10; ++i)
    submit(world, "low" + std::to_string(i),
           {.min_member = 4, .pods = 4, .priority_class = "low", .created_minute = i});
  // As a sum it fits, but no node has five cpus.
  GangOptions wide{.min_member = 8, .pods = 8, .cpu = "5", .priority_class = "high", .created_minute = 20};
  wide.group_spec = ", minResources: {cpu: '40'}";
  world.apply(gang_yaml("wide", wide));
  world.settle();
  EXPECT_EQ(world.phase("wide"), GroupPhase::Inqueue);
  EXPECT_EQ(world.kind("wide"), PendingKind::NoRoom);
  EXPECT_TRUE(world.victims.empty());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(world.placed("low" + std::to_string(i)), 4);
}

// Many small gangs: the search stays short, and those that go are exactly as many as are needed.
TEST(Victims, AmongManyOnlyAsManyAsNeeded) {
  PlannerWorld world;
  world.apply(priority_class_yaml("high", 1000) + priority_class_yaml("low", 10));
  for (int i = 0; i < 25; ++i) world.apply(node_yaml("n" + std::to_string(i), 32));
  for (int i = 0; i < 800; ++i)
    world.apply(gang_yaml("s" + std::to_string(i), {.min_member = 1, .pods = 1, .priority_class = "low"}));
  world.settle();
  submit(world, "high", {.min_member = 700, .pods = 700, .priority_class = "high", .created_minute = 9});
  EXPECT_EQ(world.victims.size(), 700u);
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("high"), 700);
}

}  // namespace
}  // namespace basalt::scheduler
