#include "cli/inspect/inspect_commands.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/host_test_support.h"
#include "cli/inspect/completion.h"
#include "cli/run/job_progress.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

namespace resources = sim::resources;

constexpr std::string_view kTrain = R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  queue: default
  schedulerName: volcano
  tasks:
  - {name: worker, replicas: 2, template: {spec: {containers: [{name: main, image: none}]}}}
  volumes: [{mountPath: /data, volumeClaimName: data}]
)";

void with_training(const std::function<void(sim::Cluster&, TestHost&)>& body) {
  on_cluster([&](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(kTrain);
    body(cluster, host);
  });
}

std::string uid_of_train(sim::Cluster& cluster) {
  return std::string(cluster.get(resources::kJobs, "default", "train")->string_at({"metadata", "uid"}));
}

// The pod group and the pods that a controller would make.
void add_children(sim::Cluster& cluster) {
  const std::string uid = uid_of_train(cluster);
  const std::string owner =
      "ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: train, uid: " + uid +
      ", controller: true}]";
  cluster.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: train-" + uid + ", " +
                owner + "}, spec: {minMember: 2, queue: default, minResources: {cpu: 3}}}");
  for (const char* index : {"0", "1"}) {
    cluster.apply("{apiVersion: v1, kind: Pod, metadata: {name: train-worker-" + std::string(index) +
                  ", labels: {volcano.sh/job-name: train, volcano.sh/task-spec: worker}, " + owner +
                  "}, spec: {containers: [{name: main, image: none, resources: {requests: {cpu: 500m}}}]}}");
  }
  cluster.apply("{apiVersion: v1, kind: Service, metadata: {name: train, " + owner + "}, spec: {clusterIP: None}}");
}

void add_node(sim::Cluster& cluster) {
  cluster.apply("{apiVersion: v1, kind: Node, metadata: {name: n1}}");
  cluster.patch(
      resources::kNodes, "", "n1",
      R"({"status":{"allocatable":{"cpu":"2","memory":"4Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}})",
      "status");
}

TEST(Inspect, ExplainPrintsReasonNumbersAndPlace) {
  with_training([](sim::Cluster& cluster, TestHost& host) {
    cluster.patch(resources::kJobs, "default", "train", R"({"status":{"state":{"phase":"Pending"}}})", "status");
    add_node(cluster);
    const std::string uid = uid_of_train(cluster);
    cluster.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: train-" + uid +
                  "}, spec: {minMember: 2, queue: default, minResources: {cpu: 3}}}");
    cluster.patch(
        resources::kPodGroups, "default", "train-" + uid,
        R"({"status":{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True","transitionID":"1",
                      "reason":"NotEnoughResources","message":"cpu is short by 1"}]}})");
    const Ran ran = run_line(host, explain_command(), "basalt explain", {"train"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    for (const char* text :
         {"job default/train: Pending", "NotEnoughResources", "cpu is short by 1",
          "2 pods must start together; 0 exist",
          "RESOURCE   REQUESTED   IN USE   LIMIT   FREE   SHORT\n  cpu        3           0        2       2      1\n",
          "1 of 1 that wait", "it can never fit on these nodes: ask for at most 2 cpu"}) {
      EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n--- in ---\n" << ran.out;
    }
    const Ran json = run_line(host, explain_command(), "basalt explain", {"job/train", "-o", "json"});
    const auto value = json::Value::parse(json.out);
    ASSERT_TRUE(value.ok()) << json.out;
    EXPECT_EQ(value->string_at({"reason"}), "NotEnoughResources");
    const Ran group = run_line(host, explain_command(), "basalt explain", {"podgroup/train-" + uid});
    EXPECT_NE(group.out.find("pod group default/train-"), std::string::npos) << group.out << group.err;
    EXPECT_EQ(run_line(host, explain_command(), "basalt explain", {}).exit, 2);
    const Ran wrong = run_line(host, explain_command(), "basalt explain", {"trian"});
    EXPECT_EQ(wrong.exit, 1);
    EXPECT_NE(wrong.err.find("did you mean \"train\"?"), std::string::npos) << wrong.err;
  });
}

