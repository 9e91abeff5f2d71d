#include "controllers/job/testing/job_bench.h"

// Scenarios 38 to 61 of the fact sheet: policies and commands; and the users' rows about them.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

JobText with_policies(std::string policies, std::vector<std::pair<std::string, int>> tasks = {{"t", 2}}) {
  JobText text;
  text.tasks = std::move(tasks);
  text.policies = std::move(policies);
  return text;
}
const char* const kRestartOnFailure = "[{event: PodFailed, action: RestartJob}]";

TEST(JobPolicies, Scenario38RestartJob) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(with_policies(kRestartOnFailure).yaml(), 2));
    const std::string old_group = bench.group_uid();
    const std::string old_pod = bench.pod_uid("j-t-1");
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed", 3);
    ASSERT_TRUE(bench.eventually([&] { return bench.count("version") == 1; }));
    EXPECT_EQ(bench.count("retryCount"), 1);
    EXPECT_TRUE(bench.eventually([&] { return is_other(bench.group_uid(), old_group); }));
    EXPECT_TRUE(bench.has_pods(0));
    EXPECT_TRUE(bench.reaches("Pending"));
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    EXPECT_NE(bench.pod_uid("j-t-1"), old_pod);
    EXPECT_EQ(bench.cluster.get(resources::kPods, "default", "j-t-0")
                  ->string_at({"metadata", "annotations", "volcano.sh/job-version"}),
              "1");
    bench.set_all("Running");
    EXPECT_TRUE(bench.reaches("Running"));
    EXPECT_TRUE(bench.eventually([&] { return bench.events("ExecuteAction", "RestartJob") == 1; }));
  });
}

TEST(JobPolicies, UsersF_1718_Scenario39LastRetryFails) {
  scenario([](Bench& bench) {
    JobText text = with_policies(kRestartOnFailure);
    text.spec = "  maxRetry: 2\n";
    ASSERT_TRUE(bench.run_job(text.yaml(), 2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    ASSERT_TRUE(bench.eventually([&] { return bench.count("version") == 1 && bench.pod_names().empty(); }));
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    bench.set_all("Running");
    ASSERT_TRUE(bench.reaches("Running"));
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    ASSERT_TRUE(bench.reaches("Failed"));
    EXPECT_EQ(bench.count("retryCount"), 2);
    // F: the failed pod is kept, the others go.
    EXPECT_TRUE(bench.eventually([&] { return bench.pod_names() == std::vector<std::string>{"j-t-0"}; }));
    EXPECT_TRUE(bench.eventually([&] { return bench.group_uid().empty(); }));
  });
}

struct EndCase {
  const char* name;
  const char* policies;
  const char* phase;
};
TEST(JobPolicies, Scenario41And42Ends) {
  const std::vector<EndCase> cases = {
      {"abort", "[{event: PodFailed, action: AbortJob}]", "Aborted"},
      {"terminate", "[{event: PodFailed, action: TerminateJob}]", "Terminated"},
      {"complete", "[{event: PodFailed, action: CompleteJob}]", "Completed"},
      {"any", "[{event: '*', action: AbortJob}]", "Aborted"},
      {"events", "[{events: [PodEvicted, PodFailed], action: AbortJob}]", "Aborted"},
  };
  for (const EndCase& one : cases) {
    SCOPED_TRACE(one.name);
    scenario([&](Bench& bench) {
      ASSERT_TRUE(bench.run_job(with_policies(one.policies, {{"t", 3}}).yaml(), 3));
      bench.cluster.set_pod_phase("default", "j-t-1", "Failed");
      ASSERT_TRUE(bench.reaches(one.phase));
      EXPECT_EQ(bench.pod_names(), std::vector<std::string>{"j-t-1"});
      EXPECT_EQ(bench.count("failed"), 1);
      EXPECT_EQ(bench.count("running") + bench.count("pending") + bench.count("terminating"), 0);
    });
  }
}

TEST(JobPolicies, Scenario42TaskCompleted) {
  scenario([](Bench& bench) {
    JobText text = with_policies("[]", {{"t", 1}, {"u", 2}});
    text.task_more = "    policies: [{event: TaskCompleted, action: CompleteJob}]\n";
    ASSERT_TRUE(bench.run_job(text.yaml(), 3));
    bench.cluster.set_pod_phase("default", "j-t-0", "Succeeded");
    ASSERT_TRUE(bench.reaches("Completed"));
    EXPECT_EQ(bench.pod_names(), std::vector<std::string>{"j-t-0"});
    EXPECT_EQ(bench.count("succeeded"), 1);
  });
}

TEST(JobPolicies, Scenario43ExitCodes) {
  for (const int code : {3, 4}) {
    scenario([&](Bench& bench) {
      ASSERT_TRUE(bench.run_job(with_policies("[{exitCode: 3, action: RestartJob}]").yaml(), 2));
      bench.cluster.set_pod_phase("default", "j-t-0", "Failed", code);
      bench.let_pass(3s);
      EXPECT_EQ(bench.count("retryCount"), code == 3 ? 1 : 0);
      if (code == 4) {
        EXPECT_EQ(bench.phase(), "Running");
      }
    });
  }
}

TEST(JobPolicies, Scenario44And45TaskFirstThenJob) {
  for (const std::string pod : {"j-t-0", "j-u-0"}) {
    scenario([&](Bench& bench) {
      JobText text = with_policies("[{event: PodFailed, action: AbortJob}]", {{"t", 1}, {"u", 1}});
      text.task_more = "    policies: [{event: PodFailed, action: RestartJob}]\n";
      ASSERT_TRUE(bench.run_job(text.yaml(), 2));
      bench.cluster.set_pod_phase("default", pod, "Failed");
      if (pod == "j-t-0") {
        EXPECT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1; }));
      } else {
        EXPECT_TRUE(bench.reaches("Aborted"));
      }
    });
  }
  // 45: a task list that does not match falls through, event by event.
  scenario([&](Bench& bench) {
    JobText text = with_policies(kRestartOnFailure, {{"t", 1}, {"u", 1}});
    text.task_more = "    policies: [{event: TaskCompleted, action: CompleteJob}]\n";
    ASSERT_TRUE(bench.run_job(text.yaml(), 2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    EXPECT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1; }));
  });
}

