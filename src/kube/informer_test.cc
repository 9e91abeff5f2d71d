#include "kube/informer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "kube/fault_client.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/thing.h"
#include "rt/real_runtime.h"
#include "rt/sim_runtime.h"

namespace basalt::kube {
namespace {

using testing::FakeCluster;
using testing::Thing;
using testing::thing_text;
using testing::things;
using namespace std::chrono_literals;

InformerOptions<Thing> thing_options() {
  InformerOptions<Thing> options;
  options.reflector.resource = things();
  options.reflector.page_size = 3;
  options.indexes.push_back({"owner", [](const Thing& thing, std::vector<std::string>& values) {
                               if (!thing.owner.empty()) values.push_back(thing.owner);
                             }});
  return options;
}

// What the handlers were told, folded into a picture of the world; checks that each step fits the one before.
struct Mirror {
  std::map<std::string, std::shared_ptr<const Thing>> seen;
  std::vector<std::string> steps;

  void take(const Change<Thing>& change) {
    const Thing& thing = change.object();
    const std::string key = thing.metadata.namespace_ + "/" + thing.metadata.name;
    if (change.is_added()) {
      EXPECT_FALSE(seen.contains(key)) << key;
      seen[key] = change.after;
      steps.push_back("+" + key + "=" + std::to_string(thing.value));
    } else if (change.is_deleted()) {
      ASSERT_TRUE(seen.contains(key)) << key;
      EXPECT_EQ(seen[key]->metadata.uid, thing.metadata.uid);
      seen.erase(key);
      steps.push_back("-" + key);
    } else {
      EXPECT_EQ(seen[key], change.before) << key;
      EXPECT_EQ(change.before->metadata.uid, change.after->metadata.uid);
      seen[key] = change.after;
      steps.push_back("~" + key + "=" + std::to_string(thing.value));
    }
  }
};

void expect_equal(const Informer<Thing>& informer, const FakeCluster& cluster, const Mirror& mirror) {
  const auto truth = cluster.objects(things());
  std::map<std::string, std::string> expected;
  std::map<std::string, std::size_t> owners;
  for (const auto& [key, text] : truth) {
    const Thing thing = *json::from_text<Thing>(*text);
    expected[key] = thing.metadata.uid + "@" + thing.metadata.resource_version;
    if (!thing.owner.empty()) ++owners[thing.owner];
  }
  std::map<std::string, std::string> cached;
  std::vector<std::string> order;
  for (const auto& thing : informer.list()) {
    const std::string key = thing->metadata.namespace_ + "/" + thing->metadata.name;
    cached[key] = thing->metadata.uid + "@" + thing->metadata.resource_version;
    order.push_back(key);
    EXPECT_EQ(informer.get({thing->metadata.namespace_, thing->metadata.name}), thing);
  }
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(cached, expected);
  EXPECT_EQ(informer.size(), expected.size());
  std::map<std::string, std::string> mirrored;
  for (const auto& [key, thing] : mirror.seen) {
    mirrored[key] = thing->metadata.uid + "@" + thing->metadata.resource_version;
  }
  EXPECT_EQ(mirrored, expected);
  for (const std::string_view owner : {"o0", "o1", "o2"}) {
    EXPECT_EQ(informer.by_index("owner", owner).size(), owners[std::string(owner)]) << owner;
    EXPECT_EQ(informer.count_by_index("owner", owner), owners[std::string(owner)]);
  }
}

void in_simulation(std::uint64_t seed, const std::function<void(rt::SimRuntime&)>& body) {
  auto runtime = rt::SimRuntime::make({.seed = seed});
  const auto report = runtime->run([&] { body(*runtime); });
  EXPECT_TRUE(report.completed) << report.problem;
}

TEST(Informer, ShowsWhatIsThereAndWhatHappens) {
  for (const bool streaming : {true, false}) {
    in_simulation(1, [&](rt::SimRuntime& runtime) {
      FakeCluster cluster(runtime);
      cluster.set_streaming_lists(streaming);
      for (int i = 0; i < 10; ++i) cluster.put(things(), thing_text("ns", "t" + std::to_string(i), i, "o0"));
      Informer<Thing> informer(runtime, cluster, Logger(), thing_options());
      Mirror mirror;
      informer.add_handler([&](const Change<Thing>& change) { mirror.take(change); });
      EXPECT_FALSE(informer.has_synced());
      informer.start();
      ASSERT_TRUE(informer.wait_synced({}));
      expect_equal(informer, cluster, mirror);
      EXPECT_EQ(cluster.lists(), streaming ? 0u : 4u);

      cluster.put(things(), thing_text("ns", "t3", 33, "o1"));
      cluster.remove(things(), "ns", "t4");
      cluster.put(things(), thing_text("other", "x", 1));
      runtime.settle();
      expect_equal(informer, cluster, mirror);
      EXPECT_EQ(informer.by_index("owner", "o1").at(0)->value, 33);
      EXPECT_EQ(informer.list_namespace("other").size(), 1u);
      EXPECT_EQ(informer.list_namespace("nowhere").size(), 0u);
      EXPECT_EQ(informer.get({"ns", "t4"}), nullptr);
      EXPECT_EQ(informer.seen_revision(), cluster.revision());
      informer.stop();
      EXPECT_EQ(cluster.open_watches(), 0u);
    });
  }
}

TEST(Informer, KnowsARecreatedObjectByItsUid) {
  for (const bool by_relist : {false, true}) {
    in_simulation(2, [&](rt::SimRuntime& runtime) {
      FakeCluster cluster(runtime);
      cluster.put(things(), thing_text("ns", "a", 1));
      Informer<Thing> informer(runtime, cluster, Logger(), thing_options());
      Mirror mirror;
      informer.add_handler([&](const Change<Thing>& change) { mirror.take(change); });
      informer.start();
      ASSERT_TRUE(informer.wait_synced({}));
      if (by_relist) cluster.break_watches();
      cluster.remove(things(), "ns", "a");
      cluster.put(things(), thing_text("ns", "a", 2));
      if (by_relist) cluster.compact();
      runtime.sleep_for(10s);
      EXPECT_EQ(mirror.steps, (std::vector<std::string>{"+ns/a=1", "-ns/a", "+ns/a=2"}));
      EXPECT_EQ(informer.core().reflector_counts().expired, by_relist ? 1u : 0u);
      expect_equal(informer, cluster, mirror);
      informer.stop();
    });
  }
}

TEST(Informer, GoesOnWhereItStoodWithoutListing) {
  in_simulation(3, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    Informer<Thing> informer(runtime, cluster, Logger(), thing_options());
    Mirror mirror;
    informer.add_handler([&](const Change<Thing>& change) { mirror.take(change); });
    informer.start();
    ASSERT_TRUE(informer.wait_synced({}));
    for (int i = 0; i < 20; ++i) {
      cluster.put(things(), thing_text("ns", "a", i));
      if (i % 3 == 0) cluster.break_watches();
      if (i % 4 == 0) cluster.end_watches();
      runtime.sleep_for(1s);
    }
    runtime.sleep_for(60s);
    EXPECT_EQ(mirror.steps.size(), 20u) << "no gaps, no repeats";
    EXPECT_EQ(informer.core().reflector_counts().lists, 1u);
    EXPECT_EQ(informer.core().counts().stale, 0u);
    // A bookmark keeps the position fresh although nothing of ours happens, so compaction costs no list.
    for (int i = 0; i < 5; ++i) cluster.put({"other", "v1", "others"}, thing_text("ns", "b", i));
    cluster.send_bookmarks();
    runtime.settle();
    EXPECT_EQ(informer.seen_revision(), cluster.revision());
    cluster.compact();
    cluster.break_watches();
    runtime.sleep_for(60s);
    EXPECT_EQ(informer.core().reflector_counts().lists, 1u);
    informer.stop();
  });
}

TEST(Informer, BreaksASilentWatchAndSpreadsTimeouts) {
  in_simulation(4, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    Informer<Thing> informer(runtime, cluster, Logger(), thing_options());
    informer.start();
    ASSERT_TRUE(informer.wait_synced({}));
    runtime.sleep_for(1h);
    const auto counts = informer.core().reflector_counts();
    EXPECT_EQ(counts.lists, 1u);
    EXPECT_NEAR(static_cast<double>(counts.idle_breaks), 20, 1) << "every three minutes";
    EXPECT_EQ(counts.failures, 0u);
    informer.stop();
  });
}

