#include <gtest/gtest.h>

#include <cstdio>

#include "controllers/sharding/testing/sharding_fixture.h"

// The numbers in the names are the rows of the scenario table.

namespace basalt::controllers::sharding::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// What the shards must be, by the pods that the test knows of: 7 of 8 cores taken or nothing.
struct Truth {
  Names all;
  Names busy;
  void expect(ShardingFixture& f, std::string_view when) const {
    Names idle;
    for (const std::string& node : all) {
      if (!busy.contains(node)) idle.insert(node);
    }
    EXPECT_EQ(f.desired("agent-scheduler"), busy) << when;
    EXPECT_EQ(f.desired("volcano"), idle) << when;
    EXPECT_EQ(f.shards(), (Names{"agent-scheduler", "volcano"})) << when;
  }
};

// Eight nodes; while the controller works two become busy, one idle, one comes, one goes, and a shard is edited.
Truth run_story(ShardingFixture& f) {
  f.pod("p6", "n6", "7");
  f.pod("p7", "n7", "7");
  f.rest(seconds(2));
  f.drop_pod("p0");
  f.node("new");
  f.rest(seconds(2));
  f.drop_node("n5");
  f.cluster.patch(resources::kNodeShards, "", "volcano", R"({"spec":{"nodesDesired":["n3"]}})");
  f.rest(seconds(3));
  return {{"n0", "n1", "n2", "n3", "n4", "n6", "n7", "new"}, {"n1", "n6", "n7"}};
}

void prepare_story(ShardingFixture& f) {
  f.configure(kUsualDocument);
  f.nodes("n", 8);
  f.pod("p0", "n0", "7");
  f.pod("p1", "n1", "7");
  for (const char* name : {"agent-scheduler", "volcano"}) {
    f.cluster.apply("{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: " + std::string(name) +
                    "}, spec: {nodesDesired: []}}");
  }
}

TEST(ShardingFaults, Rows61And62_DiesAfterEveryCallAndIsStartedAgain) {
  std::uint64_t calls = 0;
  rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    const Truth truth = run_story(f);
    f.settle();
    truth.expect(f, "without faults");
    calls = f.process->faults().calls();
  });
  ASSERT_GT(calls, 15u);
  int runs = 0;
  for (std::uint64_t call = 1; call <= calls + 3; call += rt::stride_of()) {
    for (const auto point : {kube::FaultClient::CrashPoint::BeforeEffect, kube::FaultClient::CrashPoint::AfterEffect}) {
      ++runs;
      rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
        SCOPED_TRACE("call " + std::to_string(call));
        ShardingFixture f(runtime);
        prepare_story(f);
        f.start();
        f.process->faults().crash_after(call, point);
        f.settle();
        const Truth truth = run_story(f);
        f.restart();
        f.settle();
        truth.expect(f, "after the restart");
        const std::string version = f.version("volcano");
        f.restart();
        f.rest(minutes(2));
        EXPECT_EQ(f.version("volcano"), version);
        EXPECT_EQ(f.writes(), 0u);
      });
      if (::testing::Test::HasFailure()) return;
    }
  }
  std::printf("restarts after every call: %d runs over %llu calls\n", runs, static_cast<unsigned long long>(calls));
}

TEST(ShardingFaults, EveryKindOfFaultAtOnce) {
  int runs = 0;
  rt::run_seeds(1, 12, [&](rt::SimRuntime& runtime) {
    ++runs;
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.process->faults().set_plan({.conflict = 0.1,
                                  .too_many = 0.05,
                                  .internal_error = 0.1,
                                  .unavailable = 0.05,
                                  .unreachable = 0.05,
                                  .lost_reply = 0.1,
                                  .timed_out = 0.1,
                                  .delay_max = milliseconds(50),
                                  .watch_refused = 0.1,
                                  .watch_expired = 0.05,
                                  .watch_broken = 0.1,
                                  .event_repeated = 0.1,
                                  .event_delay_max = milliseconds(300)});
    f.settle();
    const Truth truth = run_story(f);
    f.rest(minutes(1));
    f.process->faults().set_plan({});
    f.rest(minutes(3));
    truth.expect(f, "after the faults");
  });
  EXPECT_GE(runs, 1);
}

