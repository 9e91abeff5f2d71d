#include "kube/leader_election.h"

#include <gtest/gtest.h>

#include <optional>

#include "kube/fault_client.h"
#include "kube/testing/fake_cluster.h"
#include "rt/sim_runtime.h"

namespace basalt::kube {
namespace {

using testing::FakeCluster;
using namespace std::chrono_literals;

const Resource kLeases{"coordination.k8s.io", "v1", "leases"};

void in_simulation(std::uint64_t seed, const std::function<void(rt::SimRuntime&)>& body) {
  auto runtime = rt::SimRuntime::make({.seed = seed});
  const auto report = runtime->run([&] { body(*runtime); });
  EXPECT_TRUE(report.completed) << report.problem;
}

json::Value lease_of(const FakeCluster& cluster) {
  const auto all = cluster.objects(kLeases);
  if (all.empty()) return {};
  return *json::Value::parse(*all.begin()->second);
}

LeaderElectionOptions options_of(std::string identity) {
  LeaderElectionOptions options;
  options.identity = std::move(identity);
  return options;
}

TEST(LeaderElection, RefusesSettingsThatMakeNoSense) {
  auto options = options_of("me");
  EXPECT_TRUE(validate(options).ok());
  options.lease_duration = options.renew_deadline = 5s;
  EXPECT_NE(validate(options).error().message.find("leaseDuration"), std::string::npos);
  options = options_of("me");
  options.retry_period = 9s;
  EXPECT_NE(validate(options).error().message.find("retry-period"), std::string::npos);
  options = options_of("me");
  options.retry_period = 0s;
  EXPECT_FALSE(validate(options).ok());
  options = options_of("");
  EXPECT_FALSE(validate(options).ok());
  options = options_of("me");
  options.ns = "";
  EXPECT_NE(validate(options).error().message.find("resource-namespace"), std::string::npos);
}

TEST(LeaderElection, IdentityIsHostAndUuid) {
  in_simulation(1, [](rt::SimRuntime& runtime) {
    const std::string identity = make_identity(runtime, "pod-1");
    ASSERT_EQ(identity.size(), 6u + 36u);
    EXPECT_EQ(identity.substr(0, 6), "pod-1_");
    EXPECT_EQ(identity[6 + 14], '4');
    EXPECT_NE(make_identity(runtime, "pod-1"), identity);
  });
}

TEST(LeaderElection, WritesTheLeaseAsVolcanoDoesAndReleasesIt) {
  in_simulation(2, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    rt::StopSource stop(runtime);
    bool started = false;
    bool stopped = false;
    LeaderElector elector(runtime, cluster, Logger(), options_of("me"),
                          {.started = [&] { started = true; }, .stopped = [&] { stopped = true; }, .new_leader = {}});
    rt::Thread thread(runtime, "elector", [&] { EXPECT_TRUE(elector.run(stop.token()).ok()); });
    runtime.sleep_for(1s);
    EXPECT_TRUE(started);
    EXPECT_TRUE(elector.still_leader());
    EXPECT_EQ(elector.leader(), "me");
    json::Value lease = lease_of(cluster);
    EXPECT_EQ(lease.string_at({"metadata", "namespace"}), "volcano-system");
    EXPECT_EQ(lease.string_at({"metadata", "name"}), "vc-controller-manager");
    EXPECT_EQ(lease.string_at({"spec", "holderIdentity"}), "me");
    EXPECT_EQ(lease.find_path({"spec", "leaseDurationSeconds"})->as_int(), 15);
    EXPECT_EQ(lease.find_path({"spec", "leaseTransitions"})->as_int(), 0);
    EXPECT_EQ(lease.string_at({"spec", "acquireTime"}), "2026-01-01T00:00:00.000000Z");
    runtime.sleep_for(60s);
    lease = lease_of(cluster);
    EXPECT_EQ(lease.string_at({"spec", "renewTime"}), "2026-01-01T00:01:00.000000Z") << "every two seconds";
    EXPECT_EQ(lease.string_at({"spec", "acquireTime"}), "2026-01-01T00:00:00.000000Z");
    stop.request_stop();
    thread.join();
    EXPECT_TRUE(stopped);
    EXPECT_FALSE(elector.still_leader());
    lease = lease_of(cluster);
    EXPECT_EQ(lease.string_at({"spec", "holderIdentity"}), "");
    EXPECT_EQ(lease.find_path({"spec", "leaseDurationSeconds"})->as_int(), 1);
  });
}

TEST(LeaderElection, KeepsWhatOthersWroteIntoTheLease) {
  in_simulation(3, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    cluster.put(kLeases,
                R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"namespace":"volcano-system",
      "name":"vc-controller-manager","labels":{"a":"b"}},"spec":{"strategy":"x","leaseTransitions":6}})");
    rt::StopSource stop(runtime);
    LeaderElector elector(runtime, cluster, Logger(), options_of("me"), {});
    rt::Thread thread(runtime, "elector", [&] { EXPECT_TRUE(elector.run(stop.token()).ok()); });
    runtime.sleep_for(10s);
    const json::Value lease = lease_of(cluster);
    EXPECT_EQ(lease.string_at({"metadata", "labels", "a"}), "b");
    EXPECT_EQ(lease.string_at({"spec", "strategy"}), "x");
    EXPECT_EQ(lease.find_path({"spec", "leaseTransitions"})->as_int(), 7);
    stop.request_stop();
    thread.join();
  });
}

