#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <string>

#include "rt/sim_test_support.h"
#include "scheduler/explain.h"
#include "scheduler/run.h"
#include "scheduler/testing/scheduler_world.h"
#include "sim/actors.h"

namespace basalt::scheduler {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST(Scheduler, BindsAGangThatFits) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    World world(runtime);
    world.cluster.apply(node_yaml("n1", 2) + node_yaml("n2", 2));
    world.cluster.apply(gang_yaml("g", {.min_member = 4, .pods = 4}));
    EXPECT_TRUE(world.cluster.wait_until([&] { return world.bound("g") == 4; }, 5s));
    EXPECT_TRUE(world.cluster.wait_until([&] { return world.phase_of("g") == "Running"; }, 5s));
  });
}

TEST(Scheduler, GangThatDoesNotFitWaitsWithNumbersAndStartsWhenRoomComes) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    World world(runtime);
    world.cluster.apply(node_yaml("n1", 2));
    world.cluster.apply(gang_yaml("g", {.min_member = 3, .pods = 3}));
    EXPECT_TRUE(world.cluster.wait_until([&] { return !world.message_of("g").empty(); }, 10s));
    EXPECT_EQ(world.message_of("g"),
              "Unschedulable NotEnoughResources: 2/3 pods fit; cpu: 3 requested, 2 free, 1 short; of 1 nodes 1 fit");
    EXPECT_EQ(world.phase_of("g"), "Inqueue");
    EXPECT_EQ(world.bound("g"), 0);
    const auto pod = world.cluster.get(resources::kPods, "default", "g-0");
    const auto& conditions = pod->find_path({"status", "conditions"})->as_array();
    ASSERT_EQ(conditions.size(), 1u);
    EXPECT_EQ(conditions[0].string_at({"reason"}), "Unschedulable");
    const auto reason = world.scheduler.reason_of({"default", "g"});
    ASSERT_TRUE(reason.has_value());
    EXPECT_EQ(reason->kind, PendingKind::NoRoom);
    world.cluster.apply(node_yaml("n2", 1));
    EXPECT_TRUE(world.cluster.wait_until([&] { return world.phase_of("g") == "Running"; }, 5s));
    EXPECT_EQ(world.bound("g"), 3);
    EXPECT_EQ(world.message_of("g"),
              "Scheduled tasks in gang are ready to be scheduled: the gang has its minimum of 3 pods placed");
  });
}

TEST(Scheduler, QuietClusterHasNoWrites) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    World world(runtime);
    world.cluster.apply(node_yaml("n1", 2));
    world.cluster.apply(gang_yaml("runs", {.min_member = 1, .pods = 1}));
    world.cluster.apply(gang_yaml("waits", {.min_member = 3, .pods = 3}));
    EXPECT_TRUE(world.cluster.wait_until([&] { return !world.message_of("waits").empty(); }, 10s));
    runtime.sleep_for(5s);
    const auto before = world.faults.calls_by_point();
    runtime.sleep_for(10min);
    for (const auto& [point, count] : world.faults.calls_by_point()) {
      if (point.verb == "Watch" || point.verb == "List") continue;
      EXPECT_EQ(count, before.at(point)) << point.verb << " " << point.resource;
    }
  });
}

TEST(Scheduler, PodsWithoutAGroupAreScheduledSingly) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    World world(runtime);
    world.cluster.apply(node_yaml("n1", 1));
    for (const char* name : {"a", "b"}) {
      world.cluster.apply(std::string("apiVersion: v1\nkind: Pod\nmetadata: {name: ") + name +
                          "}\nspec: {schedulerName: volcano, containers: [{name: c, image: i, resources: "
                          "{requests: {cpu: '1'}}}]}\n");
    }
    EXPECT_TRUE(
        world.cluster.wait_until([&] { return (world.node_of("a") == "n1") != (world.node_of("b") == "n1"); }, 5s));
    const std::string left_over = world.node_of("a").empty() ? "a" : "b";
    const auto is_told = [&] {
      for (const json::Value& event : world.cluster.list(resources::kEvents, "default")) {
        if (event.string_at({"reason"}) == "FailedScheduling" && event.string_at({"type"}) == "Warning" &&
            event.string_at({"involvedObject", "name"}) == left_over) {
          return event.string_at({"message"}).find("cpu") != std::string_view::npos;
        }
      }
      return false;
    };
    EXPECT_TRUE(world.cluster.wait_until(is_told, 10s));
    world.cluster.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: other}\nspec: {containers: [{name: c, image: i}]}\n");
    runtime.sleep_for(5s);
    EXPECT_EQ(world.node_of("other"), "") << "its scheduler is another one";
  });
}

