#include <gtest/gtest.h>

#include "controllers/manager/controller_manager.h"
#include "controllers/manager/run.h"
#include "rt/sim_test_support.h"
#include "sim/actors.h"
#include "sim/cluster.h"
#include "test/scenario/controller_scenarios.h"
#include "test/scenario/manifest_rights.h"
#include "test/scenario/recording_client.h"

namespace basalt::test {
namespace {

class ControllerScenario : public ::testing::TestWithParam<Scenario> {};

TEST_P(ControllerScenario, OnTheSimulatedCluster) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    auto sink = std::make_shared<CollectingLogSink>();
    const Logger log(sink, LogLevel::Warn);
    sim::Cluster cluster(runtime);
    sim::PlayedScheduler scheduler(runtime, cluster.client());
    sim::PlayedKubelet kubelet(runtime, cluster.client(), &scenario_fate);
    kube::Metrics metrics;
    const auto own = cluster.make_client("system:serviceaccount:volcano-system:volcano-controllers");
    controllers::ControllerManager manager(runtime, *own, log, metrics, controllers::ManagerOptions());
    ASSERT_TRUE(manager.start({}).ok());
    scheduler.start();
    kubelet.start();
    World world{cluster, true};
    GetParam().run(world);
    EXPECT_EQ(sink->first_error(), "");
    kubelet.stop();
    scheduler.stop();
    manager.stop();
  });
}

INSTANTIATE_TEST_SUITE_P(All, ControllerScenario,
                         ::testing::ValuesIn(controller_scenarios().begin(), controller_scenarios().end()),
                         [](const auto& scenario) { return std::string(scenario.param.name); });

// The same is done with a real server that enforces them, in the kube lane; here it costs a second.
TEST(ManifestRights, AreThoseThatTheScenariosUse) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime, {.with_default_queue = false});
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}");
    sim::PlayedScheduler scheduler(runtime, cluster.client());
    sim::PlayedKubelet kubelet(runtime, cluster.client(), &scenario_fate);
    scheduler.start();
    kubelet.start();
    kube::Metrics metrics;
    RecordingClient recorder(cluster.client());
    controllers::RunOptions options;
    options.host = "test";
    rt::StopSource stop(runtime);
    rt::Thread manager(runtime, "manager", [&] {
      EXPECT_TRUE(
          controllers::run_controllers(runtime, recorder, recorder, Logger(), metrics, options, stop.token()).ok());
    });
    World world{cluster, true};
    for (const Scenario& scenario : controller_scenarios()) {
      SCOPED_TRACE(scenario.name);
      scenario.run(world);
    }
    stop.request_stop();
    manager.join();
    kubelet.stop();
    scheduler.stop();
    cluster.stop();
    const std::set<Right> granted =
        granted_rights(std::string(BASALT_SOURCE_DIR) + "/deploy/controllers.yaml", "volcano-controllers");
    ASSERT_FALSE(granted.empty());
    EXPECT_EQ(lines_of(recorder.used(), granted), "") << "are used, but not in deploy/controllers.yaml";
    EXPECT_EQ(lines_of(granted, recorder.used()), "") << "are in deploy/controllers.yaml, but no scenario uses them";
  });
}

}  // namespace
}  // namespace basalt::test
