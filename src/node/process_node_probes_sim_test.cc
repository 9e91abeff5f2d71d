// When probes are asked and what follows from their answers, in virtual time.
#include <gtest/gtest.h>

#include <atomic>

#include "node/testing/fake_prober.h"
#include "node/testing/fake_runner.h"
#include "node/testing/local_cluster.h"
#include "rt/sim_test_support.h"

namespace basalt::node {
namespace {

using testing::Agent;
using testing::container_status;
using testing::FakeProber;
using testing::FakeRunner;
using testing::int_at;
using testing::ProcessBook;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

std::string pod(std::string_view probes) {
  return "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: n1, terminationGracePeriodSeconds: 1, "
         "containers: [{name: c, image: x, command: [run, '100000000', '0'], " +
         std::string(probes) + "}]}}";
}

// What a test sees of the pod `p` and says to its probes.
struct World {
  World(rt::SimRuntime& runtime, FakeProber::Script script)
      : cluster(runtime),
        agent(runtime, cluster.client(), folder.path(), {},
              {.restart = {.backoff_base = 10ms, .backoff_cap = 100ms}, .stop_grace = 100ms},
              std::make_unique<FakeRunner>(runtime, processes),
              std::make_unique<FakeProber>(runtime, book, std::move(script))) {}
  ~World() {
    agent.stop();
    cluster.stop();
  }
  bool shows(std::string_view field) {
    const json::Value status = container_status(cluster, "p");
    const json::Value* found = status.find(field);
    return found != nullptr && found->as_bool();
  }
  std::int64_t restarts() { return int_at(container_status(cluster, "p"), {"restartCount"}); }
  bool wait(const std::function<bool()>& condition) { return cluster.wait_until(condition, 10min); }
  // Of the checks at this port, when they began after the first.
  std::vector<rt::Duration> times(std::uint16_t port) {
    std::vector<rt::Instant> found;
    for (const auto& [at, check] : book.taken()) {
      if (std::get_if<TcpCheck>(&check)->port == port) found.push_back(at);
    }
    std::vector<rt::Duration> result;
    for (const rt::Instant at : found) result.push_back(at - found.front());
    return result;
  }

  TemporaryFolder folder;
  ProcessBook processes;
  FakeProber::Book book;
  sim::Cluster cluster;
  Agent agent;
};

constexpr std::uint16_t kStartup = 1;
constexpr std::uint16_t kLive = 2;
constexpr std::uint16_t kReady = 3;

std::uint16_t port_of(const NetworkCheck& check) { return std::get_if<TcpCheck>(&check)->port; }

const FakeProber::Answer kGood{};
const FakeProber::Answer kBad{{Verdict::Failed, "no"}, {}};

TEST(ProcessNodeProbesSim, ThresholdsCountAnswersInARow) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    std::atomic<int> asked = 0;
    // Good, bad, good, good (ready), bad, bad, good, bad, bad, bad (not ready), good ...
    const std::vector<bool> answers = {true, false, true, true, false, false, true, false, false, false, true};
    World world(runtime, [&](const NetworkCheck&) {
      const auto number = static_cast<std::size_t>(asked++);
      return number >= answers.size() || answers[number] ? kGood : kBad;
    });
    world.cluster.apply(
        pod("readinessProbe: {tcpSocket: {port: 3}, initialDelaySeconds: 7, periodSeconds: 5, "
            "successThreshold: 2, failureThreshold: 3}"));
    ASSERT_TRUE(world.wait([&] { return testing::phase_of(world.cluster, "p") == "Running"; }));
    const rt::Instant begun = runtime.now();
    ASSERT_TRUE(world.wait([&] { return world.shows("ready"); }));
    EXPECT_EQ(asked, 4);
    EXPECT_GE(world.book.taken().front().first - begun, 6s);
    EXPECT_LE(world.book.taken().front().first - begun, 8s);
    ASSERT_TRUE(world.wait([&] { return !world.shows("ready"); }));
    EXPECT_EQ(asked, 10);
    ASSERT_TRUE(world.wait([&] { return world.shows("ready"); }));
    EXPECT_EQ(asked, 12);
    const auto times = world.times(kReady);
    for (std::size_t i = 1; i < times.size(); ++i) {
      EXPECT_GE(times[i] - times[i - 1], 5s);
      EXPECT_LT(times[i] - times[i - 1], 5s + 500ms);
    }
    EXPECT_EQ(world.restarts(), 0);
  });
}