TEST(Inspect, TreeShowsAllThatBelongsToAJob) {
  with_training([](sim::Cluster& cluster, TestHost& host) {
    add_children(cluster);
    cluster.apply("{apiVersion: v1, kind: Service, metadata: {name: stranger}, spec: {clusterIP: None}}");
    const Ran ran = run_line(host, tree_command(), "basalt tree", {"train"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_TRUE(ran.out.starts_with("job/train  not seen yet  min 2")) << ran.out;
    for (const char* text :
         {"├─ podgroup/train-", "├─ task/worker  2 of 2 pods\n│  ├─ pod/train-worker-0  Pending  no node\n",
          "├─ service/train\n", "└─ persistentvolumeclaim/data  missing  at /data\n"}) {
      EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n--- in ---\n" << ran.out;
    }
    EXPECT_EQ(ran.out.find("stranger"), std::string::npos);
    host.terminal_.width = 20;
    const std::string narrow = run_line(host, tree_command(), "basalt tree", {"train"}).out;
    for (const std::string_view line : base::split(narrow, '\n')) EXPECT_LE(display_width(line), 20u) << line;
  });
}

TEST(Inspect, TopShowsQueuesAndNodes) {
  with_training([](sim::Cluster& cluster, TestHost& host) {
    add_children(cluster);
    add_node(cluster);
    cluster.bind_pod("default", "train-worker-0", "n1");
    cluster.patch(resources::kQueues, "", "default", R"({"spec":{"weight":1,"capability":{"cpu":"4"}}})");
    cluster.patch(resources::kQueues, "", "default", R"({"status":{"state":"Open","allocated":{"cpu":"3"}}})",
                  "status");
    const Ran queues = run_line(host, top_command(), "basalt top", {"queues"});
    EXPECT_EQ(queues.exit, 0) << queues.err;
    EXPECT_NE(queues.out.find("default   Open    1        0         1         3/4   [#######...] 75%"),
              std::string::npos)
        << queues.out;
    const Ran nodes = run_line(host, top_command(), "basalt top", {"nodes"});
    EXPECT_NE(nodes.out.find("n1     Ready    1/110   500m/2   [##........] 25%   0/4Gi"), std::string::npos)
        << nodes.out;
    EXPECT_EQ(run_line(host, top_command(), "basalt top", {"pods"}).exit, 2);
    EXPECT_NE(run_line(host, top_command(), "basalt top", {"nodes", "-o", "json"}).out.find("\"requested\": \"500m\""),
              std::string::npos);
  });
}

std::string event_yaml(std::string_view name, std::string_view object, std::string_view uid, std::string_view time) {
  return "{apiVersion: v1, kind: Event, metadata: {name: " + std::string(name) + "}, involvedObject: {" +
         std::string(object) + ", namespace: default, uid: \"" + std::string(uid) + "\"}, reason: R-" +
         std::string(name) + ", message: m, type: Normal, count: 2, firstTimestamp: \"" + std::string(time) +
         "\", lastTimestamp: \"" + std::string(time) + "\"}";
}

TEST(Inspect, EventsOfAJobAreThoseOfItsGroupAndPodsToo) {
  with_training([](sim::Cluster& cluster, TestHost& host) {
    add_children(cluster);
    cluster.apply(event_yaml("second", "kind: Job, name: train", uid_of_train(cluster), "2026-01-01T00:00:02Z"));
    cluster.apply(event_yaml("first", "kind: Pod, name: train-worker-7", "gone", "2026-01-01T00:00:01Z"));
    cluster.apply(event_yaml("stranger", "kind: Job, name: other", "x", "2026-01-01T00:00:03Z"));
    const Ran ran = run_line(host, events_command(), "basalt events", {"train"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    const auto first = ran.out.find("R-first");
    const auto second = ran.out.find("R-second");
    ASSERT_NE(first, std::string::npos) << ran.out;
    ASSERT_NE(second, std::string::npos) << ran.out;
    EXPECT_LT(first, second);
    EXPECT_EQ(ran.out.find("stranger"), std::string::npos);
    EXPECT_NE(ran.out.find("(x2)"), std::string::npos);
    EXPECT_NE(run_line(host, events_command(), "basalt events", {}).out.find("stranger"), std::string::npos);
    EXPECT_EQ(run_line(host, events_command(), "basalt events", {"--type", "Warning"}).out, "No resources found\n");
  });
}

TEST(Inspect, WaitEndsWithTheOutcome) {
  with_training([](sim::Cluster& cluster, TestHost& host) {
    EXPECT_EQ(run_line(host, wait_command(), "basalt wait", {"train", "--timeout", "3s"}).exit, kExitTimeout);
    rt::Thread controller(cluster.runtime(), "controller", [&cluster] {
      for (const char* phase : {"Running", "Failed"}) {
        cluster.runtime().sleep_for(std::chrono::seconds(2));
        cluster.patch(resources::kJobs, "default", "train",
                      R"({"status":{"state":{"phase":")" + std::string(phase) + "\"}}}", "status");
      }
    });
    EXPECT_EQ(run_line(host, wait_command(), "basalt wait", {"job/train", "--for", "phase=Running"}).exit, 0);
    EXPECT_EQ(run_line(host, wait_command(), "basalt wait", {"train"}).exit, kExitJobFailed);
    controller.join();
    EXPECT_EQ(run_line(host, wait_command(), "basalt wait", {"train", "--for", "Completed"}).exit, kExitFailed)
        << "it cannot come to that any more";
    const Ran wrong = run_line(host, wait_command(), "basalt wait", {"train", "--for", "Runing"});
    EXPECT_EQ(wrong.exit, kExitUsage);
    EXPECT_NE(wrong.err.find("did you mean \"Running\"?"), std::string::npos) << wrong.err;
    cluster.remove(resources::kJobs, "default", "train");
    EXPECT_EQ(run_line(host, wait_command(), "basalt wait", {"train", "--for", "deleted"}).exit, 0);
    EXPECT_EQ(run_line(host, watch_command(), "basalt watch", {}).out, "no job of namespace default is under way\n");
  });
}

TEST(Inspect, LogsOfAllPodsWithTheirNames) {
  with_training([](sim::Cluster& cluster, TestHost& host) {
    Ran ran = run_line(host, logs_command(), "basalt logs", {"train"});
    EXPECT_NE(ran.err.find("has no pods now"), std::string::npos) << ran.err;
    add_children(cluster);
    for (const char* pod : {"train-worker-0", "train-worker-1"}) {
      cluster.bind_pod("default", pod, "n1");
      cluster.set_pod_phase("default", pod, "Succeeded");
    }
    host.on_get = [](const std::string& path) -> Result<std::string> {
      return "2026-01-01T00:00:01Z from " + std::string(path.find("worker-0") != std::string::npos ? "zero" : "one") +
             "\n";
    };
    ran = run_line(host, logs_command(), "basalt logs", {"train"});
    EXPECT_EQ(ran.out, "worker-0 | from zero\nworker-1 | from one\n") << ran.err;
    ran = run_line(host, logs_command(), "basalt logs", {"train", "--pod", "worker-1"});
    EXPECT_EQ(ran.out, "worker-1 | from one\n");
    EXPECT_EQ(run_line(host, logs_command(), "basalt logs", {"train", "-f", "-p"}).exit, kExitUsage);
  });
}

TEST(Inspect, DoctorFindsWhatIsMissing) {
  with_training([](sim::Cluster& cluster, TestHost& host) {
    Ran ran = run_line(host, doctor_command(), "basalt doctor", {});
    EXPECT_EQ(ran.exit, 1);
    EXPECT_TRUE(ran.out.starts_with("failed   server")) << ran.out;
    host.raw["/version"] = R"({"gitVersion":"v1.36.0"})";
    host.raw["/readyz"] = "ok";
    ran = run_line(host, doctor_command(), "basalt doctor", {});
    EXPECT_EQ(ran.exit, 1);
    EXPECT_NE(ran.out.find("ok       server       https://sim (context sim), Kubernetes v1.36.0"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("kubectl apply --server-side -f deploy/crds"), std::string::npos);
    host.raw["/apis/batch.volcano.sh/v1alpha1"] = R"({"resources":[{"name":"jobs"},{"name":"cronjobs"}]})";
    host.raw["/apis/bus.volcano.sh/v1alpha1"] = R"({"resources":[{"name":"commands"}]})";
    host.raw["/apis/scheduling.volcano.sh/v1beta1"] = R"({"resources":[{"name":"queues"},{"name":"podgroups"}]})";
    host.runtime().sleep_for(std::chrono::minutes(1));
    ran = run_line(host, doctor_command(), "basalt doctor", {});
    EXPECT_NE(ran.out.find("warn     admission    the server takes a job that can never start"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("ok       queue        the queue \"default\" is open"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("failed   controllers  1 jobs have waited for longer than 15 s"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("failed   nodes        there are no nodes"), std::string::npos) << ran.out;
    add_node(cluster);
    cluster.patch(resources::kNodes, "", "n1", R"({"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]}})");
    ran = run_line(host, doctor_command(), "basalt doctor", {});
    EXPECT_NE(ran.out.find("warn     nodes        only pods that tolerate their taints are placed: n1 has the taint "
                           "gpu:NoSchedule"),
              std::string::npos)
        << ran.out;
    host.on_get = [](const std::string& path) -> Result<std::string> {
      if (path == "/version") return std::string("{}");
      Error error = Error::make(Reason::InternalError, "the disk of /data is full");
      error.code = 500;
      return error;
    };
    ran = run_line(host, doctor_command(), "basalt doctor", {});
    EXPECT_EQ(ran.exit, kExitFailed);
    EXPECT_NE(ran.out.find("failed   ready        the server says of itself: the disk of /data is full"),
              std::string::npos)
        << ran.out;
  });
}

TEST(Inspect, CompletionKnowsCommandsFlagsValuesAndNames) {
  with_training([](sim::Cluster&, TestHost& host) {
    const HostMaker maker = [&host]() -> Host& { return host; };
    const auto complete = [&](std::vector<std::string> words) {
      return base::join(completions(maker, "basalt", words), " ");
    };
    EXPECT_EQ(complete({"expl"}), "explain");
    EXPECT_EQ(complete({"queue", "o"}), "operate");
    EXPECT_EQ(complete({"explain", "t"}), "train");
    EXPECT_EQ(complete({"job", "view", "-N", ""}), "train");
    EXPECT_EQ(complete({"job", "list", "-o", ""}), "json name wide yaml");
    EXPECT_EQ(complete({"job", "list", "--out"}), "--output");
    EXPECT_EQ(complete({"job", "list", "-q", ""}), "default root");
    EXPECT_EQ(complete({"run", "-f", ""}), ":files");
    EXPECT_EQ(complete({"top", "n"}), "nodes");
    EXPECT_EQ(complete({"nosuch", ""}), "");
  });
}

}  // namespace
}  // namespace basalt::cli
