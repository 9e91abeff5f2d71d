#include <gtest/gtest.h>

#include "controllers/manager/controller_manager.h"
#include "rt/sim_test_support.h"
#include "sim/actors.h"
#include "sim/cluster.h"
#include "test/scenario/controller_scenarios.h"
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

}  // namespace
}  // namespace basalt::test
