#include <gtest/gtest.h>

#include <map>

#include "rt/sim_test_support.h"
#include "workloads/job/index_set.h"
#include "workloads/job/job_plan.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::Fate;
using testing::with_fixture;

TEST(IndexSet, TextAndGaps) {
  IndexSet set = IndexSet::parse("0-2,5,7,8");
  EXPECT_EQ(set.to_text(), "0-2,5,7,8");
  EXPECT_EQ(set.size(), 6);
  set.add(6);
  EXPECT_EQ(set.to_text(), "0-2,5-8");
  set.add(6);
  EXPECT_EQ(set.size(), 7);
  EXPECT_EQ(set.next_free(0), 3);
  EXPECT_EQ(set.next_free(4), 4);
  EXPECT_EQ(set.next_free(5), 9);
  EXPECT_TRUE(set.contains(7));
  EXPECT_FALSE(set.contains(4));
  EXPECT_EQ(set.below(6).to_text(), "0-2,5");
  EXPECT_EQ(IndexSet::parse("x,3-1,,4").to_text(), "4");
  IndexSet many;
  for (std::int64_t i = 0; i < 100; i += 2) many.add(i);
  for (std::int64_t i = 1; i < 100; i += 2) many.add(i);
  EXPECT_EQ(many.to_text(), "0-99");
}

TEST(FailurePolicy, TheFirstRuleThatAppliesDecides) {
  const auto job = json::from_text<Object>(R"({"spec":{"podFailurePolicy":{"rules":[
      {"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget"}]},
      {"action":"FailJob","onExitCodes":{"containerName":"main","operator":"In","values":[42]}},
      {"action":"Count","onExitCodes":{"operator":"In","values":[1]}},
      {"action":"FailIndex","onExitCodes":{"operator":"In","values":[4]}},
      {"action":"FailJob","onExitCodes":{"operator":"NotIn","values":[2]}}]}}})");
  ASSERT_TRUE(job.ok());
  const auto verdict = [&](std::string_view container, int code, bool disrupted = false) {
    Pod pod;
    pod.exits.push_back({container, code});
    if (disrupted) pod.conditions.push_back({"DisruptionTarget", "True"});
    return judge_failure(*job, pod).action;
  };
  EXPECT_EQ(verdict("main", 42), FailureAction::FailJob);
  EXPECT_EQ(verdict("main", 42, true), FailureAction::Ignore);
  EXPECT_EQ(verdict("other", 1), FailureAction::Count);
  EXPECT_EQ(verdict("other", 2), FailureAction::Count);
  EXPECT_EQ(verdict("other", 3), FailureAction::FailJob);
  EXPECT_EQ(verdict("other", 0), FailureAction::Count);
  EXPECT_EQ(verdict("other", 4), FailureAction::FailIndex);
}

