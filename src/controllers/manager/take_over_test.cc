#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "controllers/manager/controller_manager.h"
#include "kube/fault_client.h"
#include "rt/sim_test_support.h"
#include "sim/cluster.h"

// A cluster as Volcano's controller manager leaves it when it is scaled to zero: we take over without touching a pod,
// and leave what it needs to go on.

namespace basalt::controllers {
namespace {

namespace resources = sim::resources;
using std::chrono::minutes;

class LiveCluster {
 public:
  explicit LiveCluster(rt::SimRuntime& runtime)
      : cluster(runtime), client(runtime, cluster.client()), runtime_(runtime) {
    queue("above", "root", "Closed", "false");
    queue("below", "above", "Closed", "true");
    queue("busy", "root", "Open", "");
    job_uid_ = job();
    for (const char* index : {"0", "1"}) job_pod(index);
    job_group();
    plain_pod();
  }
  void queue(const std::string& name, const std::string& parent, const std::string& state, const std::string& mark) {
    std::string annotations;
    if (!mark.empty()) annotations = ", annotations: {volcano.sh/closed-by-parent: '" + mark + "'}";
    cluster.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: " + name + annotations +
                  "}, spec: {weight: 1, reclaimable: true, parent: " + parent + "}}");
    cluster.patch(resources::kQueues, "", name,
                  R"({"status":{"state":")" + state + R"(","allocated":{"cpu":"2"},"reservation":{}}})", "status");
  }
  std::string job() {
    const json::Value stored = cluster.apply(R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: hello}
spec:
  minAvailable: 2
  maxRetry: 3
  schedulerName: volcano
  queue: busy
  policies: [{event: PodEvicted, action: RestartJob}]
  tasks:
    - name: worker
      replicas: 2
      minAvailable: 2
      maxRetry: 3
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
)");
    cluster.patch(resources::kJobs, "default", "hello", R"({"status":{
      "state":{"phase":"Running","lastTransitionTime":"2025-12-31T23:00:05Z"},
      "minAvailable":2,"running":2,"version":1,"retryCount":1,
      "taskStatusCount":{"worker":{"phase":{"Running":2}}},
      "conditions":[{"status":"Restarting","lastTransitionTime":"2025-12-31T23:00:03Z"},
                    {"status":"Pending","lastTransitionTime":"2025-12-31T23:00:04Z"},
                    {"status":"Running","lastTransitionTime":"2025-12-31T23:00:05Z"}]}})",
                  "status");
    return std::string(stored.string_at({"metadata", "uid"}));
  }
  void job_pod(const std::string& index) {
    const std::string common = "volcano.sh/task-spec: worker, volcano.sh/task-index: '" + index +
                               "', volcano.sh/job-name: hello, volcano.sh/queue-name: busy";
    const std::string name = "hello-worker-" + index;
    cluster.apply("{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", labels: {" + common +
                  ", volcano.sh/job-namespace: default}, annotations: {" + common +
                  ", volcano.sh/job-version: '1', volcano.sh/job-retry-count: '1', volcano.sh/template-uid: "
                  "hello-worker, scheduling.k8s.io/group-name: hello-" +
                  job_uid_ + "}, ownerReferences: [" + owner() +
                  "]}, spec: {schedulerName: volcano, restartPolicy: Never, containers: [{name: c, image: i}]}}");
    cluster.bind_pod("default", name, "node-0");
    cluster.set_pod_phase("default", name, "Running");
  }
  void job_group() {
    cluster.apply(
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: hello-" + job_uid_ +
        ", ownerReferences: [" + owner() +
        "]}, spec: {minMember: 2, minTaskMember: {worker: 2}, queue: busy, minResources: {count/pods: '2', pods: "
        "'2'}}, status: {phase: Running, running: 2}}");
  }
  void plain_pod() {
    const std::string uid(
        cluster
            .apply("{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {schedulerName: volcano, "
                   "containers: [{name: c, image: i}]}}")
            .string_at({"metadata", "uid"}));
    cluster.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: podgroup-" + uid +
                  ", ownerReferences: [{apiVersion: v1, kind: Pod, name: plain, uid: " + uid +
                  ", controller: true, blockOwnerDeletion: true}]}, spec: {minMember: 1, queue: default, minResources: "
                  "{count/pods: '1', pods: '1'}}, status: {phase: Running, running: 1}}");
    cluster.patch(resources::kPods, "default", "plain",
                  R"({"metadata":{"annotations":{"scheduling.k8s.io/group-name":"podgroup-)" + uid + "\"}}}");
  }
  // Name to UID and version.
  std::map<std::string, std::string> versions(const kube::Resource& resource) {
    std::map<std::string, std::string> all;
    for (const json::Value& object : cluster.list(resource)) {
      all[std::string(object.string_at({"metadata", "name"}))] =
          std::string(object.string_at({"metadata", "uid"})) + " " +
          std::string(object.string_at({"metadata", "resourceVersion"}));
    }
    return all;
  }
  void run_for(rt::Duration duration) {
    kube::Metrics metrics;
    ControllerManager manager(runtime_, client, Logger(), metrics, ManagerOptions());
    EXPECT_TRUE(manager.start({}).ok());
    runtime_.sleep_for(duration);
    manager.stop();
  }

  sim::Cluster cluster;
  kube::FaultClient client;

 private:
  std::string owner() const {
    return "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: hello, uid: " + job_uid_ +
           ", controller: true, blockOwnerDeletion: true}";
  }
  rt::SimRuntime& runtime_;
  std::string job_uid_;
};

