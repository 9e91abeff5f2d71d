// When a gang that waits says so, with the delays that users get.
#include <gtest/gtest.h>

#include <string>

#include "scheduler/explain.h"
#include "scheduler/testing/planner_world.h"

namespace basalt::scheduler {
namespace {

using namespace testing;
using namespace std::chrono_literals;

// What the annotation of the group says that was written in this cycle; None if nothing was.
PendingReason said_in(PlannerWorld& world, const Plan& plan, const std::string& group) {
  for (const StatusDecision& status : plan.statuses) {
    if (world.snapshot.groups()[status.group].key.name != group) continue;
    return decode_reason(status.status.pending).value_or(PendingReason());
  }
  return {};
}

TEST(Say, UsersC_WhyItWaitsIsSaidInTheCycleThatFindsOut) {
  struct Case {
    const char* what;
    PendingKind kind;
    GangOptions gang;
  };
  const std::string minimum = ", minResources: {cpu: '";
  const Case cases[] = {
      {"missing queue", PendingKind::QueueMissing, {.queue = "nowhere"}},
      {"closed queue", PendingKind::QueueClosed, {.queue = "shut"}},
      {"limit, before pods", PendingKind::QueueCapability, {.queue = "small", .group_spec = minimum + "2'}"}},
      {"limit, with pods", PendingKind::QueueCapability, {.queue = "small"}},
      {"more than the cluster", PendingKind::ClusterTooSmall, {.group_spec = minimum + "9'}"}},
      {"full cluster", PendingKind::ClusterFull, {.group_spec = minimum + "4'}"}},
      {"no room", PendingKind::NoRoom, {.min_member = 4, .pods = 4}},
      {"no such node", PendingKind::NoRoom, {.spec = ", nodeSelector: {disk: ssd}"}},
      {"gated", PendingKind::Gated, {.spec = ", schedulingGates: [{name: hold}]"}},
  };
  for (const Case& c : cases) {
    PlannerWorld world((PlannerOptions()));
    world.apply(node_yaml("n1", 5) + queue_yaml("shut", "{weight: 1}", "Closed") +
                queue_yaml("small", "{weight: 1, capability: {cpu: 1}}"));
    world.apply(gang_yaml("holds", {.min_member = 3, .pods = 3}));
    world.settle();
    ASSERT_EQ(world.placed("holds"), 3);
    GangOptions gang = c.gang;
    gang.created_minute = 1;
    world.apply(gang_yaml("g", gang));
    const PendingReason said = said_in(world, world.cycle(1ms), "g");
    EXPECT_EQ(said.kind, c.kind) << c.what << ": " << to_string(said.kind);
    EXPECT_FALSE(said.text.empty()) << c.what;
    EXPECT_FALSE(said.unblock.empty()) << c.what;
    EXPECT_EQ(said.needed, gang.min_member) << c.what;
    const bool is_short = c.kind == PendingKind::QueueCapability || c.kind == PendingKind::ClusterTooSmall ||
                          c.kind == PendingKind::ClusterFull || gang.min_member == 4;
    EXPECT_EQ(said.shortages.empty(), !is_short) << c.what << ": " << said.text;
  }
}

TEST(Say, PodsThatAreBeingMadeAreAwaitedForAMoment) {
  PlannerWorld world((PlannerOptions()));
  world.apply(node_yaml("n1", 4));
  world.apply(group_yaml("none", {.min_member = 3}) + gang_yaml("few", {.min_member = 3, .pods = 1}));
  const Plan first = world.cycle(1ms);
  EXPECT_EQ(said_in(world, first, "none").kind, PendingKind::None);
  EXPECT_EQ(said_in(world, first, "few").kind, PendingKind::None);
  EXPECT_EQ(world.kind("none"), PendingKind::NotEnoughPods);
  EXPECT_LE(first.wake_at, world.now + 1s) << "it comes back by itself";
  world.cycle(1ms);
  const Plan later = world.cycle(1s);
  const PendingReason none = said_in(world, later, "none");
  EXPECT_EQ(none.kind, PendingKind::NotEnoughPods);
  EXPECT_EQ(none.text, "0/3 pods of the gang exist");
  EXPECT_EQ(said_in(world, later, "few").text, "1/3 pods of the gang exist");
  // Nothing more is written while nothing changes.
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(world.cycle(1s).statuses.empty());
  // The pods come: they run, and the reason goes.
  world.apply(pod_yaml("none", 0, {}) + pod_yaml("none", 1, {}) + pod_yaml("none", 2, {}));
  world.settle();
  EXPECT_EQ(world.placed("none"), 3);
  EXPECT_TRUE(world.group("none").status.pending.empty());
  EXPECT_EQ(world.kind("none"), PendingKind::None);
}

TEST(Say, AGroupWhosePodsAreCleanedUpIsNotSaidToWait) {
  PlannerWorld world((PlannerOptions()));
  world.apply(node_yaml("n1", 4) + gang_yaml("g", {.min_member = 2, .pods = 2}));
  world.settle();
  for (const char* pod : {"g-0", "g-1"}) world.set_phase(pod, "Succeeded");
  world.settle();
  ASSERT_EQ(world.phase("g"), GroupPhase::Completed);
  for (const char* pod : {"g-0", "g-1"}) world.remove_pod(pod);
  world.settle();
  world.cycle(2s);
  EXPECT_EQ(world.phase("g"), GroupPhase::Completed);
  EXPECT_EQ(world.kind("g"), PendingKind::None);
}

// Queues below queues.

TEST(Hierarchy, RoomIsDividedLevelByLevel) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 16) + queue_yaml("team1") + queue_yaml("team2") +
              queue_yaml("a", "{weight: 1, parent: team1}") + queue_yaml("b", "{weight: 3, parent: team1}") +
              queue_yaml("c", "{weight: 1, parent: team2}"));
  for (int i = 0; i < 16; ++i) {
    for (const char* queue : {"a", "b", "c"})
      world.apply(gang_yaml(queue + std::to_string(i), {.min_member = 1, .pods = 1, .queue = queue}));
  }
  world.settle();
  const auto placed = [&](const std::string& queue) {
    int count = 0;
    for (int i = 0; i < 16; ++i) count += world.placed(queue + std::to_string(i));
    return count;
  };
  EXPECT_EQ(placed("c"), 8) << "half for each team";
  EXPECT_EQ(placed("a"), 2) << "a quarter of the team's";
  EXPECT_EQ(placed("b"), 6);
}

