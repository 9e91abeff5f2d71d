#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "kube/fault_client.h"
#include "rt/sim_test_support.h"
#include "sim/actors.h"
#include "sim/cluster.h"

namespace basalt::scheduler {
namespace {

namespace resources = sim::resources;
using namespace std::chrono_literals;

std::string node_yaml(const std::string& name, int cpu, const std::string& labels = "") {
  return "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + ", labels: {kubernetes.io/hostname: " + name +
         labels + "}}\nstatus:\n  allocatable: {cpu: '" + std::to_string(cpu) +
         "', memory: 64Gi, pods: '110'}\n  capacity: {cpu: '" + std::to_string(cpu) +
         "', memory: 64Gi, pods: '110'}\n  conditions: [{type: Ready, status: 'True'}]\n---\n";
}

struct GangOptions {
  int min_member = 2;
  int pods = 2;
  std::string cpu = "1";
  std::string queue = "default";
  std::string priority_class;
  std::string spec;  // more of the pods' specification, flow style
};

std::string group_yaml(const std::string& name, const GangOptions& gang) {
  std::string yaml = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: " + name +
                     "}\nspec: {minMember: " + std::to_string(gang.min_member) + ", queue: " + gang.queue;
  if (!gang.priority_class.empty()) yaml += ", priorityClassName: " + gang.priority_class;
  return yaml + "}\n---\n";
}

std::string pod_yaml(const std::string& group, int index, const GangOptions& gang) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + group + "-" + std::to_string(index) +
         ", labels: {gang: " + group + "}, annotations: {scheduling.k8s.io/group-name: " + group +
         "}}\nspec: {schedulerName: volcano, restartPolicy: Never" + gang.spec +
         ", containers: [{name: c, image: i, resources: {requests: {cpu: '" + gang.cpu + "'}}}]}\n---\n";
}

std::string gang_yaml(const std::string& name, const GangOptions& gang) {
  std::string yaml = group_yaml(name, gang);
  for (int i = 0; i < gang.pods; ++i) yaml += pod_yaml(name, i, gang);
  return yaml;
}

// A cluster, its scheduler, and what a test asks of them.
struct World {
  explicit World(rt::Runtime& runtime, SchedulerOptions options = {}) : World(runtime, nullptr, std::move(options)) {}
  World(rt::Runtime& runtime, kube::Client* through, SchedulerOptions options)
      : cluster(runtime),
        faults(runtime, cluster.client()),
        events(runtime, cluster.client(), Logger(), {.component = "scheduler"}),
        scheduler(runtime, through != nullptr ? *through : faults, Logger(), events, std::move(options)) {
    events.start();
    scheduler.start();
  }
  ~World() {
    scheduler.stop();
    events.stop();
    cluster.stop();
  }
  std::string node_of(const std::string& pod) {
    const auto object = cluster.get(resources::kPods, "default", pod);
    return object ? std::string(object->string_at({"spec", "nodeName"})) : "gone";
  }
  std::string phase_of(const std::string& group) {
    const auto object = cluster.get(resources::kPodGroups, "default", group);
    return object ? std::string(object->string_at({"status", "phase"})) : "gone";
  }
  int bound(const std::string& group) {
    int count = 0;
    for (const auto& pod : cluster.list(resources::kPods, "default", "gang=" + group))
      count += pod.string_at({"spec", "nodeName"}).empty() ? 0 : 1;
    return count;
  }
  std::string message_of(const std::string& group) {
    const auto object = cluster.get(resources::kPodGroups, "default", group);
    const json::Value* conditions = object ? object->find_path({"status", "conditions"}) : nullptr;
    if (conditions == nullptr || conditions->as_array().empty()) return "";
    const auto& condition = conditions->as_array().back();
    return std::string(condition.string_at({"type"})) + " " + std::string(condition.string_at({"reason"})) + ": " +
           std::string(condition.string_at({"message"}));
  }

