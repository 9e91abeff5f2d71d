#include <set>

#include "base/encoding.h"
#include "controllers/job/testing/job_bench.h"

// Objects as Volcano's controllers leave them, without any record of ours: taking over restarts no pod and loses no
// status.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

JobText volcano_job() {
  JobText text;
  text.tasks = {{"worker", 3}};
  text.policies = "[{event: PodEvicted, action: RestartJob}, {event: PodFailed, action: RestartJob}]";
  text.spec = "  plugins: {env: [], svc: [], ssh: []}\n";
  return text;
}

std::string owner_text(Bench& bench) {
  return "[{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: j, uid: " + bench.uid(resources::kJobs, "j") +
         ", controller: true, blockOwnerDeletion: true}]";
}

void make_pod(Bench& bench, int index, std::string_view phase, int version = 1) {
  const std::string i = std::to_string(index);
  const std::string name = "j-worker-" + i;
  bench.cluster.apply(
      "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\n  ownerReferences: " + owner_text(bench) +
      "\n  labels: {volcano.sh/job-name: j, volcano.sh/job-namespace: default, volcano.sh/queue-name: default, "
      "volcano.sh/task-spec: worker, volcano.sh/task-index: \"" +
      i + "\"}\n  annotations: {volcano.sh/job-name: j, volcano.sh/task-spec: worker, volcano.sh/task-index: \"" + i +
      "\", volcano.sh/job-version: \"" + std::to_string(version) +
      "\", volcano.sh/job-retry-count: \"1\", volcano.sh/queue-name: default, volcano.sh/template-uid: j-worker, "
      "scheduling.k8s.io/group-name: " +
      bench.group_name() + "}\nspec: {schedulerName: volcano, hostname: " + name +
      ", subdomain: j, containers: [{name: c, image: busybox}]}\n");
  bench.cluster.set_pod_phase("default", name, phase);
}

void make_group(Bench& bench, std::string_view phase) {
  bench.cluster.apply("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata:\n  name: " +
                      bench.group_name() + "\n  ownerReferences: " + owner_text(bench) +
                      "\nspec: {minMember: 3, minTaskMember: {worker: 3}, queue: default, minResources: {count/pods: "
                      "\"3\", pods: \"3\"}}\n");
  bench.cluster.set_pod_group_phase("default", bench.group_name(), phase);
}

void make_plugin_objects(Bench& bench) {
  const std::string metadata = ", ownerReferences: " + owner_text(bench) + "}";
  // Its secret still has the hosts of before the job was scaled.
  const std::string config =
      base::base64_encode("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nHost j-worker-0\n");
  bench.cluster.apply(
      "{apiVersion: v1, kind: Secret, type: Opaque, metadata: {name: j-ssh" + metadata +
      ", data: {id_rsa: cHJpdmF0ZQ==, id_rsa.pub: cHVibGlj, authorized_keys: cHVibGlj, config: " + config + "}}");
  bench.cluster.apply("{apiVersion: v1, kind: Service, metadata: {name: j" + metadata +
                      ", spec: {clusterIP: None, selector: {volcano.sh/job-name: j, volcano.sh/job-namespace: "
                      "default}}}");
  bench.cluster.apply("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: j" + metadata +
                      ", spec: {podSelector: {matchLabels: {volcano.sh/job-name: j}}, policyTypes: [Ingress]}}");
  bench.cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: j-svc" + metadata +
                      ", data: {worker.host: \"j-worker-0.j\\nj-worker-1.j\\nj-worker-2.j\", VC_WORKER_HOSTS: "
                      "\"j-worker-0.j,j-worker-1.j,j-worker-2.j\", VC_WORKER_NUM: \"3\"}}");
}

void set_status(Bench& bench, std::string_view phase, std::string_view counters) {
  bench.cluster.patch(
      resources::kJobs, "default", "j",
      R"({"status":{"state":{"phase":")" + std::string(phase) +
          R"(","lastTransitionTime":"2025-12-31T23:00:00Z"},"minAvailable":3,"version":1,"retryCount":1,)" +
          std::string(counters) +
          R"(,"controlledResources":{"plugin-env":"env","plugin-svc":"svc","plugin-ssh":"ssh"},
              "conditions":[{"status":"Restarting","lastTransitionTime":"2025-12-31T22:00:00Z"},
                            {"status":")" +
          std::string(phase) + R"(","lastTransitionTime":"2025-12-31T23:00:00Z"}]}})",
      "status");
}

std::string uids(Bench& bench) {
  std::string all;
  for (const std::string& pod : bench.pod_names()) all += bench.pod_uid(pod) + " ";
  return all;
}