// With a finalizer on it the victim stays to be looked at.
TEST(Scheduler, APodThatMakesRoomIsMarkedBeforeItGoes) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    World world(runtime);
    world.cluster.apply(node_yaml("n1", 1) + priority_class_yaml("high", 100));
    const auto pod = [](const std::string& name, const std::string& metadata, const std::string& spec) {
      return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + metadata + "}\nspec: {schedulerName: volcano" +
             spec + ", containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}\n";
    };
    world.cluster.apply(pod("victim", ", finalizers: [example.com/stay]", ""));
    ASSERT_TRUE(world.cluster.wait_until([&] { return world.node_of("victim") == "n1"; }, 5s));
    world.cluster.apply(pod("urgent", "", ", priorityClassName: high"));
    const auto is_going = [&] {
      return !world.cluster.get(resources::kPods, "default", "victim")
                  ->string_at({"metadata", "deletionTimestamp"})
                  .empty();
    };
    ASSERT_TRUE(world.cluster.wait_until(is_going, 30s));
    const auto victim = world.cluster.get(resources::kPods, "default", "victim");
    std::string reason;
    for (const json::Value& condition : victim->find_path({"status", "conditions"})->as_array()) {
      if (condition.string_at({"type"}) == "DisruptionTarget" && condition.string_at({"status"}) == "True")
        reason = condition.string_at({"reason"});
    }
    EXPECT_EQ(reason, "PreemptionByScheduler");
  });
}

TEST(Scheduler, WholeLifeOfAGroup) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    World world(runtime);
    sim::PlayedKubelet kubelet(runtime, world.cluster.client());
    kubelet.start();
    world.cluster.apply(node_yaml("n1", 4));
    world.cluster.apply(gang_yaml("g", {.min_member = 3, .pods = 3}));
    EXPECT_TRUE(world.cluster.wait_until([&] { return world.phase_of("g") == "Completed"; }, 10s));
    EXPECT_TRUE(world.cluster.wait_until(
        [&] {
          return world.cluster.get(resources::kPodGroups, "default", "g")
                     ->find_path({"status", "succeeded"})
                     ->as_int() == 3;
        },
        5s));
    kubelet.stop();
  });
}

// Why it waits can be read from the pod group alone, and is taken away when it runs.
TEST(Scheduler, TheReasonIsOnThePodGroup) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    World world(runtime);
    world.cluster.apply(node_yaml("n1", 2));
    world.cluster.apply(gang_yaml("g", {.min_member = 3, .pods = 3}));
    const auto explain = [&] {
      const auto object = world.cluster.get(resources::kPodGroups, "default", "g");
      const auto group = json::from_text<api::scheduling::PodGroup>(object->to_text());
      return explain_group(*group);
    };
    EXPECT_TRUE(world.cluster.wait_until([&] { return explain().said_by == "annotation"; }, 10s));
    const Explanation explanation = explain();
    EXPECT_EQ(explanation.phase, "Inqueue");
    EXPECT_FALSE(explanation.since.is_zero());
    EXPECT_EQ(explanation.reason.kind, PendingKind::NoRoom);
    EXPECT_EQ(explanation.reason.position, 1u);
    ASSERT_EQ(explanation.reason.shortages.size(), 1u);
    EXPECT_EQ(explanation.reason.shortages[0].lacking, "1");
    world.cluster.apply(node_yaml("n2", 2));
    EXPECT_TRUE(world.cluster.wait_until([&] { return world.phase_of("g") == "Running"; }, 5s));
    const auto object = world.cluster.get(resources::kPodGroups, "default", "g");
    EXPECT_EQ(object->find_path({"metadata", "annotations", kPendingAnnotation}), nullptr);
    EXPECT_EQ(explain().reason.kind, PendingKind::None);
  });
}

