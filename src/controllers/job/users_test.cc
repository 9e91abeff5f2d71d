#include "controllers/job/testing/job_bench.h"

// What users of Volcano suffered from, as tests. The number is that of its issue; the letter the theme: A races, C no
// reason for waiting, D write storms, F retries, H what is left behind, I crashes.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

// Scheduler and kubelet that play by themselves.
struct Players {
  explicit Players(Bench& bench, sim::PlayedKubelet::FateOf fate = {})
      : scheduler(bench.cluster.runtime(), bench.cluster.client()),
        kubelet(bench.cluster.runtime(), bench.cluster.client(), std::move(fate)) {
    scheduler.start();
    kubelet.start();
  }
  ~Players() {
    kubelet.stop();
    scheduler.stop();
  }
  sim::PlayedScheduler scheduler;
  sim::PlayedKubelet kubelet;
};

TEST(JobUsers, UsersA_3601_DeletedJobGetsNoPods) {
  scenario(
      [](Bench& bench) {
        bench.cluster.apply(JobText{.tasks = {{"t", 20}}}.yaml());
        ASSERT_TRUE(bench.admit());
        // Somewhere in the middle of making its pods.
        bench.eventually([&] { return !bench.pod_names().empty(); });
        bench.cluster.remove(resources::kJobs, "default", "j");
        bench.let_pass(2s);
        const std::size_t calls = bench.faults.calls();
        bench.let_pass(60s);
        EXPECT_TRUE(bench.pod_names().empty());
        EXPECT_EQ(bench.faults.calls(), calls) << "it goes on and on";
      },
      {}, 10);
}

TEST(JobUsers, UsersA_2130_ReappliedJobStartsItsDependants) {
  scenario(
      [](Bench& bench) {
        const std::string yaml =
            JobText{.tasks = {{"worker", 2}, {"master", 1}}, .task_more = "    dependsOn: {name: [master]}\n"}.yaml();
        for (int round = 0; round < 3; ++round) {
          bench.cluster.apply(yaml);
          ASSERT_TRUE(bench.admit());
          const std::string uid = bench.uid(resources::kJobs, "j");
          ASSERT_TRUE(bench.eventually([&] {
            const auto pod = bench.cluster.get(resources::kPods, "default", "j-master-0");
            return pod && pod->find_path({"metadata", "ownerReferences"})->as_array()[0].string_at({"uid"}) == uid;
          }));
          bench.cluster.set_pod_phase("default", "j-master-0", "Running");
          ASSERT_TRUE(bench.has_pods(3));
          bench.cluster.remove(resources::kJobs, "default", "j");
        }
      },
      {}, 5);
}

TEST(JobUsers, UsersA_2160_PodsThatEndBeforeTheJobRuns) {
  scenario([](Bench& bench) {
    bench.cluster.apply(JobText{.tasks = {{"t", 20}}}.yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(20));
    bench.set_all("Succeeded");
    ASSERT_TRUE(bench.reaches("Completed"));
    EXPECT_EQ(bench.count("succeeded"), 20);
  });
}

TEST(JobUsers, UsersA_4828_NotAbortedWhilePodsTerminate) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    for (const std::string& pod : bench.pod_names()) bench.cluster.bind_pod("default", pod, "n");
    bench.command("AbortJob");
    ASSERT_TRUE(bench.reaches("Aborting"));
    EXPECT_EQ(bench.count("terminating"), 2);
    bench.let_pass(20s);
    EXPECT_EQ(bench.phase(), "Aborting");
    bench.cluster.remove(resources::kPods, "default", "j-t-0", 0);
    EXPECT_TRUE(bench.eventually([&] { return bench.count("terminating") == 1; }));
    EXPECT_EQ(bench.phase(), "Aborting");
    bench.cluster.remove(resources::kPods, "default", "j-t-1", 0);
    EXPECT_TRUE(bench.reaches("Aborted"));
  });
}

// D22: a group that somebody deletes is made again, and no pod goes with it.
TEST(JobUsers, UsersA_GroupDeletedByHandComesBack) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    const std::string pods = bench.pod_uid("j-t-0") + bench.pod_uid("j-t-1");
    const std::string old = bench.group_uid();
    bench.cluster.remove(resources::kPodGroups, "default", bench.group_name());
    EXPECT_TRUE(bench.eventually([&] { return is_other(bench.group_uid(), old); }));
    bench.let_pass(5s);
    EXPECT_EQ(bench.pod_uid("j-t-0") + bench.pod_uid("j-t-1"), pods);
    EXPECT_EQ(bench.phase(), "Running");
  });
}

