#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "controllers/sharding/testing/jumping_runtime.h"
#include "controllers/sharding/testing/sharding_fixture.h"

// What the controller hears of the cluster: watches that end, fall silent or come in bursts, and clocks that jump. The
// numbers in the names are the rows of the scenario table.

namespace basalt::controllers::sharding::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// A thousand nodes, a crash, nothing changed: nothing is written, and nothing is calculated before the caches are full.
TEST(ShardingWatch, Row61_ARestartOnAThousandNodesWritesNothing) {
  with_sharding(1, [](ShardingFixture& f) {
    f.configure(kUsualDocument);
    f.nodes("n", 1000);
    f.at_once([&] {
      for (int i = 0; i < 300; ++i) f.pod("p" + std::to_string(i), "n" + std::to_string(i), "7");
    });
    f.start();
    f.becomes_of_size("agent-scheduler", 300);
    f.becomes_of_size("volcano", 700);
    f.status_is_written("agent-scheduler");
    f.status_is_written("volcano");
    f.process->faults().crash_after(0);
    f.restart();
    EXPECT_LE(f.metric("volcano_sharding_ready"), 0);
    f.rest(minutes(3));
    f.is_ready();
    f.settle();
    EXPECT_EQ(f.writes(), 0u);
  });
}

// The watches break and cannot be continued: what was deleted meanwhile is found by the new list.
TEST(ShardingWatch, Row68_AfterAnExpiredWatchDeletionsAreSeen) {
  with_sharding(5, [](ShardingFixture& f) {
    f.configure(kUsualDocument);
    f.nodes("n", 6);
    f.pod("p0", "n0", "7");
    f.start();
    f.becomes({{"agent-scheduler", {"n0"}}, {"volcano", {"n1", "n2", "n3", "n4", "n5"}}});
    f.process->faults().strike_event(f.process->faults().events() + 1, kube::FaultClient::EventFault::Expired);
    f.drop_node("n1");
    f.drop_node("n2");
    f.drop_pod("p0");
    f.becomes_within(seconds(20), {{"agent-scheduler", {}}, {"volcano", {"n0", "n3", "n4", "n5"}}});
    EXPECT_TRUE(f.process->faults().struck());
  });
}

// The connection stays open and nothing comes through it any more.
TEST(ShardingWatch, Row69_ASilentWatchIsSeenAndReplaced) {
  ShardingOptions options;
  options.verify_period = {};  // so that nothing else finds it
  with_sharding(
      3,
      [](ShardingFixture& f) {
        f.configure(kUsualDocument);
        f.nodes("n", 3);
        f.start();
        f.settle();
        const char* const lag = "volcano_sharding_watch_lag_seconds{resource=\"pods\"}";
        double most = 0;
        for (int i = 0; i < 180; ++i) {  // a healthy and quiet watch has its bookmarks
          f.rest(seconds(1));
          most = std::max(most, f.metric(lag));
        }
        EXPECT_GT(most, 30);
        EXPECT_LT(most, 75);
        bool is_silent = true;
        f.tamper.lose_event = [&](const kube::Resource& resource, const kube::WatchEvent&) {
          return is_silent && resource.plural == "pods";
        };
        f.tamper.refuse_read = [&](const kube::Resource& resource) -> std::optional<Error> {
          if (resource.plural == "pods") is_silent = false;  // a new connection works
          return std::nullopt;
        };
        f.pod("unheard", "n0", "7");
        f.rest(seconds(60));
        EXPECT_TRUE(is_silent);
        EXPECT_EQ(f.desired("agent-scheduler"), Names());
        EXPECT_GT(f.metric(lag), 55);
        f.rest(seconds(60));
        EXPECT_FALSE(is_silent);
        EXPECT_EQ(f.desired("agent-scheduler"), (Names{"n0"}));
        EXPECT_LT(f.metric(lag), 75);
      },
      options);
}