TEST(Scheduler, CreatesTheQueuesThatMustExist) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime, {.with_default_queue = false});
    kube::EventRecorder events(runtime, cluster.client(), Logger(), {.component = "scheduler"});
    Scheduler scheduler(runtime, cluster.client(), Logger(), events, {});
    scheduler.start();
    EXPECT_TRUE(cluster.wait_until(
        [&] { return cluster.get(resources::kQueues, "", "root") && cluster.get(resources::kQueues, "", "default"); },
        5s));
    scheduler.stop();
    cluster.stop();
  });
}

// A node is used by a new owner only after the old one has said that it left it, and what we use is stated.
TEST(Scheduler, NodesAreHandedOverBetweenShards) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    SchedulerOptions options;
    options.planner.shard_mode = ShardMode::Hard;
    options.shard_name = "ours";
    World world(runtime, options);
    world.cluster.apply(node_yaml("n1", 1) + node_yaml("n2", 1));
    const std::string shard = "apiVersion: shard.volcano.sh/v1alpha1\nkind: NodeShard\nmetadata: {name: ";
    world.cluster.apply(shard + "theirs}\nspec: {nodesDesired: []}\n");
    world.cluster.patch(resources::kNodeShards, "", "theirs", R"({"status":{"nodesInUse":["n2"]}})", "status");
    world.cluster.apply(gang_yaml("g", {.min_member = 2, .pods = 2}));
    world.cluster.apply(shard + "ours}\nspec: {nodesDesired: [n2, n1]}\n");
    const auto status = [&] {
      const auto object = world.cluster.get(resources::kNodeShards, "", "ours");
      const json::Value* found = object->find_path({"status"});
      if (found == nullptr) return std::string();
      const json::Value* in_use = found->find("nodesInUse");
      const json::Value* to_add = found->find("nodesToAdd");
      return (in_use ? in_use->to_text() : "[]") + (to_add ? to_add->to_text() : "[]");
    };
    EXPECT_TRUE(world.cluster.wait_until([&] { return status() == R"(["n1"]["n2"])"; }, 5s)) << status();
    runtime.sleep_for(3s);
    EXPECT_EQ(world.bound("g"), 0);
    world.cluster.patch(resources::kNodeShards, "", "theirs", R"({"status":{"nodesInUse":[]}})", "status");
    EXPECT_TRUE(world.cluster.wait_until([&] { return world.bound("g") == 2; }, 5s));
    EXPECT_TRUE(world.cluster.wait_until([&] { return status() == R"(["n1","n2"][])"; }, 5s)) << status();
  });
}

// Two replicas, one lease: the second begins when the first has gone, and finishes what was begun.
TEST(Scheduler, AnotherReplicaTakesOver) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    cluster.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: volcano-system}\n");
    cluster.apply(node_yaml("n1", 8));
    kube::Metrics metrics;
    RunOptions options;
    options.election.name = "volcano";
    const auto bound = [&](const std::string& gang) {
      int count = 0;
      for (const auto& pod : cluster.list(resources::kPods, "default", "gang=" + gang))
        count += pod.string_at({"spec", "nodeName"}).empty() ? 0 : 1;
      return count;
    };
    const auto replica = [&](const std::string& host, const rt::StopToken& stop) {
      RunOptions own = options;
      own.host = host;
      EXPECT_TRUE(run_scheduler(runtime, cluster.client(), cluster.client(), Logger(), metrics, own, stop).ok());
    };
    rt::StopSource stop_first(runtime), stop_second(runtime);
    rt::Thread first(runtime, "first", [&] { replica("first", stop_first.token()); });
    rt::Thread second(runtime, "second", [&] { replica("second", stop_second.token()); });
    cluster.apply(gang_yaml("a", {.min_member = 3, .pods = 3}));
    EXPECT_TRUE(cluster.wait_until([&] { return bound("a") == 3; }, 30s));
    stop_first.request_stop();
    first.join();
    cluster.apply(gang_yaml("b", {.min_member = 4, .pods = 4}));
    EXPECT_TRUE(cluster.wait_until([&] { return bound("b") == 4; }, 60s));
    stop_second.request_stop();
    second.join();
    EXPECT_NE(metrics.to_text().find("basalt_scheduler_binds_total 7"), std::string::npos);
    cluster.stop();
  });
}

}  // namespace
}  // namespace basalt::scheduler