TEST(JobTakeOver, RunningJobGoesOn) {
  scenario([](Bench& bench) {
    bench.stop();
    bench.cluster.apply(volcano_job().yaml());
    make_group(bench, "Running");
    make_plugin_objects(bench);
    make_pod(bench, 0, "Running");
    make_pod(bench, 1, "Running");
    make_pod(bench, 2, "Succeeded");
    set_status(bench, "Running",
               R"("running":2,"succeeded":1,"taskStatusCount":{"worker":{"phase":{"Running":2,"Succeeded":1}}})");
    const std::string pods = uids(bench);
    const std::string group = bench.group_uid();
    const json::Value secret = *bench.cluster.get(resources::kSecrets, "default", "j-ssh");
    const std::string services = bench.uid(resources::kServices, "j") + bench.uid(resources::kNetworkPolicies, "j");

    bench.start();
    bench.let_pass(120s);
    EXPECT_EQ(uids(bench), pods);
    EXPECT_EQ(bench.group_uid(), group);
    EXPECT_EQ(bench.phase(), "Running");
    EXPECT_EQ(bench.count("version"), 1);
    EXPECT_EQ(bench.count("retryCount"), 1);
    EXPECT_EQ(bench.count("running"), 2);
    EXPECT_EQ(bench.count("succeeded"), 1);
    EXPECT_EQ(bench.state("lastTransitionTime"), "2025-12-31T23:00:00Z");
    EXPECT_EQ(bench.job().find_path({"status", "conditions"})->as_array().size(), 2U);
    EXPECT_EQ(bench.uid(resources::kServices, "j") + bench.uid(resources::kNetworkPolicies, "j"), services);
    const json::Value kept = *bench.cluster.get(resources::kSecrets, "default", "j-ssh");
    EXPECT_EQ(kept.string_at({"metadata", "uid"}), secret.string_at({"metadata", "uid"}));
    EXPECT_EQ(kept.string_at({"data", "id_rsa"}), "cHJpdmF0ZQ==") << "running pods have the old key mounted";
    EXPECT_TRUE(bench.events("ExecuteAction") == 0);

    bench.cluster.set_pod_phase("default", "j-worker-0", "Succeeded");
    bench.cluster.set_pod_phase("default", "j-worker-1", "Succeeded");
    ASSERT_TRUE(bench.reaches("Completed"));
    EXPECT_EQ(bench.count("succeeded"), 3);
    EXPECT_EQ(uids(bench), pods);
  });
}

// A failure that Volcano had no time to answer is answered.
TEST(JobTakeOver, FailureIsAnswered) {
  scenario([](Bench& bench) {
    bench.stop();
    bench.cluster.apply(volcano_job().yaml());
    make_group(bench, "Running");
    make_plugin_objects(bench);
    const std::string group = bench.group_uid();
    for (const int index : {0, 1, 2}) make_pod(bench, index, index == 1 ? "Failed" : "Running");
    set_status(bench, "Running", R"("running":3,"taskStatusCount":{"worker":{"phase":{"Running":3}}})");
    bench.start();
    ASSERT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 2; }));
    ASSERT_TRUE(bench.has_pods(0));
    ASSERT_TRUE(bench.eventually([&] { return is_other(bench.group_uid(), group); }));
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(3));
  });
}

// In the middle of a restart: old pods still terminate, the group is gone.
TEST(JobTakeOver, RestartIsFinished) {
  scenario([](Bench& bench) {
    bench.stop();
    bench.cluster.apply(volcano_job().yaml());
    make_plugin_objects(bench);
    make_pod(bench, 0, "Running", 0);
    bench.cluster.bind_pod("default", "j-worker-0", "n");
    bench.cluster.remove(resources::kPods, "default", "j-worker-0");
    set_status(bench, "Restarting", R"("terminating":1)");
    bench.start();
    ASSERT_TRUE(bench.admit());
    bench.let_pass(5s);
    bench.cluster.remove(resources::kPods, "default", "j-worker-0", 0);
    ASSERT_TRUE(bench.eventually([&] { return bench.pod_names().size() == 3; }));
    bench.let_pass(2s);
    bench.set_all("Running");
    ASSERT_TRUE(bench.reaches("Running"));
    EXPECT_EQ(bench.count("retryCount"), 1) << bench.actions();
    EXPECT_EQ(bench.count("version"), 1);
  });
}

// The same with watches that are behind, each by another time, and the end of the pod at any moment of it.
TEST(JobTakeOver, RestartIsFinishedWithLateWatches) {
  constexpr std::uint64_t kSeeds = 8;
  std::uint64_t seed = 0;
  scenario(
      [&](Bench& bench) {
        bench.stop();
        bench.cluster.apply(volcano_job().yaml());
        make_plugin_objects(bench);
        make_pod(bench, 0, "Running", 0);
        bench.cluster.bind_pod("default", "j-worker-0", "n");
        set_status(bench, "Restarting", R"("running":1,"taskStatusCount":{"worker":{"phase":{"Running":1}}})");
        bench.faults.set_plan({.event_delay_max = 2s});
        bench.start();
        bench.let_pass(++seed % 2 == 0 ? 0s : 1s);
        bench.cluster.remove(resources::kPods, "default", "j-worker-0");
        ASSERT_TRUE(bench.admit());
        bench.let_pass(std::chrono::milliseconds(300 * seed));
        bench.cluster.remove(resources::kPods, "default", "j-worker-0", 0);
        ASSERT_TRUE(bench.has_pods(3));
        bench.set_all("Running");
        ASSERT_TRUE(bench.reaches("Running"));
        EXPECT_EQ(bench.count("retryCount"), 1) << bench.actions();
        EXPECT_EQ(bench.count("version"), 1);
      },
      {}, kSeeds);
}

