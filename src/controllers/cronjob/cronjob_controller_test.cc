#include "controllers/cronjob/cronjob_controller.h"

#include <gtest/gtest.h>

#include <string>

#include "controllers/cronjob/testing/cron_job_fixture.h"

// What users see of cron jobs. The numbers are those of the scenarios of the sheet.

namespace basalt::controllers::cronjob {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::with_fixture;
using Fixture = testing::CronJobFixture;
namespace resources = sim::resources;

TEST(CronJobScenario, K1_AJobIsMadeAtItsMinute) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *");
    f.until(seconds(55));
    EXPECT_EQ(f.minutes(), "");
    f.until(minutes(1));
    EXPECT_EQ(f.minutes(), "1");
    EXPECT_EQ(f.active(), "1");
    EXPECT_EQ(f.last_schedule(), "2026-01-01T00:01:00Z");
    EXPECT_EQ(f.events("SuccessfulCreate", "Created job " + Fixture::job_at(1) + " for CronJob default/c"), 1);
  });
}

TEST(CronJobScenario, K2_TheJobIsAsItsTemplateSaysAndSaysItsTime) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *");
    f.until(minutes(1));
    const auto job = f.cluster.get(resources::kJobs, "default", Fixture::job_at(1));
    ASSERT_TRUE(job.has_value());
    EXPECT_EQ(job->string_at({"metadata", "labels", "color"}), "blue");
    EXPECT_EQ(job->string_at({"metadata", "annotations", "size"}), "large");
    EXPECT_EQ(job->string_at({"metadata", "annotations", "volcano.sh/cronjob-scheduled-timestamp"}),
              "2026-01-01T00:01:00Z");
    const auto& owners = job->find_path({"metadata", "ownerReferences"})->as_array();
    ASSERT_EQ(owners.size(), 1u);
    EXPECT_EQ(owners[0].string_at({"apiVersion"}), "batch.volcano.sh/v1alpha1");
    EXPECT_EQ(owners[0].string_at({"kind"}), "CronJob");
    EXPECT_EQ(owners[0].string_at({"uid"}), f.text("c", {"metadata", "uid"}));
    EXPECT_TRUE(owners[0].find_path({"controller"})->as_bool());
    EXPECT_TRUE(owners[0].find_path({"blockOwnerDeletion"})->as_bool());
    EXPECT_EQ(job->find_path({"spec", "tasks"})->as_array().size(), 1u);
    const auto cron_job = f.cluster.get(resources::kCronJobs, "default", "c");
    const auto& entry = cron_job->find_path({"status", "active"})->as_array().at(0);
    EXPECT_EQ(entry.string_at({"kind"}), "Job");
    EXPECT_EQ(entry.string_at({"apiVersion"}), "batch.volcano.sh/v1alpha1");
    EXPECT_EQ(entry.string_at({"namespace"}), "default");
    EXPECT_EQ(entry.string_at({"uid"}), job->string_at({"metadata", "uid"}));
  });
}

TEST(CronJobScenario, K3_SuspendedMakesNothingAndResumedMakesUpForTheLatest) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "suspend: true, ");
    f.until(minutes(5) + seconds(30));
    EXPECT_EQ(f.minutes(), "");
    f.edit("c", R"({"suspend":false})");
    f.rest();
    EXPECT_EQ(f.minutes(), "5");
  });
}

TEST(CronJobScenario, K4_WhatIsOlderThanTheDeadlineIsNotMadeUpFor) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "suspend: true, startingDeadlineSeconds: 10, ");
    f.until(minutes(5) + seconds(30));
    f.edit("c", R"({"suspend":false})");
    f.rest();
    EXPECT_EQ(f.minutes(), "");
    EXPECT_EQ(f.events("MissSchedule", "2026-01-01T00:05:00Z"), 1);
    f.until(minutes(6));
    EXPECT_EQ(f.minutes(), "6");
  });
}

