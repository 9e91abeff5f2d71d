#include "controllers/jobflow/jobflow_controller.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controllers/jobflow/testing/job_flow_fixture.h"

// What users see of flows, from their creation to their end.

namespace basalt::controllers::jobflow {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::kJobFlows;
using testing::kJobTemplates;
using testing::with_fixture;
using Fixture = testing::JobFlowFixture;
namespace resources = sim::resources;

// f: first a, then b.
void begin(Fixture& f, std::string_view policy = {}) {
  f.start();
  f.job_templates({"a", "b"});
  f.flow("f", {"a", "b: a"}, policy);
  ASSERT_TRUE(f.comes("f-a"));
}

TEST(JobFlowScenario, F1OnlyTheFirstJobIsMade) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.rest();
    EXPECT_EQ(f.jobs(), "f-a");
    EXPECT_TRUE(f.reaches("f", "Pending"));
    EXPECT_TRUE(f.has_event("f", "Created", "create a job named f-a!"));
  });
}

TEST(JobFlowScenario, F2TheNextIsMadeWithOwnerLabelsAndAnnotations) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.complete("f-a");
    ASSERT_TRUE(f.comes("f-b"));
    const auto job = f.cluster.get(resources::kJobs, "default", "f-b");
    for (const char* map : {"labels", "annotations"}) {
      EXPECT_EQ(job->string_at({"metadata", map, "volcano.sh/createdByJobFlow"}), "default.f");
      EXPECT_EQ(job->string_at({"metadata", map, "volcano.sh/createdByJobTemplate"}), "default.b");
    }
    const auto& owners = job->find_path({"metadata", "ownerReferences"})->as_array();
    ASSERT_EQ(owners.size(), 1u);
    EXPECT_EQ(owners[0].string_at({"apiVersion"}), "flow.volcano.sh/v1alpha1");
    EXPECT_EQ(owners[0].string_at({"kind"}), "JobFlow");
    EXPECT_EQ(owners[0].string_at({"name"}), "f");
    EXPECT_EQ(owners[0].string_at({"uid"}), f.text("f", {"metadata", "uid"}));
    EXPECT_TRUE(owners[0].find_path({"controller"})->as_bool());
    EXPECT_TRUE(owners[0].find_path({"blockOwnerDeletion"})->as_bool());
  });
}

TEST(JobFlowScenario, F3ARunningJobMakesTheFlowRun) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.becomes("f-a", "Running");
    EXPECT_TRUE(f.reaches("f", "Running"));
    EXPECT_TRUE(f.lists("f", "runningJobs", "f-a"));
  });
}

TEST(JobFlowScenario, F4AllCompletedIsSuccess) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.complete("f-a");
    f.complete("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
    EXPECT_EQ(f.names("f", "completedJobs"), "f-a,f-b");
    EXPECT_TRUE(f.counts("succeed", 1));
    f.rest(minutes(1));
    EXPECT_EQ(f.jobs(), "f-a,f-b");
  });
}

TEST(JobFlowScenario, F5PolicyDeleteTakesTheJobsAndLeavesTheStatus) {
  with_fixture([](Fixture& f) {
    begin(f, "delete");
    f.complete("f-a");
    f.complete("f-b");
    EXPECT_TRUE(f.goes("f-a"));
    EXPECT_TRUE(f.goes("f-b"));
    f.rest(minutes(1));
    EXPECT_EQ(f.phase("f"), "Succeed");
    EXPECT_EQ(f.names("f", "completedJobs"), "f-a,f-b");
    EXPECT_EQ(f.jobs(), "");
  });
}

TEST(JobFlowScenario, F7AFailedJobFailsTheFlow) {
  for (const bool has_run : {false, true}) {
    with_fixture([&](Fixture& f) {
      begin(f);
      if (has_run) {
        f.becomes("f-a", "Running");
        EXPECT_TRUE(f.reaches("f", "Running"));
      }
      f.becomes("f-a", "Failed");
      EXPECT_TRUE(f.reaches("f", "Failed"));
      EXPECT_TRUE(f.lists("f", "failedJobs", "f-a"));
      EXPECT_TRUE(f.has_event("f", "JobFlowFailed", "job f-a is Failed (the test says so)"));
      f.rest(minutes(1));
      EXPECT_EQ(f.jobs(), "f-a");
      EXPECT_TRUE(f.counts("failed", 1));
    });
  }
}

// Also volcano#5672: from Pending and from Running, and whatever else the flow has.
TEST(JobFlowScenario, UsersA_4442_F8ATerminatedJobFailsTheFlow) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job_templates({"a", "b", "c"});
    for (const char* end : {"Terminated", "Aborted", "Failed"}) {
      for (const bool has_run : {false, true}) {
        const std::string flow = base::to_lower_ascii(end) + (has_run ? "-late" : "-early");
        f.flow(flow, {"a", "c", "b: a"});
        ASSERT_TRUE(f.comes(flow + "-a"));
        ASSERT_TRUE(f.comes(flow + "-c"));
        if (has_run) {
          f.becomes(flow + "-c", "Running");
          EXPECT_TRUE(f.reaches(flow, "Running"));
        }
        f.becomes(flow + "-a", end);
        EXPECT_TRUE(f.reaches(flow, "Failed")) << flow;
        EXPECT_TRUE(f.has_event(flow, "JobFlowFailed", "job " + flow + "-a is " + end));
        f.rest();
        EXPECT_EQ(f.phase(flow), "Failed");
        EXPECT_FALSE(f.exists(flow + "-b"));
      }
    }
    EXPECT_TRUE(f.counts("failed", 6));
  });
}

