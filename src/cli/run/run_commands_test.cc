#include "cli/run/run_commands.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/strings.h"
#include "cli/client/host_test_support.h"
#include "cli/run/job_progress.h"
#include "cli/run/manifests.h"
#include "rt/sim_test_support.h"
#include "yaml/reader.h"

namespace basalt::cli {
namespace {

namespace resources = sim::resources;

constexpr std::string_view kHello = R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: hello}
spec:
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: main, image: none, command: [echo, hi]}]}}
)";

constexpr std::string_view kPod = R"(
apiVersion: v1
kind: Pod
metadata: {name: hello-worker-0, labels: {volcano.sh/job-name: hello}}
spec: {containers: [{name: main, image: none}]}
)";

// A controller that takes the job through these phases, one a second.
class PlayedController {
 public:
  PlayedController(sim::Cluster& cluster, std::vector<std::string> statuses, std::string job = "hello")
      : thread_(cluster.runtime(), "controller", [&cluster, statuses = std::move(statuses), job] {
          cluster.wait_until([&] { return cluster.get(resources::kJobs, "default", job).has_value(); });
          for (const std::string& status : statuses) {
            cluster.runtime().sleep_for(std::chrono::seconds(1));
            if (status == "gone") {
              cluster.remove(resources::kJobs, "default", job);
            } else {
              cluster.patch(resources::kJobs, "default", job, "{\"status\":" + status + "}", "status");
            }
          }
        }) {}
  ~PlayedController() { thread_.join(); }

 private:
  rt::Thread thread_;
};

const std::vector<std::string> kGoesWell = {
    R"({"state":{"phase":"Pending","reason":"NotEnoughResources","message":"short of cpu 1"}})",
    R"({"state":{"phase":"Running","message":null},"taskStatusCount":{"worker":{"phase":{"Running":2}}}})",
    R"({"state":{"phase":"Completed"},"taskStatusCount":{"worker":{"phase":{"Running":0,"Succeeded":2}}}})"};

void with_hello(std::uint64_t seeds, const std::function<void(sim::Cluster&, TestHost&)>& body) {
  const auto with_file = [&](sim::Cluster& cluster, TestHost& host) {
    host.files["job.yaml"] = std::string(kHello);
    body(cluster, host);
  };
  on_cluster(with_file, seeds);
}

Ran run(TestHost& host, std::vector<std::string> arguments) {
  return run_line(host, run_command(), "basalt run", std::move(arguments));
}

