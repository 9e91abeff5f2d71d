#include "controllers/cronjob/cron_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "api/gen/names.h"
#include "api/owner.h"

namespace basalt::controllers::cronjob {
namespace {

using api::batch::CronJob;
using api::batch::Job;

api::Time at(std::string_view text) { return *api::Time::parse(text); }

CronJob cron_job(std::string schedule) {
  CronJob made;
  made.metadata.name = "c";
  made.metadata.namespace_ = "default";
  made.metadata.uid = "u";
  made.metadata.creation_timestamp = at("2025-01-01T00:00:00Z");
  made.spec.schedule = std::move(schedule);
  return made;
}

CronPlan plan_at(const CronJob& cron_job, std::string_view now, std::vector<JobPtr> jobs = {}) {
  ObservedCronJob observed;
  observed.cron_job = &cron_job;
  observed.jobs = std::move(jobs);
  observed.now = rt::WallTime(at(now).to_time_point());
  return plan_cron_job(observed);
}

// All times at which a cron job that nothing holds up starts, in [from, to].
std::vector<std::string> starts(CronJob one, std::string_view from, std::string_view to) {
  std::vector<std::string> times;
  one.metadata.creation_timestamp = at(from);
  for (api::Time now = at(from); now <= at(to); now = now + std::chrono::minutes(1)) {
    const CronPlan plan = plan_at(one, now.to_string());
    if (!plan.start) continue;
    times.push_back(plan.start->to_string());
    one.status.last_schedule_time = *plan.start;
  }
  return times;
}

TEST(CronPlan, K17_WhereClocksAreChanged) {
  CronJob one = cron_job("30 2 * * *");
  one.spec.time_zone = "America/New_York";
  EXPECT_EQ(starts(one, "2025-03-08T12:00:00Z", "2025-03-10T12:00:00Z"),
            (std::vector<std::string>{"2025-03-10T06:30:00Z"}));
  one.spec.schedule = "30 1 * * *";
  EXPECT_EQ(starts(one, "2025-11-02T04:00:00Z", "2025-11-02T12:00:00Z"),
            (std::vector<std::string>{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z"}));
}

TEST(CronPlan, TheNextLookIsALittleAfterTheNextTime) {
  CronJob one = cron_job("0 * * * *");
  one.status.last_schedule_time = at("2025-06-01T10:00:00Z");
  EXPECT_EQ(plan_at(one, "2025-06-01T10:20:00Z").look_again, std::chrono::minutes(40) + kCronMargin);
  one.spec.schedule = "0 0 1 * *";
  EXPECT_EQ(plan_at(one, "2025-06-01T10:20:00Z").look_again, kCronWaitMax);
  one.spec.suspend = true;
  EXPECT_EQ(plan_at(one, "2025-06-01T10:20:00Z").look_again, std::nullopt);
}

TEST(CronPlan, ADeadlineAlsoHoldsForTimesThatCountFromTheLast) {
  CronJob one = cron_job("@every 90s");
  one.spec.starting_deadline_seconds = 10;
  one.status.last_schedule_time = at("2025-06-01T10:00:00Z");
  EXPECT_EQ(plan_at(one, "2025-06-01T10:01:35Z").start, at("2025-06-01T10:01:30Z"));
  EXPECT_EQ(plan_at(one, "2025-06-01T10:01:45Z").start, std::nullopt);
}

TEST(CronPlan, ATimeInTheFutureOnAJobHoldsNothingUp) {
  const CronJob one = cron_job("0 * * * *");
  const auto job = std::make_shared<Job>();
  const api::Time far = at("2125-01-01T00:00:00Z");
  job->metadata.name = job_name_at("c", far);
  job->metadata.uid = "j";
  job->metadata.annotations.set(api::keys::kCronJobScheduledTimestamp, far.to_string());
  job->metadata.owner_references.push_back(api::controller_reference(CronJob::kind_info(), one.metadata));
  const CronPlan plan = plan_at(one, "2025-06-01T10:20:00Z", {job});
  EXPECT_EQ(plan.start, at("2025-06-01T10:00:00Z"));
  ASSERT_EQ(plan.status.active.size(), 1u);
}

// Runs of one minute share a name: the second is taken for the first.
TEST(CronPlan, ATimeWhoseJobIsThereIsDone) {
  CronJob one = cron_job("@every 30s");
  one.status.last_schedule_time = at("2025-06-01T10:00:00Z");
  const auto job = std::make_shared<Job>();
  job->metadata.name = job_name_at("c", at("2025-06-01T10:00:00Z"));
  job->metadata.owner_references.push_back(api::controller_reference(CronJob::kind_info(), one.metadata));
  const CronPlan plan = plan_at(one, "2025-06-01T10:00:30Z", {job});
  EXPECT_EQ(plan.start, std::nullopt);
  EXPECT_EQ(plan.status.last_schedule_time, at("2025-06-01T10:00:30Z"));
}

}  // namespace
}  // namespace basalt::controllers::cronjob
