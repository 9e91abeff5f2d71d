#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "controllers/sharding/testing/sharding_fixture.h"
#include "rt/test_size.h"

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
  // After a wait that a simulation knows to be enough.
  void expect(ShardingFixture& f, std::string_view when) const {
    SCOPED_TRACE(when);
    Names idle;
    std::set_difference(all.begin(), all.end(), busy.begin(), busy.end(), std::inserter(idle, idle.end()));
    f.becomes_within({}, {{"agent-scheduler", busy}, {"volcano", idle}});
    EXPECT_EQ(f.shards(), (Names{"agent-scheduler", "volcano"}));
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
  sim::play(1, 1, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    const Truth truth = run_story(f);
    f.settle();
    truth.expect(f, "without faults");
    f.status_is_written("volcano");
    calls = f.process->faults().calls();
  });
  ASSERT_GT(calls, 15u);
  int runs = 0;
  // A real server is given some of the places, and the worse of the two moments.
  const bool is_simulated = sim::chosen_place() == nullptr;
  const std::uint64_t stride = is_simulated ? rt::stride_of() : calls / 2;
  for (std::uint64_t call = is_simulated ? 1 : calls / 4; call <= calls + 3; call += stride) {
    for (const auto point : {kube::FaultClient::CrashPoint::AfterEffect, kube::FaultClient::CrashPoint::BeforeEffect}) {
      if (!is_simulated && point == kube::FaultClient::CrashPoint::BeforeEffect) continue;
      ++runs;
      sim::play(1, 1, [&](rt::Runtime& runtime) {
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
        f.status_is_written("volcano");
        f.status_is_written("agent-scheduler");
        const std::string version = f.version("volcano");
        f.restart();
        f.rest(minutes(2));
        f.is_ready();
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
  sim::play(1, 12, [&](rt::Runtime& runtime) {
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
  sim::play(1, 5, [&](rt::Runtime& runtime) {
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
  sim::play(1, 1, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime);
    f.configure(kUsualDocument);
    f.nodes("old", 200);
    f.at_once([&] {
      for (int i = 0; i < 150; ++i) f.pod("p" + std::to_string(i), "old" + std::to_string(i), "7");
    });
    f.start();
    f.becomes_of_size("agent-scheduler", 150);
    f.stop();
    Truth truth;
    f.at_once([&] {
      for (int i = 0; i < 100; ++i) f.drop_node("old" + std::to_string(i));
      for (int i = 100; i < 200; ++i) truth.all.insert("old" + std::to_string(i));
      f.nodes("new", 100);
      for (int i = 0; i < 100; ++i) truth.all.insert("new" + std::to_string(i));
      for (int i = 100; i < 150; ++i) f.drop_pod("p" + std::to_string(i));
      for (int i = 0; i < 450; ++i) {  // nine pods of 700m each on fifty of the new ones
        f.pod("q" + std::to_string(i), "new" + std::to_string(i % 50), "700m");
        truth.busy.insert("new" + std::to_string(i % 50));
      }
    });
    f.cluster.remove(resources::kNodeShards, "", "volcano");
    f.start();
    f.settle();
    truth.expect(f, "after the start");
  });
}

TEST(ShardingFaults, Row65_EverySecondWriteFailsAndTheBreakerShows) {
  sim::play(1, 3, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    std::atomic<int> writes = 0;
    std::atomic<bool> all_fail = false;
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
      if (!f.is_simulated() && most == 2) break;
    }
    f.drop_pod("z");
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
    f.soon([&] { return f.metric("volcano_sharding_breaker_state") == 0; });
    f.soon([&] { return f.status("breaker") == "closed"; });
  });
}

TEST(ShardingFaults, Row66_FiveConflictsThenSuccessAndNothingOfOthersIsLost) {
  sim::play(1, 3, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    std::atomic<int> conflicts = 0;
    f.tamper.refuse_call = [&](const kube::Request& request) -> std::optional<Error> {
      if (request.resource.plural != "nodeshards" || request.verb != kube::Verb::Patch || !request.subresource.empty())
        return std::nullopt;
      const int number = conflicts + 1;
      if (number > 5) return std::nullopt;
      conflicts = number;
      // Somebody else really writes meanwhile.
      f.use("volcano", R"(["n)" + std::to_string(number) + "\"]");
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
  sim::play(1, 3, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime);
    prepare_story(f);
    f.start();
    f.settle();
    f.rest(seconds(3));
    std::atomic<rt::Instant> refused = rt::Instant{};
    std::atomic<rt::Instant> first_after = rt::Instant{};
    f.tamper.refuse_call = [&](const kube::Request& request) -> std::optional<Error> {
      if (request.resource.plural != "nodeshards" || request.verb == kube::Verb::Get || !request.subresource.empty())
        return std::nullopt;
      const rt::Instant now = runtime.now();
      if (refused.load() != rt::Instant{}) {
        rt::Instant none{};
        first_after.compare_exchange_strong(none, now);
        return std::nullopt;
      }
      refused = now;
      Error error = Error::make(Reason::TooManyRequests, "injected");
      error.code = 429;
      error.retry_after = seconds(5);
      return error;
    };
    f.pod("x", "n3", "7");
    f.rest(seconds(15));
    f.soon([&] { return f.desired("agent-scheduler").contains("n3"); });
    EXPECT_NE(refused.load(), rt::Instant{});
    EXPECT_GE(first_after.load() - refused.load(), seconds(5));
  });
}

TEST(ShardingFaults, Row71_WithoutAViewOfThePodsNothingIsWritten) {
  sim::play(1, 3, [&](rt::Runtime& runtime) {
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
    f.becomes_of_size("volcano", 3);
    f.is_ready();
  });
}

TEST(ShardingFaults, Row72_WhatMayNotBeDeletedHoldsUpNobody) {
  sim::play(1, 3, [&](rt::Runtime& runtime) {
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
    f.becomes_of_size("volcano", 3);
    f.soon([&] { return f.metric("volcano_sharding_write_failures_total") >= 1; });
    EXPECT_TRUE(f.exists("stale"));
    f.rest(seconds(5));
    f.pod("p", "n0", "7");
    f.becomes_within(milliseconds(1500), {{"agent-scheduler", {"n0"}}});
    EXPECT_EQ(f.metric("volcano_sharding_breaker_state"), 0);
  });
}

// A watch that loses events (no server should) leaves the cache wrong; the comparison finds it and lists anew.
TEST(ShardingFaults, ACacheOutOfStepIsFoundAndFilledAnew) {
  sim::play(1, 5, [&](rt::Runtime& runtime) {
    ShardingOptions options;
    if (!runtime.is_simulated()) options.verify_period = milliseconds(100);
    ShardingFixture f(runtime, options);
    prepare_story(f);
    f.start();
    f.becomes({{"agent-scheduler", {"n0", "n1"}}, {"volcano", {"n2", "n3", "n4", "n5", "n6", "n7"}}});
    std::atomic<bool> is_lost = false;
    f.tamper.lose_event = [&](const kube::Resource& resource, const kube::WatchEvent& event) {
      return resource.plural == "pods" && event.object->find("lost-pod") != std::string::npos &&
             !is_lost.exchange(true);
    };
    f.pod("lost-pod", "n2", "7");
    if (f.is_simulated()) {
      f.rest(seconds(8));  // a difference counts if it stays the same for ten
      EXPECT_FALSE(f.desired("agent-scheduler").contains("n2"));
    }
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.desired("agent-scheduler").contains("n2"); },
                                     f.is_simulated() ? minutes(60) : minutes(1)));
    EXPECT_TRUE(is_lost);
    f.tamper.lose_event = nullptr;
    f.soon([&] { return f.metric("volcano_sharding_audit_mismatch_total") >= 1; });
  });
}

