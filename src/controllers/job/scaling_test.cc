#include <atomic>

#include "controllers/job/testing/job_bench.h"

// Scenarios 62 to 74 and 85 of the fact sheet: scaling, order, restarts of the controller; and the users' rows.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

void set_replicas(Bench& bench, std::size_t task, int replicas, int min_available) {
  const json::Value job = bench.job();
  json::Value tasks = *job.find_path({"spec", "tasks"});
  tasks.as_array()[task].as_object().set("replicas", replicas);
  bench.cluster.patch(
      resources::kJobs, "default", "j",
      R"({"spec":{"minAvailable":)" + std::to_string(min_available) + R"(,"tasks":)" + tasks.to_text() + "}}");
}

TEST(JobScaling, Scenario62ScaleUp) {
  scenario([](Bench& bench) {
    JobText text;
    text.spec = "  plugins: {svc: []}\n";
    ASSERT_TRUE(bench.run_job(text.yaml(), 2));
    set_replicas(bench, 0, 4, 4);
    ASSERT_TRUE(bench.has_pods(4));
    EXPECT_TRUE(bench.eventually([&] {
      const auto hosts = bench.cluster.get(resources::kConfigMaps, "default", "j-svc");
      return hosts && hosts->string_at({"data", "VC_T_NUM"}) == "4";
    }));
    EXPECT_TRUE(bench.eventually([&] {
      return bench.cluster.get(resources::kPodGroups, "default", bench.group_name())
                 ->find_path({"spec", "minMember"})
                 ->as_int() == 4;
    }));
  });
}

// M, 1169: scaled to zero the phase stays.
TEST(JobScaling, UsersM_1169_ToZero) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    set_replicas(bench, 0, 0, 0);
    ASSERT_TRUE(bench.has_pods(0));
    bench.let_pass(3s);
    EXPECT_EQ(bench.phase(), "Running");
    set_replicas(bench, 0, 1, 1);
    EXPECT_TRUE(bench.has_pods(1));
  });
}

TEST(JobScaling, Scenario65Dependency) {
  scenario([](Bench& bench) {
    bench.cluster.apply(
        JobText{.tasks = {{"worker", 2}, {"master", 1}}, .task_more = "    dependsOn: {name: [master]}\n"}.yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(1));
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "DependencyNotReady"; }));
    EXPECT_EQ(bench.pod_names(), std::vector<std::string>{"j-master-0"});
    bench.cluster.set_pod_phase("default", "j-master-0", "Running");
    EXPECT_TRUE(bench.has_pods(3));
  });
}

TEST(JobScaling, Scenario66DependencyAny) {
  for (const bool any : {true, false}) {
    scenario([&](Bench& bench) {
      bench.cluster.apply(
          JobText{.tasks = {{"w", 1}, {"a", 1}, {"b", 1}},
                  .task_more = std::string("    dependsOn: {name: [a, b]") + (any ? ", iteration: any}\n" : "}\n")}
              .yaml());
      ASSERT_TRUE(bench.admit());
      ASSERT_TRUE(bench.has_pods(2));
      bench.cluster.set_pod_phase("default", "j-b-0", "Running");
      bench.let_pass(3s);
      EXPECT_EQ(bench.pod_names().size(), any ? 3U : 2U);
      bench.cluster.set_pod_phase("default", "j-a-0", "Running");
      EXPECT_TRUE(bench.has_pods(3));
    });
  }
}

TEST(JobRestartOfController, Scenario67ChangesNothing) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.policies = "[{event: '*', action: RestartJob}]"}.yaml(), 2));
    bench.let_pass(3s);
    const std::string before = bench.job().to_text();
    const std::string pods = bench.pod_uid("j-t-0") + bench.pod_uid("j-t-1");
    const std::size_t writes = bench.writes();
    bench.stop();
    bench.start();
    bench.let_pass(60s);
    EXPECT_EQ(bench.job().to_text(), before);
    EXPECT_EQ(bench.pod_uid("j-t-0") + bench.pod_uid("j-t-1"), pods);
    EXPECT_EQ(bench.writes(), writes);
  });
}

