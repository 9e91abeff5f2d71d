// The process node with played processes, in virtual time: faults of the API, and a death after every call.
#include <gtest/gtest.h>

#include <cstdio>

#include "kube/fault_client.h"
#include "node/testing/fake_runner.h"
#include "node/testing/local_cluster.h"
#include "rt/sim_test_support.h"

namespace basalt::node {
namespace {

using testing::Agent;
using testing::FakeRunner;
using testing::phase_of;
using testing::ProcessBook;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

std::string pod(std::string_view name, std::string_view policy, int milliseconds, int code) {
  return "{apiVersion: v1, kind: Pod, metadata: {name: " + std::string(name) +
         "}, spec: {nodeName: n1, restartPolicy: " + std::string(policy) +
         ", containers: [{name: c, image: x, command: [run, '" + std::to_string(milliseconds) + "', '" +
         std::to_string(code) + "']}]}}";
}

ProcessNodeOptions quick() { return {.restart = {.backoff_base = 10ms, .backoff_cap = 100ms}, .stop_grace = 100ms}; }

// Pods of all policies, and one that is deleted while it starts.
void apply_pods(sim::Cluster& cluster) {
  cluster.apply(pod("once", "Never", 50, 0));
  cluster.apply(pod("fails", "Never", 50, 3));
  cluster.apply(pod("until-good", "OnFailure", 200, 0));
  cluster.apply(pod("for-ever", "Always", 100'000'000, 0));
  cluster.apply(pod("deleted", "Always", 100'000'000, 0));
  cluster.remove(sim::resources::kPods, "default", "deleted");
}

bool is_settled(sim::Cluster& cluster) {
  const std::string once = phase_of(cluster, "once");
  return (once == "Succeeded" || once == "Failed") && phase_of(cluster, "fails") == "Failed" &&
         phase_of(cluster, "until-good") == "Succeeded" && phase_of(cluster, "for-ever") == "Running" &&
         phase_of(cluster, "deleted").empty();
}

void check(sim::Cluster& cluster, ProcessBook& book) {
  EXPECT_LE(book.starts_of("default/once/c"), 1);  // what may run only once never runs twice
  EXPECT_LE(book.starts_of("default/fails/c"), 1);
  EXPECT_EQ(book.ends_of("default/until-good/c"), 1);  // what succeeded does not run again
  if (phase_of(cluster, "once") == "Succeeded") {
    EXPECT_EQ(book.ends_of("default/once/c"), 1);
  }
}

TEST(ProcessNodeSim, FaultsOfTheApiChangeNothing) {
  rt::run_seeds(1, 15, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    ProcessBook book;
    sim::Cluster cluster(runtime);
    kube::FaultClient faults(runtime, cluster.client(),
                             {.conflict = 0.1,
                              .too_many = 0.05,
                              .internal_error = 0.2,
                              .unavailable = 0.1,
                              .lost_reply = 0.1,
                              .delay_max = 20ms,
                              .watch_expired = 0.01,
                              .watch_broken = 0.03,
                              .event_repeated = 0.05});
    {
      Agent agent(runtime, faults, folder.path(), {}, quick(), std::make_unique<FakeRunner>(runtime, book));
      apply_pods(cluster);
      ASSERT_TRUE(cluster.wait_until([&] { return is_settled(cluster); }, 30min));
      EXPECT_EQ(phase_of(cluster, "once"), "Succeeded");
      EXPECT_EQ(book.starts_of("default/once/c"), 1);
      EXPECT_EQ(book.starts_of("default/until-good/c"), 1);
      EXPECT_EQ(book.starts_of("default/for-ever/c"), 1);
      check(cluster, book);
      ASSERT_TRUE(cluster.wait_until([&] {
        return std::distance(std::filesystem::directory_iterator(folder.path() + "/nodes/n1/pods"), {}) == 4;
      }));
    }
    cluster.stop();
  });
}

TEST(ProcessNodeSim, TheApiGoesAwayWhileAProcessEnds) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    ProcessBook book;
    sim::Cluster cluster(runtime);
    kube::FaultClient faults(runtime, cluster.client());
    {
      Agent agent(runtime, faults, folder.path(), {}, quick(), std::make_unique<FakeRunner>(runtime, book));
      cluster.apply(pod("a", "Never", 5'000, 3));
      ASSERT_TRUE(cluster.wait_until([&] { return phase_of(cluster, "a") == "Running"; }));
      faults.set_away(true);
      runtime.sleep_for(60s);
      EXPECT_EQ(phase_of(cluster, "a"), "Running");
      faults.set_away(false);
      ASSERT_TRUE(cluster.wait_until([&] { return phase_of(cluster, "a") == "Failed"; }, 10min));
      EXPECT_EQ(testing::int_at(testing::container_status(cluster, "a"), {"state", "terminated", "exitCode"}), 3);
    }
    cluster.stop();
  });
}

// The agent dies right after its call number n, for every n; a second one takes over the folder.
void die_after(std::uint64_t calls, kube::FaultClient::CrashPoint point, bool& reached) {
  rt::run_seeds(calls + 1, 1, [&](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    ProcessBook book;
    sim::Cluster cluster(runtime);
    {
      kube::FaultClient faults(runtime, cluster.client());
      faults.crash_after(calls, point);
      Agent agent(runtime, faults, folder.path(), {}, quick(), std::make_unique<FakeRunner>(runtime, book));
      apply_pods(cluster);
      (void)cluster.wait_until([&] { return faults.crashed() || is_settled(cluster); }, 1min);
      reached = faults.crashed();
      runtime.sleep_for(20ms);
    }
    {
      Agent agent(runtime, cluster.client(), folder.path(), {}, quick(), std::make_unique<FakeRunner>(runtime, book));
      ASSERT_TRUE(cluster.wait_until([&] { return is_settled(cluster); }, 10min)) << "death after call " << calls;
    }
    check(cluster, book);
    cluster.stop();
  });
}

TEST(ProcessNodeSim, ADeathAfterEveryCallRunsNothingTwice) {
  int deaths = 0;
  for (const auto point : {kube::FaultClient::CrashPoint::BeforeEffect, kube::FaultClient::CrashPoint::AfterEffect}) {
    bool reached = true;
    for (std::uint64_t calls = 1; reached && calls < 200; ++calls) {
      die_after(calls, point, reached);
      if (reached) ++deaths;
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(deaths, 20);
  std::printf("deaths of the agent: %d\n", deaths);
}

}  // namespace
}  // namespace basalt::node