// Somebody else writes the lists all the time, even overlapping ones. Once they stop, all is right within a moment.
TEST(ShardingFaults, ConflictingWriters) {
  sim::play(1, 5, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime);
    f.allows_overlap = true;  // theirs
    prepare_story(f);
    f.start();
    f.settle();
    const Truth truth = run_story(f);
    const int rounds = f.is_simulated() ? 40 : 12;
    for (int i = 0; i < rounds; ++i) {
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
  sim::play(1, 1, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime, with_period());
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
    f.becomes_of_size("volcano", 25);
    f.rest(seconds(3));
    std::map<std::string, std::string> pods;  // name, node
    const std::uint64_t before = f.writes();
    const rt::Instant begin = f.now();
    int made = 0;
    const int rounds = f.is_simulated() ? rt::test_size(6000) : 200;
    for (int i = 0; i < rounds; ++i) {
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
    const auto lasted = static_cast<std::uint64_t>(std::chrono::duration_cast<seconds>(f.now() - begin).count());
    EXPECT_LE(f.writes() - before, lasted * 2 * 2 + 10);
    EXPECT_EQ(f.process->faults().faults(), 0u);
    f.rest_periods(4);
    const Names first = f.desired("agent-scheduler");
    const Names second = f.desired("volcano");
    f.restart();
    f.rest(seconds(70));
    f.is_ready();
    f.settle();
    EXPECT_EQ(f.desired("agent-scheduler"), first);
    EXPECT_EQ(f.desired("volcano"), second);
    EXPECT_EQ(f.writes(), 0u);
    const double missing = f.metric("volcano_sharding_missing_nodes{shard=\"agent-scheduler\"}");
    EXPECT_EQ(first.size() + static_cast<std::size_t>(missing) >= 2, true);
  });
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
