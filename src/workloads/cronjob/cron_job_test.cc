#include <gtest/gtest.h>

#include <algorithm>

#include "rt/sim_test_support.h"
#include "workloads/cronjob/cron_job_plan.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::Fate;
using testing::with_fixture;

Fate short_run(const Pod&) { return {.run_for = seconds(2)}; }
Fate long_run(const Pod&) { return {.run_for = minutes(30)}; }

void apply(Fixture& f, std::string_view more = "", std::string_view schedule = "* * * * *") {
  f.cluster.apply("{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: '" +
                  std::string(schedule) + "', jobTemplate: {metadata: {labels: {a: b}}, spec: {template: " +
                  testing::pod_template("c", "i", "Never") + "}}" + std::string(more) + "}}");
}
std::vector<json::Value> jobs(Fixture& f) { return f.cluster.list(resources::kJobs, "default"); }
std::size_t active(Fixture& f) {
  return list_at(*f.cluster.get(resources::kCronJobs, "default", "c"), {"status", "active"}).size();
}
bool has_event(Fixture& f, std::string_view reason) {
  const auto reasons = f.event_reasons("c");
  return std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
}
// Until a minute has begun on the wall.
void to_full_minute(Fixture& f, rt::Runtime& runtime) {
  const auto now = runtime.wall_now();
  f.rest(std::chrono::ceil<minutes>(now) - now + seconds(5));
}

TEST(CronJob, MakesAJobForEachMinuteAndKeepsTheLast) {
  with_fixture(
      [](Fixture& f) {
        apply(f);
        f.rest(minutes(6) + seconds(20));
        const auto made = f.kubelet.names().size();
        EXPECT_GE(made, 6u);
        EXPECT_LE(made, 7u);
        EXPECT_EQ(jobs(f).size(), 3u);
        const json::Value job = jobs(f).back();
        const std::string name(job.string_at({"metadata", "name"}));
        const api::Time last = *api::Time::parse(f.text(resources::kCronJobs, "c", {"status", "lastScheduleTime"}));
        EXPECT_EQ(name, "c-" + std::to_string(last.unix_seconds() / 60));
        EXPECT_EQ(last.unix_seconds() % 60, 0);
        EXPECT_EQ(annotation_of(job, "batch.kubernetes.io/cronjob-scheduled-timestamp"), last.to_string());
        EXPECT_EQ(job.string_at({"metadata", "labels", "a"}), "b");
        const json::Value& owner = list_at(job, {"metadata", "ownerReferences"}).front();
        EXPECT_EQ(owner.string_at({"kind"}), "CronJob");
        EXPECT_TRUE(flag_at(owner, {"controller"}));
        EXPECT_NE(f.text(resources::kCronJobs, "c", {"status", "lastSuccessfulTime"}), "");
        for (const char* reason : {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"})
          EXPECT_TRUE(has_event(f, reason)) << reason;
        // Its jobs go with it.
        f.cluster.remove(resources::kCronJobs, "default", "c");
        EXPECT_TRUE(f.wait([&] { return jobs(f).empty() && f.pods().empty(); }));
        f.rest(minutes(3));
        EXPECT_EQ(f.kubelet.names().size(), made);
      },
      &short_run);
}

TEST(CronJob, FailedJobsHaveAHistoryOfTheirOwn) {
  with_fixture(
      [](Fixture& f) {
        f.cluster.apply(
            "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: '* * * * *', "
            "failedJobsHistoryLimit: 2, jobTemplate: {spec: {backoffLimit: 0, template: " +
            testing::pod_template("c", "i", "Never") + "}}}}");
        f.rest(minutes(6) + seconds(20));
        EXPECT_EQ(jobs(f).size(), 2u);
        EXPECT_EQ(f.text(resources::kCronJobs, "c", {"status", "lastSuccessfulTime"}), "");
      },
      [](const Pod&) { return Fate{.run_for = seconds(1), .exit_code = 1}; });
}

TEST(CronJob, AllowForbidAndReplace) {
  with_fixture(
      [](Fixture& f) {
        apply(f);
        f.rest(minutes(3) + seconds(5));
        EXPECT_EQ(active(f), 3u);
      },
      &long_run);
  with_fixture(
      [](Fixture& f) {
        apply(f, ", concurrencyPolicy: Forbid");
        f.rest(minutes(4));
        EXPECT_EQ(f.kubelet.names().size(), 1u);
        EXPECT_EQ(active(f), 1u);
        EXPECT_TRUE(has_event(f, "JobAlreadyActive"));
        // The time that was passed over is made up for when the way is free.
        f.rest(minutes(27) + seconds(10));
        EXPECT_EQ(f.kubelet.names().size(), 2u);
      },
      &long_run);
  with_fixture(
      [](Fixture& f) {
        apply(f, ", concurrencyPolicy: Replace");
        f.rest(minutes(3) + seconds(5));
        EXPECT_EQ(f.kubelet.names().size(), 3u);
        EXPECT_EQ(active(f), 1u);
        EXPECT_EQ(f.active().size(), 1u);
        EXPECT_FALSE(has_event(f, "MissingJob"));
      },
      &long_run);
}

TEST(CronJob, SuspendedItRests) {
  with_fixture(
      [](Fixture& f) {
        apply(f, ", suspend: true");
        f.rest(minutes(5));
        EXPECT_TRUE(jobs(f).empty());
        f.cluster.patch(resources::kCronJobs, "default", "c",
                        R"({"spec":{"suspend":false,"startingDeadlineSeconds":10}})");
        f.rest(minutes(2));
        EXPECT_EQ(f.kubelet.names().size(), 2u);
      },
      &short_run);
}

TEST(CronJob, AfterAnOutageTheLatestTimeIsMadeUpForOnce) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    Fixture f(runtime, &short_run);
    f.start();
    apply(f, "", "*/10 * * * *");
    f.rest(minutes(10) + seconds(20));
    EXPECT_EQ(f.kubelet.names().size(), 1u);
    f.stop();
    f.rest(minutes(60));
    f.start();
    f.rest(seconds(10));
    EXPECT_EQ(f.kubelet.names().size(), 2u);
    EXPECT_FALSE(has_event(f, "TooManyMissedTimes"));
  });
}