  sim::Cluster cluster;
  kube::FaultClient faults;
  kube::EventRecorder events;
  Scheduler scheduler;
};

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
    world.cluster.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: other}\nspec: {containers: [{name: c, image: i}]}\n");
    runtime.sleep_for(5s);
    EXPECT_EQ(world.node_of("other"), "") << "its scheduler is another one";
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

// Many gangs on few nodes, with a bad network and pods that end: at no time is a gang partly bound for long, and in the
// end all have run.
void gangs_under_faults(rt::SimRuntime& runtime, const kube::FaultPlan& plan) {
  World world(runtime);
  sim::PlayedKubelet kubelet(runtime, world.cluster.client(), [&](const api::core::PodProjection&) {
    sim::PodFate fate;
    fate.run_for = std::chrono::milliseconds(200 + runtime.random_below(400));
    return fate;
  });
  kubelet.start();
  world.faults.set_plan(plan);
  for (int n = 0; n < 4; ++n) world.cluster.apply(node_yaml("n" + std::to_string(n), 4));
  constexpr int kGangs = 12;
  std::map<std::string, GangOptions> gangs;
  for (int g = 0; g < kGangs; ++g) {
    GangOptions gang;
    gang.pods = 1 + static_cast<int>(runtime.random_below(9));
    gang.min_member = gang.pods;
    gang.cpu = runtime.random_below(3) == 0 ? "2" : "1";
    // Two CPUs a pod, four a node: at most eight of them.
    if (gang.cpu == "2") gang.pods = gang.min_member = std::min(gang.pods, 8);
    const std::string name = "g" + std::to_string(g);
    gangs[name] = gang;
    world.cluster.apply(gang_yaml(name, gang));
  }
  std::map<std::string, rt::Instant> partly_since;
  const auto check = [&] {
    bool all_done = true;
    std::map<std::string, int> used;
    for (const auto& [name, gang] : gangs) {
      int placed = 0, ended = 0;
      for (const auto& pod : world.cluster.list(resources::kPods, "default", "gang=" + name)) {
        const std::string node(pod.string_at({"spec", "nodeName"}));
        const bool is_over = pod.string_at({"status", "phase"}) == "Succeeded";
        placed += node.empty() ? 0 : 1;
        ended += is_over ? 1 : 0;
        if (!node.empty() && !is_over) used[node] += gang.cpu == "2" ? 2 : 1;
      }
      all_done = all_done && ended == gang.pods;
      if (placed > 0 && placed < gang.min_member) {
        const auto since = partly_since.try_emplace(name, runtime.now()).first->second;
        EXPECT_LT(runtime.now() - since, 2min) << name << " is half bound: " << placed << " of " << gang.min_member;
      } else {
        partly_since.erase(name);
      }
    }
    for (const auto& [node, cpus] : used) EXPECT_LE(cpus, 4) << node;
    return all_done;
  };
  EXPECT_TRUE(world.cluster.wait_until(check, 30min));
  world.faults.set_plan({});
  EXPECT_TRUE(world.cluster.wait_until(
      [&] {
        for (const auto& [name, gang] : gangs) {
          if (world.phase_of(name) != "Completed") return false;
        }
        return true;
      },
      5min));
  kubelet.stop();
}

TEST(SchedulerSim, AllGangsRunWithoutFaults) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) { gangs_under_faults(runtime, {}); });
}

TEST(SchedulerSim, AllGangsRunDespiteFaults) {
  kube::FaultPlan plan;
  plan.conflict = 0.05;
  plan.too_many = 0.05;
  plan.internal_error = 0.05;
  plan.unavailable = 0.05;
  plan.lost_reply = 0.1;
  plan.timed_out = 0.05;
  plan.watch_broken = 0.01;
  plan.watch_expired = 0.005;
  plan.event_repeated = 0.02;
  plan.delay_max = 5ms;
  plan.event_delay_max = 20ms;
  rt::run_seeds(100, 30, [&](rt::SimRuntime& runtime) { gangs_under_faults(runtime, plan); });
}

// The scheduler dies after any of its calls and another takes over: no gang stays half bound.
TEST(SchedulerSim, RestartAfterAnyCallCompletesGangs) {
  rt::run_seeds(1, 40, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    kube::EventRecorder events(runtime, cluster.client(), Logger(), {.component = "scheduler"});
    events.start();
    for (int n = 0; n < 2; ++n) cluster.apply(node_yaml("n" + std::to_string(n), 4));
    // Either fits, both do not.
    cluster.apply(gang_yaml("a", {.min_member = 5, .pods = 5}));
    cluster.apply(gang_yaml("b", {.min_member = 5, .pods = 5}));
    const auto bound = [&](const std::string& gang) {
      int count = 0;
      for (const auto& pod : cluster.list(resources::kPods, "default", "gang=" + gang))
        count += pod.string_at({"spec", "nodeName"}).empty() ? 0 : 1;
      return count;
    };
    kube::FaultClient dying(runtime, cluster.client());
    dying.crash_after(8 + runtime.random_below(14));
    {
      Scheduler first(runtime, dying, Logger(), events, {});
      first.start();
      runtime.sleep_for(3s);
      first.stop();
    }
    Scheduler second(runtime, cluster.client(), Logger(), events, {});
    second.start();
    EXPECT_TRUE(cluster.wait_until([&] { return bound("a") + bound("b") >= 5; }, 10s));
    runtime.sleep_for(5s);
    EXPECT_EQ(std::min(bound("a"), bound("b")), 0);
    EXPECT_EQ(std::max(bound("a"), bound("b")), 5);
    second.stop();
    events.stop();
    cluster.stop();
  });
}

}  // namespace
}  // namespace basalt::scheduler