// A candidate with a process around it that can be paused, cut off and killed, and that acts whenever it may.
struct Candidate {
  rt::SimRuntime& runtime;
  FaultClient client;
  rt::StopSource stop;
  LeaderElector elector;
  std::unique_ptr<Client> fenced;
  rt::Instant paused_until{};
  bool ended = false;
  bool killed = false;
  std::optional<Done> outcome;
  rt::Thread thread;

  Candidate(rt::SimRuntime& rt_in, FakeCluster& cluster, std::string name)
      : runtime(rt_in),
        client(rt_in, cluster),
        stop(rt_in),
        elector(rt_in, client, Logger(), options_of(std::move(name)), {}),
        fenced(fenced_client(client, elector)) {}
  void start() {
    thread = rt::Thread(runtime, "candidate", [this] {
      outcome = elector.run(stop.token());
      ended = true;
    });
  }
};

TEST(LeaderElection, FailsOverWithinTheTimesOfTheFactSheet) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    in_simulation(seed, [](rt::SimRuntime& runtime) {
      FakeCluster cluster(runtime);
      Candidate first(runtime, cluster, "first");
      Candidate second(runtime, cluster, "second");
      first.start();
      runtime.sleep_for(1s);
      second.start();
      runtime.sleep_for(30s);
      ASSERT_TRUE(first.elector.still_leader());
      EXPECT_EQ(second.elector.leader(), "first");
      // Killed: it says nothing any more.
      first.client.crash_after(0);
      const rt::Instant killed = runtime.now();
      while (!second.elector.still_leader()) runtime.sleep_for(100ms);
      const rt::Duration took = runtime.now() - killed;
      EXPECT_LE(took, 20s);
      EXPECT_GE(took, 12s) << "not before the lease is over";
      EXPECT_EQ(lease_of(cluster).find_path({"spec", "leaseTransitions"})->as_int(), 1);
      // The first found out by itself, in time, and says so.
      first.thread.join();
      EXPECT_FALSE(first.outcome->ok());
      // A clean stop hands over without waiting for the lease to run out.
      Candidate third(runtime, cluster, "third");
      third.start();
      runtime.sleep_for(10s);
      second.stop.request_stop();
      second.thread.join();
      EXPECT_TRUE(second.outcome->ok());
      const rt::Instant released = runtime.now();
      while (!third.elector.still_leader()) runtime.sleep_for(100ms);
      EXPECT_LE(runtime.now() - released, 6s);
      third.stop.request_stop();
      third.thread.join();
    });
  }
}

TEST(LeaderElection, CutOffHolderStopsBeforeAnotherCanStart) {
  in_simulation(9, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    Candidate holder(runtime, cluster, "holder");
    holder.start();
    runtime.sleep_for(5s);
    ASSERT_TRUE(holder.elector.still_leader());
    const rt::Instant cut = runtime.now();
    holder.client.set_away(true);
    const Request write{
        .verb = Verb::Create, .resource = {"", "v1", "configmaps"}, .ns = "a", .body = R"({"metadata":{"name":"x"}})"};
    while (holder.elector.still_leader()) runtime.sleep_for(50ms);
    EXPECT_LE(runtime.now() - cut, 10s);
    EXPECT_GE(runtime.now() - cut, 7s);
    holder.client.set_away(false);
    const auto refused = holder.fenced->call(write, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().reason, Reason::Cancelled);
    EXPECT_EQ(holder.fenced->call_all(std::span(&write, 1), {}, {}).at(0).error().reason, Reason::Cancelled);
    EXPECT_TRUE(holder.fenced->list({.resource = write.resource}, {}).ok()) << "reads pass";
    EXPECT_TRUE(cluster.objects(write.resource).empty());
    holder.thread.join();
    EXPECT_FALSE(holder.outcome->ok());
    EXPECT_EQ(holder.outcome->error().reason, Reason::DeadlineExceeded);
  });
}

