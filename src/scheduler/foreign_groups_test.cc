#include "scheduler/foreign_groups.h"

#include <gtest/gtest.h>

#include "rt/sim_test_support.h"
#include "scheduler/testing/scheduler_world.h"

namespace basalt::scheduler {
namespace {

using namespace std::chrono_literals;

SchedulablePod pod_of(std::string_view group, std::string_view scheduler) {
  SchedulablePod pod;
  pod.group = group;
  pod.scheduler_name = scheduler;
  return pod;
}

TEST(ForeignGroups, BelongToTheSchedulerOfTheirPods) {
  ForeignGroups foreign({"volcano", "default-scheduler"});
  const api::ObjectKey group{"ns", "g"};
  EXPECT_FALSE(foreign.is_foreign(group, false));
  const SchedulablePod own = pod_of("g", "volcano");
  foreign.note({"ns", "a"}, &own);
  EXPECT_TRUE(foreign.empty());
  const SchedulablePod later = pod_of("g", "zebra");
  foreign.note({"ns", "b"}, &later);
  foreign.note({"ns", "b"}, &later);
  EXPECT_TRUE(foreign.is_foreign(group, false));
  EXPECT_FALSE(foreign.is_foreign(group, true));  // of two, the one whose name comes first
  EXPECT_FALSE(foreign.is_foreign({"other", "g"}, false));
  const SchedulablePod sooner = pod_of("g", "agent-scheduler");
  foreign.note({"ns", "c"}, &sooner);
  EXPECT_TRUE(foreign.is_foreign(group, true));
  EXPECT_EQ(foreign.take_changed().size(), 1u);
  foreign.note({"ns", "c"}, &own);  // another pod of the same name
  EXPECT_FALSE(foreign.is_foreign(group, true));
  foreign.note({"ns", "b"}, nullptr);
  EXPECT_FALSE(foreign.is_foreign(group, false));
  EXPECT_TRUE(foreign.empty());
  EXPECT_EQ(foreign.take_changed().size(), 1u);
}

// Two schedulers on one cluster: each writes about its own gangs only, and comes to rest.
TEST(ForeignGroups, TwoSchedulersDoNotTakeEachOthersWordsBack) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    testing::World ours(runtime);
    kube::FaultClient faults(runtime, ours.cluster.client());
    kube::EventRecorder events(runtime, faults, Logger(), {.component = "other"});
    SchedulerOptions options;
    options.names = {"other"};
    Scheduler other(runtime, faults, Logger(), events, options);
    events.start();
    other.start();
    ours.cluster.apply(testing::node_yaml("n1", 4));
    ours.cluster.apply(testing::gang_yaml("mine", {.min_member = 2, .pods = 2}));
    std::string theirs = testing::gang_yaml("theirs", {.min_member = 2, .pods = 2});
    for (std::size_t place = theirs.find("schedulerName: volcano"); place != std::string::npos;
         place = theirs.find("schedulerName: volcano"))
      theirs.replace(place, 22, "schedulerName: other");
    ours.cluster.apply(theirs);
    EXPECT_TRUE(ours.cluster.wait_until(
        [&] { return ours.phase_of("mine") == "Running" && ours.phase_of("theirs") == "Running"; }, 10s));
    runtime.sleep_for(10s);
    const std::uint64_t before = faults.calls() + ours.faults.calls();
    runtime.sleep_for(2min);
    EXPECT_LE(faults.calls() + ours.faults.calls() - before, 20u);  // watches that are opened again
    EXPECT_EQ(ours.phase_of("mine"), "Running");
    EXPECT_EQ(ours.phase_of("theirs"), "Running");
    other.stop();
    events.stop();
  });
}

}  // namespace
}  // namespace basalt::scheduler