TEST(JobPolicies, Scenario47AnyEvent) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(with_policies("[{event: '*', action: RestartJob}]").yaml(), 2));
    bench.let_pass(5s);
    EXPECT_EQ(bench.count("retryCount"), 0);
    bench.cluster.remove(resources::kPods, "default", "j-t-1", 0);
    EXPECT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1; }));
  });
}

TEST(JobPolicies, Scenario48UnknownAgainAndAgain) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(with_policies("[{event: Unknown, action: RestartJob}]").yaml(), 2));
    for (int round = 1; round <= 2; ++round) {
      bench.cluster.set_pod_group_phase("default", bench.group_name(), "Unknown");
      ASSERT_TRUE(bench.eventually([&] { return bench.count("retryCount") == round; }));
      ASSERT_TRUE(bench.has_pods(0));
      ASSERT_TRUE(bench.admit());
      ASSERT_TRUE(bench.has_pods(2));
      bench.set_all("Running");
      ASSERT_TRUE(bench.reaches("Running"));
    }
  });
}

TEST(JobPolicies, UsersF_436_Scenario49TaskFailedCountsContainerRestarts) {
  scenario([](Bench& bench) {
    JobText text = with_policies("[{event: TaskFailed, action: TerminateJob}]");
    text.task_more = "    maxRetry: 3\n";
    ASSERT_TRUE(bench.run_job(text.yaml(), 2));
    const auto restarts = [&](const char* pod, int count) {
      bench.cluster.patch(
          resources::kPods, "default", pod,
          R"({"status":{"phase":"Running","containerStatuses":[{"name":"c","image":"busybox","imageID":"",
                              "ready":true,"restartCount":)" +
              std::to_string(count) + R"(,"state":{"running":{}}}]}})",
          "status");
    };
    restarts("j-t-0", 2);
    bench.let_pass(2s);
    EXPECT_EQ(bench.phase(), "Running");
    restarts("j-t-1", 2);
    EXPECT_TRUE(bench.reaches("Terminated"));
  });
}