TEST(JobUsers, UsersC_1094_UsersD_3072_WaitingForADayMakesFewEventsAndWrites) {
  scenario(
      [](Bench& bench) {
        bench.cluster.apply(JobText{}.yaml());
        ASSERT_TRUE(bench.eventually([&] { return !bench.group_uid().empty(); }));
        // A scheduler that says the same with other numbers, session after session.
        for (int session = 0; session < 600; ++session) {
          bench.cluster.patch(resources::kPodGroups, "default", bench.group_name(),
                              R"({"status":{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True",
              "transitionID":"x","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"NotEnoughResources","message":"short of )" +
                                  std::to_string(session) + R"( cpu"}]}})");
          bench.let_pass(1s);
        }
        bench.let_pass(24h);
        EXPECT_EQ(bench.events("PodGroupPending"), 1U);
        EXPECT_NE(bench.state("message").find("short of 599 cpu"), std::string::npos) << bench.state("message");
        // One text in half a minute at most.
        EXPECT_LE(bench.writes(), 2U + 600 / 30 + 2);
      },
      {}, 1);
}

TEST(JobUsers, UsersC_4971_ReasonGoesWithItsCause) {
  scenario([](Bench& bench) {
    JobText text;
    text.spec = "";
    bench.cluster.patch(resources::kQueues, "", "default", R"({"status":{"state":"Closed"}})", "status");
    bench.cluster.apply(text.yaml());
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "QueueNotOpen"; }));
    EXPECT_NE(bench.state("message").find("Closed"), std::string::npos);
    bench.cluster.patch(resources::kQueues, "", "default", R"({"status":{"state":"Open"}})", "status");
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "PodGroupPending"; }));
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason").empty(); }));
  });
}

TEST(JobUsers, UsersD_3745_RestartedControllerRepeatsNothing) {
  scenario([](Bench& bench) {
    bench.cluster.apply(JobText{.spec = "  volumes:\n  - {mountPath: /data, volumeClaimName: mine}\n"}.yaml());
    ASSERT_TRUE(bench.eventually([&] { return bench.events("PVCError") == 1; }));
    const std::string before = bench.job().to_text();
    for (int round = 0; round < 3; ++round) {
      bench.stop();
      bench.start();
      bench.let_pass(30s);
    }
    EXPECT_EQ(bench.job().to_text(), before);
    std::int64_t told = 0;
    for (const json::Value& event : bench.cluster.list(resources::kEvents, "default")) {
      const json::Value* count = event.find("count");
      if (event.string_at({"reason"}) == "PVCError") told += count == nullptr ? 1 : count->as_int();
    }
    EXPECT_EQ(told, 1);
  });
}

// A thousand jobs at rest cost nothing.
TEST(JobUsers, UsersD_559_IdleJobsAreNotWritten) {
  scenario(
      [](Bench& bench) {
        {
          Players players(bench, [](const auto&) { return sim::PodFate{.run_for = rt::Duration::max()}; });
          for (int i = 0; i < 20; ++i) bench.cluster.apply(JobText{.name = "j" + std::to_string(i)}.yaml());
          ASSERT_TRUE(bench.eventually([&] { return bench.phase("j19") == "Running"; }));
          bench.let_pass(10s);
        }
        const std::uint64_t calls = bench.faults.calls();
        bench.let_pass(3600s);
        // Watches are renewed from time to time; nothing else is asked or written.
        for (std::size_t i = calls; i < bench.faults.call_log().size(); ++i)
          EXPECT_TRUE(bench.faults.call_log()[i].starts_with("Watch")) << bench.faults.call_log()[i];
      },
      {}, 1);
}

TEST(JobUsers, UsersF_1029_MissingQueueIsWaitedForAndEndsNoJob) {
  JobControllerOptions options;
  options.max_requeue = 3;
  scenario(
      [](Bench& bench) {
        JobText text;
        std::string yaml = text.yaml();
        yaml.replace(yaml.find("queue: default"), 14, "queue: later");
        bench.cluster.apply(yaml);
        ASSERT_TRUE(bench.eventually([&] { return bench.state("reason") == "QueueNotFound"; }));
        bench.let_pass(24h);
        EXPECT_EQ(bench.phase(), "Pending");
        EXPECT_EQ(bench.count("retryCount"), 0);
        bench.cluster.apply(
            "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: later}\nspec: {weight: 1}\n");
        bench.cluster.patch(resources::kQueues, "", "later", R"({"status":{"state":"Open"}})", "status");
        ASSERT_TRUE(bench.admit());
        EXPECT_TRUE(bench.has_pods(2));
      },
      options, 2);
}

