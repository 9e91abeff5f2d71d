// The gang invariant under faults: never a pod bound of a gang that cannot be complete, never a deadlock of gangs of
// which a part is placed.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/sort.h"
#include "rt/sim_test_support.h"
#include "scheduler/testing/scheduler_world.h"
#include "sim/actors.h"

namespace basalt::scheduler {
namespace {

using namespace testing;
using namespace std::chrono_literals;

struct Gang {
  GangOptions options;
  int cpus = 1;  // of a pod
};
using Gangs = std::map<std::string, Gang>;

// What is bound where, read from the API server itself.
struct Observed {
  std::map<std::string, int> bound;      // by gang, finished ones included
  std::map<std::string, int> succeeded;  // by gang
  std::map<std::string, int> existing;   // by gang
  std::map<std::string, int> free;       // CPUs by node
};

Observed observe(sim::Cluster& cluster, const Gangs& gangs) {
  Observed seen;
  for (const auto& node : cluster.list(resources::kNodes)) {
    const std::string cpus(node.string_at({"status", "allocatable", "cpu"}));
    seen.free[std::string(node.string_at({"metadata", "name"}))] = std::stoi(cpus);
  }
  for (const auto& pod : cluster.list(resources::kPods, "default")) {
    const std::string gang(pod.string_at({"metadata", "labels", "gang"}));
    const std::string node(pod.string_at({"spec", "nodeName"}));
    const bool is_over = pod.string_at({"status", "phase"}) == "Succeeded";
    ++seen.existing[gang];
    if (is_over) ++seen.succeeded[gang];
    if (node.empty()) continue;
    ++seen.bound[gang];
    if (!is_over && seen.free.contains(node)) seen.free[node] -= gangs.at(gang).cpus;
  }
  return seen;
}

// Of the gangs of which a part is bound, those that find no room for the rest when all are completed together. A gang's
// binds reach the server one by one, so half of it may be seen; its pods still have room then, but not every way of
// handing out what is free shows it: a pod of 1 CPU may take half of the last room for one of 2. With the largest first
// none stands in another's way, as long as each size divides the next larger one.
std::vector<std::string> without_room(Observed seen, const Gangs& gangs) {
  std::vector<std::string> half_bound;
  for (const auto& [name, gang] : gangs) {
    const int bound = seen.bound[name];
    if (bound > 0 && bound < gang.options.min_member) half_bound.push_back(name);
  }
  base::stable_sort(half_bound,
                    [&](const std::string& a, const std::string& b) { return gangs.at(a).cpus > gangs.at(b).cpus; });
  std::vector<std::string> stuck;
  for (const std::string& name : half_bound) {
    const Gang& gang = gangs.at(name);
    int missing = gang.options.min_member - seen.bound[name];
    for (auto& [node, cpus] : seen.free) {
      for (; missing > 0 && cpus >= gang.cpus; --missing) cpus -= gang.cpus;
    }
    if (missing > 0) stuck.push_back(name);
  }
  return stuck;
}

// Every gang of which a part is bound can be completed, and all of them together.
void expect_completable(Observed seen, const Gangs& gangs) {
  for (const auto& [node, cpus] : seen.free) EXPECT_GE(cpus, 0) << node << " is overfull";
  for (const std::string& name : without_room(seen, gangs)) {
    ADD_FAILURE() << name << " has " << seen.bound[name] << " of " << gangs.at(name).options.min_member
                  << " pods bound and no room for the rest";
  }
}

// Plays the controller of the gangs: pods that are gone are made again.
void replace_pods(sim::Cluster& cluster, const Gangs& gangs, int& serial) {
  const Observed seen = observe(cluster, gangs);
  for (const auto& [name, gang] : gangs) {
    const auto found = seen.existing.find(name);
    for (int i = found == seen.existing.end() ? 0 : found->second; i < gang.options.pods; ++i)
      cluster.apply(pod_yaml(name, 1000 + serial++, gang.options));
  }
}

Gang gang_of(int pods, int cpus = 1) { return {{.min_member = pods, .pods = pods, .cpu = std::to_string(cpus)}, cpus}; }

// Many gangs on few nodes, with pods that end.
void all_gangs_run(rt::SimRuntime& runtime, const kube::FaultPlan& plan, bool lose_nodes) {
  World world(runtime);
  sim::PlayedKubelet kubelet(runtime, world.cluster.client(), [&](const api::core::PodProjection&) {
    sim::PodFate fate;
    fate.run_for = std::chrono::milliseconds(200 + runtime.random_below(400));
    return fate;
  });
  kubelet.start();
  world.faults.set_plan(plan);
  for (int n = 0; n < 4; ++n) world.cluster.apply(node_yaml("n" + std::to_string(n), 4));
  Gangs gangs;
  for (int g = 0; g < 9; ++g) {
    const int cpus = runtime.random_below(3) == 0 ? 2 : 1;
    const auto most = static_cast<std::uint64_t>(cpus == 2 ? 6 : 9);
    gangs["g" + std::to_string(g)] = gang_of(1 + static_cast<int>(runtime.random_below(most)), cpus);
  }
  for (const auto& [name, gang] : gangs) world.cluster.apply(gang_yaml(name, gang.options));
  int serial = 0;
  int losses = lose_nodes ? 3 : 0;
  const rt::Instant deadline = runtime.now() + 30min;
  for (bool all_done = false; !all_done;) {
    ASSERT_LT(runtime.now(), deadline) << "gangs wait for each other";
    runtime.sleep_for(std::chrono::milliseconds(50 + runtime.random_below(50)));
    const Observed seen = observe(world.cluster, gangs);
    if (!lose_nodes) expect_completable(seen, gangs);
    if (::testing::Test::HasFailure()) break;
    all_done = true;
    for (const auto& [name, gang] : gangs) {
      const auto found = seen.succeeded.find(name);
      all_done = all_done && found != seen.succeeded.end() && found->second == gang.options.pods;
    }
    if (losses > 0 && runtime.random_below(4) == 0) {
      --losses;
      const std::string lost = "n" + std::to_string(runtime.random_below(4));
      world.cluster.remove(resources::kNodes, "", lost);
      for (const auto& pod : world.cluster.list(resources::kPods, "default")) {
        if (pod.string_at({"spec", "nodeName"}) != lost || pod.string_at({"status", "phase"}) == "Succeeded") continue;
        world.cluster.remove(resources::kPods, "default", pod.string_at({"metadata", "name"}), 0);
      }
      replace_pods(world.cluster, gangs, serial);
      runtime.sleep_for(std::chrono::milliseconds(runtime.random_below(3000)));
      world.cluster.apply(node_yaml(lost, 4));
    }
    // Whoever was released is made again.
    if (lose_nodes) replace_pods(world.cluster, gangs, serial);
  }
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

kube::FaultPlan bad_network() {
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
  return plan;
}

// What the tests below judge by: neither too strict nor too lenient.
TEST(SchedulerSim, RoomForTheRestOfHalfBoundGangs) {
  const Gangs gangs{{"narrow", gang_of(8)}, {"wide", gang_of(3, 2)}, {"whole", gang_of(2)}, {"waits", gang_of(16)}};
  Observed seen;
  seen.bound = {{"narrow", 7}, {"wide", 1}, {"whole", 2}};
  // The last narrow pod fits on n0, too, but then one of the wide ones would not.
  seen.free = {{"n0", 2}, {"n1", 2}, {"n2", 0}, {"n3", 1}};
  EXPECT_EQ(without_room(seen, gangs), std::vector<std::string>{});
  seen.free["n3"] = 0;
  EXPECT_EQ(without_room(seen, gangs), std::vector<std::string>{"narrow"});
  seen.free = {{"n0", 2}, {"n1", 1}, {"n2", 1}, {"n3", 1}};
  EXPECT_EQ(without_room(seen, gangs), std::vector<std::string>{"wide"});
}

TEST(SchedulerSim, AllGangsRunWithoutFaults) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) { all_gangs_run(runtime, {}, false); });
}