TEST(Informer, LogsAnOutageOnce) {
  in_simulation(5, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    FaultClient faulty(runtime, cluster);
    auto sink = std::make_shared<CollectingLogSink>();
    Informer<Thing> informer(runtime, faulty, Logger(sink), thing_options());
    faulty.set_away(true);
    informer.start();
    runtime.sleep_for(1h);
    EXPECT_FALSE(informer.has_synced());
    EXPECT_EQ(sink->records().size(), 1u);
    const auto failures = informer.core().reflector_counts().failures;
    EXPECT_LT(failures, 250u) << "backoff";
    EXPECT_GT(failures, 50u);
    faulty.set_away(false);
    EXPECT_TRUE(informer.wait_synced({}, runtime.now() + 61s)) << "it does not take long to notice";
    EXPECT_EQ(sink->records().size(), 2u);
    EXPECT_EQ(sink->count(LogLevel::Error), 0u);
    informer.stop();
  });
}

TEST(Informer, GivesUpStreamingListsThatTheServerIgnores) {
  // A server before 1.27: an ordinary watch, and no bookmark ends the initial events.
  class OldServer final : public FakeCluster {
   public:
    using FakeCluster::FakeCluster;
    Result<std::unique_ptr<WatchStream>> watch(const WatchRequest& request, const rt::StopToken& stop) override {
      WatchRequest old = request;
      old.send_initial_events = false;
      return FakeCluster::watch(old, stop);
    }
  };
  in_simulation(6, [](rt::SimRuntime& runtime) {
    OldServer cluster(runtime);
    cluster.put(things(), thing_text("ns", "a", 1));
    Informer<Thing> informer(runtime, cluster, Logger(), thing_options());
    informer.start();
    EXPECT_TRUE(informer.wait_synced({}, runtime.now() + 25s));
    EXPECT_EQ(informer.size(), 1u);
    EXPECT_EQ(informer.core().reflector_counts().streaming_lists, 0u);
    informer.stop();
  });
}