TEST(JobUsers, UsersF_2560_EvictionWithoutPolicySpendsNothing) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.spec = "  maxRetry: 1\n"}.yaml(), 2));
    for (int round = 0; round < 4; ++round) {
      const std::string old = bench.pod_uid("j-t-0");
      bench.cluster.remove(resources::kPods, "default", "j-t-0", 0);
      ASSERT_TRUE(bench.eventually([&] { return is_other(bench.pod_uid("j-t-0"), old); }));
      bench.cluster.set_pod_phase("default", "j-t-0", "Running");
      ASSERT_TRUE(bench.reaches("Running"));
    }
    EXPECT_EQ(bench.count("retryCount"), 0);
  });
}

// Scenario 37: the collector takes over what is finished, and only that.
TEST(JobUsers, UsersH_3604_TtlOfFinishedJobs) {
  scenario([](Bench& bench) {
    bench.stop();
    bench.start(true);
    ASSERT_TRUE(bench.run_job(JobText{.spec = "  ttlSecondsAfterFinished: 1\n"}.yaml(), 2));
    bench.set_all("Succeeded");
    EXPECT_TRUE(bench.eventually([&] { return bench.uid(resources::kJobs, "j").empty(); }, 5s));
    EXPECT_TRUE(bench.has_pods(0));
    ASSERT_TRUE(bench.run_job(JobText{.name = "k", .spec = "  ttlSecondsAfterFinished: 1\n"}.yaml(), 2, "k"));
    bench.command("AbortJob", "k");
    ASSERT_TRUE(bench.reaches("Aborted", "k"));
    bench.let_pass(60s);
    EXPECT_EQ(bench.phase("k"), "Aborted");
  });
}

TEST(JobUsers, UsersH_2633_UsersH_4033_NothingIsReservedAtTheEnd) {
  scenario([](Bench& bench) {
    Players players(bench);
    bench.cluster.apply(JobText{}.yaml());
    ASSERT_TRUE(bench.reaches("Completed"));
    EXPECT_TRUE(bench.eventually([&] { return bench.cluster.list(resources::kPodGroups, "default").empty(); }));
    bench.let_pass(60s);
    EXPECT_TRUE(bench.cluster.list(resources::kPodGroups, "default").empty());
  });
}

// Specifications that got past admission, or that nobody thought of: the job waits with a reason, others go on.
TEST(JobUsers, UsersI_4543_OddSpecificationsHarmNobody) {
  const std::vector<std::pair<std::string, std::string>> odd = {
      {"plugin", "  plugins: {jax: []}\n"},
      {"mpi-alone", "  plugins: {mpi: [\"--master=none\", \"--worker=none\"]}\n"},
      {"ray-alone", "  plugins: {ray: []}\n"},
      {"flags", "  plugins: {ssh: [\"--ssh-port=70000\", \"what\", \"--\"], svc: [\"--x\"]}\n"},
      {"retry", "  maxRetry: 1\n  minSuccess: 5\n"},
  };
  scenario(
      [&](Bench& bench) {
        for (const auto& [name, spec] : odd) bench.cluster.apply(JobText{.name = name, .spec = spec}.yaml());
        bench.cluster.apply(JobText{.name = "self", .task_more = "    dependsOn: {name: [t]}\n"}.yaml());
        bench.cluster.apply(JobText{.name = "nobody", .task_more = "    dependsOn: {name: [nobody]}\n"}.yaml());
        bench.cluster.apply(JobText{.name = "none", .tasks = {{"t", 0}}}.yaml());
        Players players(bench);
        bench.cluster.apply(JobText{}.yaml());
        EXPECT_TRUE(bench.reaches("Completed"));
        EXPECT_TRUE(bench.eventually([&] { return bench.state("reason", "plugin") == "PluginError"; }));
        EXPECT_NE(bench.state("message", "plugin").find("jax"), std::string::npos);
        EXPECT_TRUE(bench.eventually([&] { return bench.state("reason", "ray-alone") == "PluginError"; }));
        EXPECT_EQ(bench.state("reason", "self"), "DependencyNotReady");
        EXPECT_EQ(bench.state("reason", "nobody"), "DependencyNotReady");
        for (const char* name : {"plugin", "ray-alone", "self", "nobody"}) EXPECT_EQ(bench.phase(name), "Pending");
      },
      {}, 2);
}

