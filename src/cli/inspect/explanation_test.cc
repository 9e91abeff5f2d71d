#include "cli/inspect/explanation.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/strings.h"
#include "json/reader.h"
#include "yaml/reader.h"

namespace basalt::cli {
namespace {

template <class T>
T of_yaml(std::string_view text) {
  const auto value = yaml::read(text);
  BASALT_CHECK(value.ok());
  auto object = json::from_text<T>(value->to_text());
  BASALT_CHECK(object.ok());
  return std::move(*object);
}

constexpr std::string_view kJob = R"(
metadata: {name: train, namespace: ml, uid: u1, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {minAvailable: 3, queue: team, schedulerName: volcano, tasks: [{name: worker, replicas: 3}]}
status: {state: {phase: Pending, lastTransitionTime: "2026-01-01T00:00:01Z"}})";
constexpr std::string_view kGroup = R"(
metadata: {name: train-u1, namespace: ml, uid: g1, creationTimestamp: "2026-01-01T00:00:01Z"}
spec: {minMember: 3, queue: team, minResources: {cpu: "6", requests.cpu: "6", count/pods: "3"}}
status: {phase: Pending, conditions: [{type: Unschedulable, status: "True", reason: NotEnoughResources, message: cpu is short}]})";
constexpr std::string_view kQueue = R"(
metadata: {name: team}
spec: {capability: {cpu: "8"}}
status: {state: Open, allocated: {cpu: "5"}})";
constexpr std::string_view kNode = R"(
metadata: {name: n1}
status: {allocatable: {cpu: "10"}, conditions: [{type: Ready, status: "True"}]})";

ExplainInput waiting_job() {
  ExplainInput in;
  in.job = of_yaml<api::batch::Job>(kJob);
  in.group = of_yaml<api::scheduling::PodGroup>(kGroup);
  in.queues = {of_yaml<api::scheduling::Queue>(kQueue)};
  in.queue_name = "team";
  in.nodes = {of_yaml<api::core::Node>(kNode)};
  in.in_use = {{"cpu", api::Quantity::of(5)}};
  in.now = rt::WallTime(std::chrono::seconds(1767225700));  // 100 s after the job
  return in;
}

api::scheduling::PodGroup other(std::string_view name, int minute, std::string_view priority = "") {
  return of_yaml<api::scheduling::PodGroup>(
      "metadata: {name: " + std::string(name) + ", namespace: ml, uid: " + std::string(name) +
      ", creationTimestamp: \"2025-12-31T23:" + std::to_string(10 + minute) +
      ":00Z\"}\nspec: {queue: team, priorityClassName: \"" + std::string(priority) + "\"}\nstatus: {phase: Pending}");
}

TEST(Explanation, UsersC_NamesReasonNumbersPlaceAndWayOut) {
  ExplainInput in = waiting_job();
  in.other_groups = {other("older", 1), other("younger", 45), other("urgent", 46, "high")};
  in.other_groups[1].metadata.creation_timestamp = api::Time::from_unix(1767225700);
  in.priorities = {{"high", 100}};
  const Explanation e = explain(in);
  EXPECT_TRUE(e.is_waiting);
  EXPECT_EQ(e.reason, "NotEnoughResources");
  EXPECT_EQ(e.message, "cpu is short");
  ASSERT_EQ(e.gates.size(), 2u);
  EXPECT_EQ(e.gates[0].name, "queue \"team\"");
  ASSERT_EQ(e.gates[0].lines.size(), 1u) << "names that only quotas count are left out";
  EXPECT_EQ(e.gates[0].lines[0].requested.to_string(), "6");
  EXPECT_EQ(e.gates[0].lines[0].free().to_string(), "3");
  EXPECT_EQ(e.gates[0].lines[0].lacking().to_string(), "3");
  EXPECT_TRUE(e.gates[0].is_shut());
  EXPECT_EQ(e.gates[1].name, "cluster");
  EXPECT_EQ(e.gates[1].lines[0].lacking().to_string(), "1");
  EXPECT_EQ(e.position, 3u);
  EXPECT_EQ(e.waiting_in_queue, 4u);
  ASSERT_EQ(e.ahead.size(), 2u);
  EXPECT_EQ(e.ahead[0].name, "ml/urgent") << "the higher priority is served first";
  EXPECT_EQ(e.ahead[0].priority, 100);
  EXPECT_EQ(e.ahead[1].name, "ml/older");
  ASSERT_EQ(e.remedies.size(), 3u);
  EXPECT_NE(e.remedies[0].find("spec.capability.cpu is 8, at least 11 is needed now"), std::string::npos)
      << e.remedies[0];
  EXPECT_NE(e.remedies[1].find("wait until 1 cpu is given back"), std::string::npos) << e.remedies[1];
}