TEST(Run, FollowsAJobToItsEnd) {
  with_hello(10, [](sim::Cluster& cluster, TestHost& host) {
    const PlayedController controller(cluster, kGoesWell);
    const Ran ran = run(host, {"-f", "job.yaml"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(ran.out,
              "job default/hello created\n"
              "job default/hello Submitted: worker no pods\n"
              "job default/hello Pending: worker no pods (NotEnoughResources: short of cpu 1)\n"
              "job default/hello Running: worker 2 running\n"
              "job default/hello Completed after 3s: worker 2 succeeded\n");
  });
}

TEST(Run, ExitCodesTellTheOutcome) {
  const std::vector<std::pair<std::string, int>> cases = {
      {R"({"state":{"phase":"Failed"}})", 1},
      {R"({"state":{"phase":"Terminated"}})", 3},
      {R"({"state":{"phase":"Aborted"}})", 4},
      {"gone", 5},
  };
  for (const auto& [status, exit] : cases) {
    with_hello(3, [&](sim::Cluster& cluster, TestHost& host) {
      const PlayedController controller(cluster, {R"({"state":{"phase":"Running"}})", status});
      EXPECT_EQ(run(host, {"job.yaml"}).exit, exit) << status;
    });
  }
}

TEST(Run, ShowsLogsWithPrefixesOnce) {
  with_hello(5, [](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(kPod);
    cluster.set_pod_phase("default", "hello-worker-0", "Running");
    int polls = 0;
    host.on_get = [&](const std::string& path) -> Result<std::string> {
      EXPECT_TRUE(path.starts_with("/api/v1/namespaces/default/pods/hello-worker-0/log?container=")) << path;
      ++polls;
      std::string text = "2026-01-01T00:00:01.1Z one\n2026-01-01T00:00:01.1Z two\n";
      if (polls > 1) {
        // The server rounds down, so the same lines come again.
        EXPECT_NE(path.find("sinceTime=2026-01-01T00%3A00%3A01Z"), std::string::npos) << path;
        text += "2026-01-01T00:00:01.12Z three\n2026-01-01T00:00:01.2Z un";
      }
      if (polls > 2) text += "finished";
      return text;
    };
    const PlayedController controller(cluster, kGoesWell);
    const Ran ran = run(host, {"-f", "job.yaml"});
    std::string logs;
    for (const std::string_view line : base::split_lines(ran.out)) {
      if (line.starts_with("worker-0 | ")) logs += std::string(line.substr(11)) + ";";
    }
    EXPECT_EQ(logs, "one;two;three;unfinished;");
  });
}

TEST(Run, RefusesWhatCannotWorkBeforeSendingAnything) {
  with_hello(1, [](sim::Cluster& cluster, TestHost& host) {
    host.files["bad.yaml"] = std::string(kHello) + R"(
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: bad}
spec:
  minAvailable: 5
  tasks:
  - {name: a, replicas: 1, template: {spec: {containers: [{name: m, image: i, resources: {requests: {cpu: 1x}}}]}}}
  - {name: a, replicas: two, template: {spec: {}}, dependsOn: {name: [aa]}}
)";
    const Ran ran = run(host, {"-f", "bad.yaml"});
    EXPECT_EQ(ran.exit, 2);
    EXPECT_TRUE(cluster.list(resources::kJobs).empty());
    for (const char* text :
         {"nothing was submitted, because:\n",
          "bad.yaml:13: spec.minAvailable is 5, but the tasks have 1 pods in all: the job could never start",
          "spec.tasks[1].name \"a\" is taken by a task before it",
          "spec.tasks[1].replicas must be a whole number, it is a string",
          "spec.tasks[1].template.spec.containers must hold at least one container",
          "spec.tasks[1].dependsOn.name names \"aa\", which is no task of the job; did you mean \"a\"?",
          "spec.tasks[0].template.spec.containers[0].resources.requests.cpu is no quantity"}) {
      EXPECT_NE(ran.err.find(text), std::string::npos) << text << "\n" << ran.err;
    }
    host.files["kind.yaml"] = "{apiVersion: batch.volcano.sh/v1alpha1, kind: Jop, metadata: {name: a}}";
    EXPECT_NE(
        run(host, {"kind.yaml"}).err.find("knows no kind Jop of batch.volcano.sh/v1alpha1; did you mean \"Job\"?"),
        std::string::npos);
    host.files["version.yaml"] = "{apiVersion: batch/v1alpha1, kind: Job, metadata: {name: a}}";
    EXPECT_NE(run(host, {"version.yaml"}).err.find("its apiVersion is batch.volcano.sh/v1alpha1"), std::string::npos);
    EXPECT_EQ(run(host, {"-f", "nofile.yaml"}).err, "basalt run: nofile.yaml: no such file\n");
    EXPECT_EQ(run(host, {}).exit, 2);
    host.files["typo.yaml"] = base::replace_all(kHello, "minAvailable", "minAvailble");
    const Ran typo = run(host, {"typo.yaml"});
    EXPECT_EQ(typo.exit, 1);
    EXPECT_NE(typo.err.find("minAvailble"), std::string::npos) << typo.err;
  });
}