// Volcano asks for the deletions before it writes the version that they lead to: whatever of an older one seems to run
// while a job restarts is told to go, however old the cache is that shows it.
TEST(JobTakeOver, PodsThatARestartForgotGo) {
  scenario([](Bench& bench) {
    bench.stop();
    bench.cluster.apply(volcano_job().yaml());
    make_plugin_objects(bench);
    make_pod(bench, 0, "Running", 0);
    bench.cluster.bind_pod("default", "j-worker-0", "n");
    set_status(bench, "Restarting", R"("running":1,"taskStatusCount":{"worker":{"phase":{"Running":1}}})");
    bench.start();
    ASSERT_TRUE(bench.eventually([&] { return bench.count("terminating") == 1; }));
    EXPECT_EQ(bench.phase(), "Restarting");
    bench.let_pass(5s);
    bench.cluster.remove(resources::kPods, "default", "j-worker-0", 0);
    ASSERT_TRUE(bench.reaches("Pending"));
    bench.let_pass(5s);
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(3));
    bench.set_all("Running");
    ASSERT_TRUE(bench.reaches("Running"));
    EXPECT_EQ(bench.count("retryCount"), 1) << bench.actions();
    EXPECT_EQ(bench.count("version"), 1);
  });
}

// The counters that Volcano wrote count a pod of an earlier version. Its end is no eviction, neither at once nor in the
// passes before the counters are written again, and whether pods may be made already or not.
TEST(JobTakeOver, EndOfAnEarlierVersionIsNoEviction) {
  for (const bool is_admitted : {false, true}) {
    scenario([&](Bench& bench) {
      bench.stop();
      bench.cluster.apply(volcano_job().yaml());
      make_group(bench, is_admitted ? "Inqueue" : "Pending");
      make_plugin_objects(bench);
      make_pod(bench, 0, "Running", 0);
      set_status(bench, "Pending", R"("running":1,"taskStatusCount":{"worker":{"phase":{"Running":1}}})");
      bench.start();
      bench.let_pass(1s);
      bench.cluster.remove(resources::kPods, "default", "j-worker-0", 0);
      bench.let_pass(10s);
      ASSERT_TRUE(bench.admit());
      ASSERT_TRUE(bench.has_pods(3));
      bench.set_all("Running");
      ASSERT_TRUE(bench.reaches("Running"));
      EXPECT_EQ(bench.count("retryCount"), 1) << bench.actions();
      EXPECT_EQ(bench.count("version"), 1);
    });
  }
}

// What is finished is not touched, even where Volcano's counters are wrong.
TEST(JobTakeOver, FinishedJobsAreLeftAlone) {
  for (const char* phase : {"Completed", "Failed", "Terminated", "Aborted"}) {
    scenario(
        [&](Bench& bench) {
          bench.stop();
          JobText text = volcano_job();
          text.spec = "";
          bench.cluster.apply(text.yaml());
          make_pod(bench, 0, "Succeeded", 0);
          bench.cluster.patch(resources::kJobs, "default", "j",
                              R"({"status":{"state":{"phase":")" + std::string(phase) +
                                  R"(","lastTransitionTime":"2025-12-31T23:00:00Z"},"minAvailable":3,"version":2,
                                  "runningDuration":"1m0s"}})",
                              "status");
          const std::string pods = uids(bench);
          bench.start();
          bench.let_pass(60s);
          EXPECT_EQ(bench.phase(), phase);
          EXPECT_EQ(bench.count("version"), 2);
          EXPECT_EQ(bench.state("lastTransitionTime"), "2025-12-31T23:00:00Z");
          EXPECT_EQ(uids(bench), pods);
          if (std::string_view(phase) != "Aborted") {
            EXPECT_EQ(bench.writes(), 0U) << bench.write_log();
          }
        },
        {}, 1);
  }
}

// Giving back: what we leave in the status is what Volcano's types know, and strings in its map of resources.
TEST(JobTakeOver, GivingBackLeavesNothingForeign) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.spec = "  plugins: {svc: []}\n"}.yaml(), 2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Succeeded");
    bench.let_pass(3s);
    const std::set<std::string> known = {
        "state",      "minAvailable",       "taskStatusCount", "pending", "running",    "succeeded",
        "failed",     "terminating",        "unknown",         "version", "retryCount", "runningDuration",
        "conditions", "controlledResources"};
    const json::Value job = bench.job();
    for (const auto& [key, value] : job.find("status")->as_object())
      EXPECT_TRUE(known.contains(std::string(key))) << key;
    for (const auto& [key, value] : job.find_path({"status", "controlledResources"})->as_object())
      EXPECT_TRUE(value.is_string()) << key;
  });
}

}  // namespace
}  // namespace basalt::controllers::job
