#include <algorithm>

#include "controllers/job/testing/job_bench.h"
#include "rt/test_size.h"

// More of what users of Volcano and its peers suffered from: writes and reasons. Names as in users_test.cc.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

void say_unschedulable(Bench& bench, const std::string& job, const std::string& message, const std::string& id = "x") {
  bench.cluster.patch(
      resources::kPodGroups, "default", bench.group_name(job),
      R"({"status":{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True","transitionID":")" + id +
          R"(","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"NotEnoughResources","message":")" + message +
          R"("}]}})");
}

// Where there is room for some pods only, those that the gang cannot start without are made first: of every task.
TEST(JobUsers, UsersE_4994_WhatTheGangNeedsIsMadeFirst) {
  scenario([](Bench& bench) {
    bench.quota->left = 3;
    bench.cluster.apply(
        JobText{.tasks = {{"worker", 5}, {"master", 1}}, .min_available = 2, .task_more = "    minAvailable: 1\n"}
            .yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.eventually([&] { return bench.pod_names().size() == 3; }));
    EXPECT_FALSE(bench.pod_uid("j-master-0").empty());
    EXPECT_FALSE(bench.pod_uid("j-worker-0").empty());
    ASSERT_TRUE(bench.eventually([&] { return bench.state("reason") == "PodCreateFailed"; }));
    bench.set_all("Running");
    EXPECT_TRUE(bench.reaches("Running"));
    bench.quota->left = -1;
    EXPECT_TRUE(bench.eventually([&] { return bench.pod_names().size() == 6; }, 70s));
  });
}

// Several causes at once are told in the order in which they stand in the way, and none covers another up.
TEST(JobUsers, UsersC_2357_TheFirstCauseIsToldAndNoneIsLost) {
  scenario([](Bench& bench) {
    bench.cluster.patch(resources::kQueues, "", "default", R"({"status":{"state":"Closed"}})", "status");
    bench.cluster.apply(JobText{.spec = "  volumes:\n  - {mountPath: /data, volumeClaimName: mine}\n"}.yaml());
    ASSERT_TRUE(bench.eventually([&] { return bench.state("reason") == "ClaimNotFound"; }));
    bench.let_pass(5s);
    EXPECT_EQ(bench.state("reason"), "ClaimNotFound") << "nothing later in the chain covers it up";
    bench.cluster.apply(
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: mine}, spec: {accessModes: [ReadWriteOnce], "
        "resources: {requests: {storage: 1Gi}}}}");
    ASSERT_TRUE(bench.eventually([&] { return bench.state("reason") == "QueueNotOpen"; }));
    ASSERT_TRUE(bench.eventually([&] { return !bench.group_uid().empty(); }));
    say_unschedulable(bench, "j", "pod group is not ready, 2 minAvailable");
    bench.let_pass(5s);
    EXPECT_EQ(bench.state("reason"), "QueueNotOpen") << "the scheduler's general word is not the cause";
    bench.cluster.patch(resources::kQueues, "", "default", R"({"status":{"state":"Open"}})", "status");
    ASSERT_TRUE(bench.eventually([&] { return bench.state("reason") == "PodGroupPending"; }));
    EXPECT_NE(bench.state("message").find("not ready"), std::string::npos) << bench.state("message");
    ASSERT_TRUE(bench.admit());
    EXPECT_TRUE(bench.has_pods(2));
  });
}

// A scheduler that writes the same condition again each minute, as if it were new, makes us write nothing.
TEST(JobUsers, UsersD_3080_NothingIsWrittenForTheSameConditionAgain) {
  scenario(
      [](Bench& bench) {
        bench.cluster.apply(JobText{}.yaml());
        ASSERT_TRUE(bench.eventually([&] { return !bench.group_uid().empty(); }));
        say_unschedulable(bench, "j", "short of cpu", "0");
        bench.let_pass(60s);
        const std::size_t writes = bench.writes();
        for (int minute = 1; minute <= 60; ++minute) {
          say_unschedulable(bench, "j", "short of cpu", std::to_string(minute));
          bench.let_pass(60s);
        }
        EXPECT_EQ(bench.writes(), writes) << bench.write_log();
        EXPECT_EQ(bench.events("PodGroupPending"), 1U);
      },
      {}, 1);
}

// Jobs that are not admitted do not slow down those that are, whatever the scheduler says of them in each session.
TEST(JobUsers, UsersD_8095_WaitingJobsCostFewWritesAndDelayNobody) {
  const std::size_t waiting = rt::test_size<std::size_t>(40);
  scenario(
      [waiting](Bench& bench) {
        const auto name = [](std::size_t i) { return "w" + std::to_string(i); };
        for (std::size_t i = 0; i < waiting; ++i) bench.cluster.apply(JobText{.name = name(i)}.yaml());
        for (std::size_t i = 0; i < waiting; ++i)
          ASSERT_TRUE(bench.eventually([&] { return !bench.group_uid(name(i)).empty(); }));
        const std::size_t writes = bench.writes();
        constexpr int kSessions = 120;
        for (int session = 0; session < kSessions; ++session) {
          for (std::size_t i = 0; i < waiting; ++i)
            say_unschedulable(bench, name(i), "short of " + std::to_string(session) + " cpu");
          bench.let_pass(1s);
        }
        // One for the scheduler's first word, then one in half a minute for other numbers.
        EXPECT_LE(bench.writes() - writes, waiting * (2 + kSessions / 30));
        const rt::Instant before = bench.cluster.runtime().now();
        ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
        EXPECT_LE(bench.cluster.runtime().now() - before, rt::Duration(2s));
      },
      {}, 1);
}

// Thousands of short jobs of one user use up neither the server nor the turn of the others.
TEST(JobUsers, UsersD_120781_OneNamespaceDoesNotTakeTheTurnOfAnother) {
  constexpr int kMany = 150;
  JobControllerOptions options;
  options.workers = 1;
  scenario(
      [](Bench& bench) {
        // Each call takes a while, as on a server under load, and there is one worker.
        bench.faults.set_plan({.delay_max = 40ms});
        bench.cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: crowd}}");
        for (int i = 0; i < kMany; ++i) {
          std::string text = JobText{.name = "c" + std::to_string(i)}.yaml();
          text.insert(text.find("metadata: {") + 11, "namespace: crowd, ");
          bench.cluster.apply(text);
        }
        bench.cluster.apply(JobText{}.yaml());
        ASSERT_TRUE(bench.eventually([&] { return !bench.group_uid().empty(); }));
        std::size_t served = bench.cluster.list(resources::kPodGroups, "crowd").size();
        EXPECT_LT(served, kMany / 2U) << "it was made last and does not wait for all that came before";
        ASSERT_TRUE(
            bench.eventually([&] { return bench.cluster.list(resources::kPodGroups, "crowd").size() == kMany; }, 300s));
      },
      options, 1);
}

}  // namespace
}  // namespace basalt::controllers::job