TEST(Explanation, UsersC_CanNeverFitIsSaid) {
  ExplainInput in = waiting_job();
  in.queues[0].spec.capability.clear();
  in.group->spec.min_resources = api::ResourceList{{"cpu", api::Quantity::of(12)}};
  in.in_use.clear();
  const Explanation e = explain(in);
  ASSERT_EQ(e.remedies.size(), 1u);
  EXPECT_NE(e.remedies[0].find("it can never fit on these nodes: ask for at most 10 cpu"), std::string::npos);
}

TEST(Explanation, EachGateHasItsWord) {
  struct Case {
    const char* word;
    const char* remedy;
    void (*change)(ExplainInput&);
  };
  const Case cases[] = {
      {"NoController", "basalt controllers", [](ExplainInput& in) { in.job->status.state.phase.clear(); }},
      {"QueueMissing", "basalt queue create -n team",
       [](ExplainInput& in) {
         in.queues.clear();
         in.group.reset();
       }},
      {"QueueClosed", "basalt queue operate -a open -n team",
       [](ExplainInput& in) {
         in.queues[0].status.state = "Closed";
         in.group->status.conditions.clear();
       }},
      {"PodGroupMissing", "", [](ExplainInput& in) { in.group.reset(); }},
      {"NoScheduler", "no scheduler named \"volcano\" seems to run",
       [](ExplainInput& in) {
         in.group->status.phase.clear();
         in.group->status.conditions.clear();
       }},
      {"DependencyNotReady", "",
       [](ExplainInput& in) {
         in.group->status.conditions.clear();
         in.job->status.state.reason = "DependencyNotReady";
       }},
  };
  for (const Case& test : cases) {
    ExplainInput in = waiting_job();
    test.change(in);
    const Explanation e = explain(in);
    EXPECT_TRUE(e.is_waiting) << test.word;
    EXPECT_EQ(e.reason, test.word);
    EXPECT_NE(base::join(e.remedies, "\n").find(test.remedy), std::string::npos)
        << test.word << ": " << base::join(e.remedies, "\n");
  }
}

TEST(Explanation, UsersC_AnOldConditionOfAGangThatRunsExplainsNothing) {
  ExplainInput in = waiting_job();
  in.job->status.state.phase = "Running";
  in.group->status.phase = "Running";
  const Explanation e = explain(in);
  EXPECT_FALSE(e.is_waiting);
  EXPECT_EQ(e.reason, "");
  EXPECT_TRUE(e.gates.empty());
}

TEST(Explanation, UsersL_ARunningJobWhosePodsCrashIsNotHealthy) {
  ExplainInput in = waiting_job();
  in.job->status.state.phase = "Running";
  in.group->status.phase = "Running";
  in.pods = {of_yaml<api::core::Pod>(R"(
metadata: {name: train-worker-0, namespace: ml}
spec: {nodeName: n1, containers: [{name: main, image: a}]}
status:
  phase: Running
  containerStatuses:
  - {name: main, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff, message: "back-off 40s"}},
     lastState: {terminated: {exitCode: 3}}})")};
  const Explanation e = explain(in);
  ASSERT_EQ(e.pod_problems.size(), 1u);
  EXPECT_EQ(e.pod_problems[0].failure.reason, "CrashLoopBackOff");
  EXPECT_EQ(e.pod_problems[0].failure.details, "container main: exit code 3, restarted 4 times (back-off 40s)");
  ASSERT_EQ(e.remedies.size(), 1u);
  EXPECT_EQ(e.remedies[0], "read what the pods wrote: basalt logs train -n ml");
}

TEST(Explanation, UsersC_4311_TheSchedulersOwnNumbersAreShown) {
  ExplainInput in = waiting_job();
  in.group->metadata.annotations.set(
      "basalt.volcano.sh/pending",
      R"({"kind":"ClusterTooSmall","text":"the gang needs more than all nodes have","needed":3,"fitted":1,"position":7,
          "waiting":9,"ahead":"ml/big","holder":"ml/hog","unblock":"2 more nodes",
          "short":[{"resource":"cpu","requested":"12","free":"2","lacking":"10"}]})");
  EXPECT_TRUE(is_explained_by_scheduler(*in.group));
  in.groups_are_cut = true;
  Explanation e = explain(in);
  EXPECT_EQ(e.reason, "ClusterTooSmall");
  EXPECT_EQ(e.message, "the gang needs more than all nodes have");
  ASSERT_EQ(e.shortages.size(), 1u);
  EXPECT_EQ(e.shortages[0].requested + "/" + e.shortages[0].free + "/" + e.shortages[0].lacking, "12/2/10");
  EXPECT_EQ(e.position, 7u);
  EXPECT_EQ(e.waiting_in_queue, 9u);
  EXPECT_FALSE(e.position_is_a_minimum);
  ASSERT_EQ(e.ahead.size(), 1u);
  EXPECT_EQ(e.ahead[0].name, "ml/big");
  EXPECT_EQ(e.holder, "ml/hog");
  EXPECT_EQ(e.fitted, 1);
  ASSERT_GE(e.remedies.size(), 1u);
  EXPECT_EQ(e.remedies[0], "2 more nodes");
  EXPECT_EQ(to_json(e).find_path({"short"})->as_array().size(), 1u);
  // Where all groups were read, the place is the one of now.
  in.groups_are_cut = false;
  in.other_groups = {other("older", 1)};
  e = explain(in);
  EXPECT_EQ(e.position, 2u);
  EXPECT_EQ(e.waiting_in_queue, 2u);
  EXPECT_EQ(e.ahead.at(0).name, "ml/older");
  // What was written for a wait that is over, or is not ours, explains nothing.
  in.group->status.phase = "Running";
  in.job->status.state.phase = "Running";
  EXPECT_FALSE(explain(in).is_waiting);
  in = waiting_job();
  in.group->metadata.annotations.set("basalt.volcano.sh/pending", "{\"kind\":\"Nonsense\"}");
  EXPECT_EQ(explain(in).reason, "NotEnoughResources");
}

