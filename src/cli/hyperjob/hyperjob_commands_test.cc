#include "cli/hyperjob/hyperjob_commands.h"

#include <gtest/gtest.h>

#include "cli/client/host_test_support.h"
#include "crds/crds.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

namespace resources = sim::resources;
const kube::Resource kHyperJobs{"training.volcano.sh", "v1alpha1", "hyperjobs"};
const kube::Resource kBindings{"work.karmada.io", "v1alpha2", "resourcebindings"};

constexpr std::string_view kObjects = R"(
apiVersion: training.volcano.sh/v1alpha1
kind: HyperJob
metadata: {name: train}
spec:
  replicatedJobs:
  - {name: a, replicas: 2, clusterNames: [east], templateSpec: {tasks: [{name: w, replicas: 1}]}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: west}
spec: {syncMode: Push}
)";

std::string child(const std::string& name, const std::string& uid) {
  return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: " + name +
         ", labels: {volcano.sh/hyperjob-name: train}, ownerReferences: [{apiVersion: training.volcano.sh/v1alpha1, "
         "kind: "
         "HyperJob, name: train, uid: " +
         uid + ", controller: true}]}\nspec: {tasks: [{name: w, replicas: 1}]}\n";
}

std::string binding(const std::string& name, const std::string& uid, const std::string& clusters) {
  return "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: " + name +
         "-job}\nspec: {resource: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: " + name + ", uid: " + uid +
         "}, clusters: " + clusters + "}\n";
}

class HyperJobCommands : public ::testing::Test {
 protected:
  static void on_cluster(const std::function<void(sim::Cluster&, TestHost&)>& body) {
    rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
      sim::Cluster cluster(runtime);
      ASSERT_TRUE(crds::install_karmada(runtime, cluster.client(), {}).ok());
      cluster.apply(kObjects);
      TestHost host(cluster);
      body(cluster, host);
      cluster.stop();
    });
  }
  static Ran run(TestHost& host, std::vector<std::string> arguments) {
    return run_line(host, hyper_job_group(), "basalt hyperjob", std::move(arguments));
  }
  // Two children: the first runs in west, the second found no cluster.
  static void add_children(sim::Cluster& cluster) {
    const std::string uid(cluster.get(kHyperJobs, "default", "train")->string_at({"metadata", "uid"}));
    for (const char* name : {"train-a-0", "train-a-1"}) {
      const std::string job_uid(cluster.apply(child(name, uid)).string_at({"metadata", "uid"}));
      const bool is_first = std::string_view(name) == "train-a-0";
      cluster.apply(binding(name, job_uid, is_first ? "[{name: west, replicas: 1}]" : "[]"));
    }
    cluster.patch(resources::kJobs, "default", "train-a-0", R"({"status":{"state":{"phase":"Running"},"running":1}})",
                  "status");
    cluster.patch(
        kBindings, "default", "train-a-1-job",
        R"({"status":{"conditions":[{"type":"Scheduled","status":"False","reason":"NoClusterFit","message":"0/1",
                  "lastTransitionTime":"2026-01-01T00:00:00Z"}]}})",
        "status");
    cluster.patch(kHyperJobs, "default", "train",
                  R"({"status":{"splitCount":2,"observedGeneration":1,"replicatedJobsStatus":[{"name":"a","running":1,
                  "jobStates":{"train-a-0":{"phase":"Running"},"train-a-1":{}}}]}})",
                  "status");
  }
};

TEST_F(HyperJobCommands, ListsAndViews) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    add_children(cluster);
    Ran ran = run(host, {"list"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_TRUE(ran.out.starts_with("NAME ")) << ran.out;
    EXPECT_NE(ran.out.find("train   Running   2      1         1         0           0"), std::string::npos) << ran.out;
    ran = run(host, {"view", "train"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_NE(ran.out.find("State:      Running"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("a       train-a-0   west      Running   0         1"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("a       train-a-1   <none>    <none>"), std::string::npos) << ran.out;
    EXPECT_TRUE(run(host, {"view", "train", "-o", "json"}).out.starts_with("{"));
    EXPECT_EQ(run(host, {"list", "-o", "name"}).out, "hyperjob.training.volcano.sh/train\n");
    EXPECT_NE(run(host, {"view"}).exit, 0);
    EXPECT_NE(run(host, {"view", "trian"}).err.find("train"), std::string::npos);
  });
}

TEST_F(HyperJobCommands, ExplainsWhatEachJobWaitsFor) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    Ran ran = run(host, {"explain", "train"});
    EXPECT_NE(ran.out.find("No controller has looked at it"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("Entry a names cluster east, which does not exist"), std::string::npos) << ran.out;
    add_children(cluster);
    ran = run(host, {"explain", "train"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_NE(ran.out.find("train-a-0: it is Running in cluster west."), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("train-a-1: no cluster takes it: NoClusterFit: 0/1."), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("What helps: check clusterNames"), std::string::npos) << ran.out;
  });
}

TEST_F(HyperJobCommands, DeletesWithItsChildren) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    add_children(cluster);
    const Ran ran = run(host, {"delete", "train"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(ran.out, "delete hyperjob train successfully\n");
    EXPECT_TRUE(cluster.wait_until([&] { return cluster.list(resources::kJobs, "default").empty(); }));
    EXPECT_NE(run(host, {"delete", "train"}).exit, 0);
  });
}

}  // namespace
}  // namespace basalt::cli
