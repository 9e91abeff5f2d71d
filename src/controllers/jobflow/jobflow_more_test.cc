#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controllers/jobflow/testing/job_flow_fixture.h"

// Second chances, things that come late, and things that go away.

namespace basalt::controllers::jobflow {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::kJobFlows;
using testing::with_fixture;
using Fixture = testing::JobFlowFixture;
namespace resources = sim::resources;

void begin(Fixture& f) {
  f.start();
  f.job_templates({"a", "b"});
  f.flow("f", {"a", "b: a"});
  ASSERT_TRUE(f.comes("f-a"));
}

// There is no field for it, so this is what a retry is: the failed job is deleted, made again from its template, and
// the flow goes on to its end. Jobs that were done are not run again.
TEST(JobFlowRetry, UsersF_3838_ADeletedFailedJobIsMadeAgainAndTheFlowGoesOn) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.complete("f-a");
    ASSERT_TRUE(f.comes("f-b"));
    const std::string uid_of_a(f.cluster.get(resources::kJobs, "default", "f-a")->string_at({"metadata", "uid"}));
    f.becomes("f-b", "Failed");
    EXPECT_TRUE(f.reaches("f", "Failed"));
    EXPECT_TRUE(f.has_event("f", "JobFlowFailed", "delete it to have it made again"));
    f.remove_job("f-b");
    EXPECT_TRUE(f.comes("f-b"));
    EXPECT_TRUE(f.reaches("f", "Running"));
    f.becomes("f-b", "Completed");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
    EXPECT_EQ(f.cluster.get(resources::kJobs, "default", "f-a")->string_at({"metadata", "uid"}), uid_of_a);
    EXPECT_TRUE(f.counts("failed", 1));
    EXPECT_TRUE(f.counts("succeed", 1));
  });
}

// A job that a person resumes or restarts in place gives its flow the chance, too.
TEST(JobFlowRetry, UsersF_3838_AResumedJobLetsTheFlowGoOn) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.becomes("f-a", "Aborted");
    EXPECT_TRUE(f.reaches("f", "Failed"));
    EXPECT_TRUE(f.has_event("f", "JobFlowFailed", "resume it"));
    for (const char* phase : {"Restarting", "Pending", "Running"}) f.becomes("f-a", phase);
    EXPECT_TRUE(f.reaches("f", "Running"));
    f.becomes("f-a", "Completed");
    f.complete("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
  });
}

// While a job still has tries of its own (maxRetry), the flow does not give up.
TEST(JobFlowRetry, UsersF_3838_TriesOfTheJobItselfAreNoFailureOfTheFlow) {
  with_fixture([](Fixture& f) {
    begin(f);
    for (int i = 0; i < 3; ++i) {
      for (const char* phase : {"Running", "Restarting", "Pending"}) {
        f.becomes("f-a", phase);
        f.rest(seconds(1));
        EXPECT_EQ(f.phase("f"), "Running") << phase;
      }
    }
    EXPECT_EQ(f.counted("failed"), 0);
  });
}

TEST(JobFlowRetry, AFailedJobThatDeletesItselfIsNotMadeAgain) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job_template("a", "ttlSecondsAfterFinished: 0, ");
    f.flow("f", {"a"});
    ASSERT_TRUE(f.comes("f-a"));
    f.becomes("f-a", "Failed");
    f.remove_job("f-a");  // as the collector does
    EXPECT_TRUE(f.reaches("f", "Failed"));
    f.rest(minutes(1));
    f.stop();
    f.start();
    f.rest(minutes(1));
    EXPECT_EQ(f.jobs(), "");
    EXPECT_EQ(f.phase("f"), "Failed");
    EXPECT_EQ(f.names("f", "failedJobs"), "f-a");
  });
}

TEST(JobFlowLater, ACompletedJobThatIsDeletedAtOnceIsNotRunAgain) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.becomes("f-a", "Completed");
    f.remove_job("f-a");
    ASSERT_TRUE(f.comes("f-b"));
    f.becomes("f-b", "Completed");
    f.remove_job("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
    f.rest(minutes(1));
    EXPECT_EQ(f.jobs(), "");
    EXPECT_EQ(f.names("f", "completedJobs"), "f-a,f-b");
  });
}

TEST(JobFlowLater, AJobThatIsDeletedWhileItRunsIsMadeAgain) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.becomes("f-a", "Running");
    EXPECT_TRUE(f.reaches("f", "Running"));
    f.remove_job("f-a");
    EXPECT_TRUE(f.comes("f-a"));
    f.complete("f-a");
    f.complete("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
  });
}

TEST(JobFlowLater, ATemplateMayComeAnHourLater) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job_templates({"c"});
    f.flow("f", {"a", "c"});
    EXPECT_TRUE(f.has_event("f", "SyncJobFlow", "waits for JobTemplate a"));
    EXPECT_TRUE(f.comes("f-c"));  // the others do not wait for it
    f.rest(std::chrono::hours(1));
    f.job_templates({"a"});
    EXPECT_TRUE(f.comes("f-a", seconds(2)));
  });
}

