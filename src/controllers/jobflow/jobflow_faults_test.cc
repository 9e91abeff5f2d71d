#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "controllers/jobflow/testing/job_flow_fixture.h"
#include "controllers/queue/testing/fault_enumeration.h"

// Whatever goes wrong, every flow gets to its end, no job that was done is run again, and none is made twice.

namespace basalt::controllers::jobflow {
namespace {

using controllers::testing::FaultStory;
using std::chrono::seconds;
using Fixture = testing::JobFlowFixture;
namespace resources = sim::resources;

// Where half of all calls fail it takes a while.
constexpr seconds kPatience(300);

// A chain whose jobs are deleted when all is done, and a flow that fails and is given a second chance.
void play(Fixture& f) {
  f.job_templates({"a", "b"});
  f.flow("f", {"a", "b: a"}, "delete");
  f.flow("g", {"a", "b: a"});
  for (const char* job : {"f-a", "g-a"}) EXPECT_TRUE(f.comes(job, kPatience)) << job;
  f.becomes("f-a", "Completed");
  f.becomes("g-a", "Terminated");
  EXPECT_TRUE(f.comes("f-b", kPatience));
  EXPECT_TRUE(f.reaches("g", "Failed", kPatience));
  f.remove_job("g-a");
  f.becomes("f-b", "Completed");
  EXPECT_TRUE(f.comes("g-a", kPatience));
  f.becomes("g-a", "Completed");
  EXPECT_TRUE(f.comes("g-b", kPatience));
  EXPECT_TRUE(f.goes("f-a", kPatience));
  f.rest(seconds(5));
}

void check_end(Fixture& f) {
  EXPECT_EQ(f.phase("f"), "Succeed");
  EXPECT_EQ(f.names("f", "completedJobs"), "f-a,f-b");
  EXPECT_EQ(f.phase("g"), "Running");
  EXPECT_EQ(f.names("g", "completedJobs"), "g-a");
  EXPECT_EQ(f.names("g", "terminatedJobs"), "");
  EXPECT_EQ(f.jobs(), "g-a,g-b");
  EXPECT_EQ(f.users_of("a"), "g-a");
  EXPECT_EQ(f.users_of("b"), "g-b");
  EXPECT_EQ(f.sink->first_error(), "");
}

FaultStory<Fixture> story() {
  return {"jobflow", [](rt::SimRuntime& runtime) { return std::make_unique<Fixture>(runtime); }, &play, &check_end};
}

TEST(JobFlowFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(JobFlowFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(JobFlowFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(JobFlowFaults, FailingCallsAndLateEvents) { controllers::testing::play_under_random_faults(story(), 20); }

// A conflict costs one more try, and neither the phase nor the counters suffer.
TEST(JobFlowFaults, F21ConflictsAreTriedAgainAndCountedOnce) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    Fixture f(runtime);
    f.start();
    f.process->faults().set_plan({.conflict = 0.5});
    f.job_templates({"a"});
    for (const char* flow : {"f", "g", "h"}) f.flow(flow, {"a"});
    for (const char* job : {"f-a", "g-a"}) f.complete(job);
    ASSERT_TRUE(f.comes("h-a"));
    f.becomes("h-a", "Failed");
    for (const char* flow : {"f", "g"}) EXPECT_TRUE(f.reaches(flow, "Succeed", seconds(60)));
    EXPECT_TRUE(f.reaches("h", "Failed", seconds(60)));
    f.rest(seconds(30));
    EXPECT_TRUE(f.counts("succeed", 2));
    EXPECT_TRUE(f.counts("failed", 1));
  });
}

TEST(JobFlowFaults, TheApiIsAwayForAnHour) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    Fixture f(runtime);
    f.start();
    f.job_templates({"a", "b"});
    f.flow("f", {"a", "b: a"});
    ASSERT_TRUE(f.comes("f-a"));
    f.process->faults().set_away(true);
    f.rest(seconds(10));
    f.becomes("f-a", "Completed");
    f.rest(std::chrono::hours(1));
    EXPECT_EQ(f.jobs(), "f-a");
    f.process->faults().set_away(false);
    EXPECT_TRUE(f.comes("f-b", seconds(20)));
  });
}

}  // namespace
}  // namespace basalt::controllers::jobflow