TEST(JobRestartOfController, Scenario68NoFailureIsLost) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.policies = "[{event: PodFailed, action: RestartJob}]"}.yaml(), 2));
    bench.stop();
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    bench.start();
    EXPECT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1; }));
  });
  // An eviction neither: the recorded counters tell what existed.
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.policies = "[{event: PodEvicted, action: RestartJob}]"}.yaml(), 2));
    ASSERT_TRUE(bench.eventually([&] { return bench.count("running") == 2; }));
    bench.stop();
    bench.cluster.remove(resources::kPods, "default", "j-t-0", 0);
    bench.start();
    EXPECT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1; }));
    bench.let_pass(5s);
    EXPECT_EQ(bench.count("retryCount"), 1);
  });
}

TEST(JobIdentity, UsersA_5973_Scenario69Recreated) {
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
        const std::string old = bench.uid(resources::kJobs, "j");
        bench.cluster.remove(resources::kJobs, "default", "j");
        bench.cluster.apply(JobText{}.yaml());
        const std::string uid = bench.uid(resources::kJobs, "j");
        EXPECT_NE(uid, old);
        ASSERT_TRUE(bench.admit());
        ASSERT_TRUE(bench.eventually([&] {
          std::size_t ours = 0;
          const auto pods = bench.cluster.list(resources::kPods, "default");
          for (const json::Value& pod : pods) {
            ours += pod.find_path({"metadata", "ownerReferences"})->as_array().at(0).string_at({"uid"}) == uid ? 1 : 0;
          }
          return ours == 2 && pods.size() == 2;
        }));
        bench.set_all("Running");
        EXPECT_TRUE(bench.reaches("Running"));
      },
      {}, 10);
}

// A, 3296 and 1226: what succeeded is never run again, even if its object is gone.
TEST(JobCompletedIndexes, UsersA_3296_NodeIsRemoved) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 6}}}.yaml(), 6));
    for (const char* pod : {"j-t-0", "j-t-1", "j-t-2", "j-t-4"})
      bench.cluster.set_pod_phase("default", pod, "Succeeded");
    ASSERT_TRUE(bench.eventually([&] { return bench.count("succeeded") == 4; }));
    EXPECT_EQ(bench.job().string_at({"status", "controlledResources", "completed-t"}), "0:0-2,4");
    for (const char* pod : {"j-t-0", "j-t-1", "j-t-4"}) bench.cluster.remove(resources::kPods, "default", pod);
    bench.let_pass(5s);
    EXPECT_EQ(bench.count("succeeded"), 4);
    EXPECT_EQ(bench.pod_names().size(), 3U);
    bench.stop();
    bench.cluster.remove(resources::kPods, "default", "j-t-2");
    bench.start();
    bench.let_pass(5s);
    EXPECT_EQ(bench.pod_names(), (std::vector<std::string>{"j-t-3", "j-t-5"}));
    bench.set_all("Succeeded");
    ASSERT_TRUE(bench.reaches("Completed"));
    EXPECT_EQ(bench.count("succeeded"), 6);
    EXPECT_EQ(bench.job().string_at({"status", "controlledResources", "completed-t"}), "");
  });
}

// The watch is the only one to tell: the pod succeeds and is collected at once.
TEST(JobCompletedIndexes, SucceededAndGoneAtOnce) {
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 2}}}.yaml(), 2));
        bench.cluster.set_pod_phase("default", "j-t-0", "Succeeded");
        bench.cluster.remove(resources::kPods, "default", "j-t-0");
        bench.let_pass(5s);
        EXPECT_EQ(bench.pod_uid("j-t-0"), "");
        EXPECT_EQ(bench.count("succeeded"), 1);
        bench.cluster.set_pod_phase("default", "j-t-1", "Succeeded");
        EXPECT_TRUE(bench.reaches("Completed"));
      },
      {}, 20);
}