TEST(Informer, ShowsLateHandlersEverythingOnce) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    in_simulation(seed, [](rt::SimRuntime& runtime) {
      FakeCluster cluster(runtime);
      Informer<Thing> informer(runtime, cluster, Logger(), thing_options());
      informer.start();
      ASSERT_TRUE(informer.wait_synced({}));
      rt::Thread writer(runtime, "writer", [&] {
        for (int i = 0; i < 30; ++i) {
          cluster.put(things(), thing_text("ns", "t" + std::to_string(i % 7), i));
          if (i % 5 == 0) cluster.remove(things(), "ns", "t" + std::to_string(i % 7));
          runtime.yield();
        }
      });
      for (int i = 0; i < 15; ++i) runtime.yield();
      Mirror mirror;
      informer.add_handler([&](const Change<Thing>& change) {
        mirror.take(change);
        runtime.yield();  // as if the handler took its time
      });
      writer.join();
      runtime.settle();
      expect_equal(informer, cluster, mirror);
      informer.stop();
    });
  }
}

TEST(Informer, IgnoresObjectsWithoutTheShapeOfTheType) {
  in_simulation(7, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    cluster.put(things(), thing_text("ns", "a", 1));
    cluster.put(things(), R"({"metadata":{"namespace":"ns","name":"bad"},"value":"text"})");
    Informer<Thing> informer(runtime, cluster, Logger(), thing_options());
    informer.start();
    ASSERT_TRUE(informer.wait_synced({}));
    EXPECT_EQ(informer.size(), 1u);
    // What was readable once stays as it was; relists do not take it for deleted.
    cluster.put(things(), R"({"metadata":{"namespace":"ns","name":"a"},"value":[]})");
    cluster.compact();
    cluster.break_watches();
    runtime.sleep_for(60s);
    ASSERT_NE(informer.get({"ns", "a"}), nullptr);
    EXPECT_EQ(informer.get({"ns", "a"})->value, 1);
    cluster.remove(things(), "ns", "a");
    runtime.sleep_for(60s);
    EXPECT_EQ(informer.get({"ns", "a"}), nullptr);
    EXPECT_GE(informer.core().counts().undecodable, 3u);
    informer.stop();
  });
}