TEST(LeaderElection, ADeletedLeaseIsNotTakenFromItsHolder) {
  in_simulation(10, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    Candidate holder(runtime, cluster, "holder");
    holder.start();
    runtime.sleep_for(5s);
    Candidate other(runtime, cluster, "other");
    other.start();
    runtime.sleep_for(20s);
    cluster.remove(kLeases, "volcano-system", "vc-controller-manager");
    for (int i = 0; i < 300; ++i) {
      runtime.sleep_for(100ms);
      EXPECT_FALSE(other.elector.still_leader());
    }
    EXPECT_TRUE(holder.elector.still_leader()) << "it made the lease again";
    other.stop.request_stop();
    holder.stop.request_stop();
    other.thread.join();
    holder.thread.join();
  });
}

// Three candidates, each a "process" that acts (through its fenced client) whenever it believes it may, under pauses,
// cuts and API faults. No two may act at the same virtual time, and somebody acts again once all is well.
TEST(LeaderElectionFaults, NeverTwoActAtOnce) {
  std::uint64_t acts = 0;
  std::uint64_t hand_overs = 0;
  for (std::uint64_t seed = 1; seed <= 300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    in_simulation(seed, [&](rt::SimRuntime& runtime) {
      FakeCluster cluster(runtime);
      const FaultPlan plan{.conflict = 0.05,
                           .too_many = 0.05,
                           .internal_error = 0.1,
                           .unavailable = 0.1,
                           .lost_reply = 0.1,
                           .timed_out = 0.05,
                           .delay_max = 800ms};
      std::vector<std::unique_ptr<Candidate>> all;  // also those whose process has ended
      std::vector<std::size_t> current;
      const auto add = [&](std::size_t place) {
        all.push_back(std::make_unique<Candidate>(runtime, cluster, "c" + std::to_string(all.size())));
        all.back()->client.set_plan(plan);
        all.back()->start();
        if (place < current.size())
          current[place] = all.size() - 1;
        else
          current.push_back(all.size() - 1);
      };
      for (std::size_t i = 0; i < 3; ++i) add(i);
      std::string last_leader;
      for (int step = 0; step < 400; ++step) {
        runtime.sleep_for(250ms);
        std::string acting;
        for (const auto& candidate : all) {
          if (!candidate->elector.still_leader()) continue;
          EXPECT_TRUE(acting.empty()) << acting << " and " << candidate->elector.identity() << " at step " << step;
          acting = candidate->elector.identity();
          ++acts;
        }
        if (!acting.empty() && acting != last_leader) {
          ++hand_overs;
          last_leader = acting;
        }
        Candidate& victim = *all[current[runtime.random_below(current.size())]];
        switch (runtime.random_below(40)) {
          case 0:
            victim.client.set_away(true);
            break;
          case 1:
            for (const auto& candidate : all) candidate->client.set_away(false);
            break;
          case 2:
            victim.client.crash_after(0);
            break;
          case 3:
            victim.stop.request_stop();
            break;
          case 4:
            if (runtime.random_below(4) == 0) cluster.break_watches();
            break;
          default:
            break;
        }
        for (std::size_t place = 0; place < current.size(); ++place) {
          if (all[current[place]]->ended && all.size() < 40) add(place);  // restarted
        }
      }
      for (const auto& candidate : all) {
        candidate->client.set_away(false);
        candidate->client.set_plan({});
      }
      Candidate fresh(runtime, cluster, "fresh");
      fresh.start();
      bool somebody = false;
      for (int i = 0; i < 400 && !somebody; ++i) {
        runtime.sleep_for(100ms);
        somebody = fresh.elector.still_leader();
        for (const auto& candidate : all) somebody = somebody || candidate->elector.still_leader();
      }
      EXPECT_TRUE(somebody) << "an election must come to an end";
      fresh.stop.request_stop();
      fresh.thread.join();
      for (const auto& candidate : all) {
        candidate->stop.request_stop();
        candidate->thread.join();
      }
    });
  }
  EXPECT_GT(acts, 10'000u);
  EXPECT_GT(hand_overs, 300u);
}

}  // namespace
}  // namespace basalt::kube