TEST(TakeOver, NoPodGroupQueueOrPodIsTouchedAndNoStatusLost) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    LiveCluster live(runtime);
    const kube::Resource kinds[] = {resources::kPods, resources::kPodGroups, resources::kQueues};
    std::map<std::string, std::map<std::string, std::string>> before;
    for (const kube::Resource& kind : kinds) before[kind.plural] = live.versions(kind);
    // Twice: what the first leaves, the next finds, as Volcano does when it takes over again.
    for (int life = 0; life < 2; ++life) {
      live.run_for(minutes(5));
      for (const kube::Resource& kind : kinds) EXPECT_EQ(live.versions(kind), before[kind.plural]) << kind.plural;
    }
    const json::Value job = *live.cluster.get(resources::kJobs, "default", "hello");
    EXPECT_EQ(job.string_at({"status", "state", "phase"}), "Running");
    EXPECT_EQ(job.string_at({"status", "state", "lastTransitionTime"}), "2025-12-31T23:00:05Z");
    EXPECT_EQ(job.find_path({"status", "running"})->as_int(), 2);
    EXPECT_EQ(job.find_path({"status", "retryCount"})->as_int(), 1);
    EXPECT_EQ(job.find_path({"status", "version"})->as_int(), 1);
    EXPECT_EQ(job.find_path({"status", "conditions"})->as_array().size(), 3u);
    EXPECT_EQ(live.cluster.get(resources::kQueues, "", "busy")->string_at({"status", "allocated", "cpu"}), "2");
    live.cluster.stop();
  });
}

TEST(TakeOver, TheJobGoesOnToItsEnd) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    LiveCluster live(runtime);
    kube::Metrics metrics;
    ControllerManager manager(runtime, live.client, Logger(), metrics, ManagerOptions());
    ASSERT_TRUE(manager.start({}).ok());
    live.cluster.set_pod_phase("default", "hello-worker-0", "Succeeded");
    runtime.sleep_for(std::chrono::seconds(5));
    EXPECT_EQ(live.cluster.job_phase("hello"), "Running");
    live.cluster.set_pod_phase("default", "hello-worker-1", "Succeeded");
    EXPECT_TRUE(live.cluster.wait_job_phase("hello", "Completed")) << live.cluster.job_phase("hello");
    EXPECT_EQ(live.cluster.list(resources::kPods, "", "volcano.sh/job-name=hello").size(), 2u);
    manager.stop();
    live.cluster.stop();
  });
}

}  // namespace
}  // namespace basalt::controllers