TEST(Hierarchy, AQueueBelowAClosedOneTakesNothing) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4) + queue_yaml("team", "{weight: 1}", "Closed") +
              queue_yaml("a", "{weight: 1, parent: team}"));
  world.apply(gang_yaml("g", {.min_member = 1, .pods = 1, .queue = "a"}));
  world.settle();
  EXPECT_EQ(world.kind("g"), PendingKind::QueueClosed);
  world.apply(queue_yaml("team"));
  world.settle();
  EXPECT_EQ(world.placed("g"), 1);
}

TEST(Hierarchy, WhatIsGuaranteedToATeamIsKeptForItsQueues) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 8) + queue_yaml("team", "{weight: 1, guarantee: {resource: {cpu: 5}}}") +
              queue_yaml("a", "{weight: 1, parent: team}") + queue_yaml("other"));
  world.apply(gang_yaml("greedy", {.min_member = 1, .pods = 8, .queue = "other"}));
  world.settle();
  EXPECT_EQ(world.placed("greedy"), 3);
  world.apply(gang_yaml("g", {.min_member = 5, .pods = 5, .queue = "a", .created_minute = 1}));
  world.settle();
  EXPECT_EQ(world.placed("g"), 5);
  EXPECT_TRUE(world.victims.empty());
}

}  // namespace
}  // namespace basalt::scheduler
