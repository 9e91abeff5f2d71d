#include "controllers/job/testing/job_bench.h"
#include "kube/informer.h"

// Scenarios 23 to 37 of the fact sheet: creation, gate, completion; and the users' rows about them.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

TEST(JobLifecycle, Scenario24PodsCarryTheirKeys) {
  scenario([](Bench& bench) {
    bench.cluster.apply(JobText{.tasks = {{"t", 2}, {"u", 1}}}.yaml());
    ASSERT_TRUE(bench.reaches("Pending"));
    bench.let_pass(1s);
    EXPECT_TRUE(bench.pod_names().empty()) << "pods before the group was admitted";
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(3));
    EXPECT_EQ(bench.pod_names(), (std::vector<std::string>{"j-t-0", "j-t-1", "j-u-0"}));
    const json::Value pod = *bench.cluster.get(resources::kPods, "default", "j-t-1");
    EXPECT_EQ(pod.string_at({"metadata", "annotations", "volcano.sh/task-spec"}), "t");
    EXPECT_EQ(pod.string_at({"metadata", "annotations", "volcano.sh/job-version"}), "0");
    EXPECT_EQ(pod.string_at({"metadata", "annotations", "scheduling.k8s.io/group-name"}), bench.group_name());
    EXPECT_EQ(pod.string_at({"metadata", "labels", "volcano.sh/task-index"}), "1");
    EXPECT_EQ(pod.string_at({"spec", "schedulerName"}), "volcano");
    const json::Value owner = pod.find_path({"metadata", "ownerReferences"})->as_array().at(0);
    EXPECT_EQ(owner.string_at({"uid"}), bench.uid(resources::kJobs, "j"));
  });
}

TEST(JobLifecycle, Scenario26And32RunsToCompletion) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 3}}}.yaml(), 3));
    EXPECT_TRUE(bench.eventually([&] { return bench.count("running") == 3; }));
    const json::Value job = bench.job();
    const json::Value* conditions = job.find_path({"status", "conditions"});
    ASSERT_NE(conditions, nullptr);
    ASSERT_EQ(conditions->as_array().size(), 2U);
    EXPECT_EQ(conditions->as_array()[0].string_at({"status"}), "Pending");
    EXPECT_EQ(conditions->as_array()[1].string_at({"status"}), "Running");
    EXPECT_EQ(job.find_path({"status", "taskStatusCount", "t", "phase", "Running"})->as_int(), 3);
    bench.set_all("Succeeded");
    ASSERT_TRUE(bench.reaches("Completed"));
    EXPECT_TRUE(bench.eventually([&] { return bench.group_uid().empty(); }));
    // Pods are kept and stay counted (D1), also when they are collected later.
    EXPECT_EQ(bench.pod_names().size(), 3U);
    EXPECT_EQ(bench.count("succeeded"), 3);
    bench.cluster.remove(resources::kPods, "default", "j-t-0");
    bench.let_pass(5s);
    EXPECT_EQ(bench.count("succeeded"), 3);
    EXPECT_EQ(bench.count("running"), 0);
    EXPECT_EQ(bench.pod_names().size(), 2U) << "a finished job got a new pod";
    EXPECT_TRUE(bench.measures("volcano_job_completed_phase_count{job_name=\"default/j\",queue_name=\"default\"} 1"));
    // Scenario 73: the series goes with the job.
    bench.cluster.remove(resources::kJobs, "default", "j");
    EXPECT_TRUE(
        bench.eventually([&] { return bench.process->metrics().to_text().find("default/j") == std::string::npos; }));
  });
}