TEST(CronJob, TooLateIsTooLate) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    Fixture f(runtime, &short_run);
    f.start();
    apply(f, ", startingDeadlineSeconds: 30", "0 * * * *");
    f.rest(minutes(60) + seconds(20));
    EXPECT_EQ(f.kubelet.names().size(), 1u);
    f.stop();
    f.rest(minutes(90));
    f.start();
    f.rest(seconds(10));
    EXPECT_EQ(f.kubelet.names().size(), 1u);
    EXPECT_TRUE(has_event(f, "MissSchedule"));
    f.rest(minutes(60));
    EXPECT_EQ(f.kubelet.names().size(), 2u);
  });
}

TEST(CronJob, MoreThanAHundredMissedTimesAreTold) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    Fixture f(runtime, &short_run);
    f.start();
    apply(f);
    to_full_minute(f, runtime);
    const auto before = f.kubelet.names().size();
    f.stop();
    f.rest(minutes(150));
    f.start();
    f.rest(seconds(10));
    EXPECT_EQ(f.kubelet.names().size(), before + 1);
    EXPECT_TRUE(has_event(f, "TooManyMissedTimes"));
  });
}

TEST(CronJob, ARefusedJobIsToldAndTriedAgain) {
  with_fixture(
      [](Fixture& f) {
        f.cluster.apply(
            "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {'count/jobs.batch': 0}}}");
        apply(f);
        EXPECT_TRUE(f.wait([&] { return has_event(f, "FailedCreate"); }, minutes(2)));
        f.cluster.remove({"", "v1", "resourcequotas"}, "default", "q");
        EXPECT_TRUE(f.wait([&] { return !jobs(f).empty(); }, seconds(10)));
      },
      &short_run);
}