TEST(ShardingFaults, TheApiServerIsAwayForAWhile) {
  rt::run_seeds(1, 5, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    f.process->faults().set_away(true);
    const Truth truth = run_story(f);
    f.rest(minutes(5));
    f.process->faults().set_away(false);
    f.rest(minutes(2));
    truth.expect(f, "after the outage");
  });
}

// A hundred nodes go, a hundred come, five hundred pods change, and a shard is deleted by hand.
TEST(ShardingFaults, Row63_WhileItWasDownEverythingChanged) {
  rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    f.configure(kUsualDocument);
    f.nodes("old", 200);
    for (int i = 0; i < 150; ++i) f.pod("p" + std::to_string(i), "old" + std::to_string(i), "7");
    f.start();
    f.settle();
    EXPECT_EQ(f.desired("agent-scheduler").size(), 150u);
    f.stop();
    Truth truth;
    for (int i = 0; i < 100; ++i) f.drop_node("old" + std::to_string(i));
    for (int i = 100; i < 200; ++i) truth.all.insert("old" + std::to_string(i));
    f.nodes("new", 100);
    for (int i = 0; i < 100; ++i) truth.all.insert("new" + std::to_string(i));
    for (int i = 100; i < 150; ++i) f.drop_pod("p" + std::to_string(i));
    for (int i = 0; i < 450; ++i) {  // nine pods of 700m each on fifty of the new ones
      f.pod("q" + std::to_string(i), "new" + std::to_string(i % 50), "700m");
      truth.busy.insert("new" + std::to_string(i % 50));
    }
    f.cluster.remove(resources::kNodeShards, "", "volcano");
    f.start();
    f.settle();
    truth.expect(f, "after the start");
  });
}

TEST(ShardingFaults, Row65_EverySecondWriteFailsAndTheBreakerShows) {
  rt::run_seeds(1, 3, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    int writes = 0;
    bool all_fail = false;
    f.tamper.refuse_call = [&](const kube::Request& request) -> std::optional<Error> {
      if (request.resource.plural != "nodeshards" || request.verb == kube::Verb::Get) return std::nullopt;
      if (!all_fail && ++writes % 2 == 0) return std::nullopt;
      Error error = Error::make(Reason::InternalError, "injected");
      error.code = 500;
      return error;
    };
    Truth truth = run_story(f);
    f.rest(minutes(2));
    truth.expect(f, "with every second write failing");
    // Now all of them, with changes all the time: the breaker opens, and there is no hot loop.
    all_fail = true;
    const std::uint64_t before = f.writes();
    double most = 0;
    for (int i = 0; i < 60; ++i) {
      if (i % 2 == 0) f.pod("z", "n4", "7");
      if (i % 2 == 1) f.drop_pod("z");
      f.rest(seconds(2));
      most = std::max(most, f.metric("volcano_sharding_breaker_state"));
    }
    EXPECT_EQ(most, 2);
    EXPECT_LE(f.writes() - before, 60u);
    all_fail = false;
    f.tamper.refuse_call = nullptr;
    f.rest(minutes(3));
    truth.expect(f, "after the breaker");
    // With nothing to write there is no probe; the next change is it.
    f.pod("last", "n2", "7");
    truth.busy.insert("n2");
    f.rest(seconds(10));
    truth.expect(f, "after the probe");
    EXPECT_EQ(f.metric("volcano_sharding_breaker_state"), 0);
    EXPECT_EQ(f.status("breaker"), "closed");
  });
}

