#include "controllers/manager/controller_manager.h"

#include <gtest/gtest.h>

#include "controllers/manager/run.h"
#include "rt/sim_test_support.h"
#include "rt/test_size.h"
#include "sim/actors.h"
#include "sim/cluster.h"

namespace basalt::controllers {
namespace {

constexpr std::string_view kJob = R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: hello}
spec:
  minAvailable: 3
  schedulerName: volcano
  queue: default
  tasks:
    - name: worker
      replicas: 3
      minAvailable: 3
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
)";

TEST(ControllerManager, TakesAJobFromSubmissionToCompletion) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    auto sink = std::make_shared<CollectingLogSink>();
    const Logger log(sink, LogLevel::Warn);
    sim::Cluster cluster(runtime);
    sim::PlayedScheduler scheduler(runtime, cluster.client());
    sim::PlayedKubelet kubelet(runtime, cluster.client());
    kube::Metrics metrics;
    ControllerManager manager(runtime, cluster.client(), log, metrics, ManagerOptions());
    EXPECT_EQ(manager.names(),
              (std::vector<std::string>{"queue-controller", "pg-controller", "gc-controller", "job-controller",
                                        "jobflow-controller", "jobtemplate-controller", "cronjob-controller"}));
    ASSERT_TRUE(manager.start({}).ok());
    EXPECT_TRUE(manager.is_ready());
    scheduler.start();
    kubelet.start();
    cluster.apply(kJob);
    EXPECT_TRUE(cluster.wait_job_phase("hello", "Completed"));
    EXPECT_EQ(sink->first_error(), "");
    kubelet.stop();
    scheduler.stop();
    manager.stop();
  });
}

TEST(ControllerManager, AGateLeavesTheCronJobsOut) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    for (const char* gate : {"CronVolcanoJobSupport=false", "VolcanoJobSupport=false"}) {
      kube::Metrics metrics;
      ManagerOptions options;
      options.controllers = {"gc-controller", "cronjob-controller"};
      ASSERT_TRUE(set_feature_gates(options.gates, gate).ok());
      ControllerManager manager(runtime, cluster.client(), Logger(), metrics, options);
      EXPECT_EQ(manager.names(), std::vector<std::string>{"gc-controller"}) << gate;
    }
    cluster.stop();
  });
}

TEST(ControllerManager, StartsAndStopsAThousandTimesWithoutALeak) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    for (int i = 0; i < rt::test_size(1000); ++i) {
      kube::Metrics metrics;
      ControllerManager manager(runtime, cluster.client(), Logger(), metrics, ManagerOptions());
      ASSERT_TRUE(manager.start({}).ok());
      manager.stop();
    }
    // The threads of the API server and this one.
    EXPECT_LT(runtime.dump().size(), 20u);
  });
}

TEST(ControllerManager, AReplicaWaitsForTheLeaseAndTakesOver) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    sim::PlayedScheduler scheduler(runtime, cluster.client());
    sim::PlayedKubelet kubelet(runtime, cluster.client());
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}");
    kube::Metrics metrics;
    RunOptions options;
    options.host = "a";
    rt::StopSource stop_first(runtime);
    rt::StopSource stop_second(runtime);
    const auto run = [&](const rt::StopToken& stop) {
      EXPECT_TRUE(run_controllers(runtime, cluster.client(), cluster.client(), Logger(), metrics, options, stop).ok());
    };
    rt::Thread first(runtime, "first", [&] { run(stop_first.token()); });
    EXPECT_TRUE(cluster.wait_until([&] {
      return cluster.get({"coordination.k8s.io", "v1", "leases"}, "volcano-system", "vc-controller-manager")
          .has_value();
    }));
    rt::Thread second(runtime, "second", [&] { run(stop_second.token()); });
    stop_first.request_stop();
    first.join();
    scheduler.start();
    kubelet.start();
    cluster.apply(kJob);
    EXPECT_TRUE(cluster.wait_job_phase("hello", "Completed"));
    stop_second.request_stop();
    second.join();
    kubelet.stop();
    scheduler.stop();
  });
}

}  // namespace
}  // namespace basalt::controllers