// What was recorded a moment after it happened survives the end of the process and of the pod.
TEST(JobCompletedIndexes, UsersA_1226_RecordedAtOnce) {
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 4}}}.yaml(), 4));
        // Just after another write: the counters would have to wait for a second.
        bench.cluster.set_pod_phase("default", "j-t-0", "Succeeded");
        bench.let_pass(70ms);
        bench.stop();
        bench.cluster.remove(resources::kPods, "default", "j-t-0");
        bench.start();
        bench.let_pass(1s);
        // Two of a gang.
        bench.cluster.set_pod_phase("default", "j-t-1", "Succeeded");
        bench.let_pass(10ms);
        bench.cluster.set_pod_phase("default", "j-t-2", "Succeeded");
        bench.let_pass(70ms);
        bench.stop();
        for (const char* pod : {"j-t-1", "j-t-2"}) bench.cluster.remove(resources::kPods, "default", pod);
        bench.start();
        bench.let_pass(5s);
        EXPECT_EQ(bench.pod_names(), (std::vector<std::string>{"j-t-3"}));
        EXPECT_EQ(bench.count("succeeded"), 3);
      },
      {}, 10);
}

// A success that nobody but the watch has seen is not kept waiting.
TEST(JobCompletedIndexes, OnlyWitnessWritesAtOnce) {
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 3}}}.yaml(), 3));
        bench.cluster.set_pod_phase("default", "j-t-0", "Succeeded");
        bench.let_pass(70ms);
        bench.cluster.set_pod_phase("default", "j-t-1", "Succeeded");
        bench.cluster.remove(resources::kPods, "default", "j-t-1");
        bench.let_pass(10ms);
        bench.stop();
        bench.cluster.remove(resources::kPods, "default", "j-t-0");
        bench.start();
        bench.let_pass(5s);
        EXPECT_EQ(bench.pod_names(), (std::vector<std::string>{"j-t-2"}));
      },
      {}, 10);
}

// Pods that end one by one for seconds: two records a second at most.
TEST(JobCompletedIndexes, RecordsGather) {
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 101}}}.yaml(), 101));
        bench.let_pass(2s);
        const std::size_t before = bench.writes();
        for (int i = 0; i < 100; ++i) {
          bench.cluster.set_pod_phase("default", "j-t-" + std::to_string(i), "Succeeded");
          bench.let_pass(20ms);
        }
        bench.let_pass(1s);
        EXPECT_EQ(bench.count("succeeded"), 100);
        EXPECT_LE(bench.writes() - before, 8U) << bench.write_log();
      },
      {}, 1);
}

TEST(JobCompletedIndexes, RestartRunsEverythingAgain) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.policies = "[{event: PodFailed, action: RestartJob}]"}.yaml(), 2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Succeeded");
    ASSERT_TRUE(bench.eventually([&] { return bench.count("succeeded") == 1; }));
    bench.cluster.set_pod_phase("default", "j-t-1", "Failed");
    ASSERT_TRUE(bench.has_pods(0));
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
  });
}

TEST(JobFaults, UsersA_871_UsersF_1492_Scenario72OthersWriteAllTheTime) {
  scenario([](Bench& bench) {
    sim::PlayedScheduler scheduler(bench.cluster.runtime(), bench.cluster.client());
    sim::PlayedKubelet kubelet(bench.cluster.runtime(), bench.cluster.client());
    scheduler.start();
    kubelet.start();
    bench.cluster.apply(JobText{}.yaml());
    std::atomic<bool> over = false;
    int number = 0;
    rt::Thread writer(bench.cluster.runtime(), "writer", [&] {
      while (!over) {
        bench.cluster.patch(resources::kJobs, "default", "j",
                            R"({"metadata":{"annotations":{"n":")" + std::to_string(++number) + R"("}}})");
        bench.cluster.runtime().sleep_for(1ms);
      }
    });
    EXPECT_TRUE(bench.reaches("Completed"));
    over = true;
    writer.join();
    EXPECT_TRUE(bench.measures("volcano_job_completed_phase_count{job_name=\"default/j\",queue_name=\"default\"} 1"));
    kubelet.stop();
    scheduler.stop();
  });
}

