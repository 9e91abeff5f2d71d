#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "controllers/queue/testing/fault_enumeration.h"
#include "controllers/queue/testing/queue_fixture.h"
#include "rt/test_size.h"

// Whatever goes wrong, the end is the same: states, marks and counts are right, every command took effect once.

namespace basalt::controllers::queue {
namespace {

using controllers::testing::FaultStory;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::QueueFixture;
namespace resources = sim::resources;

// Longer than any one fault holds a command up; with faults all the time it takes more tries.
constexpr rt::Duration kPatience = seconds(20);
constexpr rt::Duration kMuchPatience = minutes(10);

// A tree is closed from above and opened again, a child by its own command, one queue moves to another parent, the
// default queue vanishes, and commands to one queue come in a row.
void play(QueueFixture& f, rt::Duration patience) {
  f.queue("a");
  f.queue("b", "a");
  f.queue("c", "b");
  f.queue("other");
  f.pod_group("g1", "b", "Running");
  for (const char* name : {"a", "b", "c", "other"}) f.becomes(name, "Open", patience);
  f.command("a", "CloseQueue");
  f.becomes("c", "Closed", patience);
  // Closing, or Closed at once if the cache does not know the group yet; new ones are refused in both.
  f.cluster.wait_until([&] { return f.state("b") == "Closing" || f.state("b") == "Closed"; }, patience);
  f.cluster.remove(resources::kPodGroups, "default", "g1");
  f.becomes("b", "Closed", patience);
  f.command("a", "OpenQueue");
  f.becomes("c", "Open", patience);
  f.command("c", "CloseQueue");
  f.becomes("c", "Closed", patience);
  f.no_commands(patience);
  f.command("b", "CloseQueue");
  f.becomes("b", "Closed", patience);
  f.no_commands(patience);
  f.cluster.patch(resources::kQueues, "", "b", R"({"spec":{"parent":"other"}})");
  f.command("b", "OpenQueue");
  f.cluster.remove(resources::kQueues, "", "default");
  f.pod_group("g2", "default", "Inqueue");
  f.pod_group("g3", "a", "Pending");
  f.cluster.patch(resources::kPodGroups, "default", "g3", R"({"spec":{"queue":"b"},"status":{"phase":"Running"}})");
  f.queue("row");
  for (const char* action : {"CloseQueue", "OpenQueue", "CloseQueue"}) f.command("row", action);
  f.command("gone", "CloseQueue");
  f.becomes("b", "Open", patience);
}

void check_end(QueueFixture& f) {
  f.check();
  EXPECT_EQ(f.state("a"), "Open");
  EXPECT_EQ(f.state("b"), "Open");
  EXPECT_EQ(f.state("c"), "Closed");  // by its own command, so it does not open with its parent
  EXPECT_EQ(f.state("row"), "Closed") << f.logged(LogLevel::Info);
  EXPECT_EQ(f.state("default"), "Open");
  EXPECT_EQ(f.gauge("running", "b"), 1);
  EXPECT_EQ(f.gauge("pending", "a"), 0);
}

FaultStory<QueueFixture> story(rt::Duration patience = kPatience) {
  return {"queue", [](rt::SimRuntime& runtime) { return std::make_unique<QueueFixture>(runtime); },
          [patience](QueueFixture& f) { play(f, patience); }, &check_end};
}

TEST(QueueFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(QueueFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(QueueFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(QueueFaults, FailingCallsAndLateEvents) {
  controllers::testing::play_under_random_faults(story(kMuchPatience), 40);
}

TEST(QueueFaults, TheApiIsAwayForAnHour) {
  rt::run_seeds(1, 20, [](rt::SimRuntime& runtime) {
    QueueFixture f(runtime);
    f.start();
    f.queue("a");
    f.queue("b", "a");
    f.becomes("a", "Open");
    f.becomes("b", "Open");
    f.process->faults().set_away(true);
    f.command("a", "CloseQueue");
    f.queue("c", "b");
    f.pod_group("g", "a", "Running");
    f.cluster.remove(resources::kQueues, "", "default");
    f.rest(std::chrono::minutes(rt::test_size(60)));
    EXPECT_EQ(f.state("a"), "Open");
    EXPECT_EQ(f.state("c"), "");
    f.process->faults().set_away(false);
    f.rest(seconds(10));
    EXPECT_TRUE(f.state("a") == "Closing" || f.state("a") == "Closed");  // by which cache is filled first
    EXPECT_EQ(f.state("b"), "Closed");
    EXPECT_EQ(f.state("c"), "Closed");
    EXPECT_EQ(f.state("default"), "Open");
    f.check();
    if (::testing::Test::HasFailure()) ADD_FAILURE() << f.logged(LogLevel::Info);
  });
}

}  // namespace
}  // namespace basalt::controllers::queue