// Evicted, and gone from its node without a last word about its phase.
TEST(FailurePolicy, APodThatIsStoppedIsJudgedByItsConditions) {
  const auto job = json::from_text<Object>(R"({"metadata":{"name":"j","uid":"u"},"spec":{"backoffLimit":0,
      "completions":1,"parallelism":1,"podReplacementPolicy":"Failed","podFailurePolicy":{"rules":[
      {"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget"}]}]}},"status":{"startTime":"2024-01-01T00:00:00Z"}})");
  ASSERT_TRUE(job.ok());
  for (const bool is_evicted : {true, false}) {
    auto pod = std::make_shared<Pod>();
    pod->metadata.name = "p";
    pod->metadata.uid = "1";
    pod->metadata.deletion = api::Time::from_unix(1'800'000'000);
    pod->phase = "Running";
    pod->is_tracked = true;
    pod->is_stopped = true;
    if (is_evicted) pod->conditions.push_back({"DisruptionTarget", "True"});
    const JobPlan plan = plan_job(*job, {pod}, rt::WallTime(std::chrono::seconds(1'800'000'001)));
    EXPECT_EQ(find_condition(plan.status, "FailureTarget") == nullptr, is_evicted);
    EXPECT_EQ(plan.releases.size(), 1u);
  }
}

Fate runs(rt::Duration time, int exit_code = 0) { return {.run_for = time, .exit_code = exit_code}; }

void apply(Fixture& f, std::string_view spec) {
  f.cluster.apply("{apiVersion: batch/v1, kind: Job, metadata: {name: sum}, spec: {" + std::string(spec) +
                  (spec.empty() ? "" : ", ") +
                  "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}");
}
bool is(Fixture& f, std::string_view type, std::string_view reason) {
  return f.condition(resources::kJobs, "sum", type) == "True " + std::string(reason);
}
std::int64_t count(Fixture& f, std::string_view field) { return f.number(resources::kJobs, "sum", {"status", field}); }
bool has_finalizers(Fixture& f) {
  bool found = false;
  for (const json::Value& pod : f.pods()) found |= !list_at(pod, {"metadata", "finalizers"}).empty();
  return found;
}

TEST(CoreJob, CompletesWithAsManyAtOnceAsAllowed) {
  with_fixture(
      [](Fixture& f) {
        apply(f, "completions: 5, parallelism: 2");
        for (int i = 0; i < 2000 && !is(f, "Complete", "CompletionsReached"); ++i) {
          f.rest(std::chrono::milliseconds(10));
          EXPECT_LE(f.active().size(), 2u);
        }
        EXPECT_TRUE(is(f, "Complete", "CompletionsReached"));
        EXPECT_EQ(count(f, "succeeded"), 5);
        EXPECT_EQ(count(f, "failed"), 0);
        EXPECT_EQ(count(f, "active"), 0);
        EXPECT_EQ(f.kubelet.names().size(), 5u);
        EXPECT_NE(f.text(resources::kJobs, "sum", {"status", "completionTime"}), "");
        EXPECT_FALSE(has_finalizers(f));
        f.rest(seconds(1));
        const auto writes = f.process->writes("jobs");
        f.rest(minutes(30));
        EXPECT_EQ(f.process->writes("jobs"), writes);
        f.cluster.remove(resources::kJobs, "default", "sum");
        EXPECT_TRUE(f.wait([&] { return f.pods().empty(); }));
      },
      [](const Pod&) { return runs(seconds(1)); });
}

TEST(CoreJob, IndexedPodsEachHaveTheirOwn) {
  std::map<std::string, int> tries;
  with_fixture(
      [&](Fixture& f) {
        apply(f, "completions: 3, parallelism: 3, completionMode: Indexed");
        EXPECT_TRUE(f.wait([&] { return is(f, "Complete", "CompletionsReached"); }, minutes(5)));
        EXPECT_EQ(f.text(resources::kJobs, "sum", {"status", "completedIndexes"}), "0-2");
        EXPECT_EQ(count(f, "succeeded"), 3);
        EXPECT_EQ(count(f, "failed"), 1);
        for (const json::Value& pod : f.pods()) {
          const std::string_view index = annotation_of(pod, kCompletionIndexAnnotation);
          EXPECT_EQ(pod.string_at({"spec", "hostname"}), "sum-" + std::string(index));
          EXPECT_EQ(list_at(list_at(pod, {"spec", "containers"}).front(), {"env"}).front().string_at({"name"}),
                    "JOB_COMPLETION_INDEX");
        }
        tries.clear();
      },
      // The first pod of index 1 fails.
      [&tries](const Pod& pod) {
        if (pod.completion_index != "1") return runs(seconds(1));
        if (tries.empty()) tries[pod.metadata.uid.str()] = 1;
        return runs(seconds(1), tries.contains(pod.metadata.uid.str()) ? 3 : 0);
      });
}

TEST(CoreJob, FailsPastItsBackoffLimitWithPausesBetween) {
  with_fixture(
      [](Fixture& f) {
        apply(f, "backoffLimit: 2");
        f.rest(seconds(9));
        EXPECT_EQ(f.kubelet.names().size(), 1u);  // the next comes after ten seconds, then twenty
        EXPECT_TRUE(f.wait([&] { return is(f, "Failed", "BackoffLimitExceeded"); }, minutes(2)));
        EXPECT_EQ(f.kubelet.names().size(), 3u);
        EXPECT_EQ(count(f, "failed"), 3);
        EXPECT_FALSE(has_finalizers(f));
      },
      [](const Pod&) { return runs(seconds(1), 1); });
}

TEST(CoreJob, ADeadlineEndsItAndItsPods) {
  with_fixture(
      [](Fixture& f) {
        apply(f, "completions: 2, parallelism: 2, activeDeadlineSeconds: 30");
        f.rest(seconds(28));
        EXPECT_EQ(f.count_ready(), 2u);
        EXPECT_TRUE(f.wait([&] { return is(f, "Failed", "DeadlineExceeded"); }, seconds(10)));
        EXPECT_TRUE(f.wait([&] { return f.active().empty(); }));
        EXPECT_EQ(count(f, "failed"), 2);
      },
      [](const Pod&) { return Fate{}; });
}

TEST(CoreJob, SuspendedItHasNoPodsAndCountsNoFailure) {
  with_fixture(
      [](Fixture& f) {
        apply(f, "completions: 2, parallelism: 2, suspend: true");
        f.rest(seconds(10));
        EXPECT_TRUE(f.pods().empty());
        EXPECT_TRUE(is(f, "Suspended", "JobSuspended"));
        f.cluster.patch(resources::kJobs, "default", "sum", R"({"spec":{"suspend":false}})");
        EXPECT_TRUE(f.wait([&] { return f.count_ready() == 2; }));
        f.cluster.patch(resources::kJobs, "default", "sum", R"({"spec":{"suspend":true}})");
        EXPECT_TRUE(f.wait([&] { return f.pods().empty(); }));
        f.cluster.patch(resources::kJobs, "default", "sum", R"({"spec":{"suspend":false}})");
        EXPECT_TRUE(f.wait([&] { return is(f, "Complete", "CompletionsReached"); }, minutes(2)));
        EXPECT_EQ(count(f, "failed"), 0);
        EXPECT_EQ(f.condition(resources::kJobs, "sum", "Suspended"), "False JobResumed");
      },
      [](const Pod&) { return runs(seconds(20)); });
}

TEST(CoreJob, ItGoesWhenItsTimeIsOver) {
  with_fixture(
      [](Fixture& f) {
        apply(f, "ttlSecondsAfterFinished: 60");
        EXPECT_TRUE(f.wait([&] { return is(f, "Complete", "CompletionsReached"); }));
        f.rest(seconds(55));
        EXPECT_TRUE(f.cluster.get(resources::kJobs, "default", "sum").has_value());
        EXPECT_TRUE(f.wait([&] { return !f.cluster.get(resources::kJobs, "default", "sum"); }, seconds(10)));
        EXPECT_TRUE(f.wait([&] { return f.pods().empty(); }));
      },
      [](const Pod&) { return runs(seconds(1)); });
}

TEST(CoreJob, AWorkQueueEndsWhenOneSaysSo) {
  with_fixture(
      [](Fixture& f) {
        apply(f, "parallelism: 3");
        EXPECT_TRUE(f.wait([&] { return is(f, "Complete", "CompletionsReached"); }));
        EXPECT_EQ(count(f, "succeeded"), 3);
        EXPECT_EQ(f.kubelet.names().size(), 3u);
      },
      [](const Pod&) { return runs(seconds(2)); });
}

TEST(CoreJob, ADeletedPodIsMadeAgainAndADeletedJobLeavesNone) {
  with_fixture(
      [](Fixture& f) {
        apply(f, "completions: 1");
        EXPECT_TRUE(f.wait([&] { return f.count_ready() == 1; }));
        f.cluster.remove(resources::kPods, "default", f.pods().front().string_at({"metadata", "name"}));
        EXPECT_TRUE(f.wait([&] { return f.kubelet.names().size() == 2 && f.count_ready() == 1; }));
        EXPECT_TRUE(f.wait([&] { return count(f, "failed") == 1; }));
        // Its pods carry a finalizer, and nobody is left to ask.
        f.cluster.remove(resources::kJobs, "default", "sum");
        EXPECT_TRUE(f.wait([&] { return f.pods().empty(); }));
      },
      [](const Pod&) { return Fate{}; });
}

TEST(CoreJob, AnIndexMayFailForItself) {
  with_fixture(
      [](Fixture& f) {
        apply(f, "completions: 3, parallelism: 3, completionMode: Indexed, backoffLimitPerIndex: 1");
        EXPECT_TRUE(f.wait([&] { return is(f, "Failed", "FailedIndexes"); }, minutes(5)));
        EXPECT_EQ(f.text(resources::kJobs, "sum", {"status", "failedIndexes"}), "1");
        EXPECT_EQ(f.text(resources::kJobs, "sum", {"status", "completedIndexes"}), "0,2");
        EXPECT_EQ(count(f, "failed"), 2);
        EXPECT_EQ(f.kubelet.names().size(), 4u);
      },
      [](const Pod& pod) { return runs(seconds(1), pod.completion_index == "1" ? 1 : 0); });
}

TEST(CoreJob, APolicyEndsItAtOnce) {
  with_fixture(
      [](Fixture& f) {
        apply(f,
              "backoffLimit: 6, podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: "
              "[42]}}]}");
        EXPECT_TRUE(f.wait([&] { return is(f, "Failed", "PodFailurePolicy"); }));
        EXPECT_EQ(f.kubelet.names().size(), 1u);
      },
      [](const Pod&) { return runs(seconds(1), 42); });
}

TEST(IndexSet, WhatTwoHaveInCommon) {
  const auto common = [](std::string_view a, std::string_view b) {
    const std::int64_t count = IndexSet::parse(a).count_common(IndexSet::parse(b));
    EXPECT_EQ(IndexSet::parse(b).count_common(IndexSet::parse(a)), count);
    return count;
  };
  EXPECT_EQ(common("", "0-5"), 0);
  EXPECT_EQ(common("0-9", "3,5-7,9-12"), 5);
  EXPECT_EQ(common("0,2,4", "1,3,5"), 0);
  EXPECT_EQ(common("0-2,8-9", "1-8"), 3);
}

TEST(JobSuccessPolicy, TheFirstRuleThatIsFulfilledCounts) {
  const auto verdict = [](std::string_view rules, std::string_view succeeded) {
    const auto spec = json::Value::parse(R"({"successPolicy":{"rules":)" + std::string(rules) + "}}");
    return judge_success(*spec, IndexSet::parse(succeeded));
  };
  EXPECT_EQ(verdict(R"([{"succeededIndexes":"0,2"}])", "0-1"), "");
  EXPECT_EQ(verdict(R"([{"succeededIndexes":"0,2"}])", "0-2"), "Matched rules at index 0");
  EXPECT_EQ(verdict(R"([{"succeededIndexes":"0-9","succeededCount":2}])", "3"), "");
  EXPECT_EQ(verdict(R"([{"succeededIndexes":"0-9","succeededCount":2}])", "3,12,7"), "Matched rules at index 0");
  EXPECT_EQ(verdict(R"([{"succeededIndexes":"9"},{"succeededCount":1}])", "5"), "Matched rules at index 1");
  EXPECT_EQ(verdict("[]", "0-9"), "");
}

TEST(CoreJob, SucceedsByItsPolicyWhileOtherIndexesRun) {
  rt::run_seeds(1, 4, [](rt::SimRuntime& runtime) {
    Fixture f(runtime,
              [](const Pod& pod) { return pod.completion_index == "0" ? Fate{.run_for = seconds(1)} : Fate{}; });
    f.start();
    f.cluster.apply(
        "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {completions: 3, parallelism: 3, "
        "completionMode: Indexed, successPolicy: {rules: [{succeededIndexes: '0'}]}, template: {spec: {restartPolicy: "
        "Never, containers: [{name: c, image: i}]}}}}");
    EXPECT_TRUE(f.wait([&] { return f.condition(resources::kJobs, "j", "Complete") == "True SuccessPolicy"; }));
    EXPECT_EQ(f.condition(resources::kJobs, "j", "SuccessCriteriaMet"), "True SuccessPolicy");
    EXPECT_EQ(f.text(resources::kJobs, "j", {"status", "completedIndexes"}), "0");
    EXPECT_EQ(f.number(resources::kJobs, "j", {"status", "failed"}), 0);
    EXPECT_TRUE(f.active().empty());
  });
}

}  // namespace
}  // namespace basalt::workloads
