#include "kube/expectations.h"

#include <gtest/gtest.h>

#include <functional>

#include "kube/event_recorder.h"
#include "kube/fault_client.h"
#include "kube/informer.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/thing.h"
#include "rt/sim_runtime.h"

namespace basalt::kube {
namespace {

using testing::FakeCluster;
using testing::Thing;
using testing::thing_text;
using testing::things;
using namespace std::chrono_literals;

void in_simulation(std::uint64_t seed, const std::function<void(rt::SimRuntime&)>& body) {
  auto runtime = rt::SimRuntime::make({.seed = seed});
  const auto report = runtime->run([&] { body(*runtime); });
  EXPECT_TRUE(report.completed) << report.problem;
}

struct World {
  explicit World(rt::SimRuntime& runtime_in, Expectations::Options options = {})
      : runtime(runtime_in),
        cluster(runtime_in),
        lagging(runtime_in, cluster),
        informer(runtime_in, lagging, Logger(), {.reflector = {.resource = things()}, .indexes = {}}),
        expectations(runtime_in, std::move(options),
                     [this](const ObjectKey& key) { ready.push_back(key.to_string()); }) {
    expectations.connect(informer.core());
    informer.start();
    EXPECT_TRUE(informer.wait_synced({}));
  }
  ~World() { informer.stop(); }
  Response write(std::string_view name, int value) {
    return *cluster.call(
        {.verb = Verb::Create, .resource = things(), .ns = "ns", .body = thing_text("ns", name, value)}, {});
  }