TEST(CronJobScenario, K5_AllowedJobsRunBesideEachOther) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *");
    f.until(minutes(3));
    EXPECT_EQ(f.minutes(), "1,2,3");
    EXPECT_EQ(f.active(), "1,2,3");
  });
}

TEST(CronJobScenario, K6_ForbiddenOnesWaitUntilTheRunningOneEnds) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "concurrencyPolicy: Forbid, ");
    f.until(minutes(3) + seconds(20));
    EXPECT_EQ(f.minutes(), "1");
    EXPECT_EQ(f.active(), "1");
    EXPECT_EQ(f.events("ForbidConcurrent", "Skipping job creation because another job is already running"), 2);
    f.becomes(Fixture::job_at(1), "Completed");
    f.rest();
    EXPECT_EQ(f.minutes(), "1,3");
    EXPECT_EQ(f.active(), "3");
  });
}

TEST(CronJobScenario, AnAbortedJobHoldsTheNextUpAndItIsSaid) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "concurrencyPolicy: Forbid, ");
    f.until(minutes(1));
    f.becomes(Fixture::job_at(1), "Aborted");
    f.until(minutes(2));
    EXPECT_EQ(f.active(), "1");
    EXPECT_EQ(f.events("ForbidConcurrent", Fixture::job_at(1) + " was aborted; resume it or delete it"), 1);
    f.remove_job(Fixture::job_at(1));
    f.rest();
    EXPECT_EQ(f.active(), "2");
  });
}

TEST(CronJobScenario, K7_TheRunningOneMakesWay) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "concurrencyPolicy: Replace, ");
    f.until(minutes(3));
    EXPECT_EQ(f.minutes(), "3");
    EXPECT_EQ(f.active(), "3");
    EXPECT_EQ(f.events("ReplaceConcurrent", Fixture::job_at(1)), 1);
    EXPECT_EQ(f.events("StaleReference"), 0);
  });
}

TEST(CronJobScenario, K8_AllThatRunMakeWay) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *");
    f.until(minutes(3));
    f.edit("c", R"({"concurrencyPolicy":"Replace"})");
    f.until(minutes(4));
    EXPECT_EQ(f.minutes(), "4");
    EXPECT_EQ(f.active(), "4");
  });
}

TEST(CronJobScenario, K9_AsManyAreKeptAsTheLimitsSay) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "successfulJobsHistoryLimit: 2, ");
    for (int i = 1; i <= 6; ++i) {
      f.until(minutes(i));
      f.becomes(Fixture::job_at(i), i % 3 == 0 ? "Failed" : "Completed");
    }
    f.rest();
    EXPECT_EQ(f.minutes(), "4,5,6");  // of the failed ones, one is kept by default
    EXPECT_EQ(f.active(), "");
    EXPECT_EQ(f.events("SuccessfulDelete", "Deleted job \"" + Fixture::job_at(1) + "\""), 1);
    EXPECT_EQ(f.events("SawCompletedJob", "Saw completed job: " + Fixture::job_at(6) + " in active, remove"), 1);
  });
}

// Keeps one job from being deleted.
class Guard final : public apiserver::AdmissionHook {
 public:
  [[nodiscard]] bool handles(const apiserver::AdmissionRequest& request) const override {
    return request.operation == apiserver::Operation::Delete && request.name == Fixture::job_at(1);
  }
  Done mutate(apiserver::AdmissionRequest&, json::Value&) override { return Ok{}; }
  Done validate(apiserver::AdmissionRequest&, const json::Value*) override {
    return Error::make(Reason::Forbidden, "it is evidence");
  }
};

