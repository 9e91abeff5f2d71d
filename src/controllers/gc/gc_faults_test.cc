#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "controllers/gc/testing/gc_fixture.h"
#include "controllers/queue/testing/fault_enumeration.h"

// Whatever goes wrong, no job goes before its time, none stays for long after it, and none goes that should stay.

namespace basalt::controllers::gc {
namespace {

using controllers::testing::FaultStory;
using std::chrono::hours;
using std::chrono::seconds;
using Fixture = testing::GcFixture;

// Jobs with different times, one without, one that is restarted, and one that is made again under its name.
void play(Fixture& f) {
  f.job("now", 0);
  f.job("soon", 5);
  f.job("later", 15);
  f.job("never", -1);
  f.job("again", 8);
  f.job("restarted", 8);
  for (const char* name : {"now", "soon", "later", "never", "again", "restarted"}) f.finish(name);
  f.rest(seconds(4));
  EXPECT_TRUE(f.exists("soon"));
  f.finish("restarted", "Restarting");
  f.cluster.remove(sim::resources::kJobs, "default", "again");
  f.job("again", 0);
  f.rest(seconds(10));
  EXPECT_TRUE(f.exists("later"));
  f.rest(seconds(3));
}

void check_end(Fixture& f) {
  for (const char* name : {"now", "soon", "later"}) EXPECT_FALSE(f.exists(name)) << name;
  for (const char* name : {"never", "again", "restarted"}) EXPECT_TRUE(f.exists(name)) << name;
  EXPECT_EQ(f.sink->first_error(), "");
}

FaultStory<Fixture> story() {
  return {"gc", [](rt::SimRuntime& runtime) { return std::make_unique<Fixture>(runtime); }, &play, &check_end};
}

TEST(TtlFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(TtlFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(TtlFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(TtlFaults, FailingCallsAndLateEvents) { controllers::testing::play_under_random_faults(story(), 40); }

TEST(TtlFaults, TheApiIsAwayForAnHour) {
  rt::run_seeds(1, 20, [](rt::SimRuntime& runtime) {
    Fixture f(runtime);
    f.start();
    f.job("j", 60);
    f.job("k", 60);
    f.finish("j");
    f.rest(seconds(10));
    f.process->faults().set_away(true);
    f.rest(seconds(10));
    f.finish("k");
    f.rest(hours(1));
    EXPECT_TRUE(f.exists("j"));
    f.process->faults().set_away(false);
    EXPECT_TRUE(f.goes("j", seconds(10)));
    EXPECT_TRUE(f.goes("k", seconds(10)));
  });
}

}  // namespace
}  // namespace basalt::controllers::gc