// The wall clock is set an hour forward, then two hours back: syncs come when their time has passed, not when the clock
// says so. With a forecast in the chain, which is the one part that reads the wall clock.
TEST(ShardingWatch, Row74_AClockThatJumpsMakesNoSyncEarlyOrLate) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    JumpingRuntime jumping(runtime);
    ShardingFixture f(runtime);
    f.configure(R"(schedulerConfigs:
- name: s
  policies:
  - {name: allocation-rate, arguments: {maxCPUUtil: 0.1}}
  - {name: forecast, arguments: {maxCPUUtil: 1, mode: shadow}}
)");
    f.nodes("n", 3);
    f.start(jumping);
    f.settle();
    EXPECT_EQ(f.desired("s").size(), 3u);
    int number = 0;
    for (const rt::Duration jump : {rt::Duration(hours(1)), rt::Duration(-hours(2)), rt::Duration(hours(1))}) {
      // A change that is left to the period. The jump comes in the middle of it.
      const std::string name = "p" + std::to_string(number);
      f.pod(name, "n" + std::to_string(number++), "1");
      f.rest(seconds(5));
      const Names before = f.desired("s");
      const std::uint64_t writes = f.writes();
      jumping.jump(jump);
      f.rest(seconds(5));
      EXPECT_EQ(f.desired("s"), before);
      EXPECT_EQ(f.writes(), writes);
      f.rest(seconds(62));
      EXPECT_EQ(f.desired("s").size(), before.size() - 1);
      f.settle();
      // Into the next period's first third, so that no sync comes within ten seconds of the change.
      const std::string version = f.version("s");
      f.node("mark" + std::to_string(number));
      f.rest(seconds(1));
      EXPECT_NE(f.version("s"), version);  // events are not held up either
      f.drop_node("mark" + std::to_string(number));
      f.settle();
      f.configure(std::string(R"(schedulerConfigs:
- name: s
  policies:
  - {name: allocation-rate, arguments: {maxCPUUtil: 0.1}}
  - {name: forecast, arguments: {maxCPUUtil: 1, mode: shadow}}
# )") + name + "\n");  // applied at once; the period begins anew
      f.settle();
    }
  });
}

// A hundred pods come and go on ten nodes, one after another: a second after the last of them everything is as it was,
// and nothing waits any more.
TEST(ShardingWatch, Row86_HundredPairsAreHandledWithinASecond) {
  with_sharding(3, [](ShardingFixture& f) {
    f.configure(std::string(kUsualDocument) + "writeStatus: false\n");
    f.nodes("n", 10);
    f.start();
    f.becomes_of_size("volcano", 10);
    f.rest(seconds(5));
    const std::uint64_t before = f.writes();
    const rt::Instant begin = f.now();
    const double seen = f.metric("volcano_sharding_events_total{kind=\"pod\"}");
    for (int i = 0; i < 100; ++i) {
      f.pod("p" + std::to_string(i), "n" + std::to_string(i % 10), "7");
      f.rest(milliseconds(10));
      f.drop_pod("p" + std::to_string(i));
    }
    f.pod("last", "n3", "7");
    const rt::Instant end = f.now();
    f.becomes_within(milliseconds(1000), {{"agent-scheduler", {"n3"}},
                                          {"volcano", {"n0", "n1", "n2", "n4", "n5", "n6", "n7", "n8", "n9"}}});
    if (!f.is_simulated())
      std::printf("100 pods that come and go: all handled %.0f ms after the last (design document: 1 s)\n",
                  std::chrono::duration<double, std::milli>(f.now() - end).count());
    f.rest(milliseconds(1000));  // counts are shown once a second
    f.soon([&] { return f.metric("volcano_sharding_events_total{kind=\"pod\"}") - seen >= 201; });
    const auto lasted = static_cast<std::uint64_t>(std::chrono::duration_cast<seconds>(f.now() - begin).count());
    EXPECT_LE(f.writes() - before, (1 + lasted) * 2 * 2);  // seconds, objects, giving up and taking
  });
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