TEST(JobFaults, Scenario73DeletedWhileRunning) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.policies = "[{event: '*', action: RestartJob}]"}.yaml(), 2));
    bench.cluster.remove(resources::kJobs, "default", "j");
    bench.let_pass(10s);
    EXPECT_TRUE(bench.pod_names().empty());
    EXPECT_TRUE(bench.cluster.list(resources::kPodGroups, "default").empty());
  });
}

TEST(JobFaults, Scenario74ManyJobs) {
  scenario(
      [](Bench& bench) {
        sim::PlayedScheduler scheduler(bench.cluster.runtime(), bench.cluster.client());
        sim::PlayedKubelet kubelet(bench.cluster.runtime(), bench.cluster.client());
        scheduler.start();
        kubelet.start();
        for (int i = 0; i < 100; ++i) bench.cluster.apply(JobText{.name = "j" + std::to_string(i)}.yaml());
        EXPECT_TRUE(bench.cluster.wait_until(
            [&] {
              for (const json::Value& job : bench.cluster.list(resources::kJobs, "default")) {
                if (job.string_at({"status", "state", "phase"}) != "Completed") return false;
              }
              return true;
            },
            60s));
        for (const json::Value& job : bench.cluster.list(resources::kJobs, "default")) {
          std::vector<std::string> phases;
          for (const json::Value& condition : job.find_path({"status", "conditions"})->as_array())
            phases.emplace_back(condition.string_at({"status"}));
          EXPECT_EQ(phases, (std::vector<std::string>{"Pending", "Running", "Completed"}));
        }
        kubelet.stop();
        scheduler.stop();
      },
      {}, 1);
}

TEST(JobPluginsInUse, UsersH_1977_Scenario85ObjectsGoWithTheJob) {
  scenario(
      [](Bench& bench) {
        JobText text;
        text.spec = "  plugins: {env: [], svc: [], ssh: []}\n";
        ASSERT_TRUE(bench.run_job(text.yaml(), 2));
        for (const auto& [resource, name] :
             std::vector<std::pair<kube::Resource, std::string>>{{resources::kServices, "j"},
                                                                 {resources::kConfigMaps, "j-svc"},
                                                                 {resources::kNetworkPolicies, "j"},
                                                                 {resources::kSecrets, "j-ssh"}})
          EXPECT_NE(bench.uid(resource, name), "") << name;
        EXPECT_TRUE(bench.eventually(
            [&] { return bench.job().string_at({"status", "controlledResources", "plugin-ssh"}) == "ssh"; }));
        bench.set_all("Succeeded");
        ASSERT_TRUE(bench.reaches("Completed"));
        bench.let_pass(2s);
        EXPECT_EQ(bench.uid(resources::kServices, "j"), "");
        EXPECT_EQ(bench.uid(resources::kConfigMaps, "j-svc"), "");
        EXPECT_EQ(bench.uid(resources::kSecrets, "j-ssh"), "");
        EXPECT_EQ(bench.uid(resources::kNetworkPolicies, "j"), "");
        EXPECT_EQ(bench.job().to_text().find("plugin-"), std::string::npos);
        EXPECT_LE(bench.writes(), 14U) << bench.write_log();
      },
      {}, 2);
}

// H, 1894: pods do not wait for ever for an object that somebody deleted.
TEST(JobPluginsInUse, UsersH_1894_ObjectsAreMadeAgain) {
  scenario(
      [](Bench& bench) {
        JobText text;
        text.spec = "  plugins: {svc: []}\n";
        bench.cluster.apply(text.yaml());
        ASSERT_TRUE(bench.admit());
        ASSERT_TRUE(bench.has_pods(2));
        bench.cluster.remove(resources::kConfigMaps, "default", "j-svc");
        EXPECT_TRUE(bench.eventually([&] { return !bench.uid(resources::kConfigMaps, "j-svc").empty(); }, 200s));
      },
      {}, 1);
}

}  // namespace
}  // namespace basalt::controllers::job
