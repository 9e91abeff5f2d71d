// In virtual time.
#include "node/simulated_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kube/fault_client.h"
#include "node/testing/local_cluster.h"
#include "rt/sim_test_support.h"
#include "sim/cluster.h"

namespace basalt::node {
namespace {

using testing::container_status;
using testing::int_at;
using testing::phase_of;
using namespace std::chrono_literals;

std::string pod(std::string_view name, std::string_view annotations, std::string_view policy = "Never",
                std::string_view node = "sim-0") {
  return "{apiVersion: v1, kind: Pod, metadata: {name: " + std::string(name) + ", annotations: {" +
         std::string(annotations) + "}}, spec: {nodeName: " + std::string(node) +
         ", restartPolicy: " + std::string(policy) + ", containers: [{name: c, image: x}, {name: d, image: x}]}}";
}

// A cluster with simulated nodes.
struct World {
  World(rt::Runtime& runtime, SimulatedNodesOptions options)
      : cluster(runtime), faults(runtime, cluster.client()), nodes(runtime, faults, Logger(), std::move(options)) {
    nodes.start();
    EXPECT_TRUE(nodes.wait_registered({}));
  }
  ~World() {
    nodes.stop();
    cluster.stop();
  }
  bool wait_phase(std::string_view name, std::string_view phase, rt::Duration limit = 60s) {
    return cluster.wait_until([&] { return phase_of(cluster, name) == phase; }, limit);
  }
  sim::Cluster cluster;
  kube::FaultClient faults;
  SimulatedNodes nodes;
};

TEST(SimulatedNodes, PodsWalkThroughTheirPhasesOnTime) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    World world(runtime, {.count = 3});
    const rt::Instant begin = runtime.now();
    world.cluster.apply(pod("a", "basalt.volcano.sh/start-delay: 2s, basalt.volcano.sh/run-time: 1m"));
    ASSERT_TRUE(world.wait_phase("a", "Running"));
    EXPECT_GE(runtime.now() - begin, 2s);
    EXPECT_LT(runtime.now() - begin, 3s);
    EXPECT_EQ(container_status(world.cluster, "a", 1).find_path({"ready"})->as_bool(), true);
    ASSERT_TRUE(world.wait_phase("a", "Succeeded", 2min));
    EXPECT_GE(runtime.now() - begin, 62s);
    EXPECT_LT(runtime.now() - begin, 64s);
    EXPECT_EQ(int_at(container_status(world.cluster, "a"), {"state", "terminated", "exitCode"}), 0);
    EXPECT_EQ(container_status(world.cluster, "a").find_path({"state", "running"}), nullptr);
  });
}

TEST(SimulatedNodes, ExitCodesFailAndRestartAsThePolicySays) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    World world(runtime, {.count = 1, .restart_base = 1s, .restart_cap = 4s});
    world.cluster.apply(pod("failed", "basalt.volcano.sh/run-time: 1s, basalt.volcano.sh/exit-code: '3'"));
    world.cluster.apply(pod("again", "basalt.volcano.sh/run-time: 1s, basalt.volcano.sh/exit-code: '3'", "OnFailure"));
    ASSERT_TRUE(world.wait_phase("failed", "Failed"));
    EXPECT_EQ(int_at(container_status(world.cluster, "failed"), {"state", "terminated", "exitCode"}), 3);
    ASSERT_TRUE(world.cluster.wait_until(
        [&] { return int_at(container_status(world.cluster, "again"), {"restartCount"}) >= 3; }, 1min));
    EXPECT_EQ(phase_of(world.cluster, "again"), "Running");
    EXPECT_EQ(int_at(container_status(world.cluster, "again"), {"lastState", "terminated", "exitCode"}), 3);
  });
}