  rt::SimRuntime& runtime;
  FakeCluster cluster;
  FaultClient lagging;
  Informer<Thing> informer;
  std::vector<std::string> ready;
  Expectations expectations;
};

const ObjectKey kJob{"ns", "job"};

TEST(Expectations, WaitUntilTheCacheShowsOurWrites) {
  in_simulation(1, [](rt::SimRuntime& runtime) {
    World s(runtime);
    EXPECT_TRUE(s.expectations.is_current(kJob));
    const Response first = s.write("a", 1);
    const Response second = s.write("b", 2);
    s.expectations.note_write(kJob, things(), resource_version_of(second));
    s.expectations.note_write(kJob, things(), resource_version_of(first));
    s.expectations.note_write(kJob, {"", "v1", "unconnected"}, "999999");
    EXPECT_FALSE(s.expectations.is_current(kJob));
    EXPECT_EQ(s.expectations.time_left(kJob), 5min);
    runtime.settle();
    EXPECT_TRUE(s.expectations.is_current(kJob));
    EXPECT_EQ(s.ready, std::vector<std::string>{"ns/job"}) << "once, for the last of them";
    s.expectations.note_write(kJob, things(), resource_version_of(second));
    EXPECT_TRUE(s.expectations.is_current(kJob)) << "seen before it was noted";
    EXPECT_EQ(s.expectations.size(), 0u);
  });
}

TEST(Expectations, ABookmarkIsEnough) {
  in_simulation(2, [](rt::SimRuntime& runtime) {
    World s(runtime);
    const std::string version = s.cluster.put({"", "v1", "others"}, thing_text("ns", "x", 1));
    s.expectations.note_write(kJob, things(), version);
    runtime.settle();
    EXPECT_FALSE(s.expectations.is_current(kJob));
    s.cluster.send_bookmarks();
    runtime.settle();
    EXPECT_TRUE(s.expectations.is_current(kJob));
  });
}

TEST(Expectations, WaitForDeletionsByUid) {
  in_simulation(3, [](rt::SimRuntime& runtime) {
    World s(runtime);
    s.write("a", 1);
    runtime.settle();
    const std::string uid = s.informer.get({"ns", "a"})->metadata.uid;
    s.expectations.note_delete(kJob, things(), uid);
    EXPECT_FALSE(s.expectations.is_current(kJob));
    s.cluster.remove(things(), "ns", "a");
    s.write("a", 2);
    runtime.settle();
    EXPECT_TRUE(s.expectations.is_current(kJob)) << "the one of that name now is another";
    EXPECT_EQ(s.ready.size(), 1u);
    s.expectations.note_delete(kJob, things(), uid);
    EXPECT_TRUE(s.expectations.is_current(kJob)) << "the event came before the note";
  });
}

TEST(Expectations, ExpireAndAreBounded) {
  in_simulation(4, [](rt::SimRuntime& runtime) {
    Metrics metrics;
    World s(runtime, {.entries_max = 2, .name = "job", .metrics = &metrics});
    s.expectations.note_write(kJob, things(), "1000");
    runtime.sleep_for(4min);
    EXPECT_FALSE(s.expectations.is_current(kJob));
    runtime.sleep_for(61s);
    EXPECT_TRUE(s.expectations.is_current(kJob));
    EXPECT_EQ(s.expectations.expired(), 1u);
    EXPECT_NE(metrics.to_text().find("basalt_expectations_expired_total{controller=\"job\"} 1"), std::string::npos);
    for (int i = 0; i < 3; ++i) s.expectations.note_write({"ns", std::to_string(i)}, things(), "2000");
    EXPECT_EQ(s.expectations.size(), 2u);
    EXPECT_TRUE(s.expectations.is_current({"ns", "0"})) << "the oldest went";
    s.expectations.forget({"ns", "1"});
    EXPECT_TRUE(s.expectations.is_current({"ns", "1"}));
    EXPECT_FALSE(s.expectations.is_current({"ns", "2"}));
  });
}

// A controller that keeps a number of objects and acts only on a cache that shows its own writes never makes one too
// many, however late the cache is and whatever fails.
TEST(Expectations, KeepAControllerFromActingTwice) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    in_simulation(seed, [&](rt::SimRuntime& runtime) {
      World s(runtime);
      s.lagging.set_plan({.watch_broken = 0.2, .event_repeated = 0.2, .event_delay_max = 3s});
      int next = 0;
      int most = 0;
      for (int pass = 0; pass < 60; ++pass) {
        if (s.expectations.is_current(kJob)) {
          const auto cached = s.informer.list();
          EXPECT_EQ(cached.size(), s.cluster.objects(things()).size()) << "the cache shows all that we did";
          if (cached.size() < 5) {
            const Response made = s.write("t" + std::to_string(next++), pass);
            s.expectations.note_write(kJob, things(), resource_version_of(made));
          } else {
            const auto& victim = *cached[runtime.random_below(cached.size())];
            EXPECT_TRUE(
                s.cluster
                    .call({.verb = Verb::Delete, .resource = things(), .ns = "ns", .name = victim.metadata.name}, {})
                    .ok());
            s.expectations.note_delete(kJob, things(), victim.metadata.uid);
          }
        }
        most = std::max(most, static_cast<int>(s.cluster.objects(things()).size()));
        runtime.sleep_for(rt::Duration(static_cast<rt::Duration::rep>(runtime.random_below(1'000'000'000))));
      }
      EXPECT_EQ(most, 5);
    });
  }
}

TEST(FaultClient, CountsAndReplaysCallsAndCrashes) {
  in_simulation(5, [](rt::SimRuntime& runtime) {
    const auto script = [](Client& client) {
      std::vector<bool> ok;
      for (int i = 0; i < 3; ++i) {
        ok.push_back(client
                         .call({.verb = Verb::Create,
                                .resource = things(),
                                .ns = "ns",
                                .body = thing_text("ns", "t" + std::to_string(i), i)},
                               {})
                         .ok());
      }
      ok.push_back(client.list({.resource = things()}, {}).ok());
      return ok;
    };
    FakeCluster reference(runtime);
    FaultClient counted(runtime, reference);
    EXPECT_EQ(script(counted), (std::vector<bool>{true, true, true, true}));
    ASSERT_EQ(counted.calls(), 4u);
    EXPECT_EQ(counted.call_log().at(3), "List things.test.basalt/v1 ");
    EXPECT_EQ((counted.calls_by_point()[{"Create", "things.test.basalt/v1"}]), 3u);
    for (std::uint64_t n = 0; n <= counted.calls(); ++n) {
      for (const auto point : {FaultClient::CrashPoint::BeforeEffect, FaultClient::CrashPoint::AfterEffect}) {
        FakeCluster cluster(runtime);
        FaultClient crashing(runtime, cluster);
        auto stream = cluster.watch({.resource = things()}, {});
        crashing.crash_after(n, point);
        const auto ok = script(crashing);
        EXPECT_TRUE(crashing.crashed());
        for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(ok[i], i + 1 < n) << n;
        const std::size_t took = point == FaultClient::CrashPoint::AfterEffect || n == 0 ? n : n - 1;
        EXPECT_EQ(cluster.objects(things()).size(), std::min<std::size_t>(took, 3)) << n;
      }
    }
  });
}

TEST(FaultClient, LosesRepliesOfWritesThatTookEffect) {
  in_simulation(6, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    FaultClient faulty(runtime, cluster, {.lost_reply = 1});
    const Request request{.verb = Verb::Create, .resource = things(), .ns = "ns", .body = thing_text("ns", "a", 1)};
    const auto lost = faulty.call(request, {});
    ASSERT_FALSE(lost.ok());
    EXPECT_TRUE(lost.error().outcome_is_unknown());
    EXPECT_EQ(cluster.objects(things()).size(), 1u);
    faulty.set_plan({.stale_lists_max = 3});
    EXPECT_TRUE(faulty.list({.resource = things()}, {}).ok());
    cluster.put(things(), thing_text("ns", "b", 1));
    bool stale = false;
    for (int i = 0; i < 50; ++i) {
      stale = stale || faulty.list({.resource = things(), .resource_version = "0"}, {})->items.size() == 1;
      EXPECT_EQ(faulty.list({.resource = things()}, {})->items.size(), 2u) << "the most recent is never stale";
    }
    EXPECT_TRUE(stale);
    faulty.set_away(true);
    EXPECT_EQ(faulty.call(request, {}).error().reason, Reason::Unreachable);
  });
}

const Resource kEvents{"", "v1", "events"};

struct Recorder {
  Recorder(rt::SimRuntime& runtime, Client& client, EventRecorder::Options options = {})
      : recorder(runtime, client, Logger(), [&options] {
          options.component = "vc-controller-manager";
          return options;
        }()) {
    recorder.start();
  }
  ~Recorder() { recorder.stop(); }
  EventRecorder recorder;
};

ObjectReference job(std::string name) {
  return {.api_version = "batch.volcano.sh/v1alpha1", .kind = "Job", .ns = "ns", .name = std::move(name), .uid = "u"};
}

TEST(EventRecorder, CountsRepetitions) {
  in_simulation(7, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    Recorder r(runtime, cluster);
    for (int i = 0; i < 5; ++i) r.recorder.event(job("a"), EventType::Warning, "Broken", "no queue");
    r.recorder.event(job("a"), EventType::Normal, "Fine", std::string(5000, 'x'));
    runtime.sleep_for(1s);
    const auto all = cluster.objects(kEvents);
    ASSERT_EQ(all.size(), 2u);
    const json::Value event = *json::Value::parse(*all.begin()->second);
    EXPECT_EQ(event.string_at({"metadata", "name"}).substr(0, 2), "a.");
    EXPECT_EQ(event.find("count")->as_int(), 5);
    EXPECT_EQ(event.string_at({"involvedObject", "kind"}), "Job");
    EXPECT_EQ(event.string_at({"source", "component"}), "vc-controller-manager");
    EXPECT_EQ(event.string_at({"reportingComponent"}), "vc-controller-manager");
    EXPECT_EQ(event.string_at({"type"}), "Warning");
    EXPECT_EQ(event.string_at({"firstTimestamp"}), "2026-01-01T00:00:00Z");
    EXPECT_EQ(json::Value::parse(*all.rbegin()->second)->string_at({"message"}).size(), 1024u);
    EXPECT_EQ(r.recorder.counts().created, 2u);
    EXPECT_EQ(r.recorder.counts().patched, 4u);
  });
}

TEST(EventRecorder, CombinesSimilarOnesAndStopsSpam) {
  in_simulation(8, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    Recorder r(runtime, cluster);
    for (int i = 0; i < 20; ++i) {
      r.recorder.event(job("a"), EventType::Warning, "Broken", "pod " + std::to_string(i));
    }
    runtime.sleep_for(1s);
    EXPECT_EQ(cluster.objects(kEvents).size(), 10u) << "nine, and one for the rest";
    EXPECT_NE(cluster.objects(kEvents).rbegin()->second->find("(combined from similar events): pod 19"),
              std::string::npos);
    for (int i = 0; i < 100; ++i) r.recorder.event(job("a"), EventType::Normal, "Again", "x");
    runtime.sleep_for(1s);
    EXPECT_EQ(r.recorder.counts().dropped_spam, 95u) << "25 at once, then one in five minutes";
    r.recorder.event(job("b"), EventType::Normal, "Fine", "another object has its own budget");
    runtime.sleep_for(1s);
    EXPECT_EQ(r.recorder.counts().dropped_spam, 95u);
  });
}

TEST(EventRecorder, NeverBlocksNeverTriesForEver) {
  in_simulation(9, [](rt::SimRuntime& runtime) {
    FakeCluster cluster(runtime);
    FaultClient faulty(runtime, cluster);
    faulty.set_away(true);
    Recorder r(runtime, faulty, {.queue_max = 10});
    for (int i = 0; i < 50; ++i) {
      r.recorder.event(job("j" + std::to_string(i)), EventType::Normal, "A", "b");
    }
    EXPECT_EQ(r.recorder.counts().dropped_full, 40u) << "the oldest";
    runtime.sleep_for(10min);
    EXPECT_EQ(r.recorder.counts().dropped_failed, 10u);
    EXPECT_EQ(faulty.calls(), 40u) << "four attempts each";
    faulty.set_away(false);
    r.recorder.event(job("z"), EventType::Normal, "A", "b");
    runtime.sleep_for(1s);
    EXPECT_EQ(cluster.objects(kEvents).size(), 1u);
    // An event that was deleted (they live for an hour) is made anew.
    const std::string key = cluster.objects(kEvents).begin()->first;
    cluster.remove(kEvents, "ns", key.substr(3));
    r.recorder.event(job("z"), EventType::Normal, "A", "b");
    runtime.sleep_for(1s);
    EXPECT_EQ(cluster.objects(kEvents).size(), 1u);
    EXPECT_NE(cluster.objects(kEvents).begin()->first, key);
  });
}

}  // namespace
}  // namespace basalt::kube