TEST(JobPolicies, UsersA_5385_Scenario50RestartPodTouchesOnlyThePod) {
  scenario([](Bench& bench) {
    JobText text = with_policies("[{event: PodFailed, action: RestartPod}]", {{"t", 3}});
    text.spec = "  plugins: {svc: []}\n";
    ASSERT_TRUE(bench.run_job(text.yaml(), 3));
    const std::string group = bench.group_uid();
    const std::string others = bench.pod_uid("j-t-0") + bench.pod_uid("j-t-2");
    const std::string failed = bench.pod_uid("j-t-1");
    bench.cluster.set_pod_phase("default", "j-t-1", "Failed");
    ASSERT_TRUE(bench.eventually([&] { return is_other(bench.pod_uid("j-t-1"), failed); }));
    bench.cluster.set_pod_phase("default", "j-t-1", "Running");
    ASSERT_TRUE(bench.eventually([&] { return bench.phase() == "Running" && bench.count("running") == 3; }));
    EXPECT_EQ(bench.group_uid(), group);
    EXPECT_EQ(bench.pod_uid("j-t-0") + bench.pod_uid("j-t-2"), others);
    EXPECT_EQ(bench.count("version"), 0);
    EXPECT_EQ(bench.count("retryCount"), 1);
    // D5: nothing of the plugins goes.
    EXPECT_NE(bench.uid(resources::kServices, "j"), "");
    EXPECT_NE(bench.uid(resources::kConfigMaps, "j-svc"), "");
  });
}

TEST(JobPolicies, UsersA_1866_Scenario51RestartTask) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(
        bench.run_job(with_policies("[{event: PodEvicted, action: RestartTask}]", {{"t", 2}, {"u", 2}}).yaml(), 4));
    const std::string t0 = bench.pod_uid("j-t-0");
    const std::string t1 = bench.pod_uid("j-t-1");
    const std::string others = bench.pod_uid("j-u-0") + bench.pod_uid("j-u-1");
    bench.cluster.remove(resources::kPods, "default", "j-t-0", 0);
    ASSERT_TRUE(bench.eventually([&] {
      return bench.pod_names().size() == 4 && is_other(bench.pod_uid("j-t-0"), t0) &&
             is_other(bench.pod_uid("j-t-1"), t1);
    }));
    bench.set_all("Running");
    EXPECT_TRUE(bench.reaches("Running"));
    bench.let_pass(3s);
    EXPECT_EQ(bench.count("retryCount"), 1);
    EXPECT_EQ(bench.pod_uid("j-u-0") + bench.pod_uid("j-u-1"), others);
  });
}

TEST(JobPolicies, RestartPartition) {
  scenario([](Bench& bench) {
    JobText text = with_policies("[{event: PodFailed, action: RestartPartition}]", {{"t", 4}});
    text.task_more = "    partitionPolicy: {totalPartitions: 2, partitionSize: 2}\n";
    ASSERT_TRUE(bench.run_job(text.yaml(), 4));
    const std::string first = bench.pod_uid("j-t-0") + bench.pod_uid("j-t-1");
    const std::string second = bench.pod_uid("j-t-2");
    bench.cluster.set_pod_phase("default", "j-t-3", "Failed");
    ASSERT_TRUE(
        bench.eventually([&] { return bench.pod_names().size() == 4 && is_other(bench.pod_uid("j-t-2"), second); }));
    EXPECT_EQ(bench.pod_uid("j-t-0") + bench.pod_uid("j-t-1"), first);
    EXPECT_EQ(bench.count("retryCount"), 1);
  });
}

TEST(JobPolicies, Scenario53Delay) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(with_policies("[{event: PodFailed, action: RestartJob, timeout: 5s}]").yaml(), 2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    EXPECT_TRUE(bench.eventually([&] { return bench.events("ExecuteAction", "after 5s") == 1; }, 3s));
    bench.let_pass(1s);
    EXPECT_EQ(bench.count("retryCount"), 0);
    EXPECT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1; }, 6s));
  });
}