TEST(JobFlowLater, AnEditOfTheStepsTakesEffect) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.job_templates({"c"});
    f.flow("f", {"a", "b: a", "c"});
    EXPECT_TRUE(f.comes("f-c"));
  });
}

TEST(JobFlowLater, AJobOfSomebodyElseIsNotTaken) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job_templates({"a", "b"});
    f.cluster.apply(
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: f-a}, spec: {minAvailable: 1, tasks: "
        "[{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: other}]}}}]}}");
    f.becomes("f-a", "Completed");
    f.flow("f", {"a", "b: a"}, "delete");
    EXPECT_TRUE(f.has_event("f", "SyncJobFlow", "job f-a exists and does not belong to this flow"));
    f.rest(seconds(5));
    EXPECT_EQ(f.jobs(), "f-a");
    EXPECT_EQ(f.names("f", "completedJobs"), "");
    f.remove_job("f-a");
    EXPECT_TRUE(f.comes("f-a", minutes(1)));
    f.complete("f-a");
    f.complete("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
  });
}

TEST(JobFlowLater, AFlowMadeAgainUnderItsNameBeginsAnew) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.complete("f-a");
    f.complete("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
    f.cluster.remove(kJobFlows, "default", "f");
    f.flow("f", {"a", "b: a"});
    EXPECT_TRUE(
        f.cluster.wait_until([&] { return f.jobs() == "f-a" && f.names("f", "completedJobs").empty(); }, minutes(2)))
        << f.jobs();
    f.complete("f-a");
    f.complete("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
  });
}

TEST(JobFlowLater, WhatTheServerRefusesIsToldAndTheRestGoesOn) {
  with_fixture([](Fixture& f) {
    f.start();
    const std::string name(60, 'n');  // with its namespace more than a label may have
    f.job_templates({name, "a"});
    f.flow("f", {name, "a"});
    EXPECT_TRUE(f.comes("f-a"));
    EXPECT_TRUE(f.has_event("f", "SyncJobFlow", "f-" + name));
    EXPECT_EQ(f.jobs(), "f-a");
  });
}

// Status, labels and owner as Volcano's controllers leave them.
TEST(JobFlowLater, AFlowThatVolcanoBeganIsFinished) {
  with_fixture([](Fixture& f) {
    f.job_templates({"a", "b"});
    f.flow("f", {"a", "b: a"});
    const std::string uid = f.text("f", {"metadata", "uid"});
    const std::string origin = "{volcano.sh/createdByJobFlow: default.f, volcano.sh/createdByJobTemplate: default.a}";
    f.cluster.apply("{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: f-a, labels: " + origin +
                    ", annotations: " + origin +
                    ", ownerReferences: [{apiVersion: flow.volcano.sh/v1alpha1, kind: JobFlow, name: f, uid: " + uid +
                    ", controller: true, blockOwnerDeletion: true}]}, spec: {minAvailable: 1, tasks: [{name: t, "
                    "replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]}}");
    f.cluster.patch(kJobFlows, "default", "f",
                    R"({"status":{"state":{"phase":"Running"},"runningJobs":["f-a"],"jobStatusList":[{"name":"f-a",)"
                    R"("state":"Running","startTimestamp":"2026-01-01T00:00:00Z","restartCount":0,"runningHistories":)"
                    R"([{"startTimestamp":"2026-01-01T00:00:00Z","state":"Running"}]}]}})",
                    "status");
    f.becomes("f-a", "Completed");
    f.start();
    f.complete("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
    EXPECT_EQ(f.names("f", "completedJobs"), "f-a,f-b");
    EXPECT_EQ(f.names("f", "runningJobs"), "");
    EXPECT_EQ(f.jobs(), "f-a,f-b");
  });
}

TEST(JobFlowLater, AWideFlowIsMadeWhollyAndDeletedWholly) {
  with_fixture([](Fixture& f) {
    f.start();
    std::vector<std::string> steps;
    for (int i = 0; i < 120; ++i) steps.push_back("s" + std::to_string(i));
    f.job_templates(steps);
    f.flow("f", steps, "delete");
    EXPECT_TRUE(
        f.cluster.wait_until([&] { return f.cluster.list(resources::kJobs, "default").size() == 120; }, minutes(1)));
    for (const std::string& step : steps) f.becomes("f-" + step, "Completed");
    EXPECT_TRUE(f.reaches("f", "Succeed", minutes(1)));
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.jobs().empty(); }, minutes(1)));
  });
}

TEST(JobFlowLater, NothingIsWrittenWhileNothingHappens) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.becomes("f-a", "Running");
    EXPECT_TRUE(f.reaches("f", "Running"));
    f.rest(seconds(5));
    const auto flows = f.process->writes("jobflows");
    const auto templates = f.process->writes("jobtemplates");
    f.rest(std::chrono::hours(1));
    f.cluster.patch(kJobFlows, "default", "f", R"({"metadata":{"labels":{"x":"y"}}})");
    f.rest(seconds(5));
    EXPECT_EQ(f.process->writes("jobflows"), flows);
    EXPECT_EQ(f.process->writes("jobtemplates"), templates);
    EXPECT_LE(flows, 4u);
  });
}

}  // namespace
}  // namespace basalt::controllers::jobflow