TEST(ShardingFaults, Row66_FiveConflictsThenSuccessAndNothingOfOthersIsLost) {
  rt::run_seeds(1, 3, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    int conflicts = 0;
    f.tamper.refuse_call = [&](const kube::Request& request) -> std::optional<Error> {
      if (request.resource.plural != "nodeshards" || request.verb != kube::Verb::Patch || !request.subresource.empty())
        return std::nullopt;
      if (conflicts >= 5) return std::nullopt;
      ++conflicts;
      // Somebody else really writes meanwhile.
      f.use("volcano", R"(["n)" + std::to_string(conflicts) + "\"]");
      f.cluster.patch(resources::kNodeShards, "", "volcano", R"({"metadata":{"labels":{"theirs":"yes"}}})");
      Error error = Error::make(Reason::Conflict, "injected");
      error.code = 409;
      return error;
    };
    const Truth truth = run_story(f);
    f.rest(seconds(20));
    truth.expect(f, "after the conflicts");
    EXPECT_EQ(conflicts, 5);
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesInUse"}), (Names{"n5"}));
    EXPECT_EQ(f.cluster.get(resources::kNodeShards, "", "volcano")->string_at({"metadata", "labels", "theirs"}), "yes");
  });
}

TEST(ShardingFaults, Row67_RetryAfterIsHonoured) {
  rt::run_seeds(1, 3, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    f.rest(seconds(3));
    rt::Instant refused{};
    std::vector<rt::Instant> calls;
    f.tamper.refuse_call = [&](const kube::Request& request) -> std::optional<Error> {
      if (request.resource.plural != "nodeshards" || request.verb == kube::Verb::Get || !request.subresource.empty())
        return std::nullopt;
      calls.push_back(runtime.now());
      if (refused != rt::Instant{}) return std::nullopt;
      refused = runtime.now();
      Error error = Error::make(Reason::TooManyRequests, "injected");
      error.code = 429;
      error.retry_after = seconds(5);
      return error;
    };
    f.pod("x", "n3", "7");
    f.rest(seconds(15));
    ASSERT_GE(calls.size(), 2u);
    for (const rt::Instant call : calls) EXPECT_TRUE(call == refused || call - refused >= seconds(5));
    EXPECT_TRUE(f.desired("agent-scheduler").contains("n3"));
  });
}

TEST(ShardingFaults, Row71_WithoutAViewOfThePodsNothingIsWritten) {
  rt::run_seeds(1, 3, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    f.configure(kUsualDocument);
    f.nodes("n", 3);
    f.cluster.apply(
        "{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: other}, spec: "
        "{nodesDesired: [n0]}}");
    f.tamper.refuse_read = [](const kube::Resource& resource) -> std::optional<Error> {
      if (resource.plural != "pods") return std::nullopt;
      Error error = Error::make(Reason::Forbidden, "pods is forbidden");
      error.code = 403;
      return error;
    };
    f.start();
    f.rest(minutes(5));
    EXPECT_EQ(f.writes(), 0u);
    EXPECT_EQ(f.shards(), (Names{"other"}));
    EXPECT_EQ(f.metric("volcano_sharding_ready"), 0);
    f.tamper.refuse_read = nullptr;
    f.rest(minutes(2));
    EXPECT_EQ(f.desired("volcano").size(), 3u);
    EXPECT_EQ(f.metric("volcano_sharding_ready"), 1);
  });
}

TEST(ShardingFaults, Row72_WhatMayNotBeDeletedHoldsUpNobody) {
  rt::run_seeds(1, 3, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    f.configure(kUsualDocument);
    f.nodes("n", 3);
    f.cluster.apply(
        "{apiVersion: shard.volcano.sh/v1alpha1, kind: NodeShard, metadata: {name: stale}, spec: "
        "{nodesDesired: [gone]}}");
    f.tamper.refuse_call = [](const kube::Request& request) -> std::optional<Error> {
      if (request.verb != kube::Verb::Delete) return std::nullopt;
      Error error = Error::make(Reason::Forbidden, "may not delete");
      error.code = 403;
      return error;
    };
    f.start();
    f.settle();
    EXPECT_TRUE(f.exists("stale"));
    EXPECT_GE(f.metric("volcano_sharding_write_failures_total"), 1);
    f.rest(seconds(5));
    f.pod("p", "n0", "7");
    f.rest(milliseconds(1500));
    EXPECT_EQ(f.desired("agent-scheduler"), (Names{"n0"}));
    EXPECT_EQ(f.metric("volcano_sharding_breaker_state"), 0);
  });
}