TEST(JobPolicies, Scenario54And55PodPending) {
  scenario([](Bench& bench) {
    bench.cluster.apply(with_policies("[{event: PodPending, action: RestartJob, timeout: 60s}]").yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    bench.let_pass(20s);
    bench.set_all("Running");
    bench.let_pass(300s);
    EXPECT_EQ(bench.phase(), "Running");
    EXPECT_EQ(bench.count("retryCount"), 0);
    // Scenario 67 (D3): a restarted controller arms nothing for pods that run.
    bench.stop();
    bench.start();
    bench.let_pass(300s);
    EXPECT_EQ(bench.count("retryCount"), 0);
  });
  scenario([](Bench& bench) {
    bench.cluster.apply(with_policies("[{event: PodPending, action: RestartJob, timeout: 5s}]").yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Running");
    bench.let_pass(3s);
    // A busy machine may have needed the five seconds for what is above.
    if (bench.cluster.runtime().is_simulated()) {
      EXPECT_EQ(bench.count("retryCount"), 0);
    }
    EXPECT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1; }, 6s));
  });
  scenario([](Bench& bench) {
    bench.cluster.apply(with_policies("[{event: PodPending, action: RestartJob}]").yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    bench.let_pass(600s);
    EXPECT_EQ(bench.count("retryCount"), 0);
  });
}

TEST(JobPolicies, Scenario56TwoFailuresAreOneRestart) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(with_policies(kRestartOnFailure, {{"t", 4}}).yaml(), 4));
    bench.stop();  // they fail while nobody looks
    bench.set_all("Failed");
    bench.start();
    ASSERT_TRUE(bench.eventually([&] { return bench.pod_names().empty(); }));
    bench.let_pass(5s);
    EXPECT_EQ(bench.count("retryCount"), 1);
    EXPECT_EQ(bench.count("version"), 1);
  });
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(with_policies("[{event: PodFailed, action: RestartPod}]", {{"t", 4}}).yaml(), 4));
    bench.stop();
    bench.cluster.set_pod_phase("default", "j-t-1", "Failed");
    bench.cluster.set_pod_phase("default", "j-t-2", "Failed");
    bench.start();
    ASSERT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1 && bench.pod_names().size() == 4; }));
    bench.let_pass(1s);
    bench.set_all("Running");
    ASSERT_TRUE(bench.reaches("Running"));
    bench.let_pass(5s);
    EXPECT_EQ(bench.count("retryCount"), 1);
  });
}

TEST(JobPolicies, Scenario57ScaleDownIsNoEviction) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(with_policies("[{event: PodEvicted, action: RestartJob}]", {{"t", 4}}).yaml(), 4));
    const std::string kept = bench.pod_uid("j-t-0") + bench.pod_uid("j-t-1");
    // Scenario 63.
    json::Value job = bench.job();
    json::Value tasks = *job.find_path({"spec", "tasks"});
    tasks.as_array()[0].as_object().set("replicas", 2);
    bench.cluster.patch(resources::kJobs, "default", "j",
                        R"({"spec":{"minAvailable":2,"tasks":)" + tasks.to_text() + "}}");
    ASSERT_TRUE(bench.has_pods(2));
    bench.let_pass(5s);
    EXPECT_EQ(bench.count("retryCount"), 0);
    EXPECT_EQ(bench.pod_uid("j-t-0") + bench.pod_uid("j-t-1"), kept);
    EXPECT_EQ(bench.count("running"), 2);
    EXPECT_EQ(bench.cluster.get(resources::kPodGroups, "default", bench.group_name())
                  ->find_path({"spec", "minMember"})
                  ->as_int(),
              2);
  });
}

// --- commands ---

TEST(JobCommands, UsersF_3067_Scenario59AbortAndResume) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 3}}}.yaml(), 3));
    // F, 3067: any number of rounds; a resume spends nothing.
    for (int round = 1; round <= 5; ++round) {
      bench.command("AbortJob");
      ASSERT_TRUE(bench.reaches("Aborted"));
      ASSERT_TRUE(bench.has_pods(0));
      EXPECT_TRUE(bench.eventually([&] { return bench.cluster.list(resources::kCommands, "default").empty(); }));
      bench.let_pass(1s);
      EXPECT_EQ(bench.phase(), "Aborted");
      bench.command("ResumeJob");
      ASSERT_TRUE(bench.reaches("Pending"));
      ASSERT_TRUE(bench.admit());
      ASSERT_TRUE(bench.has_pods(3));
      bench.set_all("Running");
      ASSERT_TRUE(bench.reaches("Running"));
      EXPECT_EQ(bench.count("retryCount"), round);
    }
  });
}

