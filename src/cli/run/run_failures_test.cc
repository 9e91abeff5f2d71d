// What `basalt run` says when things go wrong: in the pods, with the old job, with the time.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/client/host_test_support.h"
#include "cli/run/job_progress.h"
#include "cli/run/run_commands.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

namespace resources = sim::resources;

constexpr std::string_view kJob = R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 1
  tasks:
  - {name: worker, replicas: 1, template: {spec: {containers: [{name: main, image: none}]}}}
)";

void with_job_file(const std::function<void(sim::Cluster&, TestHost&)>& body) {
  const auto with_file = [&](sim::Cluster& cluster, TestHost& host) {
    host.files["job.yaml"] = std::string(kJob);
    body(cluster, host);
  };
  on_cluster(with_file, 3);
}

Ran run(TestHost& host, std::vector<std::string> arguments) {
  return run_line(host, run_command(), "basalt run", std::move(arguments));
}

// Makes the job's pod, lets it be as `pod_status` says, and ends the job with `phase` after a while.
rt::Thread play(sim::Cluster& cluster, const std::string& pod_status, const std::string& phase) {
  return {cluster.runtime(), "controller", [&cluster, pod_status, phase] {
            cluster.wait_until([&] { return cluster.get(resources::kJobs, "default", "train").has_value(); });
            cluster.patch(resources::kJobs, "default", "train", R"({"status":{"state":{"phase":"Running"}}})",
                          "status");
            cluster.apply(
                "{apiVersion: v1, kind: Pod, metadata: {name: train-worker-0, labels: {volcano.sh/job-name: train}, "
                "annotations: {volcano.sh/task-spec: worker}}, spec: {containers: [{name: main, image: none}]}}");
            cluster.patch(resources::kPods, "default", "train-worker-0", "{\"status\":" + pod_status + "}", "status");
            cluster.runtime().sleep_for(std::chrono::seconds(5));
            cluster.patch(resources::kJobs, "default", "train", R"({"status":{"state":{"phase":")" + phase + R"("}}})",
                          "status");
          }};
}

constexpr const char* kDeadline = R"({"phase":"Failed","reason":"DeadlineExceeded","message":"active too long",
  "containerStatuses":[{"name":"main","image":"","imageID":"","ready":false,"restartCount":0,
  "state":{"terminated":{"exitCode":143,"reason":"Error"}}}]})";
constexpr const char* kCrashes = R"({"phase":"Running","containerStatuses":[{"name":"main","image":"","imageID":"",
  "ready":false,"restartCount":2,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},
  "lastState":{"terminated":{"exitCode":4,"reason":"Error"}}}]})";

TEST(RunFailures, UsersL_TheLastLinesSayWhyAndWhatNext) {
  with_job_file([](sim::Cluster& cluster, TestHost& host) {
    host.on_get = [](const std::string& path) -> Result<std::string> {
      if (path.find("/log?") == std::string::npos) return Error::make(Reason::NotFound, "no");
      return std::string("2026-01-01T00:00:01Z reading\n2026-01-01T00:00:02Z no input\x1b[2J\n");
    };
    rt::Thread controller = play(cluster, kDeadline, "Failed");
    const Ran ran = run(host, {"-f", "job.yaml", "--no-logs"});
    controller.join();
    EXPECT_EQ(ran.exit, kExitJobFailed);
    EXPECT_TRUE(ran.out.ends_with(
        "  pod train-worker-0 (task worker) DeadlineExceeded: active too long; container main: exit code 143 "
        "(SIGTERM)\n    | reading\n    | no input\\x1b[2J\n"
        "  its log: basalt logs train -n default --pod worker-0   more: basalt explain train -n default\n"))
        << ran.out;
  });
}

TEST(RunFailures, ACompletedJobIsNotBlamed) {
  with_job_file([](sim::Cluster& cluster, TestHost& host) {
    rt::Thread controller = play(cluster, kDeadline, "Completed");
    const Ran ran = run(host, {"-f", "job.yaml"});
    controller.join();
    EXPECT_EQ(ran.exit, 0);
    EXPECT_EQ(ran.out.find("DeadlineExceeded"), std::string::npos) << ran.out;
  });
}