// Real threads, for the sanitizers: writers, readers and late handlers at once.
TEST(Informer, IsReadWhileItChanges) {
  const auto runtime = rt::make_real_runtime();
  FakeCluster cluster(*runtime);
  Informer<Thing> informer(*runtime, cluster, Logger(), thing_options());
  informer.start();
  ASSERT_TRUE(informer.wait_synced({}));
  std::atomic<bool> writing{true};
  std::vector<rt::Thread> threads;
  for (int reader = 0; reader < 3; ++reader) {
    threads.emplace_back(*runtime, "reader", [&] {
      while (writing) {
        std::size_t seen = 0;
        informer.for_each([&seen](const Thing& thing) { seen += thing.metadata.name.size(); });
        for (const auto& thing : informer.by_index("owner", "o1")) EXPECT_EQ(thing->owner, "o1");
        (void)informer.get({"ns", "t7"});
        (void)informer.list_namespace("ns");
      }
    });
  }
  Mirror mirror;
  threads.emplace_back(*runtime, "late",
                       [&] { informer.add_handler([&](const Change<Thing>& change) { mirror.take(change); }); });
  for (int i = 0; i < 3000; ++i) {
    const std::string name = "t" + std::to_string(i % 700);
    if (i % 9 == 0) cluster.remove(things(), "ns", name);
    cluster.put(things(), thing_text("ns", name, i, "o" + std::to_string(i % 3)));
    if (i % 500 == 0) cluster.break_watches();
  }
  const rt::Instant deadline = runtime->now() + 60s;
  while (informer.seen_revision() < cluster.revision() && runtime->now() < deadline) runtime->sleep_for(5ms);
  writing = false;
  for (rt::Thread& thread : threads) thread.join();
  informer.stop();
  expect_equal(informer, cluster, mirror);
}

// The whole contract, through all faults at once: after the dust has settled the cache, the indexes and what the
// handlers were told equal a fresh list.
TEST(InformerFaults, StaysExactThroughAThousandSeeds) {
  std::uint64_t expired = 0;
  std::uint64_t stale = 0;
  std::uint64_t failures = 0;
  for (std::uint64_t seed = 1; seed <= 1000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    in_simulation(seed, [&](rt::SimRuntime& runtime) {
      FakeCluster cluster(runtime);
      FaultClient faulty(runtime, cluster,
                         {.internal_error = 0.1,
                          .unavailable = 0.1,
                          .timed_out = 0.05,
                          .delay_max = 50ms,
                          .watch_refused = 0.1,
                          .watch_expired = 0.02,
                          .watch_broken = 0.05,
                          .event_repeated = 0.2,
                          .event_delay_max = 20ms});
      cluster.set_streaming_lists(seed % 2 == 0);
      Informer<Thing> informer(runtime, faulty, Logger(), thing_options());
      Mirror mirror;
      informer.add_handler([&](const Change<Thing>& change) { mirror.take(change); });
      informer.start();
      for (int i = 0; i < 120; ++i) {
        const std::string name = "t" + std::to_string(runtime.random_below(12));
        const std::string ns = "n" + std::to_string(runtime.random_below(2));
        switch (runtime.random_below(12)) {
          case 0:
          case 1:
            cluster.remove(things(), ns, name);
            break;
          case 2:
            cluster.remove(things(), ns, name);
            cluster.put(things(), thing_text(ns, name, i, "o1"));
            break;
          case 3:
            if (runtime.random_below(4) == 0) cluster.compact();
            break;
          case 4:
            if (runtime.random_below(4) == 0) cluster.break_watches();
            break;
          case 5:
            cluster.send_bookmarks();
            break;
          case 6:
            runtime.sleep_for(rt::Duration(static_cast<rt::Duration::rep>(runtime.random_below(3'000'000'000))));
            break;
          case 7:
            if (runtime.random_below(6) == 0) faulty.set_away(true);
            if (runtime.random_below(2) == 0) faulty.set_away(false);
            break;
          default:
            cluster.put(things(), thing_text(ns, name, i, "o" + std::to_string(runtime.random_below(3))));
        }
        runtime.yield();
      }
      faulty.set_away(false);
      faulty.set_plan({});
      cluster.send_bookmarks();
      runtime.sleep_for(150s);
      expect_equal(informer, cluster, mirror);
      expired += informer.core().reflector_counts().expired;
      stale += informer.core().counts().stale;
      failures += informer.core().reflector_counts().failures;
      informer.stop();
    });
  }
  EXPECT_GT(expired, 100u);
  EXPECT_GT(stale, 1000u);
  EXPECT_GT(failures, 1000u);
}

}  // namespace
}  // namespace basalt::kube