TEST(JobCommands, ResumeKeepsWhatIsDone) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 3}}}.yaml(), 3));
    bench.cluster.set_pod_phase("default", "j-t-1", "Succeeded");
    const std::string done = bench.pod_uid("j-t-1");
    bench.let_pass(2s);
    bench.command("AbortJob");
    ASSERT_TRUE(bench.reaches("Aborted"));
    EXPECT_EQ(bench.pod_names(), std::vector<std::string>{"j-t-1"});
    bench.cluster.remove(resources::kPods, "default", "j-t-1");
    bench.command("ResumeJob");
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    bench.let_pass(2s);
    EXPECT_EQ(bench.pod_uid("j-t-1"), "");
    bench.set_all("Succeeded");
    EXPECT_TRUE(bench.reaches("Completed"));
    EXPECT_EQ(bench.count("succeeded"), 3);
  });
}

TEST(JobCommands, Scenario60TerminalPhasesAbsorb) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    bench.set_all("Succeeded");
    ASSERT_TRUE(bench.reaches("Completed"));
    bench.let_pass(2s);
    const json::Value before = bench.job();
    for (const char* action : {"RestartJob", "ResumeJob", "AbortJob", "TerminateJob", "CompleteJob", "SyncJob"}) {
      bench.command(action);
      EXPECT_TRUE(bench.eventually([&] { return bench.cluster.list(resources::kCommands, "default").empty(); }));
    }
    bench.let_pass(2s);
    EXPECT_EQ(bench.job().to_text(), before.to_text()) << "a finished job was written";
  });
}

TEST(JobCommands, Scenario61AndRefusals) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    bench.cluster.apply(
        "apiVersion: bus.volcano.sh/v1alpha1\nkind: Command\nmetadata: {name: lost}\naction: AbortJob\n");
    bench.command("AbortJob", "j", "00000000-0000-0000-0000-000000000000");
    bench.command("FlyJob");
    bench.command("RestartTask");
    EXPECT_TRUE(bench.eventually([&] { return bench.cluster.list(resources::kCommands, "default").size() == 1; }));
    EXPECT_TRUE(bench.eventually([&] { return bench.events("CommandIssued", "Refused") == 3; }));
    bench.let_pass(2s);
    EXPECT_EQ(bench.phase(), "Running");
    EXPECT_NE(bench.uid(resources::kCommands, "lost"), "");
  });
}

// S21; A, 2918: abort while the job restarts, and it is not turned into a restart.
TEST(JobCommands, UsersA_2918_AbortInRestarting) {
  for (const auto& given : std::vector<std::pair<const char*, const char*>>{
           {"AbortJob", "Aborted"}, {"TerminateJob", "Terminated"}, {"CompleteJob", "Completed"}}) {
    scenario([action = given.first, phase = given.second](Bench& bench) {
      ASSERT_TRUE(bench.run_job(with_policies("[{event: '*', action: RestartJob}]").yaml(), 2));
      // Bound pods take their time to go, so the job stays in Restarting.
      for (const std::string& pod : bench.pod_names()) bench.cluster.bind_pod("default", pod, "n");
      bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
      ASSERT_TRUE(bench.reaches("Restarting"));
      EXPECT_GT(bench.count("terminating"), 0);
      bench.command(action);
      ASSERT_TRUE(bench.eventually([&] { return bench.phase() != "Restarting"; }));
      // 4828: not over while pods still terminate.
      bench.let_pass(5s);
      EXPECT_NE(bench.phase(), phase);
      for (const std::string& pod : bench.pod_names()) bench.cluster.remove(resources::kPods, "default", pod, 0);
      ASSERT_TRUE(bench.reaches(phase));
      bench.let_pass(3s);
      EXPECT_EQ(bench.phase(), phase);
      EXPECT_EQ(bench.count("retryCount"), 1);
    });
  }
}

// A, 4743 and 1241: restarts are honoured while the job is still Pending.
TEST(JobCommands, UsersA_4743_RestartWhilePending) {
  scenario([](Bench& bench) {
    bench.cluster.apply(with_policies("[{event: PodFailed, action: RestartPod}]").yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    const std::string old = bench.pod_uid("j-t-0");
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    ASSERT_TRUE(bench.eventually([&] { return is_other(bench.pod_uid("j-t-0"), old); }));
    bench.set_all("Running");
    EXPECT_TRUE(bench.reaches("Running"));
    bench.command("RestartJob");
    EXPECT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 2; }));
  });
}

}  // namespace
}  // namespace basalt::controllers::job
