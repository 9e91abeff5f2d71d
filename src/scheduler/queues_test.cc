// Queues, priorities, and who makes room for whom.
#include "scheduler/queues.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/testing/planner_world.h"

namespace basalt::scheduler {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST(Queues, CapabilityIsALimitAlsoOfTheQueueAbove) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 16) + queue_yaml("team", "{weight: 1, capability: {cpu: 4}}") +
              queue_yaml("a", "{weight: 1, parent: team}") + queue_yaml("b", "{weight: 1, parent: team}"));
  world.apply(gang_yaml("one", {.min_member = 3, .pods = 3, .queue = "a"}));
  world.apply(gang_yaml("two", {.min_member = 2, .pods = 2, .queue = "b", .created_minute = 1}));
  world.settle();
  EXPECT_EQ(world.placed("one") + world.placed("two"), 3);
  const std::string waits = world.placed("one") == 0 ? "one" : "two";
  EXPECT_EQ(world.kind(waits), PendingKind::QueueCapability);
  EXPECT_EQ(world.reason("two").text,
            "the queue \"team\" has reached its capability: cpu: 2 requested, 1 free, 1 short");
  EXPECT_EQ(world.reason("two").holder, "default/one");
}

TEST(Queues, MinResourcesAreHeldAgainstCapabilityAtAdmission) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 16) + queue_yaml("q", "{weight: 1, capability: {cpu: 4}}"));
  const GangOptions gang{.min_member = 3, .pods = 0, .queue = "q", .group_spec = ", minResources: {cpu: 3}"};
  world.apply(group_yaml("a", gang));
  GangOptions later = gang;
  later.created_minute = 1;
  world.apply(group_yaml("b", later));
  world.settle();
  EXPECT_EQ(world.phase("a"), GroupPhase::Inqueue);
  EXPECT_EQ(world.phase("b"), GroupPhase::Pending) << "what the first will use is spoken for";
  EXPECT_EQ(world.kind("b"), PendingKind::QueueCapability);
}

TEST(Queues, ClosedAndMissingQueuesTakeNothing) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 16) + queue_yaml("shut", "{weight: 1}", "Closed"));
  world.apply(gang_yaml("a", {.min_member = 1, .pods = 1, .queue = "shut"}));
  world.apply(gang_yaml("b", {.min_member = 1, .pods = 1, .queue = "nowhere"}));
  world.settle();
  EXPECT_EQ(world.kind("a"), PendingKind::QueueClosed);
  EXPECT_EQ(world.kind("b"), PendingKind::QueueMissing);
  world.apply(queue_yaml("shut", "{weight: 1}", "Open") + queue_yaml("nowhere"));
  world.settle();
  EXPECT_EQ(world.placed("a"), 1);
  EXPECT_EQ(world.placed("b"), 1);
}

TEST(Queues, AClosingQueueLetsWhatItAdmittedGoOn) {
  PlannerWorld world;
  world.apply(queue_yaml("q") + gang_yaml("g", {.min_member = 2, .pods = 2, .queue = "q"}));
  world.settle();
  EXPECT_EQ(world.phase("g"), GroupPhase::Inqueue);
  world.apply(queue_yaml("q", "{weight: 1}", "Closing") + node_yaml("n1", 4));
  world.settle();
  EXPECT_EQ(world.placed("g"), 2);
}

TEST(Queues, RoomIsSharedByWeight) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 12) + queue_yaml("big", "{weight: 2}") + queue_yaml("small", "{weight: 1}"));
  for (int i = 0; i < 12; ++i) {
    world.apply(gang_yaml("big" + std::to_string(i), {.min_member = 1, .pods = 1, .queue = "big"}));
    world.apply(gang_yaml("small" + std::to_string(i), {.min_member = 1, .pods = 1, .queue = "small"}));
  }
  world.settle();
  int big = 0, small = 0;
  for (int i = 0; i < 12; ++i) {
    big += world.placed("big" + std::to_string(i));
    small += world.placed("small" + std::to_string(i));
  }
  EXPECT_EQ(big, 8);
  EXPECT_EQ(small, 4);
}

TEST(Queues, GuaranteedRoomIsKept) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 8) + queue_yaml("vip", "{weight: 1, guarantee: {resource: {cpu: 3}}}") + queue_yaml("q"));
  world.apply(gang_yaml("greedy", {.min_member = 1, .pods = 8, .queue = "q"}));
  world.settle();
  EXPECT_EQ(world.placed("greedy"), 5);
  world.apply(gang_yaml("late", {.min_member = 3, .pods = 3, .queue = "vip", .created_minute = 1}));
  world.settle();
  EXPECT_EQ(world.placed("late"), 3);
  EXPECT_TRUE(world.victims.empty());
}