TEST(SchedulerSim, AllGangsRunDespiteFaults) {
  rt::run_seeds(100, 4, [](rt::SimRuntime& runtime) { all_gangs_run(runtime, bad_network(), false); });
}

TEST(SchedulerSim, AllGangsRunOnStaleCaches) {
  kube::FaultPlan plan;
  plan.event_delay_max = 300ms;
  plan.stale_lists_max = 3;
  plan.watch_broken = 0.02;
  rt::run_seeds(200, 1, [&](rt::SimRuntime& runtime) { all_gangs_run(runtime, plan, false); });
}

TEST(SchedulerSim, AllGangsRunAlthoughNodesAreLost) {
  rt::run_seeds(300, 2, [](rt::SimRuntime& runtime) { all_gangs_run(runtime, bad_network(), true); });
}

// A scheduler that dies at call `calls`, and another that follows.
struct Death {
  std::uint64_t calls = 0;
  kube::FaultClient::CrashPoint point = kube::FaultClient::CrashPoint::AfterEffect;
};

// The first scheduler's life up to its death (or 2 s). Returns the calls it made.
std::uint64_t live_and_die(rt::SimRuntime& runtime, sim::Cluster& cluster, kube::EventRecorder& events,
                           const std::optional<Death>& death) {
  kube::FaultClient dying(runtime, cluster.client());
  if (death) dying.crash_after(death->calls, death->point);
  Scheduler first(runtime, dying, Logger(), events, {});
  first.start();
  runtime.sleep_for(2s);
  first.stop();
  return dying.calls();
}