TEST(CronJobScenario, AJobThatMayNotBeDeletedIsSaidAndHoldsNothingUp) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    Fixture f(runtime, {std::make_shared<Guard>()});
    f.start();
    f.cron_job("c", "* * * * *", "successfulJobsHistoryLimit: 0, ");
    for (int i = 1; i <= 3; ++i) {
      f.until(minutes(i));
      f.becomes(Fixture::job_at(i), "Completed");
    }
    f.until(minutes(3) + seconds(50));
    EXPECT_EQ(f.minutes(), "1");
    EXPECT_EQ(f.events("FailedDelete", "it is evidence"), 1);
    EXPECT_EQ(f.active(), "");
  });
}

TEST(CronJobScenario, AJobThatMayNotBeReplacedIsSaid) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    Fixture f(runtime, {std::make_shared<Guard>()});
    f.start();
    f.cron_job("c", "* * * * *", "concurrencyPolicy: Replace, ");
    f.until(minutes(2) + seconds(50));
    EXPECT_EQ(f.active(), "1");
    EXPECT_EQ(f.events("FailedDelete", "could not replace job default/" + Fixture::job_at(1)), 1);
  });
}

TEST(CronJobScenario, K10_NothingIsKeptAndTheSuccessIsKnown) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "successfulJobsHistoryLimit: 0, ");
    f.until(minutes(1));
    f.becomes(Fixture::job_at(1), "Completed");
    f.rest();
    EXPECT_EQ(f.minutes(), "");
    EXPECT_EQ(f.last_success(), "2026-01-01T00:01:02Z");
    EXPECT_EQ(f.last_schedule(), "2026-01-01T00:01:00Z");
  });
}

TEST(CronJobScenario, K11_AFailureIsNoSuccess) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "failedJobsHistoryLimit: 1, ");
    for (int i = 1; i <= 3; ++i) {
      f.until(minutes(i));
      f.becomes(Fixture::job_at(i), "Failed");
    }
    f.rest();
    EXPECT_EQ(f.minutes(), "3");
    EXPECT_EQ(f.last_success(), "");
  });
}

TEST(CronJobScenario, K12_TerminatedOnesCountAsFailed) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *");
    for (int i = 1; i <= 3; ++i) {
      f.until(minutes(i));
      f.becomes(Fixture::job_at(i), "Terminated");
    }
    f.rest();
    EXPECT_EQ(f.minutes(), "3");
    EXPECT_EQ(f.last_success(), "");
  });
}

TEST(CronJobScenario, K13_AfterALongTimeAwayTheLatestIsMadeUpForAndItIsSaid) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *");
    f.until(minutes(1));
    f.stop();
    f.until(minutes(121) + seconds(30));
    f.start();
    f.rest();
    EXPECT_EQ(f.minutes(), "1,121");
    EXPECT_EQ(f.events("TooManyMissedTimes"), 1);
  });
}

TEST(CronJobScenario, K14_AFewMissedTimesAreNoReasonToWarn) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "0 * * * *");
    f.stop();
    f.until(hours(5) + minutes(10));
    f.start();
    f.rest();
    EXPECT_EQ(f.minutes(), "300");
    EXPECT_EQ(f.events("TooManyMissedTimes"), 0);
  });
}

TEST(CronJobScenario, K16_TheZoneDecides) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "0 9 * * *", "timeZone: Asia/Shanghai, ");
    f.until(hours(1) - seconds(5));
    EXPECT_EQ(f.minutes(), "");
    f.until(hours(1));
    EXPECT_EQ(f.minutes(), "60");
    const auto job = f.cluster.get(resources::kJobs, "default", Fixture::job_at(60));
    EXPECT_EQ(job->string_at({"metadata", "annotations", "volcano.sh/cronjob-scheduled-timestamp"}),
              "2026-01-01T09:00:00+08:00");
  });
}

TEST(CronJobScenario, K18_ADateThatNeverComesIsSaidAndHurtsNobody) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "59 23 31 2 *");
    f.cron_job("d", "* * * * *");
    f.until(minutes(2));
    EXPECT_EQ(f.events("InvalidSchedule", "Error getting schedule time: "), 1);
    EXPECT_EQ(f.active("d"), "1,2");
    EXPECT_EQ(f.active("c"), "");
  });
}

