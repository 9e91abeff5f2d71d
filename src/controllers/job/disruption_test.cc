#include "controllers/job/testing/job_bench.h"

// Pods that the infrastructure takes (preempted, drained, their node lost): a restart for them spends no retry.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

// A pod that ended as the kubelet or the control plane reports it.
void fail_pod(Bench& bench, const std::string& pod, const std::string& rest_of_status) {
  bench.cluster.patch(resources::kPods, "default", pod, R"({"status":{"phase":"Failed")" + rest_of_status + "}}",
                      "status");
}
const char* const kPreempted =
    R"(,"conditions":[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler"}])";
const char* const kOverItsLimit = R"(,"reason":"Evicted","conditions":[{"type":"Ready","status":"False"}])";

// What there is before a restart, and whether the restart comes: with a group and pods of its own, which then run.
struct Round {
  explicit Round(Bench& with) : bench(with), pod(with.pod_uid("j-t-0")), group(with.group_uid()) {}
  ::testing::AssertionResult runs_again(bool has_new_group = true) {
    const auto is_new = [](const std::string& now, const std::string& before) { return !now.empty() && now != before; };
    if (has_new_group) {
      auto made = bench.eventually([&] { return is_new(bench.group_uid(), group); });
      if (made) made = bench.admit();
      if (!made) return made;
    }
    if (auto made = bench.eventually([&] { return is_new(bench.pod_uid("j-t-0"), pod); }); !made) return made;
    if (auto made = bench.has_pods(2); !made) return made;
    bench.set_all("Running");
    return bench.reaches("Running");
  }
  Bench& bench;
  const std::string pod;
  const std::string group;
};

TEST(JobDisruption, UsersF_2560_EvictionUnderAPolicySpendsNoRetry) {
  for (const char* action : {"RestartJob", "RestartTask", "RestartPod"}) {
    SCOPED_TRACE(action);
    scenario(
        [&](Bench& bench) {
          const JobText text{.policies = "[{event: PodEvicted, action: " + std::string(action) + "}]",
                             .spec = "  maxRetry: 1\n"};
          ASSERT_TRUE(bench.run_job(text.yaml(), 2));
          for (int round = 1; round <= 4; ++round) {
            Round next(bench);
            bench.cluster.remove(resources::kPods, "default", "j-t-0", 0);
            ASSERT_TRUE(next.runs_again(std::string_view(action) == "RestartJob")) << "round " << round;
            EXPECT_EQ(bench.count("retryCount"), round) << "a restart is still told";
          }
          EXPECT_EQ(bench.job().string_at({"status", "controlledResources", "disruptions"}), "4");
        },
        {}, 2);
  }
}

TEST(JobDisruption, UsersF_2560_FailuresByTheInfrastructureSpendNoRetry) {
  for (const char* status :
       {kPreempted, R"(,"reason":"Evicted")", R"(,"reason":"NodeLost")", R"(,"reason":"Terminated")"}) {
    SCOPED_TRACE(status);
    scenario(
        [&](Bench& bench) {
          ASSERT_TRUE(bench.run_job(
              JobText{.policies = "[{event: PodFailed, action: RestartJob}]", .spec = "  maxRetry: 2\n"}.yaml(), 2));
          for (int round = 0; round < 3; ++round) {
            Round next(bench);
            fail_pod(bench, "j-t-0", status);
            ASSERT_TRUE(next.runs_again()) << "round " << round;
          }
          // Its own failures are counted from the beginning: the first restarts it, the second is one too many.
          Round next(bench);
          bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
          ASSERT_TRUE(next.runs_again());
          bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
          ASSERT_TRUE(bench.reaches("Failed"));
          EXPECT_EQ(bench.count("retryCount"), 5);
          EXPECT_NE(bench.state("message").find("failed 2 times"), std::string::npos) << bench.state("message");
        },
        {}, 1);
  }
}

// A pod that is evicted for what it did itself is not run for ever.
TEST(JobDisruption, OverItsOwnLimitSpendsRetries) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(
        JobText{.policies = "[{event: PodFailed, action: RestartJob}]", .spec = "  maxRetry: 2\n"}.yaml(), 2));
    Round next(bench);
    fail_pod(bench, "j-t-0", kOverItsLimit);
    ASSERT_TRUE(next.runs_again());
    fail_pod(bench, "j-t-0", kOverItsLimit);
    EXPECT_TRUE(bench.reaches("Failed"));
  });
}

// One pod fails by itself at the moment in which another is taken.
TEST(JobDisruption, FailureBesideAnEvictionSpendsARetry) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(
        JobText{.policies = "[{events: [PodFailed, PodEvicted], action: RestartJob}]", .spec = "  maxRetry: 1\n"}
            .yaml(),
        2));
    bench.stop();
    fail_pod(bench, "j-t-0", kPreempted);
    bench.cluster.set_pod_phase("default", "j-t-1", "Failed");
    bench.start();
    EXPECT_TRUE(bench.reaches("Failed"));
    EXPECT_EQ(bench.job().string_at({"status", "controlledResources", "disruptions"}), "");
  });
}

// A gang that lost members without a failure of its own; and one whose member failed.
TEST(JobDisruption, UnknownGroupSpendsARetryOnlyForFailures) {
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    scenario([fails](Bench& bench) {
      ASSERT_TRUE(bench.run_job(
          JobText{.policies = "[{event: Unknown, action: RestartJob}]", .spec = "  maxRetry: 1\n"}.yaml(), 2));
      if (fails) {
        bench.cluster.set_pod_phase("default", "j-t-1", "Failed");
        ASSERT_TRUE(bench.eventually([&] { return bench.count("failed") == 1; }));
      }
      Round next(bench);
      bench.cluster.set_pod_group_phase("default", bench.group_name(), "Unknown");
      if (fails) {
        EXPECT_TRUE(bench.reaches("Failed"));
      } else {
        EXPECT_TRUE(next.runs_again());
      }
    });
  }
}

// The node goes while no controller runs: what is found missing later is an eviction as well.
TEST(JobDisruption, UsersF_574_NodeIsLostWhileNoControllerRuns) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(
        JobText{.policies = "[{event: PodEvicted, action: RestartJob}]", .spec = "  maxRetry: 1\n"}.yaml(), 2));
    for (int round = 0; round < 2; ++round) {
      bench.let_pass(3s);
      Round next(bench);
      bench.stop();
      bench.cluster.remove(resources::kPods, "default", "j-t-0", 0);
      bench.start();
      ASSERT_TRUE(next.runs_again());
    }
    EXPECT_EQ(bench.count("retryCount"), 2);
  });
}

}  // namespace
}  // namespace basalt::controllers::job