TEST(SimulatedNodes, FailsByChance) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    World world(runtime, {.count = 10, .fate = {.run_time = 100ms}});
    for (int i = 0; i < 200; ++i)
      world.cluster.apply(pod("p" + std::to_string(i), "basalt.volcano.sh/failure-probability: '0.25'", "Never",
                              "sim-" + std::to_string(i % 10)));
    int failed = 0;
    ASSERT_TRUE(world.cluster.wait_until([&] {
      failed = 0;
      int over = 0;
      for (const auto& one : world.cluster.list(sim::resources::kPods)) {
        const std::string_view phase = one.string_at({"status", "phase"});
        if (phase == "Failed") ++failed;
        if (phase == "Failed" || phase == "Succeeded") ++over;
      }
      return over == 200;
    }));
    EXPECT_GT(failed, 25);
    EXPECT_LT(failed, 80);
  });
}

TEST(SimulatedNodes, AWrongAnnotationFailsThePodAndSaysWhy) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    World world(runtime, {.count = 1});
    world.cluster.apply(pod("bad", "basalt.volcano.sh/run-time: soon"));
    ASSERT_TRUE(world.wait_phase("bad", "Failed"));
    const auto object = world.cluster.get(sim::resources::kPods, "default", "bad");
    EXPECT_EQ(object->string_at({"status", "reason"}), "InvalidAnnotation");
    EXPECT_EQ(object->string_at({"status", "message"}),
              "annotation basalt.volcano.sh/run-time is \"soon\": it takes a length of time such as 200ms or 1m30s");
  });
}

TEST(SimulatedNodes, DeletedPodsGoAfterTheirDelay) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    World world(runtime, {.count = 1});
    world.cluster.apply(pod("slow", "basalt.volcano.sh/run-time: forever, basalt.volcano.sh/stop-delay: 5s"));
    world.cluster.apply(pod("other", "basalt.volcano.sh/run-time: forever", "Never", "elsewhere"));
    ASSERT_TRUE(world.wait_phase("slow", "Running"));
    world.cluster.remove(sim::resources::kPods, "default", "slow");
    world.cluster.remove(sim::resources::kPods, "default", "other");
    const rt::Instant begin = runtime.now();
    ASSERT_TRUE(world.wait_phase("slow", ""));
    EXPECT_GE(runtime.now() - begin, 5s);
    EXPECT_EQ(phase_of(world.cluster, "other"), "Pending");  // not ours
  });
}

TEST(SimulatedNodes, ASecondAgentGoesOnWhereTheFirstStopped) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    SimulatedNodes first(runtime, cluster.client(), Logger(), {.count = 3});
    first.start();
    cluster.apply(pod("done", "basalt.volcano.sh/run-time: 1s"));
    cluster.apply(pod("long", "basalt.volcano.sh/run-time: 60s"));
    ASSERT_TRUE(cluster.wait_until([&] { return phase_of(cluster, "done") == "Succeeded"; }));
    const json::Value done = *cluster.get(sim::resources::kPods, "default", "done");
    first.stop();
    runtime.sleep_for(20s);
    const rt::Instant begin = runtime.now();
    SimulatedNodes second(runtime, cluster.client(), Logger(), {.count = 2});
    second.start();
    ASSERT_TRUE(cluster.wait_until([&] { return phase_of(cluster, "long") == "Succeeded"; }, 2min));
    EXPECT_LT(runtime.now() - begin, 41s);
    EXPECT_EQ(cluster.get(sim::resources::kPods, "default", "done")->string_at({"metadata", "resourceVersion"}),
              done.string_at({"metadata", "resourceVersion"}));
    EXPECT_TRUE(cluster.get(sim::resources::kNodes, "", "sim-1").has_value());
    EXPECT_FALSE(cluster.get(sim::resources::kNodes, "", "sim-2").has_value());  // no longer wanted
    second.stop();
    SimulatedNodes none(runtime, cluster.client(), Logger(), {.count = 0});
    none.start();
    EXPECT_TRUE(none.wait_registered({}));
    EXPECT_TRUE(cluster.list(sim::resources::kNodes).empty());
    none.stop();
    cluster.stop();
  });
}