TEST(RunFailures, UsersL_368_ARunningJobWhosePodsCrashSaysSoOnce) {
  with_job_file([](sim::Cluster& cluster, TestHost& host) {
    rt::Thread controller = play(cluster, kCrashes, "Completed");
    const Ran ran = run(host, {"-f", "job.yaml"});
    controller.join();
    const std::string text =
        "pod train-worker-0 (task worker) CrashLoopBackOff: container main: exit code 4, restarted 2 times "
        "(back-off)\n";
    const auto first = ran.out.find(text);
    ASSERT_NE(first, std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find(text, first + 1), std::string::npos) << ran.out;
  });
}

TEST(RunFailures, TheTimeCountsForTheEndOfTheOldJobToo) {
  with_job_file([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(base::replace_all(kJob, "name: train", "name: train, finalizers: [example.com/hold]"));
    const auto begun = cluster.runtime().now();
    const Ran ran = run(host, {"-f", "job.yaml", "--replace", "--timeout", "5s"});
    EXPECT_EQ(ran.exit, kExitTimeout) << ran.out << ran.err;
    EXPECT_LE(cluster.runtime().now() - begun, std::chrono::seconds(6));
    EXPECT_NE(ran.err.find("the old job default/train is still being deleted after 5s"), std::string::npos) << ran.err;
  });
}

TEST(RunFailures, AMissingPriorityClassIsToldBeforeAnythingIsSent) {
  with_job_file([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 10}");
    host.files["bad.yaml"] = base::replace_all(kJob, "minAvailable: 1", "minAvailable: 1\n  priorityClassName: urgnt");
    Ran ran = run(host, {"-f", "bad.yaml", "-d"});
    EXPECT_EQ(ran.exit, 2);
    for (const char* text : {"bad.yaml:2: spec.priorityClassName: there is no PriorityClass \"urgnt\"; did you mean "
                             "\"urgent\"?",
                             "The cluster has: ", "urgent"})
      EXPECT_NE(ran.err.find(text), std::string::npos) << text << "\n" << ran.err;
    EXPECT_TRUE(cluster.list(resources::kJobs).empty());
    host.files["good.yaml"] =
        base::replace_all(kJob, "minAvailable: 1", "minAvailable: 1\n  priorityClassName: urgent");
    EXPECT_EQ(run(host, {"-f", "good.yaml", "-d"}).exit, 0);
    // A class of the same file counts.
    host.files["both.yaml"] =
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: new}, value: 1}\n---" +
        base::replace_all(base::replace_all(kJob, "name: train", "name: other"), "minAvailable: 1",
                          "minAvailable: 1\n  priorityClassName: new");
    host.raw["/apis/scheduling.k8s.io/v1"] =
        R"({"resources":[{"name":"priorityclasses","kind":"PriorityClass","namespaced":false}]})";
    ran = run(host, {"-f", "both.yaml", "-d"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
  });
}

TEST(RunFailures, WhatIsWrongWithAnObjectIsToldOnce) {
  with_job_file([](sim::Cluster&, TestHost& host) {
    host.files["pod.yaml"] =
        "{apiVersion: v1, kind: Pod, metadata: {name: Bad_Name}, spec: {containers: [{name: X, image: i}]}}";
    const Ran ran = run(host, {"-f", "pod.yaml"});
    EXPECT_EQ(ran.exit, 1);
    EXPECT_TRUE(ran.err.starts_with("basalt run: pod.yaml:1: Pod \"Bad_Name\" is invalid:\n  metadata.name: "))
        << ran.err;
    for (const char* field : {"metadata.name: ", "spec.containers[0].name: "}) {
      const auto first = ran.err.find(field);
      ASSERT_NE(first, std::string::npos) << ran.err;
      EXPECT_EQ(ran.err.find(field, first + 1), std::string::npos) << ran.err;
    }
  });
}

TEST(RunFailures, AServerThatCannotWriteIsTheReason) {
  with_job_file([](sim::Cluster&, TestHost& host) {
    host.on_get = [](const std::string& path) -> Result<std::string> {
      if (path != "/readyz") return Error::make(Reason::NotFound, "no");
      Error error = Error::make(Reason::InternalError, "the disk of /data is full");
      error.code = 500;
      return error;
    };
    const Ran ran = run(host, {"-f", "job.yaml", "--timeout", "10s"});
    EXPECT_EQ(ran.exit, kExitTimeout);
    EXPECT_NE(ran.out.find("(ServerNotReady: the disk of /data is full)"), std::string::npos) << ran.out;
  });
}

}  // namespace
}  // namespace basalt::cli
