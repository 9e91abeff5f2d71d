#include "controllers/job/testing/job_bench.h"

// What takes time, or comes at the wrong one: key pairs, delays of policies.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

const char* const kSsh = "  plugins: {ssh: []}\n";

// Key pairs are made beside the workers: jobs that need none do not wait for them.
TEST(JobTiming, KeyPairsHoldUpNobodyElse) {
  sim::play(1, 3, [](rt::Runtime& runtime) {
    JobControllerOptions options;
    int made = 0;
    options.make_keys = [&] {
      runtime.sleep_for(10s);
      ++made;
      return SshKeyPair{"private\n", "ssh-rsa public\n"};
    };
    Bench bench(runtime, options);
    for (int i = 0; i < 8; ++i) bench.cluster.apply(JobText{.name = "s" + std::to_string(i), .spec = kSsh}.yaml());
    bench.let_pass(100ms);
    bench.cluster.apply(JobText{}.yaml());
    EXPECT_TRUE(bench.eventually([&] { return !bench.group_uid().empty(); }, 1s));
    ASSERT_TRUE(bench.admit());
    EXPECT_TRUE(bench.eventually([&] { return bench.pod_names().size() == 2; }, 1s));
    EXPECT_LE(made, 1);
    EXPECT_TRUE(bench.eventually([&] { return bench.cluster.list(resources::kSecrets, "default").size() == 8; }, 100s));
    EXPECT_EQ(made, 8) << "one pair a job";
  });
}

TEST(JobTiming, KeyPairThatFailsIsMadeAgain) {
  sim::play(1, 3, [](rt::Runtime& runtime) {
    JobControllerOptions options;
    int tries = 0;
    options.make_keys = [&]() -> Result<SshKeyPair> {
      if (++tries < 4) return Error::make(Reason::InternalError, "no entropy");
      return SshKeyPair{"private\n", "ssh-rsa public\n"};
    };
    Bench bench(runtime, options);
    bench.cluster.apply(JobText{.spec = kSsh}.yaml());
    EXPECT_TRUE(bench.eventually([&] { return !bench.uid(resources::kSecrets, "j-ssh").empty(); }));
    EXPECT_EQ(tries, 4);
  });
}

// D7: the delay of a job that is gone does not strike the next job of that name.
TEST(JobTiming, DelayDiesWithItsJob) {
  scenario([](Bench& bench) {
    const JobText text{.policies = "[{event: PodFailed, action: TerminateJob, timeout: 10s}]"};
    ASSERT_TRUE(bench.run_job(text.yaml(), 2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    ASSERT_TRUE(bench.eventually([&] { return bench.events("ExecuteAction", "after 10s") == 1; }, 5s));
    bench.cluster.remove(resources::kJobs, "default", "j");
    ASSERT_TRUE(bench.has_pods(0));
    ASSERT_TRUE(bench.run_job(text.yaml(), 2));
    bench.let_pass(60s);
    EXPECT_EQ(bench.phase(), "Running");
  });
}

// The delay of a failure ends with the pod that failed.
TEST(JobTiming, DelayDiesWithItsPod) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(
        bench.run_job(JobText{.policies = "[{event: PodFailed, action: TerminateJob, timeout: 10s}]"}.yaml(), 2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    bench.let_pass(2s);
    bench.cluster.remove(resources::kPods, "default", "j-t-0", 0);
    ASSERT_TRUE(bench.has_pods(2));
    bench.set_all("Running");
    bench.let_pass(60s);
    EXPECT_EQ(bench.phase(), "Running");
  });
}

// A delay that was running when the controller was restarted is not forgotten.
TEST(JobTiming, DelaySurvivesARestart) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.policies = "[{event: PodFailed, action: AbortJob, timeout: 10s}]"}.yaml(), 2));
    bench.cluster.set_pod_phase("default", "j-t-0", "Failed");
    bench.let_pass(5s);
    bench.stop();
    bench.start();
    bench.let_pass(2s);
    EXPECT_EQ(bench.phase(), "Running");
    EXPECT_TRUE(bench.reaches("Aborted"));
  });
}

// A priority class that comes after the job changes whose resources are asked for first.
TEST(JobTiming, PriorityClassComesLate) {
  scenario([](Bench& bench) {
    bench.cluster.apply(
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j}, spec: {schedulerName: volcano, queue: "
        "default, minAvailable: 1, tasks: ["
        "{name: small, replicas: 1, minAvailable: 1, template: {spec: {containers: [{name: c, image: i, resources: "
        "{requests: {cpu: 1}}}]}}},"
        "{name: large, replicas: 1, minAvailable: 1, template: {spec: {priorityClassName: high, containers: [{name: c, "
        "image: i, resources: {requests: {cpu: 4}}}]}}}]}}");
    const auto cpu = [&] {
      const auto group = bench.cluster.get(resources::kPodGroups, "default", bench.group_name());
      return group ? std::string(group->string_at({"spec", "minResources", "cpu"})) : std::string();
    };
    EXPECT_TRUE(bench.eventually([&] { return cpu() == "1"; }));
    bench.cluster.apply("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n");
    EXPECT_TRUE(bench.eventually([&] { return cpu() == "4"; })) << cpu();
  });
}

}  // namespace
}  // namespace basalt::controllers::job