// At most so many writes beside the pods, none in vain, no conflict with ourselves.
void expect_writes(Bench& bench, const std::string& spec, std::size_t writes_max) {
  kube::Informer<api::batch::Job> jobs(bench.cluster.runtime(), bench.cluster.client(), {},
                                       {.reflector = {.resource = resources::kJobs}, .indexes = {}});
  std::size_t changes = 0;
  jobs.add_handler([&](const kube::Change<api::batch::Job>& change) { changes += change.is_updated() ? 1 : 0; });
  jobs.start();
  sim::PlayedScheduler scheduler(bench.cluster.runtime(), bench.cluster.client());
  sim::PlayedKubelet kubelet(bench.cluster.runtime(), bench.cluster.client(),
                             [](const auto&) { return sim::PodFate{.start_after = 3ms, .run_for = 200ms}; });
  scheduler.start();
  kubelet.start();
  bench.cluster.apply(JobText{.tasks = {{"t", 10}}, .spec = spec}.yaml());
  EXPECT_TRUE(bench.reaches("Completed"));
  bench.let_pass(5s);
  EXPECT_LE(bench.writes(), writes_max) << bench.write_log();
  EXPECT_EQ(bench.reads_of_conflicts(), 0U);
  std::size_t job_writes = 0;
  for (const std::string& call : bench.written()) job_writes += call.find(" jobs") != std::string::npos ? 1 : 0;
  EXPECT_EQ(job_writes, changes) << "a write changed nothing\n" << bench.write_log();
  kubelet.stop();
  scheduler.stop();
  jobs.stop();
}

TEST(JobLifecycle, TenPodsTakeAtMostEightWrites) {
  scenario([](Bench& bench) { expect_writes(bench, "", 8); }, {}, 5);
  JobControllerOptions options;
  options.make_keys = [] { return SshKeyPair{"private\n", "ssh-rsa public\n"}; };
  scenario([](Bench& bench) { expect_writes(bench, "  plugins: {env: [], svc: [], ssh: []}\n", 14); }, options, 5);
}

TEST(JobLifecycle, Scenario27PartOfTheGangIsEnough) {
  scenario([](Bench& bench) {
    bench.cluster.apply(JobText{.tasks = {{"t", 4}}, .min_available = 2}.yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(4));
    bench.cluster.set_pod_phase("default", "j-t-0", "Running");
    bench.let_pass(2s);
    EXPECT_EQ(bench.phase(), "Pending");
    bench.cluster.set_pod_phase("default", "j-t-3", "Running");
    EXPECT_TRUE(bench.reaches("Running"));
  });
}

TEST(JobLifecycle, Scenario29MakesAClaimOnce) {
  scenario([](Bench& bench) {
    bench.cluster.apply(JobText{.spec =
                                    "  volumes:\n  - {mountPath: /data, volumeClaim: {accessModes: [ReadWriteOnce], "
                                    "resources: {requests: {storage: 1Gi}}}}\n"}
                            .yaml());
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    const json::Value job = bench.job();
    const std::string name(job.find_path({"spec", "volumes"})->as_array().at(0).string_at({"volumeClaimName"}));
    EXPECT_TRUE(name.starts_with("j-pvc-")) << name;
    const auto claims = bench.cluster.list(resources::kClaims, "default");
    ASSERT_EQ(claims.size(), 1U);
    EXPECT_EQ(claims[0].string_at({"metadata", "name"}), name);
    EXPECT_TRUE(bench.eventually(
        [&] { return bench.job().string_at({"status", "controlledResources", "volume-pvc-" + name}) == name; }));
    const json::Value pod = *bench.cluster.get(resources::kPods, "default", "j-t-0");
    EXPECT_NE(pod.to_text().find(name), std::string::npos);
  });
}

TEST(JobLifecycle, Scenario30WaitsForANamedClaim) {
  const std::string yaml = JobText{.spec = "  volumes:\n  - {mountPath: /data, volumeClaimName: mine}\n"}.yaml();
  scenario([&](Bench& bench) {
    bench.cluster.apply(yaml);
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "ClaimNotFound"; }));
    EXPECT_NE(bench.state("message").find("\"mine\""), std::string::npos);
    EXPECT_TRUE(bench.eventually([&] { return bench.events("PVCError") == 1; }));
    bench.let_pass(600s);  // F: no limit of tries
    EXPECT_EQ(bench.phase(), "Pending");
    EXPECT_EQ(bench.events("PVCError"), 1U);
    bench.cluster.apply(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: mine}\nspec: {accessModes: [ReadWriteOnce], "
        "resources: {requests: {storage: 1Gi}}}\n");
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason").empty(); }));
  });
  JobControllerOptions options;
  options.plan.missing_claim = MissingClaim::EmptyDir;
  scenario(
      [&](Bench& bench) {
        bench.cluster.apply(yaml);
        ASSERT_TRUE(bench.admit());
        ASSERT_TRUE(bench.has_pods(2));
        EXPECT_NE(bench.cluster.get(resources::kPods, "default", "j-t-0")->to_text().find("emptyDir"),
                  std::string::npos);
      },
      options);
}