TEST(Queues, FirstInFirstOutHoldsTheLine) {
  for (const char* strategy : {"fifo", "traverse"}) {
    PlannerWorld world;
    world.apply(node_yaml("n1", 4) + queue_yaml("q", std::string("{weight: 1, dequeueStrategy: ") + strategy + "}"));
    world.apply(gang_yaml("first", {.min_member = 5, .pods = 5, .queue = "q"}));
    world.apply(gang_yaml("second", {.min_member = 1, .pods = 1, .queue = "q", .created_minute = 1}));
    world.settle();
    EXPECT_EQ(world.placed("second"), std::string(strategy) == "fifo" ? 0 : 1);
    if (std::string(strategy) == "fifo") {
      EXPECT_EQ(world.kind("second"), PendingKind::QueueBlocked);
      EXPECT_EQ(world.reason("second").ahead, "default/first");
    }
  }
}

TEST(Queues, HigherPriorityAndOlderGoFirst) {
  PlannerWorld world;
  world.apply(priority_class_yaml("high", 1000) + priority_class_yaml("low", 10));
  world.apply(gang_yaml("young", {.min_member = 2, .pods = 2, .created_minute = 5}) +
              gang_yaml("old", {.min_member = 2, .pods = 2, .created_minute = 1}) +
              gang_yaml("prior", {.min_member = 2, .pods = 2, .priority_class = "high", .created_minute = 9}));
  world.settle();
  world.apply(node_yaml("n1", 4));
  world.settle();
  EXPECT_EQ(world.placed("prior"), 2);
  EXPECT_EQ(world.placed("old"), 2);
  EXPECT_EQ(world.placed("young"), 0);
}

// Preemption.

TEST(Room, HigherPriorityTakesThePlaceOfAWholeGang) {
  PlannerWorld world;
  world.apply(priority_class_yaml("high", 1000) + priority_class_yaml("low", 10) + node_yaml("n1", 4));
  world.apply(gang_yaml("low", {.min_member = 4, .pods = 4, .priority_class = "low"}));
  world.settle();
  world.apply(gang_yaml("high", {.min_member = 2, .pods = 2, .priority_class = "high", .created_minute = 1}));
  world.cycle();
  EXPECT_EQ(world.victims.size(), 4u) << "a gang of four is of no use with two pods left";
  EXPECT_EQ(world.kind("high"), PendingKind::MakingRoom);
  // Somebody else asks for the room meanwhile.
  world.apply(gang_yaml("thief", {.min_member = 1, .pods = 1, .priority_class = "low", .created_minute = 2}));
  world.cycle();
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("high"), 2);
  EXPECT_EQ(world.placed("thief"), 1);
}

TEST(Room, SparePodsGoFirstAndOnlyAsManyAsNeeded) {
  PlannerWorld world;
  world.apply(priority_class_yaml("high", 1000) + priority_class_yaml("low", 10) + node_yaml("n1", 4));
  world.apply(gang_yaml("elastic", {.min_member = 1, .pods = 4, .priority_class = "low"}));
  world.settle();
  EXPECT_EQ(world.placed("elastic"), 4);
  world.apply(gang_yaml("high", {.min_member = 2, .pods = 2, .priority_class = "high", .created_minute = 1}));
  world.cycle();
  EXPECT_EQ(world.victims.size(), 2u);
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("high"), 2);
  EXPECT_EQ(world.placed("elastic"), 2);
}

TEST(Room, NobodyIsEvictedInVain) {
  PlannerWorld world;
  world.apply(priority_class_yaml("high", 1000) + priority_class_yaml("low", 10) + node_yaml("n1", 4));
  world.apply(gang_yaml("low", {.min_member = 2, .pods = 2, .priority_class = "low"}));
  world.settle();
  world.apply(gang_yaml("high", {.min_member = 5, .pods = 5, .priority_class = "high", .created_minute = 1}));
  world.settle();
  EXPECT_TRUE(world.victims.empty()) << "it would not fit on the empty node";
}