// A job that runs says nothing about why its group once waited, and tells nobody, whatever the scheduler repeats.
TEST(JobUsers, UsersC_2033_UsersD_3178_RunningJobRepeatsNoOldCondition) {
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
        bench.let_pass(3s);
        const std::size_t writes = bench.writes();
        for (int session = 0; session < 300; ++session) {
          bench.cluster.patch(resources::kPodGroups, "default", bench.group_name(),
                              R"({"status":{"phase":"Running","conditions":[{"type":"Unschedulable","status":"True",
              "transitionID":"x","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"NotEnoughResources","message":"short of )" +
                                  std::to_string(session) + R"( cpu"}]}})");
          bench.let_pass(1s);
        }
        EXPECT_EQ(bench.state("reason"), "");
        EXPECT_EQ(bench.events("PodGroupPending"), 0U);
        EXPECT_EQ(bench.writes(), writes) << bench.write_log();
      },
      {}, 1);
}

// The pod that failed is gone after a restart; what became of it stays on record.
TEST(JobUsers, UsersF_1688_FailedPodLeavesATrace) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.policies = "[{event: PodFailed, action: RestartJob}]"}.yaml(), 2));
    bench.cluster.bind_pod("default", "j-t-1", "n");  // it takes its time to go
    bench.cluster.patch(resources::kPods, "default", "j-t-0", R"({"status":{"phase":"Failed","containerStatuses":[
        {"name":"c","image":"i","imageID":"","ready":false,"restartCount":0,
         "state":{"terminated":{"exitCode":3,"reason":"Error"}}}]}})",
                        "status");
    ASSERT_TRUE(bench.reaches("Restarting"));
    EXPECT_EQ(bench.state("reason"), "RestartJob");
    EXPECT_NE(bench.state("message").find("pod j-t-0 failed with exit code 3"), std::string::npos);
    EXPECT_TRUE(bench.eventually([&] {
      return bench.events("ExecuteAction", "RestartJob (PodFailed: pod j-t-0 failed with exit code 3)") == 1;
    }));
  });
}

// Events of a pod's predecessor under the same name come late and twice: they restart nothing and count for nobody.
TEST(JobUsers, UsersA_5986_LateEventsOfAPodsPredecessor) {
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(
            JobText{.policies = "[{events: [PodFailed, PodEvicted], action: RestartPod}]", .spec = "  maxRetry: 9\n"}
                .yaml(),
            2));
        bench.faults.set_plan({.event_repeated = 0.5, .event_delay_max = 200ms});
        for (int round = 1; round <= 5; ++round) {
          const std::string old = bench.pod_uid("j-t-0");
          bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
          ASSERT_TRUE(bench.eventually([&] { return is_other(bench.pod_uid("j-t-0"), old); }));
          bench.cluster.set_pod_phase("default", "j-t-0", "Running");
          ASSERT_TRUE(bench.eventually([&] { return bench.phase() == "Running" && bench.count("running") == 2; }));
          EXPECT_EQ(bench.count("retryCount"), round);
        }
        const std::string last = bench.pod_uid("j-t-0");
        bench.let_pass(30s);
        EXPECT_EQ(bench.pod_uid("j-t-0"), last);
        EXPECT_EQ(bench.count("retryCount"), 5);
      },
      {}, 5);
}

// The job vanishes while its pods are being taken away.
TEST(JobUsers, UsersI_2417_DeletedWhileItIsKilled) {
  std::uint64_t round = 0;
  scenario(
      [&round](Bench& bench) {
        ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 8}}, .spec = "  plugins: {svc: []}\n"}.yaml(), 8));
        bench.command("AbortJob");
        bench.let_pass(std::chrono::microseconds(200) * (round++ % 20));
        bench.cluster.remove(resources::kJobs, "default", "j");
        EXPECT_TRUE(bench.has_pods(0));
        EXPECT_TRUE(bench.eventually([&] { return bench.uid(resources::kConfigMaps, "j-svc").empty(); }));
        const std::size_t calls = bench.faults.calls();
        bench.let_pass(60s);
        EXPECT_EQ(bench.faults.calls(), calls);
        // And the next of its name is not held up.
        ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 8}}}.yaml(), 8));
      },
      {}, 20);
}