TEST(Explanation, AServerThatCannotWriteComesFirst) {
  ExplainInput in = waiting_job();
  in.server_problem = "the disk is full";
  const Explanation e = explain(in);
  EXPECT_EQ(e.reason, "ServerNotReady");
  EXPECT_EQ(e.message, "the disk is full");
}

TEST(Explanation, UsersC_WhatKeepsTheJobFromMakingPodsIsToldBeforeThatTheyAreMissing) {
  ExplainInput in = waiting_job();
  in.group->status.phase = "Inqueue";
  in.group->metadata.annotations.set("basalt.volcano.sh/pending",
                                     R"({"kind":"NotEnoughPods","text":"0/3 pods of the gang exist","position":1})");
  EXPECT_EQ(explain(in).reason, "NotEnoughPods");
  in.job->status.state.reason = "PodCreateFailed";
  in.job->status.state.message = "pods \"train-worker-0\" is forbidden";
  Explanation e = explain(in);
  EXPECT_EQ(e.reason, "PodCreateFailed");
  EXPECT_EQ(e.message, "pods \"train-worker-0\" is forbidden");
  ASSERT_EQ(e.remedies.size(), 1u);
  EXPECT_NE(e.remedies[0].find("tried again by themselves"), std::string::npos) << e.remedies[0];
  in.missing_priorities = {"hihg"};
  in.priorities = {{"high", 100}};
  e = explain(in);
  EXPECT_EQ(e.reason, "PriorityClassMissing");
  EXPECT_EQ(e.message, "there is no PriorityClass \"hihg\": the API server refuses the job's pods until there is");
  ASSERT_EQ(e.remedies.size(), 1u);
  EXPECT_NE(e.remedies[0].find("did you mean \"high\"?"), std::string::npos) << e.remedies[0];
  // A gang that waits for room as well is told what the scheduler found.
  in.missing_priorities.clear();
  in.group->metadata.annotations.set("basalt.volcano.sh/pending", R"({"kind":"NoRoom","text":"0/3 pods fit"})");
  EXPECT_EQ(explain(in).reason, "NoRoom");
}

TEST(Explanation, APlaceFarBehindIsRough) {
  ExplainInput in = waiting_job();
  in.groups_are_cut = true;
  for (const auto& [position, is_rough] : {std::pair{"3", false}, std::pair{"5000", true}}) {
    in.group->metadata.annotations.set("basalt.volcano.sh/pending", R"({"kind":"ClusterFull","text":"x","position":)" +
                                                                        std::string(position) + R"(,"waiting":9000})");
    EXPECT_EQ(explain(in).position_is_rough, is_rough) << position;
  }
}

TEST(Explanation, PlacedPodsAreNotAskedForAgain) {
  ExplainInput in = waiting_job();
  for (int i = 0; i < 3; ++i) {
    in.pods.push_back(of_yaml<api::core::Pod>(
        "metadata: {name: p" + std::to_string(i) + ", namespace: ml}\nspec: {" + (i == 0 ? "nodeName: n1, " : "") +
        "containers: [{name: main, image: a, resources: {requests: {cpu: 2}}}]}\nstatus: {phase: Pending}"));
  }
  const Explanation e = explain(in);
  EXPECT_EQ(e.pods_existing, 3);
  EXPECT_EQ(e.pods_placed, 1);
  EXPECT_EQ(e.gates.at(0).lines.at(0).requested.to_string(), "4");
}

TEST(Explanation, TheEndOfAJobIsTold) {
  ExplainInput in = waiting_job();
  in.job->status.state.phase = "Aborted";
  in.job->status.state.reason = "AbortJob";
  in.job->status.state.message = "pod failed";
  const Explanation e = explain(in);
  EXPECT_TRUE(e.is_over);
  EXPECT_FALSE(e.is_waiting);
  EXPECT_EQ(e.message, "pod failed");
  EXPECT_EQ(e.remedies, (std::vector<std::string>{"start it again: basalt job resume train -n ml"}));
  EXPECT_EQ(to_json(e).string_at({"phase"}), "Aborted");
}

}  // namespace
}  // namespace basalt::cli