TEST(Run, SeveralDocumentsAndDetach) {
  with_hello(1, [](sim::Cluster& cluster, TestHost& host) {
    host.files["-"] = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}\n---" + std::string(kHello);
    Ran ran = run(host, {"-f", "-", "--detach"});
    EXPECT_EQ(ran.out,
              "configmap default/c created\njob default/hello created\n"
              "follow it with: basalt watch hello -n default\n");
    EXPECT_TRUE(cluster.get(resources::kConfigMaps, "default", "c"));
    ran = run(host, {"-f", "-", "--detach"});
    EXPECT_EQ(ran.exit, 1);
    EXPECT_EQ(ran.out, "configmap default/c configured\n");
    EXPECT_NE(ran.err.find("job default/hello exists already"), std::string::npos) << ran.err;
    ran = run(host, {"-f", "-", "--detach", "--replace"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    ran = run(host, {"-f", "job.yaml", "--dry-run", "-n", "nowhere"});
    EXPECT_EQ(ran.exit, 1) << ran.out;
  });
}

TEST(Run, TimeoutLeavesTheJobUnlessToldOtherwise) {
  with_hello(1, [](sim::Cluster& cluster, TestHost& host) {
    Ran ran = run(host, {"-f", "job.yaml", "--timeout", "5s"});
    EXPECT_EQ(ran.exit, 124);
    EXPECT_NE(ran.out.find("job default/hello goes on; follow it with: basalt watch hello -n default"),
              std::string::npos)
        << ran.out;
    EXPECT_TRUE(cluster.get(resources::kJobs, "default", "hello"));
    ran = run(host, {"-f", "job.yaml", "--replace", "--timeout", "5s", "--delete-after"});
    EXPECT_EQ(ran.exit, 124);
    EXPECT_FALSE(cluster.get(resources::kJobs, "default", "hello"));
  });
}

TEST(Run, InterruptLeavesOrDeletes) {
  struct Case {
    bool on_terminal;
    std::string answer;
    bool is_there_after;
    int exit;
  };
  for (const Case& test : std::vector<Case>{
           {false, "", true, 130}, {true, "l", true, 130}, {true, "d", false, 130}, {true, "w", true, 0}}) {
    with_hello(3, [&](sim::Cluster& cluster, TestHost& host) {
      host.terminal_ = {.out_is_terminal = test.on_terminal, .in_is_terminal = test.on_terminal, .width = 70};
      host.answers = {test.answer};
      std::vector<std::string> phases = test.exit == 0 ? kGoesWell : std::vector<std::string>();
      const PlayedController controller(cluster, phases);
      rt::Thread finger(cluster.runtime(), "finger", [&] {
        cluster.runtime().sleep_for(std::chrono::milliseconds(1500));
        EXPECT_TRUE(host.interrupts().interrupt());
      });
      const Ran ran = run(host, {"-f", "job.yaml"});
      EXPECT_EQ(ran.exit, test.exit) << ran.out << ran.err;
      EXPECT_EQ(cluster.get(resources::kJobs, "default", "hello").has_value(), test.is_there_after);
      finger.join();
    });
  }
}

JobProgress example() {
  JobProgress job;
  job.ns = "default";
  job.name = "train";
  job.phase = "Running";
  job.elapsed = std::chrono::seconds(75);
  job.tasks = {{"master", 1, {{"Running", 1}}}, {"worker", 4, {{"Running", 1}, {"Pending", 1}, {"Succeeded", 2}}}};
  job.newest_event = "SuccessfulCreate: created 4 pods";
  return job;
}

std::string lines_of(const JobProgress& job, const Terminal& terminal) {
  std::string text;
  for (const std::string& line : live_lines(job, terminal)) text += line + "\n";
  return text;
}

TEST(JobProgress, LiveLines) {
  EXPECT_EQ(lines_of(example(), {.width = 80}),
            "default/train  Running  1m15s\n"
            "  master  [....................] 0/1  1 running\n"
            "  worker  [##########..........] 2/4  1 running, 1 pending, 2 succeeded\n"
            "  SuccessfulCreate: created 4 pods\n");
  EXPECT_EQ(lines_of(example(), {.width = 30}),
            "default/train  Running  1m15s\n"
            "  master  0/1  1 running\n"
            "  worker  2/4  1 running, 1 p\u2026\n"
            "  SuccessfulCreate: created 4\u2026\n");
  JobProgress waiting = example();
  waiting.phase = "Pending";
  waiting.reason = "NotEnoughResources";
  waiting.message = "short of cpu 2\n";
  EXPECT_NE(lines_of(waiting, {}).find("  NotEnoughResources: short of cpu 2\\n\n"), std::string::npos);
  EXPECT_NE(lines_of(example(), {.has_colours = true}).find("\x1b[34mRunning\x1b[0m"), std::string::npos);
}

TEST(JobProgress, DisplayIsRedrawnInPlace) {
  with_hello(2, [](sim::Cluster& cluster, TestHost& host) {
    host.terminal_ = {.out_is_terminal = true, .in_is_terminal = true, .width = 50};
    const PlayedController controller(cluster, kGoesWell);
    const Ran ran = run(host, {"-f", "job.yaml"});
    EXPECT_EQ(ran.exit, 0);
    EXPECT_NE(ran.out.find("default/hello  Submitted  0s\n  worker  0/2  no pods\n\x1b[2A\r\x1b[J"), std::string::npos)
        << ran.out;
    EXPECT_TRUE(ran.out.ends_with("\x1b[Jjob default/hello Completed after 3s: worker 2 succeeded\n")) << ran.out;
  });
}

TEST(Run, StartsAClusterWhereNoneIsConfigured) {
  with_hello(1, [](sim::Cluster& cluster, TestHost& host) {
    host.configured = false;
    EXPECT_EQ(run(host, {}).exit, 2);
    EXPECT_EQ(host.local_starts, 0) << "what is wrong with the flags is said first";
    EXPECT_EQ(run(host, {"job.yaml", "-d"}).exit, 2) << "nothing would be left to follow";
    host.configured = true;
    const PlayedController controller(cluster, kGoesWell);
    EXPECT_EQ(run(host, {"job.yaml", "--local"}).exit, 0);
    EXPECT_EQ(host.local_starts, 2);
  });
}

TEST(Run, WaitsUntilAQueueOfTheSameFileIsOpen) {
  with_hello(3, [](sim::Cluster& cluster, TestHost& host) {
    host.files["queue.yaml"] =
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}, spec: {weight: 1}}\n---" +
        base::replace_all(kHello, "minAvailable: 2", "minAvailable: 2\n  queue: q");
    rt::Thread controller(cluster.runtime(), "queue controller", [&cluster] {
      cluster.wait_until([&] { return cluster.get(resources::kQueues, "", "q").has_value(); });
      cluster.runtime().sleep_for(std::chrono::seconds(2));
      EXPECT_FALSE(cluster.get(resources::kJobs, "default", "hello")) << "admission would have refused it";
      cluster.patch(resources::kQueues, "", "q", R"({"status":{"state":"Open"}})", "status");
    });
    const Ran ran = run(host, {"queue.yaml", "--detach"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_TRUE(cluster.get(resources::kJobs, "default", "hello"));
    controller.join();
  });
}

TEST(Run, UsersC_SaysWhatThePodGroupKnowsBeforeTheJobDoes) {
  with_hello(1, [](sim::Cluster& cluster, TestHost& host) {
    rt::Thread controller(cluster.runtime(), "controller", [&cluster] {
      cluster.wait_until([&] { return cluster.get(resources::kJobs, "default", "hello").has_value(); });
      const std::string uid(cluster.get(resources::kJobs, "default", "hello")->string_at({"metadata", "uid"}));
      cluster.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: hello-" + uid +
                    "}, spec: {minMember: 2}}");
      cluster.patch(resources::kPodGroups, "default", "hello-" + uid,
                    R"({"status":{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True",
                        "transitionID":"1","reason":"NotEnoughResources","message":"short of cpu 7"}]}})");
      cluster.patch(resources::kJobs, "default", "hello", R"({"status":{"state":{"phase":"Pending"}}})", "status");
    });
    const Ran ran = run(host, {"job.yaml", "--timeout", "5s"});
    controller.join();
    EXPECT_EQ(ran.exit, kExitTimeout);
    EXPECT_NE(ran.out.find("Pending: worker no pods (NotEnoughResources: short of cpu 7)\n"), std::string::npos)
        << ran.out;
  });
}

}  // namespace
}  // namespace basalt::cli