TEST(Room, ThoseWhoMayNotPreemptOrBePreempted) {
  PlannerWorld world;
  world.apply(priority_class_yaml("polite", 1000, "preemptionPolicy: Never\n") + priority_class_yaml("high", 900) +
              node_yaml("n1", 2));
  world.apply(gang_yaml("rock", {.min_member = 2, .pods = 2, .annotations = ", volcano.sh/preemptable: 'false'"}));
  world.settle();
  world.apply(gang_yaml("high", {.min_member = 2, .pods = 2, .priority_class = "high", .created_minute = 1}));
  world.settle();
  EXPECT_TRUE(world.victims.empty());
  PlannerWorld other;
  other.apply(priority_class_yaml("polite", 1000, "preemptionPolicy: Never\n") + node_yaml("n1", 2));
  other.apply(gang_yaml("low", {.min_member = 2, .pods = 2}));
  other.settle();
  other.apply(gang_yaml("polite", {.min_member = 2, .pods = 2, .priority_class = "polite", .created_minute = 1}));
  other.settle();
  EXPECT_TRUE(other.victims.empty());
}

TEST(Room, PreemptionStaysInsideTheQueue) {
  PlannerWorld world;
  world.apply(priority_class_yaml("high", 1000) + node_yaml("n1", 4) +
              queue_yaml("a", "{weight: 1, reclaimable: false}") + queue_yaml("b"));
  world.apply(gang_yaml("low", {.min_member = 4, .pods = 4, .queue = "a"}));
  world.settle();
  world.apply(
      gang_yaml("high", {.min_member = 2, .pods = 2, .queue = "b", .priority_class = "high", .created_minute = 1}));
  world.settle();
  EXPECT_TRUE(world.victims.empty());
}

// Reclaim.

TEST(Room, AQueueGetsItsDueBackFromOneBeyondIts) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 8) + queue_yaml("a") + queue_yaml("b"));
  for (int i = 0; i < 4; ++i)
    world.apply(gang_yaml("a" + std::to_string(i), {.min_member = 2, .pods = 2, .queue = "a", .created_minute = i}));
  world.settle();
  world.apply(gang_yaml("b0", {.min_member = 4, .pods = 4, .queue = "b", .created_minute = 9}));
  world.cycle();
  EXPECT_EQ(world.victims.size(), 4u) << "half of the cluster is its due";
  for (const auto& [name, message] : world.victims) {
    EXPECT_NE(message.find("less than its due"), std::string::npos);
    EXPECT_TRUE(name.starts_with("a3") || name.starts_with("a2")) << name << ": the youngest go first";
  }
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("b0"), 4);
  // Nobody reclaims what is another's due.
  world.apply(gang_yaml("b1", {.min_member = 1, .pods = 1, .queue = "b", .created_minute = 10}));
  world.settle();
  EXPECT_TRUE(world.victims.empty());
}

TEST(Room, DeservedDecidesWhereItIsSaid) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 8) + queue_yaml("a", "{weight: 1, deserved: {cpu: 2}}") +
              queue_yaml("b", "{weight: 1, deserved: {cpu: 6}}"));
  for (int i = 0; i < 8; ++i)
    world.apply(gang_yaml("a" + std::to_string(i), {.min_member = 1, .pods = 1, .queue = "a", .created_minute = i}));
  world.settle();
  world.apply(gang_yaml("b", {.min_member = 6, .pods = 6, .queue = "b", .created_minute = 20}));
  world.cycle();
  EXPECT_EQ(world.victims.size(), 6u);
}

TEST(Room, AQueueThatIsNotReclaimableKeepsWhatItHas) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4) + queue_yaml("a", "{weight: 1, reclaimable: false}") + queue_yaml("b"));
  world.apply(gang_yaml("a", {.min_member = 1, .pods = 4, .queue = "a"}));
  world.settle();
  world.apply(gang_yaml("b", {.min_member = 1, .pods = 1, .queue = "b", .created_minute = 1}));
  world.settle();
  EXPECT_TRUE(world.victims.empty());
}

// Fairness over time.

// Two nodes, always two small gangs on each, a new one for each that ends. When does the large one run?
int steps_until_large_runs(rt::Duration starving_after, int steps_max) {
  PlannerOptions options = PlannerWorld::quick();
  options.starving_after = starving_after;
  PlannerWorld world(options);
  world.apply(node_yaml("n1", 4) + node_yaml("n2", 4) + node_yaml("n3", 4));
  int serial = 0;
  std::vector<std::string> running;
  const auto submit = [&] {
    const std::string name = "s" + std::to_string(serial++);
    world.apply(gang_yaml(name, {.min_member = 2, .pods = 2, .created_minute = 30}));
    running.push_back(name);
  };
  for (int i = 0; i < 8; ++i) submit();
  world.settle();
  world.apply(gang_yaml("large", {.min_member = 6, .pods = 6, .created_minute = 1}));
  for (int step = 0; step < steps_max; ++step) {
    // The one that has run longest ends; others wait already.
    for (auto it = running.begin(); it != running.end(); ++it) {
      if (world.placed(*it) == 0) continue;
      for (int i = 0; i < 2; ++i) world.remove_pod(*it + "-" + std::to_string(i));
      world.remove_group(*it);
      running.erase(it);
      break;
    }
    submit();
    world.cycle(10s);
    world.settle();
    if (world.placed("large") == 6) return step;
  }
  return steps_max;
}