TEST(JobLifecycle, Scenario31PriorityClassFollows) {
  scenario([](Bench& bench) {
    bench.cluster.apply("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n");
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    bench.cluster.patch(resources::kJobs, "default", "j", R"({"spec":{"priorityClassName":"high"}})");
    EXPECT_TRUE(bench.eventually([&] {
      const auto group = bench.cluster.get(resources::kPodGroups, "default", bench.group_name());
      return group && group->string_at({"spec", "priorityClassName"}) == "high";
    }));
  });
}

struct ResultCase {
  const char* name;
  JobText job;
  std::vector<std::pair<std::string, std::string>> pods;  // final phases
  const char* phase;
};

TEST(JobLifecycle, Scenario33To36Results) {
  const std::vector<ResultCase> cases = {
      {"33 one failed", {.tasks = {{"t", 1}, {"u", 1}}}, {{"j-t-0", "Failed"}, {"j-u-0", "Succeeded"}}, "Failed"},
      {"35 too few for minSuccess",
       {.tasks = {{"t", 4}}, .min_available = 1, .spec = "  minSuccess: 3\n"},
       {{"j-t-0", "Succeeded"}, {"j-t-1", "Succeeded"}, {"j-t-2", "Failed"}, {"j-t-3", "Failed"}},
       "Failed"},
      {"36 the minimum is enough",
       {.tasks = {{"t", 2}}, .min_available = 1, .task_more = "    minAvailable: 1\n"},
       {{"j-t-0", "Succeeded"}, {"j-t-1", "Failed"}},
       "Completed"},
  };
  for (const ResultCase& one : cases) {
    SCOPED_TRACE(one.name);
    scenario([&](Bench& bench) {
      ASSERT_TRUE(bench.run_job(one.job.yaml(), one.pods.size()));
      for (const auto& [pod, phase] : one.pods) bench.cluster.set_pod_phase("default", pod, phase);
      EXPECT_TRUE(bench.reaches(one.phase));
    });
  }
}

TEST(JobLifecycle, MinSuccessEndsTheOthers) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 3}}, .min_available = 1, .spec = "  minSuccess: 1\n"}.yaml(), 3));
    bench.cluster.set_pod_phase("default", "j-t-1", "Succeeded");
    ASSERT_TRUE(bench.reaches("Completed"));
    ASSERT_TRUE(bench.has_pods(1));
    EXPECT_TRUE(bench.eventually([&] { return bench.count("terminating") == 0 && bench.count("running") == 0; }));
    EXPECT_EQ(bench.count("succeeded"), 1);
  });
}

// C: why a job waits is said on the job itself.
TEST(JobWaiting, UsersC_3834_UsersC_519_SaysWhy) {
  scenario([](Bench& bench) {
    std::string text = JobText{}.yaml();
    text.replace(text.find("queue: default"), 14, "queue: missing");
    bench.cluster.apply(text);
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "QueueNotFound"; }));
    EXPECT_EQ(bench.phase(), "Pending");
    EXPECT_EQ(bench.group_uid(), "");
    // Scenario 71, as decided: an error of the infrastructure terminates no job.
    bench.let_pass(3600s);
    EXPECT_EQ(bench.phase(), "Pending");
    bench.cluster.apply(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: missing}\nspec: {weight: 1}\n");
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "QueueNotOpen"; }));
    bench.cluster.patch(resources::kQueues, "", "missing", R"({"status":{"state":"Open"}})", "status");
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "PodGroupPending"; }));
    bench.cluster.patch(
        resources::kPodGroups, "default", bench.group_name(),
        R"({"status":{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True","transitionID":"1",
            "lastTransitionTime":"2026-01-01T00:00:00Z","reason":"NotEnoughResources","message":"short of cpu 2"}]}})");
    EXPECT_TRUE(
        bench.eventually([&] { return bench.state("message").find("short of cpu 2") != std::string::npos; }, 60s));
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    bench.set_all("Running");
    EXPECT_TRUE(bench.reaches("Running"));
    EXPECT_EQ(bench.state("reason"), "");
  });
}