TEST(JobFlowScenario, F9TheListsOfOddPhases) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.becomes("f-a", "Completing");
    EXPECT_TRUE(f.cluster.wait_until(
        [&] { return f.text("f", {"status", "conditions", "f-a", "phase"}) == "Completing"; }, seconds(10)));
    for (const char* list :
         {"pendingJobs", "runningJobs", "failedJobs", "completedJobs", "terminatedJobs", "unKnowJobs"})
      EXPECT_EQ(f.names("f", list), "") << list;
    f.becomes("f-a", "Aborted");
    EXPECT_TRUE(f.lists("f", "unKnowJobs", "f-a"));
  });
}

TEST(JobFlowScenario, F10ADiamondWaitsForBothSides) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job_templates({"a", "b", "c", "d"});
    f.flow("f", {"a", "b: a", "c: a", "d: b, c"});
    f.complete("f-a");
    f.complete("f-b");
    ASSERT_TRUE(f.comes("f-c"));
    f.becomes("f-c", "Running");
    f.rest();
    EXPECT_EQ(f.jobs(), "f-a,f-b,f-c");
    f.becomes("f-c", "Completed");
    f.complete("f-d");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
  });
}

TEST(JobFlowScenario, F11FlowsOfTheSameTemplatesSeeTheirOwnJobs) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job_templates({"a", "b"});
    f.flow("f", {"a", "b"});
    f.flow("g", {"a", "b"});
    for (const char* job : {"f-a", "f-b", "g-a", "g-b"}) ASSERT_TRUE(f.comes(job));
    for (const char* job : {"f-a", "f-b", "g-a", "g-b"}) f.becomes(job, "Running");
    EXPECT_TRUE(f.lists("f", "runningJobs", "f-a,f-b"));
    EXPECT_TRUE(f.lists("g", "runningJobs", "g-a,g-b"));
    f.becomes("g-a", "Failed");
    EXPECT_TRUE(f.reaches("g", "Failed"));
    f.rest();
    EXPECT_EQ(f.phase("f"), "Running");
  });
}

TEST(JobFlowScenario, F13TheHistoryOfAJob) {
  with_fixture([](Fixture& f) {
    begin(f);
    for (const char* phase : {"Pending", "Running", "Completed"}) {
      f.becomes("f-a", phase);
      f.rest();
    }
    const auto flow = f.cluster.get(kJobFlows, "default", "f");
    const json::Value* records = flow->find_path({"status", "jobStatusList"});
    ASSERT_NE(records, nullptr);
    const auto& histories = records->as_array()[0].find_path({"runningHistories"})->as_array();
    ASSERT_EQ(histories.size(), 3u) << flow->to_text();
    const char* const phases[] = {"Pending", "Running", "Completed"};
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(histories[i].string_at({"state"}), phases[i]);
      EXPECT_NE(histories[i].string_at({"startTimestamp"}), "");
      EXPECT_EQ(histories[i].string_at({"endTimestamp"}).empty(), i == 2) << i;
    }
  });
}

TEST(JobFlowScenario, F14AnEditedTemplateIsForJobsToCome) {
  with_fixture([](Fixture& f) {
    begin(f);
    const auto image = [&](const char* job) {
      const auto object = f.cluster.get(resources::kJobs, "default", job);
      const auto& tasks = object->find_path({"spec", "tasks"})->as_array();
      return std::string(tasks[0].find_path({"template", "spec", "containers"})->as_array()[0].string_at({"image"}));
    };
    f.job_template("a", "", "new");
    f.job_template("b", "", "new");
    f.complete("f-a");
    ASSERT_TRUE(f.comes("f-b"));
    EXPECT_EQ(image("f-a"), "i");
    EXPECT_EQ(image("f-b"), "new");
  });
}

TEST(JobFlowScenario, F15TheJobsGoWithTheFlow) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.becomes("f-a", "Running");
    f.cluster.remove(kJobFlows, "default", "f");
    EXPECT_TRUE(f.goes("f-a", seconds(60)));
    f.rest(seconds(30));
    EXPECT_EQ(f.jobs(), "");
  });
}

TEST(JobFlowScenario, F16ATemplateNamesItsJobs) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.flow("g", {"a"});
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.users_of("a") == "f-a,g-a"; }, seconds(10))) << f.users_of("a");
    EXPECT_EQ(f.users_of("b"), "");
    f.cluster.remove(kJobFlows, "default", "f");
    f.cluster.remove(kJobFlows, "default", "g");
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.users_of("a").empty(); }, seconds(60))) << f.users_of("a");
    f.cluster.remove(kJobTemplates, "default", "a");
    f.rest();
  });
}

TEST(JobFlowScenario, F20ASucceededFlowMakesNothingAgain) {
  with_fixture([](Fixture& f) {
    begin(f);
    f.complete("f-a");
    f.complete("f-b");
    EXPECT_TRUE(f.reaches("f", "Succeed"));
    f.remove_job("f-a");
    f.rest();
    f.stop();
    f.start();
    f.rest(seconds(10));
    EXPECT_EQ(f.jobs(), "f-b");
    EXPECT_EQ(f.phase("f"), "Succeed");
    EXPECT_EQ(f.names("f", "completedJobs"), "f-a,f-b");
  });
}

}  // namespace
}  // namespace basalt::controllers::jobflow