Object cron_job_of(const std::string& spec, std::string_view status = "{}") {
  return *json::from_text<Object>(
      R"({"metadata":{"name":"c","namespace":"d","uid":"u","creationTimestamp":"2024-01-01T00:00:00Z"},"spec":)" +
      spec + R"(,"status":)" + std::string(status) + "}");
}
rt::WallTime at(std::string_view text) { return rt::WallTime(api::Time::parse(text)->to_time_point()); }

TEST(CronJobPlan, WhatCannotBeReadIsToldAndNothingIsMade) {
  const auto reason = [](const std::string& spec) {
    const CronJobPlan plan = plan_cron_job(cron_job_of(spec), {}, at("2024-01-02T00:00:00Z"));
    EXPECT_FALSE(plan.start.has_value());
    return plan.events.empty() ? "" : plan.events.front().reason;
  };
  EXPECT_EQ(reason(R"({"schedule":"x"})"), "UnparseableSchedule");
  EXPECT_EQ(reason(R"({"schedule":"* * * * *","timeZone":"No/Where"})"), "UnknownTimeZone");
  EXPECT_EQ(reason(R"({"schedule":"* * * * *","suspend":true})"), "");
  EXPECT_EQ(reason(R"({"schedule":"0 0 30 2 *"})"), "");
}

TEST(CronJobPlan, TheZoneCounts) {
  if (!kube::TimeZone::find("America/New_York").ok()) GTEST_SKIP() << "no database of time zones";
  const Object cron_job = cron_job_of(R"({"schedule":"0 3 * * *","timeZone":"America/New_York"})");
  EXPECT_FALSE(plan_cron_job(cron_job, {}, at("2024-01-01T07:59:59Z")).start.has_value());
  const CronJobPlan plan = plan_cron_job(cron_job, {}, at("2024-01-01T08:00:00Z"));
  ASSERT_TRUE(plan.start.has_value());
  EXPECT_EQ(annotation_of(job_of_template(cron_job, *plan.start), "batch.kubernetes.io/cronjob-scheduled-timestamp"),
            "2024-01-01T03:00:00-05:00");
}

TEST(CronJobPlan, AJobThatWasMadeBeforeIsNotMadeAgain) {
  const Object cron_job = cron_job_of(R"({"schedule":"0 * * * *"})");
  const api::Time due = *api::Time::parse("2024-01-01T01:00:00Z");
  auto job = std::make_shared<Object>();
  job->metadata.name = job_name_at(cron_job, due);
  job->json = json::Object();
  const CronJobPlan plan = plan_cron_job(cron_job, {job}, at("2024-01-01T01:00:01Z"));
  EXPECT_FALSE(plan.start.has_value());
  EXPECT_EQ(plan.status.string_at({"lastScheduleTime"}), "2024-01-01T01:00:00Z");
  EXPECT_EQ(list_at(plan.status, {"active"}).size(), 1u);
  // The job says it itself, whatever the schedule is by now.
  auto later = std::make_shared<Object>(*job);
  later->json.ensure_path({"metadata", "annotations", kScheduledAnnotation}) = "2024-01-01T03:00:00+01:00";
  const Object resting = cron_job_of(R"({"schedule":"0 * * * *","suspend":true})");
  EXPECT_EQ(plan_cron_job(resting, {later}, at("2024-01-01T02:00:01Z")).status.string_at({"lastScheduleTime"}),
            "2024-01-01T02:00:00Z");
}

TEST(CronJob, AJobThatGoesBySelfIsNotMadeAgain) {
  with_fixture(
      [](Fixture& f) {
        f.cluster.apply(
            "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: '*/10 * * * *', jobTemplate: "
            "{spec: {ttlSecondsAfterFinished: 0, template: " +
            testing::pod_template("c", "i", "Never") + "}}}}");
        f.rest(minutes(10) + seconds(20));
        EXPECT_EQ(f.kubelet.names().size(), 1u);
        EXPECT_TRUE(jobs(f).empty());
      },
      &short_run);
}

}  // namespace
}  // namespace basalt::workloads
