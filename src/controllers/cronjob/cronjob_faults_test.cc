#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "controllers/cronjob/testing/cron_job_fixture.h"
#include "controllers/queue/testing/fault_enumeration.h"

// Whatever goes wrong, the latest time that was due is run, and no time is run twice.

namespace basalt::controllers::cronjob {
namespace {

using controllers::testing::FaultStory;
using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::CronJobFixture;
namespace resources = sim::resources;

// A job completes and nothing of it is kept; another one makes way for the next.
void play(Fixture& f) {
  f.cron_job("c", "*/10 * * * *", "successfulJobsHistoryLimit: 0, ");
  f.cron_job("r", "*/10 * * * *", "concurrencyPolicy: Replace, ");
  f.until(minutes(15));
  EXPECT_TRUE(f.cluster.get(resources::kJobs, "default", Fixture::job_at(10)).has_value());
  f.becomes(Fixture::job_at(10), "Completed");
  f.until(minutes(25));
}

void check_end(Fixture& f) {
  EXPECT_EQ(f.active("c"), "20");
  EXPECT_EQ(f.active("r"), "20");
  EXPECT_EQ(f.last_schedule("c"), "2026-01-01T00:20:00Z");
  EXPECT_EQ(f.last_schedule("r"), "2026-01-01T00:20:00Z");
  EXPECT_EQ(f.last_success("c"), "2026-01-01T00:15:02Z");
  EXPECT_EQ(f.cluster.list(resources::kJobs, "default").size(), 2u);
  EXPECT_EQ(f.sink->first_error(), "");
}

FaultStory<Fixture> story() {
  return {"cronjob", [](rt::SimRuntime& runtime) { return std::make_unique<Fixture>(runtime); }, &play, &check_end};
}

TEST(CronJobFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(CronJobFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(CronJobFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(CronJobFaults, FailingCallsAndLateEvents) { controllers::testing::play_under_random_faults(story(), 20); }

TEST(CronJobFaults, TheApiIsAwayWhileATimeComes) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    Fixture f(runtime);
    f.start();
    f.cron_job("c", "*/10 * * * *");
    f.until(minutes(9));
    f.process->faults().set_away(true);
    f.until(minutes(12));
    EXPECT_EQ(f.minutes(), "");
    f.process->faults().set_away(false);
    f.rest(seconds(20));
    EXPECT_EQ(f.minutes(), "10");
    EXPECT_EQ(f.active(), "10");
  });
}

}  // namespace
}  // namespace basalt::controllers::cronjob