TEST(CronJobScenario, K19_EveryCountsFromTheLast) {
  with_fixture([](Fixture& f) {
    f.until(seconds(58));  // made at the full minute
    f.cron_job("c", "@every 90s");
    f.until(minutes(6));
    EXPECT_EQ(f.minutes(), "2,4,5");  // 2:30, 4:00, 5:30
  });
}

TEST(CronJobScenario, K20_AJobOfSomebodyElseIsLeftAlone) {
  with_fixture([](Fixture& f) {
    f.cluster.apply("{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: " + Fixture::job_at(1) +
                    "}, spec: {minAvailable: 1, tasks: [{name: t, replicas: 1, template: {spec: {containers: "
                    "[{name: c, image: i}]}}}]}}");
    const auto before = f.cluster.get(resources::kJobs, "default", Fixture::job_at(1));
    f.cron_job("c", "* * * * *");
    f.until(minutes(1) + seconds(30));
    EXPECT_EQ(f.events("ForeignJob", Fixture::job_at(1)), 1);
    EXPECT_EQ(f.cluster.get(resources::kJobs, "default", Fixture::job_at(1)), before);
    EXPECT_EQ(f.active(), "");
    f.until(minutes(2));
    EXPECT_EQ(f.active(), "2");
  });
}

TEST(CronJobScenario, K21_AJobThatWasMadeBeforeACrashIsTakenUp) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "concurrencyPolicy: Forbid, ");
    f.until(minutes(1));
    f.stop();
    f.cluster.patch(resources::kCronJobs, "default", "c", R"({"status":null})", "status");
    f.until(minutes(4));
    f.start();
    f.rest();
    EXPECT_EQ(f.minutes(), "1");
    EXPECT_EQ(f.active(), "1");
    EXPECT_EQ(f.last_schedule(), "2026-01-01T00:01:00Z");
    EXPECT_EQ(f.events("OrphanedJob"), 0);
  });
}

TEST(CronJobScenario, K22_AJobThatWasDeletedLeavesTheList) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *");
    f.until(minutes(1));
    f.remove_job(Fixture::job_at(1));
    f.rest();
    EXPECT_EQ(f.active(), "");
    EXPECT_EQ(f.events("StaleReference", "Active job \"" + Fixture::job_at(1) + "\" no longer exists (UID: "), 1);
    EXPECT_EQ(f.minutes(), "");
  });
}

TEST(CronJobScenario, K23_WithTheCronJobGoItsJobs) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *");
    f.until(minutes(2));
    f.cluster.remove(resources::kCronJobs, "default", "c");
    f.until(minutes(4));
    EXPECT_EQ(f.minutes(), "");
  });
}

TEST(CronJobScenario, K26_ANewScheduleCountsFromNowOn) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "0 * * * *");
    f.until(hours(1) + minutes(30) + seconds(20));
    EXPECT_EQ(f.minutes(), "60");
    f.edit("c", R"({"schedule":"* * * * *"})");
    f.rest();
    EXPECT_EQ(f.minutes(), "60");
    f.until(hours(1) + minutes(32));
    EXPECT_EQ(f.minutes(), "60,91,92");
    // Past noon nothing is made up for, though the last run is older.
    f.edit("c", R"({"schedule":"15 1 * * *"})");
    f.until(hours(5));
    EXPECT_EQ(f.minutes(), "60,91,92");
  });
}