TEST(ProcessNodeProbesSim, TheStartupProbeHoldsTheOthersBack) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    std::atomic<bool> is_up = false;
    std::atomic<bool> is_early = false;
    World world(runtime, [&](const NetworkCheck& check) {
      if (port_of(check) == kStartup) return is_up ? kGood : kBad;
      if (!is_up) is_early = true;
      return kGood;
    });
    world.cluster.apply(
        pod("startupProbe: {tcpSocket: {port: 1}, periodSeconds: 2, failureThreshold: 100}, "
            "livenessProbe: {tcpSocket: {port: 2}, periodSeconds: 1}, "
            "readinessProbe: {tcpSocket: {port: 3}, periodSeconds: 1}"));
    ASSERT_TRUE(world.wait([&] { return world.times(kStartup).size() == 5; }));
    EXPECT_FALSE(world.shows("started"));
    is_up = true;
    ASSERT_TRUE(world.wait([&] { return world.shows("ready"); }));
    EXPECT_TRUE(world.shows("started"));
    const std::size_t before = world.times(kStartup).size();
    runtime.sleep_for(1min);
    EXPECT_EQ(world.times(kStartup).size(), before);  // once it has passed it is not asked again
    EXPECT_GE(world.times(kLive).size(), 50u);
    EXPECT_FALSE(is_early);
    EXPECT_EQ(world.restarts(), 0);
  });
}

// Without an answer a probe takes its timeout, which is longer than its period here.
TEST(ProcessNodeProbesSim, ATimeoutIsAFailureAndTheThirdEndsTheContainer) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    World world(runtime, [](const NetworkCheck&) { return FakeProber::Answer{{Verdict::Passed, ""}, 1h}; });
    world.cluster.apply(pod("livenessProbe: {tcpSocket: {port: 2}, periodSeconds: 1, timeoutSeconds: 4}"));
    ASSERT_TRUE(world.wait([&] { return world.restarts() == 1; }));
    const auto times = world.times(kLive);
    ASSERT_GE(times.size(), 3u);
    EXPECT_GE(times[2], 8s);
    EXPECT_LT(times[2], 9s);
    ASSERT_TRUE(world.wait([&] { return world.restarts() == 2; }));  // the next run is asked anew
  });
}

TEST(ProcessNodeProbesSim, WhatIsNotKnownDoesNotCount) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    std::atomic<bool> is_known = false;
    World world(runtime,
                [&](const NetworkCheck&) { return is_known ? kBad : FakeProber::Answer{{Verdict::Errored, "?"}, {}}; });
    world.cluster.apply(pod("livenessProbe: {tcpSocket: {port: 2}, periodSeconds: 1, failureThreshold: 2}"));
    ASSERT_TRUE(world.wait([&] { return world.times(kLive).size() == 20; }));
    EXPECT_EQ(world.restarts(), 0);
    is_known = true;
    ASSERT_TRUE(world.wait([&] { return world.restarts() == 1; }));
  });
}

// A pod that goes away is no longer restarted by its probes, nor is its end delayed by one that hangs.
TEST(ProcessNodeProbesSim, ADeletedPodGoesWhileAProbeHangs) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    World world(runtime, [](const NetworkCheck&) { return FakeProber::Answer{{Verdict::Passed, ""}, 1h}; });
    world.cluster.apply(pod("livenessProbe: {tcpSocket: {port: 2}, timeoutSeconds: 300, failureThreshold: 1}"));
    ASSERT_TRUE(world.wait([&] { return world.times(kLive).size() == 1; }));
    const rt::Instant before = runtime.now();
    world.cluster.remove(sim::resources::kPods, "default", "p");
    ASSERT_TRUE(world.wait([&] { return testing::phase_of(world.cluster, "p").empty(); }));
    EXPECT_LT(runtime.now() - before, 10s);
    EXPECT_EQ(world.processes.starts_of("default/p/c"), 1);
  });
}

}  // namespace
}  // namespace basalt::node