// The scheduler's first word and every other one appear at once; the same with other numbers does not.
TEST(JobWaiting, UsersC_3834_EveryNewReasonAppearsAtOnce) {
  scenario([](Bench& bench) {
    bench.cluster.apply(JobText{}.yaml());
    ASSERT_TRUE(bench.eventually([&] { return bench.state("reason") == "PodGroupPending"; }));
    const auto say = [&](const std::string& message) {
      bench.cluster.patch(resources::kPodGroups, "default", bench.group_name(),
                          R"({"status":{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True",
              "transitionID":"x","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"NotEnoughResources","message":")" +
                              message + R"("}]}})");
    };
    const auto shows = [&](const std::string& message, rt::Duration limit) {
      return bench.eventually([&] { return bench.state("message").find(message) != std::string::npos; }, limit);
    };
    say("short of 4 cpu in queue default");
    EXPECT_TRUE(shows("short of 4 cpu", 1s));
    say("short of 500m cpu in queue default");
    bench.let_pass(10s);
    EXPECT_NE(bench.state("message").find("short of 4 cpu"), std::string::npos) << bench.state("message");
    say("short of 2 nvidia.com/gpu in queue default");
    EXPECT_TRUE(shows("short of 2 nvidia.com/gpu", 1500ms));
    bench.let_pass(2s);
    say("queue default is over its capability");
    EXPECT_TRUE(shows("over its capability", 1500ms));
    // A scheduler that changes its mind all the time is no reason to write all the time.
    const std::size_t before = bench.writes();
    for (int session = 0; session < 600; ++session) {
      say(session % 2 == 0 ? "short of 1 cpu" : "short of 1 memory");
      bench.let_pass(1s);
    }
    EXPECT_LE(bench.writes() - before, 8U + 600 / 30) << bench.write_log();
    EXPECT_GE(bench.writes() - before, 600 / 60U);
  });
}

TEST(JobWaiting, QuotaIsTold) {
  scenario([](Bench& bench) {
    bench.quota->is_used_up = true;
    bench.cluster.apply(JobText{}.yaml());
    ASSERT_TRUE(bench.admit());
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "PodCreateFailed"; }));
    EXPECT_NE(bench.state("message").find("exceeded quota"), std::string::npos) << bench.state("message");
    bench.let_pass(600s);
    EXPECT_EQ(bench.phase(), "Pending");
    // Said once, however often it was tried.
    EXPECT_EQ(bench.events("FailedCreate", "exceeded quota"), 1U);
    const std::size_t writes = bench.writes();
    bench.let_pass(600s);
    EXPECT_EQ(bench.writes(), writes);
    bench.quota->is_used_up = false;
    EXPECT_TRUE(bench.eventually([&] { return bench.pod_names().size() == 2; }, 70s));
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason").empty(); }));
  });
}

// D13: a pod of the same name that is somebody else's.
TEST(JobWaiting, ForeignPodIsTold) {
  scenario([](Bench& bench) {
    bench.cluster.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: j-t-1}\nspec: {containers: [{name: c, image: busybox}]}\n");
    bench.cluster.apply(JobText{}.yaml());
    ASSERT_TRUE(bench.admit());
    EXPECT_TRUE(bench.eventually([&] { return bench.state("reason") == "PodCreateFailed"; }));
    EXPECT_TRUE(bench.eventually([&] { return bench.events("FailedCreate", "j-t-1") > 0; }));
    bench.cluster.remove(resources::kPods, "default", "j-t-1");
    EXPECT_TRUE(bench.cluster.wait_until([&] { return bench.pod_names().size() == 2; }, 70s));
  });
}

}  // namespace
}  // namespace basalt::controllers::job