TEST(CronJobScenario, AScheduleThatNobodyUnderstandsIsSaidOnceAndItsEditHelps) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * *");
    f.until(hours(2));
    EXPECT_EQ(f.events("UnParseableCronJobSchedule", "unparseable schedule for cronjob: * * * *"), 1);
    f.edit("c", R"({"schedule":"* * * * *","timeZone":"Mars/Olympus"})");
    f.until(hours(3));
    EXPECT_EQ(f.events("InvalidTimeZone", "Mars/Olympus"), 1);
    EXPECT_EQ(f.minutes(), "");
    f.edit("c", R"({"timeZone":"Europe/Berlin"})");
    f.until(hours(3) + minutes(1));
    EXPECT_EQ(f.minutes(), "181");
    // The same mistake once more is told once more.
    f.edit("c", R"({"timeZone":"Mars/Olympus"})");
    f.rest();
    EXPECT_EQ(f.events("InvalidTimeZone", "Mars/Olympus"), 2);
  });
}

TEST(CronJobScenario, AZoneInTheScheduleIsHeededAndWarnedOf) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "CRON_TZ=Asia/Shanghai 30 8 * * *", "timeZone: Europe/Berlin, ");
    f.cron_job("d", "TZ=UTC");
    f.until(minutes(30));
    EXPECT_EQ(f.minutes(), "30");
    EXPECT_EQ(f.events("UnsupportedSchedule"), 1);
    EXPECT_EQ(f.events("UnParseableCronJobSchedule", "TZ=UTC", "d"), 1);
  });
}

TEST(CronJobScenario, AJobThatAdmissionRefusesIsTriedAgainAndItIsSaid) {
  with_fixture([](Fixture& f) {
    f.cluster.apply(
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: CronJob, metadata: {name: c}, spec: {schedule: '* * * * *', "
        "jobTemplate: {metadata: {labels: {color: 'not a label!'}}, spec: {minAvailable: 1, tasks: [{name: t, "
        "replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]}}}}");
    f.until(minutes(1) + seconds(40));
    EXPECT_EQ(f.events("FailedCreate", "not a label!"), 1);
    EXPECT_EQ(f.minutes(), "");
    f.until(minutes(2));
    EXPECT_EQ(f.events("FailedCreate", Fixture::job_at(2)), 1);  // it is not late, either
    f.edit("c", R"({"jobTemplate":{"metadata":{"labels":{"color":"green"}}}})");
    f.rest(seconds(10));
    EXPECT_EQ(f.minutes(), "2");
  });
}

TEST(CronJobScenario, AJobThatCompletesAndDeletesItselfIsASuccessAndIsNotRunAgain) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "0 * * * *");
    f.until(hours(1));
    f.becomes(Fixture::job_at(60), "Completed");
    f.remove_job(Fixture::job_at(60));
    f.until(hours(2) - seconds(10));
    EXPECT_EQ(f.minutes(), "");
    EXPECT_EQ(f.active(), "");
    EXPECT_EQ(f.last_success(), "2026-01-01T01:00:02Z");
    EXPECT_EQ(f.events("StaleReference"), 0);
  });
}

TEST(CronJobScenario, AJobThatAUserMadeInItsNameIsNotCounted) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "* * * * *", "concurrencyPolicy: Forbid, ");
    f.cluster.apply(
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: mine, ownerReferences: "
        "[{apiVersion: batch.volcano.sh/v1alpha1, kind: CronJob, name: c, controller: true, uid: " +
        f.text("c", {"metadata", "uid"}) +
        "}]}, spec: {minAvailable: 1, tasks: [{name: t, replicas: 1, template: {spec: {containers: "
        "[{name: c, image: i}]}}}]}}");
    f.until(minutes(1));
    EXPECT_EQ(f.active(), "1");
    EXPECT_EQ(f.events("OrphanedJob", "mine"), 1);
  });
}

TEST(CronJobScenario, AtRestNothingIsWritten) {
  with_fixture([](Fixture& f) {
    f.cron_job("c", "0 0 1 2 *");
    f.until(minutes(1));
    const auto writes = [&] { return f.process->writes("cronjobs") + f.process->writes("jobs"); };
    const auto before = writes();
    f.until(hours(24));
    EXPECT_EQ(writes(), before);
  });
}

}  // namespace
}  // namespace basalt::controllers::cronjob