// A watch that loses events (no server should) leaves the cache wrong; the comparison finds it and lists anew.
TEST(ShardingFaults, ACacheOutOfStepIsFoundAndFilledAnew) {
  rt::run_seeds(1, 5, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    f.tamper.lose_event = [](const kube::Resource& resource, const kube::WatchEvent& event) {
      return resource.plural == "pods" && event.object->find("lost-pod") != std::string::npos;
    };
    f.pod("lost-pod", "n2", "7");
    f.rest(minutes(1));
    EXPECT_FALSE(f.desired("agent-scheduler").contains("n2"));
    f.tamper.lose_event = nullptr;
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.desired("agent-scheduler").contains("n2"); }, minutes(60)));
    EXPECT_GE(f.metric("volcano_sharding_audit_mismatch_total"), 1);
  });
}

// Somebody else writes the lists all the time, even overlapping ones. Once they stop, all is right within a moment.
TEST(ShardingFaults, ConflictingWriters) {
  rt::run_seeds(1, 5, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    f.allows_overlap = true;  // theirs
    prepare_story(f);
    f.start();
    f.settle();
    const Truth truth = run_story(f);
    for (int i = 0; i < 40; ++i) {
      const std::string nodes =
          "[\"n" + std::to_string(runtime.random_below(8)) + "\",\"n" + std::to_string(runtime.random_below(8)) + "\"]";
      f.cluster.patch(resources::kNodeShards, "", runtime.random_below(2) == 0 ? "volcano" : "agent-scheduler",
                      R"({"spec":{"nodesDesired":)" + nodes + "}}");
      f.rest(milliseconds(static_cast<std::int64_t>(runtime.random_below(900))));
    }
    f.rest(seconds(5));
    truth.expect(f, "after the others stopped");
  });
}

// One hundred events a second for a minute, with a limit and a minimum. Checked: never a node in two lists (by the
// fixture), limits kept or the shortage stated, few writes, and the exact state at the end.
TEST(ShardingFaults, HundredEventsASecondForAMinute) {
  rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
    ShardingFixture f(runtime);
    f.configure(R"(schedulerConfigs:
- name: agent-scheduler
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1.0}}
  - {name: node-limit, arguments: {minNodes: 2, maxNodes: 10}}
- name: volcano
  policies:
  - {name: allocation-rate, arguments: {maxCPUUtil: 0.6}}
  - {name: node-limit, arguments: {maxNodes: 25}}
writeStatus: false
)");
    constexpr std::uint64_t kNodes = 30;
    f.nodes("n", kNodes);
    f.start();
    f.settle();
    f.rest(seconds(3));
    std::map<std::string, std::string> pods;  // name, node
    const std::uint64_t before = f.writes();
    int made = 0;
    for (int i = 0; i < 6000; ++i) {
      if (pods.size() > 60 || (!pods.empty() && runtime.random_below(2) == 0)) {
        auto place = pods.begin();
        std::advance(place, static_cast<std::ptrdiff_t>(runtime.random_below(pods.size())));
        f.drop_pod(place->first);
        pods.erase(place);
      } else {
        const std::string node = "n" + std::to_string(runtime.random_below(kNodes));
        const std::string name = "p" + std::to_string(made++);
        f.pod(name, node, runtime.random_below(2) == 0 ? "2" : "4");
        pods[name] = node;
      }
      f.rest(milliseconds(10));
      if (i % 200 == 0) {
        EXPECT_LE(f.desired("agent-scheduler").size(), 10u);
        EXPECT_LE(f.desired("volcano").size(), 25u);
      }
    }
    EXPECT_LE(f.writes() - before, 60u * 2 * 2 + 10);
    EXPECT_EQ(f.process->faults().faults(), 0u);
    f.rest(seconds(70));
    const Names first = f.desired("agent-scheduler");
    const Names second = f.desired("volcano");
    f.restart();
    f.rest(seconds(70));
    EXPECT_EQ(f.desired("agent-scheduler"), first);
    EXPECT_EQ(f.desired("volcano"), second);
    EXPECT_EQ(f.writes(), 0u);
    const double missing = f.metric("volcano_sharding_missing_nodes{shard=\"agent-scheduler\"}");
    EXPECT_EQ(first.size() + static_cast<std::size_t>(missing) >= 2, true);
  });
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