// Two gangs of which either fits, and a small one beside it. After the death of the first scheduler a second one takes
// over; if `lose_node`, a node has gone meanwhile, and what was on it is made again.
std::uint64_t takeover(rt::SimRuntime& runtime, const std::optional<Death>& death, bool lose_node) {
  sim::Cluster cluster(runtime);
  kube::EventRecorder events(runtime, cluster.client(), Logger(), {.component = "scheduler"});
  events.start();
  // With three nodes both large gangs fit; with two, one of them.
  for (int n = 0; n < (lose_node ? 3 : 2); ++n) cluster.apply(node_yaml("n" + std::to_string(n), 4));
  const Gangs gangs{{"a", gang_of(5)}, {"b", gang_of(6)}};
  for (const auto& [name, gang] : gangs) cluster.apply(gang_yaml(name, gang.options));
  const std::uint64_t calls = live_and_die(runtime, cluster, events, death);
  if (!lose_node) expect_completable(observe(cluster, gangs), gangs);
  int serial = 0;
  if (lose_node) {
    cluster.remove(resources::kNodes, "", "n0");
    for (const auto& pod : cluster.list(resources::kPods, "default")) {
      if (pod.string_at({"spec", "nodeName"}) == "n0")
        cluster.remove(resources::kPods, "default", pod.string_at({"metadata", "name"}), 0);
    }
    replace_pods(cluster, gangs, serial);
  }
  sim::PlayedKubelet kubelet(runtime, cluster.client(), [](const api::core::PodProjection&) {
    return sim::PodFate{.run_for = rt::Duration::max()};
  });
  kubelet.start();
  Scheduler second(runtime, cluster.client(), Logger(), events, {});
  second.start();
  // What ran as a whole before the node was lost may keep what it has, as long as the other one is complete.
  const auto is_one_complete = [&] {
    replace_pods(cluster, gangs, serial);
    Observed seen = observe(cluster, gangs);
    if (lose_node) return seen.bound["a"] == 5 || seen.bound["b"] == 6;
    return (seen.bound["a"] == 5 && seen.bound["b"] == 0) || (seen.bound["a"] == 0 && seen.bound["b"] == 6);
  };
  EXPECT_TRUE(cluster.wait_until(is_one_complete, 2min)) << "half-placed gangs hold each other";
  runtime.sleep_for(3s);
  EXPECT_TRUE(is_one_complete()) << "it does not last";
  second.stop();
  kubelet.stop();
  events.stop();
  cluster.stop();
  return calls;
}

void enumerate_deaths(bool lose_node, const char* what) {
  std::uint64_t calls = 0;
  rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) { calls = takeover(runtime, std::nullopt, lose_node); });
  ASSERT_GT(calls, 15u);
  int runs = 0;
  for (const auto point : {kube::FaultClient::CrashPoint::BeforeEffect, kube::FaultClient::CrashPoint::AfterEffect}) {
    for (std::uint64_t call = 1; call <= calls && !::testing::Test::HasFailure(); ++call, ++runs) {
      SCOPED_TRACE("dies at call " + std::to_string(call));
      rt::run_seeds(call, 1, [&](rt::SimRuntime& runtime) { takeover(runtime, Death{call, point}, lose_node); });
    }
  }
  std::printf("%s: %d deaths enumerated (%llu calls, before and after each)\n", what, runs,
              static_cast<unsigned long long>(calls));
}

TEST(SchedulerSim, DeathAtAnyCallLeavesNoGangHalfBound) { enumerate_deaths(false, "death"); }

TEST(SchedulerSim, DeathAtAnyCallAndALostNodeLeaveNoDeadlock) { enumerate_deaths(true, "death and lost node"); }

}  // namespace
}  // namespace basalt::scheduler