TEST(Room, ALargeGangIsNotOvertakenForEver) {
  EXPECT_EQ(steps_until_large_runs(std::chrono::hours(100), 100), 100) << "small ones take all that becomes free";
  EXPECT_LT(steps_until_large_runs(std::chrono::minutes(2), 100), 40);
}

TEST(Room, WhatCanNeverFitKeepsNoNodes) {
  PlannerOptions options = PlannerWorld::quick();
  options.starving_after = 1min;
  PlannerWorld world(options);
  world.apply(node_yaml("n1", 4));
  world.apply(gang_yaml("never", {.min_member = 5, .pods = 5}));
  world.settle();
  world.cycle(10min);
  world.apply(gang_yaml("small", {.min_member = 4, .pods = 4, .created_minute = 9}));
  world.cycle(10s);
  EXPECT_EQ(world.placed("small"), 4);
}

// Gangs that are half placed (a scheduler that died between two binds, a lost node) do not hold each other for ever.

// Binds pods by hand, as a scheduler that died left them.
void bind(PlannerWorld& world, const std::string& group, int index, const std::string& node, GangOptions gang) {
  gang.spec = ", nodeName: " + node;
  world.apply(pod_yaml(group, index, gang));
}

TEST(Room, TwoHalfPlacedGangsAreUntangled) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4));
  const GangOptions older{.min_member = 4, .pods = 0};
  const GangOptions younger{.min_member = 4, .pods = 0, .created_minute = 1};
  world.apply(group_yaml("older", older) + group_yaml("younger", younger));
  for (int i = 0; i < 2; ++i) {
    bind(world, "older", i, "n1", older);
    bind(world, "younger", i, "n1", younger);
    world.apply(pod_yaml("older", 2 + i, older) + pod_yaml("younger", 2 + i, younger));
  }
  world.settle();
  EXPECT_TRUE(world.victims.empty()) << "a moment is given to what is on its way";
  world.cycle(11s);
  ASSERT_EQ(world.victims.size(), 2u);
  for (const auto& [name, message] : world.victims) EXPECT_TRUE(name.starts_with("younger")) << name << message;
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("older"), 4);
  EXPECT_EQ(world.placed("younger"), 0);
}

TEST(Room, AHalfPlacedGangThatNeverRanGivesWayToOneThatFits) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 4));
  const GangOptions half{.min_member = 6, .pods = 0};
  world.apply(group_yaml("half", half));
  for (int i = 0; i < 3; ++i) bind(world, "half", i, "n1", half);
  for (int i = 3; i < 6; ++i) world.apply(pod_yaml("half", i, half));
  world.settle();
  world.cycle(11s);
  EXPECT_TRUE(world.victims.empty()) << "nobody needs the room";
  world.apply(gang_yaml("fits", {.min_member = 4, .pods = 4, .created_minute = 1}));
  world.cycle(2s);
  EXPECT_EQ(world.victims.size(), 3u);
  world.leave();
  world.settle();
  EXPECT_EQ(world.placed("fits"), 4);
}

TEST(Room, AGangThatRanIsNotEndedForANewcomer) {
  PlannerWorld world;
  world.apply(node_yaml("n1", 2) + node_yaml("n2", 1));
  const GangOptions gang{.min_member = 3, .pods = 3};
  world.apply(gang_yaml("ran", gang));
  world.settle();
  std::string lost;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "ran-" + std::to_string(i);
    world.set_phase(name, "Running");
    if (world.node_of(name) == "n2") lost = name;
  }
  world.settle();
  world.remove_node("n2");
  world.remove_pod(lost);
  world.apply(pod_yaml("ran", 7, gang) + gang_yaml("new", {.min_member = 2, .pods = 2, .created_minute = 1}));
  world.settle();
  world.cycle(11s);
  world.cycle(11s);
  EXPECT_TRUE(world.victims.empty());
  EXPECT_EQ(world.phase("ran"), GroupPhase::Unknown);
}

}  // namespace
}  // namespace basalt::scheduler
