#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "controllers/queue/testing/fault_enumeration.h"
#include "workloads/testing/workload_fixture.h"

// Whatever goes wrong, no minute is run twice, and none is left out.

namespace basalt::workloads {
namespace {

using controllers::testing::FaultStory;
using std::chrono::minutes;
using std::chrono::seconds;

class CronFixture : public testing::WorkloadFixture {
 public:
  explicit CronFixture(rt::SimRuntime& of)
      : WorkloadFixture(of, [](const Pod&) { return testing::Fate{.run_for = seconds(2)}; }), runtime(of) {}
  rt::SimRuntime& runtime;
};

void play(CronFixture& f) {
  // Ten seconds before the first of two minutes.
  f.rest(std::chrono::ceil<minutes>(f.runtime.wall_now()) - f.runtime.wall_now() + seconds(50));
  f.cluster.apply(
      "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: '* * * * *', "
      "successfulJobsHistoryLimit: 0, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: "
      "[{name: c, image: i}]}}}}}}");
  f.rest(seconds(80));
}

void check_end(CronFixture& f) {
  const auto& names = f.kubelet.names();
  std::set<std::string> runs;
  for (const std::string& name : names) runs.insert(name.substr(0, name.rfind('-')));
  EXPECT_EQ(names.size(), 2u);
  EXPECT_EQ(runs.size(), 2u);
  EXPECT_TRUE(f.cluster.list(resources::kJobs, "default").empty());
  EXPECT_TRUE(list_at(*f.cluster.get(resources::kCronJobs, "default", "c"), {"status", "active"}).empty());
  const auto last = api::Time::parse(f.text(resources::kCronJobs, "c", {"status", "lastScheduleTime"}));
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(runs.contains("c-" + std::to_string(last->unix_seconds() / 60)));
}

FaultStory<CronFixture> story() {
  return {"cronjob", [](rt::SimRuntime& runtime) { return std::make_unique<CronFixture>(runtime); }, &play, &check_end};
}

TEST(CronJobFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(CronJobFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(CronJobFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(CronJobFaults, FailingCallsAndLateEvents) { controllers::testing::play_under_random_faults(story(), 20); }

}  // namespace
}  // namespace basalt::workloads