// A queue with clusters behind it: the job and its pods say so.
TEST(JobForwarding, QueueWithOtherClusters) {
  scenario([](Bench& bench) {
    bench.cluster.patch(resources::kQueues, "", "default",
                        R"({"spec":{"extendClusters":[{"name":"east","weight":1}]}})");
    bench.cluster.apply(JobText{}.yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    EXPECT_EQ(bench.job().string_at({"metadata", "annotations", "volcano.sh/job-forwarding"}), "true");
    const json::Value pod = *bench.cluster.get(resources::kPods, "default", "j-t-0");
    EXPECT_EQ(pod.string_at({"metadata", "annotations", "volcano.sh/job-forwarding"}), "true");
    EXPECT_EQ(pod.string_at({"metadata", "labels", "volcano.sh/job-forwarding"}), "true");
  });
}

// The seed's volumes without a claim: scratch space, recorded.
TEST(JobVolumes, EmptyDirIsRecorded) {
  JobControllerOptions options;
  options.plan.missing_claim = MissingClaim::EmptyDir;
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(
            JobText{.spec = "  volumes:\n  - {mountPath: /scratch}\n  - {mountPath: /data, volumeClaimName: mine}\n"}
                .yaml(),
            2));
        bench.let_pass(3s);
        const json::Value job = bench.job();
        const json::Value* records = job.find_path({"status", "controlledResources"});
        ASSERT_NE(records, nullptr);
        EXPECT_EQ(records->string_at({"volume-emptyDir-mine"}), "mine");
        const json::Value pod = *bench.cluster.get(resources::kPods, "default", "j-t-0");
        int scratch = 0;
        for (const json::Value& volume : pod.find_path({"spec", "volumes"})->as_array()) {
          if (volume.find("emptyDir") == nullptr) continue;
          ++scratch;
          const std::string name(volume.string_at({"name"}));
          if (records->string_at({"volume-emptyDir-" + name}) == name) ++scratch;
        }
        EXPECT_EQ(scratch, 3) << pod.to_text();
        // The claim that comes later is not mounted by some pods and not by others.
        bench.cluster.apply(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: mine}\nspec: {accessModes: [ReadWriteOnce], "
            "resources: {requests: {storage: 1Gi}}}\n");
        bench.cluster.remove(resources::kPods, "default", "j-t-1", 0);
        ASSERT_TRUE(bench.has_pods(2));
        EXPECT_EQ(bench.cluster.get(resources::kPods, "default", "j-t-1")->to_text().find("persistentVolumeClaim"),
                  std::string::npos);
      },
      options);
}

// A command for a job that is not there is refused, not kept for the next job of that name.
TEST(JobCommands, NoSuchJob) {
  scenario([](Bench& bench) {
    bench.command("AbortJob", "j", "00000000-0000-0000-0000-000000000000");
    EXPECT_TRUE(bench.eventually([&] { return bench.cluster.list(resources::kCommands, "default").empty(); }));
    EXPECT_TRUE(bench.eventually([&] { return bench.events("CommandIssued", "there is no job") == 1; }));
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
  });
}

// Scaling with ssh keeps the keys: pods that run could not be reached with others.
TEST(JobPluginsInUse, ScalingKeepsTheKeys) {
  JobControllerOptions options;
  options.make_keys = [] { return SshKeyPair{"private\n", "ssh-rsa public\n"}; };
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(JobText{.spec = "  plugins: {ssh: []}\n"}.yaml(), 2));
        const json::Value before = *bench.cluster.get(resources::kSecrets, "default", "j-ssh");
        bench.cluster.patch(resources::kSecrets, "default", "j-ssh", R"({"data":{"id_rsa":"b3RoZXI="}})");
        const json::Value job = bench.job();
        json::Value tasks = *job.find_path({"spec", "tasks"});
        tasks.as_array()[0].as_object().set("replicas", 3);
        bench.cluster.patch(resources::kJobs, "default", "j", R"({"spec":{"tasks":)" + tasks.to_text() + "}}");
        ASSERT_TRUE(bench.has_pods(3));
        const json::Value after = *bench.cluster.get(resources::kSecrets, "default", "j-ssh");
        EXPECT_NE(after.string_at({"data", "config"}), before.string_at({"data", "config"}));
        EXPECT_EQ(after.string_at({"data", "id_rsa"}), "b3RoZXI=");
        EXPECT_EQ(after.string_at({"data", "id_rsa.pub"}), before.string_at({"data", "id_rsa.pub"}));
      },
      options);
}

}  // namespace
}  // namespace basalt::controllers::job
