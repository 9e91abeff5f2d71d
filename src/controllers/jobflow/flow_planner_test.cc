#include "controllers/jobflow/flow_planner.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>
#include <utility>

#include "base/strings.h"
#include "controllers/jobflow/finished_jobs.h"
#include "controllers/jobflow/flow_phase.h"
#include "controllers/jobflow/flow_status.h"
#include "controllers/jobflow/flow_writes.h"
#include "json/value.h"

namespace basalt::controllers::jobflow {
namespace {

using api::flow::JobFlow;
using enum FlowPhase;

// volcano#4442, #5672: every phase with every combination of facts, written out. "." is a fact that does not hold.
TEST(FlowPhasePlan, UsersA_4442_EveryPhaseWithAllFacts) {
  struct Row {
    const char* facts;  // D: all done, L: any lost, S: any started
    FlowPhase next[6];  // from None, Pending, Running, Succeed, Failed, Terminating
  };
  const Row rows[] = {
      {"...", {Pending, Pending, Running, Succeed, Running, Terminating}},
      {"..S", {Running, Running, Running, Succeed, Running, Terminating}},
      {".L.", {Failed, Failed, Failed, Succeed, Failed, Terminating}},
      {".LS", {Failed, Failed, Failed, Succeed, Failed, Terminating}},
      {"D..", {Succeed, Succeed, Succeed, Succeed, Succeed, Terminating}},
      {"D.S", {Succeed, Succeed, Succeed, Succeed, Succeed, Terminating}},
      {"DL.", {Succeed, Succeed, Succeed, Succeed, Succeed, Terminating}},
      {"DLS", {Succeed, Succeed, Succeed, Succeed, Succeed, Terminating}},
  };
  std::set<std::pair<std::string, FlowPhase>> seen;
  for (const Row& row : rows) {
    const std::string text = row.facts;
    const FlowFacts facts{.all_done = text[0] == 'D', .any_lost = text[1] == 'L', .any_started = text[2] == 'S'};
    for (std::size_t i = 0; i < kFlowPhases.size(); ++i) {
      const FlowPhase next = next_phase(kFlowPhases[i], facts);
      EXPECT_EQ(next, row.next[i]) << to_string(kFlowPhases[i]) << " " << text << " -> " << to_string(next);
      EXPECT_EQ(next_phase(next, facts), next) << "not stable: " << to_string(kFlowPhases[i]) << " " << text;
      seen.emplace(text, kFlowPhases[i]);
    }
  }
  EXPECT_EQ(seen.size(), 8 * kFlowPhases.size());
}

TEST(FlowPhasePlan, WordsOfPhases) {
  for (const FlowPhase phase : kFlowPhases) EXPECT_EQ(parse_flow_phase(to_string(phase)), phase);
  EXPECT_EQ(to_string(Succeed), "Succeed");
  EXPECT_FALSE(parse_flow_phase("Succeeded"));
}

TEST(FlowPhasePlan, EveryPhaseOfAJob) {
  using L = JobList;
  using F = JobFate;
  const std::pair<const char*, JobPhaseMeaning> rows[] = {{"Pending", {L::Pending, F::Waiting}},
                                                          {"Running", {L::Running, F::Started}},
                                                          {"Failed", {L::Failed, F::Lost}},
                                                          {"Completed", {L::Completed, F::Done}},
                                                          {"Terminated", {L::Terminated, F::Lost}},
                                                          {"Completing", {L::Nowhere, F::Started}},
                                                          {"Terminating", {L::Nowhere, F::Waiting}},
                                                          {"Aborting", {L::Unknown, F::Waiting}},
                                                          {"Aborted", {L::Unknown, F::Lost}},
                                                          {"Restarting", {L::Unknown, F::Started}},
                                                          {"", {L::Unknown, F::Waiting}},
                                                          {"Strange", {L::Unknown, F::Waiting}}};
  for (const auto& [phase, meaning] : rows) EXPECT_EQ(meaning_of(phase), meaning) << phase;
}

JobFlow flow_of(std::initializer_list<const char*> steps) {
  JobFlow flow;
  flow.metadata.name = "f";
  flow.metadata.namespace_ = "ns";
  flow.metadata.uid = "u";
  for (const char* text : steps) {
    const auto parts = base::split_once(text, ':');
    api::flow::Flow step;
    step.name = parts ? std::string(parts->first) : text;
    if (parts) {
      step.depends_on.emplace();
      for (const auto target : base::split(parts->second, ',')) step.depends_on->targets.emplace_back(target);
    }
    flow.spec.flows.push_back(std::move(step));
  }
  return flow;
}

JobPtr job_of(std::string step, std::string phase) {
  auto job = std::make_shared<api::batch::Job>();
  job->metadata.name = job_name_of("f", step);
  job->metadata.creation_timestamp = api::Time::from_unix(100);
  job->status.state.phase = std::move(phase);
  return job;
}

// The flow with all templates, and these jobs.
ObservedFlow observed(const JobFlow& flow, std::vector<JobPtr> jobs) {
  ObservedFlow result;
  result.flow = &flow;
  result.jobs = std::move(jobs);
  result.now = api::Time::from_unix(1000);
  for (const auto& step : flow.spec.flows) result.templates[step.name] = {.exists = true};
  return result;
}

std::string created(const FlowPlan& plan) { return base::join(plan.create, ","); }

void recorded(JobFlow& flow, std::string step, std::string state) {
  api::flow::FlowJobStatus record;
  record.name = job_name_of("f", step);
  record.state = std::move(state);
  flow.status.job_status_list.push_back(std::move(record));
}

TEST(FlowPlan, StepsStartWhenAllTheirTargetsAreDone) {
  const JobFlow flow = flow_of({"a", "b:a", "c:a", "d:b,c", "e"});
  EXPECT_EQ(created(plan_flow(observed(flow, {}))), "a,e");
  for (const char* phase : {"", "Pending", "Running", "Completing", "Restarting", "Terminating", "Aborting"})
    EXPECT_EQ(created(plan_flow(observed(flow, {job_of("a", phase)}))), "e") << phase;
  EXPECT_EQ(created(plan_flow(observed(flow, {job_of("a", "Completed")}))), "b,c,e");
  EXPECT_EQ(
      created(plan_flow(observed(flow, {job_of("a", "Completed"), job_of("b", "Completed"), job_of("c", "Running")}))),
      "e");
  EXPECT_EQ(created(plan_flow(
                observed(flow, {job_of("a", "Completed"), job_of("b", "Completed"), job_of("c", "Completed")}))),
            "d,e");
  for (const char* phase : {"Failed", "Terminated", "Aborted"}) {
    const FlowPlan plan = plan_flow(observed(flow, {job_of("a", "Completed"), job_of("b", phase)}));
    EXPECT_EQ(created(plan), "") << phase;
    EXPECT_EQ(plan.phase, Failed) << phase;
    ASSERT_EQ(plan.lost.size(), 1u);
    EXPECT_EQ(plan.lost[0].name, "f-b");
  }
}

TEST(FlowPlan, AnEmptyFlowWaits) {
  const JobFlow flow = flow_of({});
  EXPECT_EQ(plan_flow(observed(flow, {})).phase, Pending);
}

TEST(FlowPlan, OneNameTwiceIsOneJob) {
  const JobFlow flow = flow_of({"a", "a", "b:a"});
  EXPECT_EQ(created(plan_flow(observed(flow, {}))), "a");
  EXPECT_EQ(plan_flow(observed(flow, {job_of("a", "Completed"), job_of("b", "Completed")})).phase, Succeed);
}

TEST(FlowPlan, WhatIsRecordedAsDoneStaysDone) {
  JobFlow flow = flow_of({"a", "b:a"});
  recorded(flow, "a", "Completed");
  const FlowPlan plan = plan_flow(observed(flow, {}));
  EXPECT_EQ(created(plan), "b");
  EXPECT_EQ(plan.status.completed_jobs, std::vector<std::string>{"f-a"});
  EXPECT_TRUE(plan.status.conditions.empty());
  EXPECT_EQ(plan_flow(observed(flow, {job_of("b", "Completed")})).phase, Succeed);
}

TEST(FlowPlan, UsersF_3838_ALostJobThatWasDeletedIsMadeAgain) {
  for (const char* end : {"Failed", "Terminated", "Aborted"}) {
    JobFlow flow = flow_of({"a", "b:a"});
    flow.status.state.phase = "Failed";
    recorded(flow, "a", end);
    FlowPlan plan = plan_flow(observed(flow, {}));
    EXPECT_EQ(created(plan), "a") << end;
    EXPECT_EQ(plan.phase, Running) << end;
    // Nobody knows who deleted a job that deletes itself.
    ObservedFlow expiring = observed(flow, {});
    expiring.templates["a"].expires = true;
    plan = plan_flow(expiring);
    EXPECT_EQ(created(plan), "") << end;
    EXPECT_EQ(plan.phase, Failed) << end;
    ASSERT_EQ(plan.lost.size(), 1u);
    EXPECT_FALSE(plan.lost[0].exists);
    expiring.templates.clear();
    EXPECT_EQ(plan_flow(expiring).phase, Failed) << end;
    // While another one is lost, nothing is made.
    flow.spec.flows.push_back(flow_of({"c"}).spec.flows[0]);
    EXPECT_EQ(created(plan_flow(observed(flow, {job_of("c", "Failed")}))), "") << end;
  }
}

TEST(FlowPlan, AJobThatVanishedAtItsEndIsRecorded) {
  const JobFlow flow = flow_of({"a", "b:a"});
  ObservedFlow seen = observed(flow, {});
  seen.gone["f-a"] = job_of("a", "Completed");
  const FlowPlan plan = plan_flow(seen);
  EXPECT_EQ(created(plan), "b");
  ASSERT_NE(find_record(plan.status, "f-a"), nullptr);
  EXPECT_EQ(find_record(plan.status, "f-a")->state, "Completed");
  // One that is there again is what counts.
  seen.jobs = {job_of("a", "Running")};
  EXPECT_EQ(created(plan_flow(seen)), "");
}

TEST(FlowPlan, SucceededFlowsMakeNothingAndDeleteOnlyIfToldTo) {
  JobFlow flow = flow_of({"a", "b:a"});
  flow.status.state.phase = "Succeed";
  EXPECT_EQ(created(plan_flow(observed(flow, {}))), "");
  EXPECT_TRUE(plan_flow(observed(flow, {job_of("a", "Completed")})).remove.empty());
  flow.spec.job_retain_policy = "delete";
  const FlowPlan plan = plan_flow(observed(flow, {job_of("a", "Completed")}));
  EXPECT_EQ(plan.remove.size(), 1u);
  EXPECT_FALSE(plan.has_news);
  flow.status.state.phase = "Running";
  EXPECT_TRUE(plan_flow(observed(flow, {job_of("a", "Completed")})).remove.empty());
}

TEST(FlowPlan, OtherJobsOfTheNameAndMissingTemplatesAreTold) {
  const JobFlow flow = flow_of({"a", "b", "c"});
  ObservedFlow seen = observed(flow, {});
  seen.foreign.insert("f-a");
  seen.templates.erase("b");
  const FlowPlan plan = plan_flow(seen);
  EXPECT_EQ(created(plan), "c");
  EXPECT_TRUE(plan.waits_for_foreign);
  ASSERT_EQ(plan.problems.size(), 2u);
  EXPECT_NE(plan.problems[0].find("f-a exists"), std::string::npos);
  EXPECT_NE(plan.problems[1].find("JobTemplate b"), std::string::npos);
}

TEST(FlowPlan, GraphsThatCannotEndAreTold) {
  EXPECT_TRUE(graph_problems(flow_of({"a", "b:a", "c:a,b"}).spec).empty());
  EXPECT_NE(graph_problems(flow_of({"b:a"}).spec).at(0).find("\"a\" is not a step"), std::string::npos);
  EXPECT_NE(graph_problems(flow_of({"a:a"}).spec).at(0).find("waits for itself"), std::string::npos);
  EXPECT_NE(graph_problems(flow_of({"x", "a:c", "b:a", "c:b"}).spec).at(0).find("step a"), std::string::npos);
}

// 40 steps that each depend on all before them: 2^38 ways, but only 780 targets.
TEST(FlowPlan, F19DenseGraphsAreQuick) {
  JobFlow flow;
  flow.metadata.name = "f";
  std::vector<JobPtr> jobs;
  for (int i = 0; i < 40; ++i) {
    api::flow::Flow step;
    step.name = "s" + std::to_string(i);
    step.depends_on.emplace();
    for (const auto& earlier : flow.spec.flows) step.depends_on->targets.push_back(earlier.name);
    flow.spec.flows.push_back(step);
    if (i < 39) jobs.push_back(job_of(step.name, "Completed"));
  }
  const FlowPlan plan = plan_flow(observed(flow, jobs));
  EXPECT_EQ(created(plan), "s39");
  EXPECT_TRUE(plan.problems.empty());
}

TEST(FlowPlan, WideFlowsAreMadeInPortions) {
  JobFlow flow;
  flow.metadata.name = "f";
  for (std::size_t i = 0; i < kJobsAtOnceMax + 1; ++i) {
    api::flow::Flow step;
    step.name = "s" + std::to_string(i);
    flow.spec.flows.push_back(step);
  }
  FlowPlan plan = plan_flow(observed(flow, {}));
  EXPECT_EQ(plan.create.size(), kJobsAtOnceMax);
  EXPECT_TRUE(plan.has_more);
  flow.spec.flows.pop_back();
  EXPECT_FALSE(plan_flow(observed(flow, {})).has_more);
}

TEST(FlowPlan, StatusOfAJob) {
  JobFlow flow = flow_of({"a"});
  auto job = std::make_shared<api::batch::Job>(*job_of("a", "Completed"));
  job->status.retry_count = 2;
  job->status.running_duration = api::Duration(std::chrono::seconds(30));
  job->status.task_status_count["t"].phase["Succeeded"] = 3;
  const FlowPlan plan = plan_flow(observed(flow, {job}));
  const auto& record = plan.status.job_status_list.at(0);
  EXPECT_EQ(record.restart_count, 2);
  EXPECT_EQ(record.start_timestamp, api::Time::from_unix(100));
  EXPECT_EQ(record.end_timestamp, api::Time::from_unix(130));
  EXPECT_EQ(plan.status.conditions.at("f-a").task_status_count.at("t").phase.at("Succeeded"), 3);
  EXPECT_TRUE(plan.has_news);
  flow.status = plan.status;
  ObservedFlow later = observed(flow, {job});
  later.now = api::Time::from_unix(2000);
  EXPECT_FALSE(plan_flow(later).has_news) << "time alone is no news";
}

TEST(FlowPlan, HistoriesAreBounded) {
  JobFlow flow = flow_of({"a"});
  for (std::size_t i = 0; i < 2 * kHistoriesMax; ++i)
    flow.status = plan_flow(observed(flow, {job_of("a", i % 2 == 0 ? "Running" : "Restarting")})).status;
  const auto& histories = flow.status.job_status_list.at(0).running_histories;
  EXPECT_EQ(histories.size(), kHistoriesMax);
  EXPECT_EQ(histories.back().state, "Restarting");
  EXPECT_FALSE(histories.back().end_timestamp);
}

TEST(FlowPlan, BodiesOfJobs) {
  const JobFlow flow = flow_of({"a"});
  api::flow::JobTemplate job_template;
  job_template.metadata.name = "a";
  job_template.spec = json::Raw::of(std::string(R"({"maxRetry":7,"odd":{"kept":true}})"));
  const auto body = json::Value::parse(job_body(flow, job_template));
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(body->string_at({"metadata", "name"}), "f-a");
  EXPECT_EQ(body->find_path({"spec", "maxRetry"})->as_int(), 7);
  EXPECT_TRUE(body->find_path({"spec", "odd", "kept"})->as_bool());
  EXPECT_FALSE(makes_expiring_jobs(job_template));
  job_template.spec = json::Raw::of(std::string(R"({"tasks":[{"name":"ttlSecondsAfterFinished"}]})"));
  EXPECT_FALSE(makes_expiring_jobs(job_template));
  job_template.spec = json::Raw::of(std::string(R"({"ttlSecondsAfterFinished":0})"));
  EXPECT_TRUE(makes_expiring_jobs(job_template));
}

TEST(FlowPlan, VanishedJobsAreKeptUntilTheyAreWrittenDown) {
  FinishedJobs finished;
  finished.keep({"ns", "f"}, job_of("a", "Completed"));
  const auto first = finished.of({"ns", "f"});
  EXPECT_EQ(first.size(), 1u);
  EXPECT_TRUE(finished.of({"ns", "g"}).empty());
  // Made again and gone again since: that one is not written down yet.
  finished.keep({"ns", "f"}, job_of("a", "Failed"));
  finished.forget({"ns", "f"}, first);
  EXPECT_EQ(finished.of({"ns", "f"}).at("f-a")->status.state.phase, "Failed");
  finished.forget_all({"ns", "f"});
  EXPECT_TRUE(finished.of({"ns", "f"}).empty());
  for (std::size_t i = 0; i <= FinishedJobs::kJobsMax; ++i)
    finished.keep({"ns", "h"}, job_of(std::to_string(i), "Completed"));
  EXPECT_EQ(finished.of({"ns", "h"}).size(), FinishedJobs::kJobsMax);
}

}  // namespace
}  // namespace basalt::controllers::jobflow
