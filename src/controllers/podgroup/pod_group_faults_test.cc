#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "controllers/podgroup/testing/pod_group_fixture.h"
#include "controllers/queue/testing/fault_enumeration.h"
#include "rt/test_size.h"

// Whatever goes wrong, in the end every pod of ours is in the one group of its owner, and no group is left over.

namespace basalt::controllers::podgroup {
namespace {

using controllers::testing::FaultStory;
using std::chrono::hours;
using std::chrono::seconds;
using testing::int_at;
using Fixture = testing::PodGroupFixture;
namespace resources = sim::resources;

// The load of the test: bare pods, a gang, a stateful set, a foreign pod, and a scale to zero and back.
void play(Fixture& f) {
  f.pod("bare-0");
  f.pod("bare-1", {.annotations = "scheduling.volcano.sh/queue-name: q"});
  f.pod("foreign", {.scheduler = "default-scheduler"});
  const std::string gang = f.workload("ReplicaSet", "gang", 3, "scheduling.volcano.sh/group-min-member: '3'");
  for (int i = 0; i < 3; ++i) f.pod("gang-" + std::to_string(i), {.owner = gang});
  const std::string set = f.workload("StatefulSet", "set", 1);
  f.pod("set-0", {.owner = set});
  f.rest(seconds(3));
  f.scale(resources::kStatefulSets, "set", 0);
  f.cluster.remove(resources::kPods, "default", "set-0", 0);
  f.workload("ReplicaSet", "old", 0);
  f.rest(seconds(3));
  f.scale(resources::kStatefulSets, "set", 1);
  f.pod("set-0", {.owner = set, .cpu = "2"});
  f.rest(seconds(3));
}

void check_end(Fixture& f) {
  f.check();
  EXPECT_EQ(f.cluster.list(resources::kPodGroups).size(), 4u);
  EXPECT_EQ(int_at(f.wait_group("gang-0"), {"spec", "minMember"}), 3);
  EXPECT_EQ(f.wait_group("set-0").string_at({"spec", "minResources", "cpu"}), "2");
  EXPECT_EQ(f.wait_group("bare-1").string_at({"spec", "queue"}), "q");
}

FaultStory<Fixture> story() {
  return {"podgroup", [](rt::SimRuntime& runtime) { return std::make_unique<Fixture>(runtime); }, &play, &check_end};
}

TEST(PodGroupFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(PodGroupFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(PodGroupFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(PodGroupFaults, FailingCallsAndLateEvents) { controllers::testing::play_under_random_faults(story(), 40); }

TEST(PodGroupFaults, TheApiIsAwayForAnHour) {
  rt::run_seeds(1, 20, [](rt::SimRuntime& runtime) {
    Fixture f(runtime);
    f.start();
    f.rest(seconds(1));
    f.process->faults().set_away(true);
    play(f);
    f.rest(std::chrono::minutes(rt::test_size(60)));
    EXPECT_TRUE(f.cluster.list(resources::kPodGroups).empty());
    f.process->faults().set_away(false);
    f.rest(seconds(10));
    check_end(f);
  });
}

}  // namespace
}  // namespace basalt::controllers::podgroup