TEST(SimulatedNodes, TwoWritesAPodAndNoMore) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    World world(runtime, {.count = 10, .fate = {.run_time = 0s}});
    const std::uint64_t before = world.faults.calls_by_point()[{"Patch", "pods/v1"}];
    for (int i = 0; i < 100; ++i) world.cluster.apply(pod("p" + std::to_string(i), ""));
    ASSERT_TRUE(world.cluster.wait_until([&] {
      const auto all = world.cluster.list(sim::resources::kPods);
      return std::all_of(all.begin(), all.end(),
                         [](const auto& one) { return one.string_at({"status", "phase"}) == "Succeeded"; });
    }));
    runtime.sleep_for(10s);
    const std::uint64_t after = world.faults.calls_by_point()[{"Patch", "pods/v1"}];
    EXPECT_EQ(after - before, 200u);
  });
}

TEST(SimulatedNodes, EveryPodEndsOnceDespiteFaults) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    kube::FaultClient faults(runtime, cluster.client(),
                             {.conflict = 0.05,
                              .too_many = 0.05,
                              .internal_error = 0.1,
                              .unavailable = 0.05,
                              .lost_reply = 0.05,
                              .delay_max = 20ms,
                              .watch_expired = 0.005,
                              .watch_broken = 0.01,
                              .event_repeated = 0.05});
    SimulatedNodes nodes(runtime, faults, Logger(), {.count = 5, .lease_period = 10s});
    nodes.start();
    for (int i = 0; i < 30; ++i) {
      const std::string name = "p" + std::to_string(i);
      cluster.apply(pod(name, "basalt.volcano.sh/run-time: 500ms", "Never", "sim-" + std::to_string(i % 5)));
      if (i % 3 == 0) cluster.remove(sim::resources::kPods, "default", name);
    }
    ASSERT_TRUE(cluster.wait_until(
        [&] {
          const auto all = cluster.list(sim::resources::kPods);
          return all.size() == 20 && std::all_of(all.begin(), all.end(), [](const auto& one) {
                   return one.string_at({"status", "phase"}) == "Succeeded";
                 });
        },
        30min));
    EXPECT_TRUE(nodes.wait_registered({}));
    EXPECT_EQ(cluster.list(sim::resources::kNodes).size(), 5u);
    nodes.stop();
    cluster.stop();
  });
}

TEST(SimulatedNodes, LeasesAreRenewedInTurn) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    World world(runtime, {.count = 100, .lease_period = 40s});
    runtime.sleep_for(45s);
    const kube::Resource leases{"coordination.k8s.io", "v1", "leases"};
    EXPECT_EQ(world.cluster.list(leases, "kube-node-lease").size(), 100u);
    const auto before = world.faults.calls_by_point()[{"Patch", "leases.coordination.k8s.io/v1"}];
    runtime.sleep_for(80s);
    const auto after = world.faults.calls_by_point()[{"Patch", "leases.coordination.k8s.io/v1"}];
    EXPECT_NEAR(static_cast<double>(after - before), 200, 10);
  });
}

TEST(SimulatedNodes, SaysInTheLogThatNothingRan) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    World world(runtime, {.count = 1});
    world.cluster.apply(pod("a", "basalt.volcano.sh/run-time: forever"));
    ASSERT_TRUE(world.wait_phase("a", "Running"));
    ASSERT_TRUE(world.cluster.wait_until([&] { return !testing::log_of(world.nodes, "a").starts_with("error"); }));
    EXPECT_EQ(testing::log_of(world.nodes, "a"), "pod default/a is simulated on node sim-0: nothing runs\n");
    EXPECT_TRUE(world.nodes.has_pod("default", "a"));
  });
}

}  // namespace
}  // namespace basalt::node
