#include "controllers/queue/queue_controller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>

#include "controllers/queue/testing/queue_fixture.h"
#include "rt/sim_test_support.h"

// The scenarios of the fact sheet (section 7, Queue), by number, and those of users' reports.

namespace basalt::controllers::queue {
namespace {

using testing::ControllerProcess;
using testing::QueueFixture;
namespace resources = sim::resources;
constexpr std::uint64_t kSeeds = 5;

void with_fixture(const std::function<void(QueueFixture&)>& body, const QueueControllerOptions& options = {}) {
  sim::play(1, kSeeds, [&](rt::Runtime& runtime) {
    QueueFixture fixture(runtime, options);
    body(fixture);
  });
}

TEST(QueueScenario, RootAndDefaultAreCreatedIfMissing) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.becomes("root", "Open");
    f.becomes("default", "Open");
    EXPECT_EQ(f.field("default", {"spec", "parent"}), "root");
    EXPECT_EQ(f.cluster.get(resources::kQueues, "", "root")->find_path({"spec", "reclaimable"})->as_bool(), false);
    EXPECT_EQ(f.cluster.get(resources::kQueues, "", "default")->find_path({"spec", "reclaimable"})->as_bool(), true);
    // One create and one state each, and a first try by server-side apply, if the server has none, by each worker.
    f.rest();
    EXPECT_LE(f.process->writes("queues"), 6u);
    // Deleted behind the webhook's back, it comes again, with its groups.
    f.pod_group("g", "default", "Running");
    f.cluster.remove(resources::kQueues, "", "default");
    f.becomes("default", "Open");
    f.rest();
    EXPECT_EQ(f.gauge("running", "default"), 1);
    f.check();
  });
}

TEST(QueueScenario, Q1ParentAndStateAreFilledIn) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.becomes("default", "Open");
    f.queue("q");
    f.becomes("q", "Open");
    EXPECT_EQ(f.field("q", {"spec", "parent"}), "root");
    f.rest();
    EXPECT_EQ(f.mark("q"), "");
    f.check();
  });
}

TEST(QueueScenario, Q2ClosesAnEmptyQueue) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    f.command("q", "CloseQueue");
    f.becomes("q", "Closed");
    EXPECT_TRUE(f.no_commands());
    EXPECT_TRUE(f.has_event("q", "Normal CloseQueue Close queue succeed"));
    f.rest();
    EXPECT_EQ(f.events("q").size(), 1u);
    f.check();
  });
}

TEST(QueueScenario, Q3Q4ClosingUntilTheLastGroupIsGone) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    f.pod_group("g", "q", "Completed");
    f.rest();
    f.command("q", "CloseQueue");
    f.becomes("q", "Closing");
    f.rest();
    EXPECT_EQ(f.state("q"), "Closing");
    f.cluster.remove(resources::kPodGroups, "default", "g");
    f.becomes("q", "Closed");
    EXPECT_EQ(f.events("q").size(), 1u);
    f.check();
  });
}

TEST(QueueScenario, Q5OpensAClosingQueue) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    f.pod_group("g", "q");
    f.rest();
    f.command("q", "CloseQueue");
    f.becomes("q", "Closing");
    f.command("q", "OpenQueue");
    f.becomes("q", "Open");
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.mark("q") == "false"; }));
    EXPECT_TRUE(f.no_commands());
    f.check();
  });
}

TEST(QueueScenario, Q7RootCannotBeClosed) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    f.command("root", "CloseQueue");
    EXPECT_TRUE(f.no_commands());
    EXPECT_TRUE(f.has_event("root", "Warning CloseQueue"));
    f.rest();
    EXPECT_EQ(f.state("root"), "Open");
    EXPECT_EQ(f.state("q"), "Open");
    f.check();
  });
}

void make_chain(QueueFixture& f) {
  f.queue("a");
  f.queue("b", "a");
  f.queue("c", "b");
  f.start();
  for (const char* name : {"a", "b", "c"}) f.becomes(name, "Open");
}

TEST(QueueScenario, Q8Q10ClosingAndOpeningGoDownTheTree) {
  with_fixture([](QueueFixture& f) {
    make_chain(f);
    f.command("a", "CloseQueue");
    for (const char* name : {"a", "b", "c"}) f.becomes(name, "Closed");
    f.rest();
    EXPECT_EQ(f.mark("a"), "");
    EXPECT_EQ(f.mark("b"), "true");
    EXPECT_EQ(f.mark("c"), "true");
    EXPECT_TRUE(f.has_event("c", "Close queue succeed"));
    f.check();

    f.command("a", "OpenQueue");
    for (const char* name : {"a", "b", "c"}) f.becomes(name, "Open");
    f.rest();
    for (const char* name : {"a", "b", "c"}) EXPECT_EQ(f.mark(name), "false");
    f.check();
  });
}

TEST(QueueScenario, Q9AChildCannotOpenUnderAClosedParent) {
  with_fixture([](QueueFixture& f) {
    make_chain(f);
    f.command("a", "CloseQueue");
    f.becomes("c", "Closed");
    f.command("b", "OpenQueue");
    f.rest(std::chrono::seconds(160));
    EXPECT_EQ(f.state("b"), "Closed");
    EXPECT_EQ(f.cluster.list(resources::kCommands).size(), 1u);  // it waits: the parent may be opening
    EXPECT_TRUE(f.has_event("b", "Warning OpenQueue OpenQueue queue failed for", std::chrono::seconds(20)));
    EXPECT_TRUE(f.no_commands());
    EXPECT_EQ(f.state("b"), "Closed");
    f.check();
  });
}

TEST(QueueScenario, Q9AChildOpensIfItsParentDoesMeanwhile) {
  with_fixture([](QueueFixture& f) {
    make_chain(f);
    f.command("c", "CloseQueue");  // by the user, so it does not open with its parent
    f.becomes("c", "Closed");
    f.command("b", "CloseQueue");
    f.becomes("b", "Closed");
    f.command("c", "OpenQueue");
    f.rest(std::chrono::seconds(60));
    EXPECT_EQ(f.state("c"), "Closed");
    f.command("b", "OpenQueue");
    f.becomes("c", "Open");
    EXPECT_TRUE(f.no_commands());
    f.check();
  });
}

TEST(QueueScenario, Q11AChildClosedByItsOwnCommandStaysClosed) {
  with_fixture([](QueueFixture& f) {
    make_chain(f);
    f.command("b", "CloseQueue");
    f.becomes("c", "Closed");
    f.command("a", "CloseQueue");
    f.becomes("a", "Closed");
    f.command("a", "OpenQueue");
    f.becomes("a", "Open");
    f.rest();
    EXPECT_EQ(f.state("b"), "Closed");
    EXPECT_EQ(f.state("c"), "Closed");
    f.check();
  });
}

TEST(QueueScenario, Q13AnotherParentOpensIt) {
  with_fixture([](QueueFixture& f) {
    make_chain(f);
    f.queue("open");
    f.command("a", "CloseQueue");
    f.becomes("c", "Closed");
    f.cluster.patch(resources::kQueues, "", "b", R"({"spec":{"parent":"open"}})");
    f.becomes("b", "Open");
    f.becomes("c", "Open");
    f.rest();
    f.check();
  });
}

TEST(QueueScenario, AChildOfAClosedParentIsClosed) {
  with_fixture([](QueueFixture& f) {
    make_chain(f);
    f.command("a", "CloseQueue");
    f.becomes("c", "Closed");
    f.queue("late", "a");
    f.becomes("late", "Closed");
    f.rest();
    EXPECT_EQ(f.mark("late"), "true");
    f.check();
  });
}

TEST(QueueScenario, Q14Q15OtherCommandsAreLeftOrRefused) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    const std::string for_job = f.command("q", "AbortJob", "u", "Job");
    f.command("q", "Foo");
    f.command("q", "CloseQueue", "00000000-0000-0000-0000-000000000000");
    f.command("gone", "CloseQueue");
    EXPECT_TRUE(f.cluster.wait_until([&] { return f.cluster.list(resources::kCommands).size() == 1; }));
    EXPECT_TRUE(f.cluster.get(resources::kCommands, "default", for_job).has_value());
    f.rest();
    EXPECT_EQ(f.state("q"), "Open");
    EXPECT_TRUE(f.has_event("q", "action \"Foo\" is not known"));
    EXPECT_TRUE(f.has_event("q", "an earlier queue of this name"));
    EXPECT_TRUE(f.has_event("gone", "queue gone does not exist"));
    f.cluster.remove(resources::kCommands, "default", for_job);
    f.rest();
    f.check();
  });
}

TEST(QueueScenario, Q16ACommandGivenWhileNobodyRanIsCarriedOut) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    f.stop();
    f.command("q", "CloseQueue");
    f.rest(std::chrono::hours(1));
    EXPECT_EQ(f.state("q"), "Open");
    f.start();
    f.becomes("q", "Closed");
    f.rest();
    f.check();
  });
}

TEST(QueueScenario, Q17TwoManagersCarryACommandOutOnce) {
  sim::play(1, 40, [](rt::Runtime& runtime) {
    QueueFixture f(runtime);
    f.start();
    ControllerProcess other(runtime, f.cluster.client(), f.log,
                            {[](ControllerContext& context) { return make_queue_controller(context); }});
    // One of them is slow: what it decides is old by the time it writes.
    other.faults().set_plan(
        {.delay_max = std::chrono::milliseconds(200), .event_delay_max = std::chrono::milliseconds(200)});
    other.start();
    f.queue("q");
    f.becomes("q", "Open");
    for (int i = 0; i < 10; ++i) {
      const std::string wanted = i % 2 == 0 ? "Closed" : "Open";
      f.command("q", i % 2 == 0 ? "CloseQueue" : "OpenQueue");
      EXPECT_TRUE(f.no_commands());
      EXPECT_EQ(f.state("q"), wanted);
      runtime.sleep_for(std::chrono::milliseconds(20));
    }
    f.rest(std::chrono::seconds(5));
    EXPECT_EQ(f.state("q"), "Open");
    other.stop();
    f.check();
  });
}

TEST(QueueScenario, Q18CommandsOfOneQueueKeepTheirOrder) {
  with_fixture([](QueueFixture& f) {
    f.queue("q");
    for (int i = 0; i < 5; ++i) {
      f.command("q", "CloseQueue");
      f.command("q", "OpenQueue");
    }
    f.command("q", "CloseQueue");
    f.start();
    EXPECT_TRUE(f.no_commands());
    f.rest();
    EXPECT_EQ(f.state("q"), "Closed");
    f.check();
  });
}

TEST(QueueScenario, Q19ADeletedQueueHasNoSeries) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("short-lived");
    f.becomes("short-lived", "Open");
    const auto has_series = [&] { return f.process->metrics().to_text().find("short-lived") != std::string::npos; };
    EXPECT_TRUE(f.cluster.wait_until(has_series));
    f.cluster.remove(resources::kQueues, "", "short-lived");
    EXPECT_TRUE(f.cluster.wait_until([&] { return !has_series(); }));
  });
}

TEST(QueueScenario, Q20_Users3852_SchedulerAndControllerWriteTheSameStatus) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    std::atomic<bool> stop = false;
    std::atomic<int> written = 0;
    // On a real server a write takes longer than a millisecond, and others have to find a gap between two.
    const std::chrono::milliseconds pause(sim::chosen_place() == nullptr ? 1 : 20);
    rt::Thread scheduler(f.cluster.runtime(), "scheduler", [&] {
      while (!stop) {
        auto queue = *f.cluster.get(resources::kQueues, "", "q");
        queue.ensure_path({"status", "allocated", "cpu"}) = std::to_string(written + 1);
        const auto done = f.cluster.client().call({.verb = kube::Verb::Update,
                                                   .resource = resources::kQueues,
                                                   .name = "q",
                                                   .subresource = "status",
                                                   .body = queue.to_text(),
                                                   .field_manager = "vc-scheduler"},
                                                  {});
        if (done.ok()) ++written;
        f.cluster.runtime().sleep_for(pause);
      }
    });
    for (int i = 0; i < 100 || (written <= 10 && i < 10'000); ++i) {
      f.command("q", i % 2 == 0 ? "CloseQueue" : "OpenQueue");
      EXPECT_TRUE(f.no_commands());
      EXPECT_EQ(f.state("q"), i % 2 == 0 ? "Closed" : "Open");
    }
    stop = true;
    scheduler.join();
    EXPECT_GT(written, 10);
    EXPECT_EQ(f.field("q", {"status", "allocated", "cpu"}), std::to_string(written));
    f.rest();
    f.check();
  });
}

TEST(QueueScenario, Q21_Users4139_AStateSetByAnotherIsLeftAndACommandTakesItOver) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    f.cluster.patch(resources::kQueues, "", "q", R"({"status":{"state":"Closed"}})", "status");
    f.rest(std::chrono::minutes(5));
    EXPECT_EQ(f.state("q"), "Closed");
    f.command("q", "OpenQueue");
    f.becomes("q", "Open");
    f.cluster.patch(resources::kQueues, "", "q", R"({"status":{"state":"Unknown"}})", "status");
    f.rest();
    EXPECT_EQ(f.state("q"), "Unknown");
    f.command("q", "CloseQueue");
    f.becomes("q", "Closed");
    f.rest();
    f.check();
  });
}

TEST(QueueScenario, Q22WithoutRootAQueueOpensAllTheSame) {
  with_fixture(
      [](QueueFixture& f) {
        f.start();
        f.queue("q");
        f.becomes("q", "Open");
        f.rest(std::chrono::minutes(1));
        EXPECT_EQ(f.state("root"), "(none)");
        const auto writes = f.process->writes("queues");
        EXPECT_LE(writes, 3u);
        f.queue("root");
        f.becomes("root", "Open");
        f.command("q", "CloseQueue");
        f.becomes("q", "Closed");
        f.rest();
        f.check();
      },
      {.create_missing_queues = false});
}

TEST(QueueScenario, M14WithoutTheGateCommandsStay) {
  with_fixture(
      [](QueueFixture& f) {
        f.start();
        f.queue("q");
        f.becomes("q", "Open");
        f.command("q", "CloseQueue");
        f.rest(std::chrono::minutes(5));
        EXPECT_EQ(f.state("q"), "Open");
        EXPECT_EQ(f.cluster.list(resources::kCommands).size(), 1u);
      },
      {.sync_commands = false});
}

TEST(QueueScenario, D4AGroupThatMovesIsCountedInItsNewQueue) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("p");
    f.queue("q");
    f.becomes("q", "Open");
    f.pod_group("g", "q");
    f.rest();
    f.command("q", "CloseQueue");
    f.becomes("q", "Closing");
    f.cluster.patch(resources::kPodGroups, "default", "g", R"({"spec":{"queue":"p"}})");
    f.becomes("q", "Closed");
    f.rest();
    f.check();
  });
}

TEST(QueueScenario, D15AQueueMadeAgainKnowsItsGroups) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    f.pod_group("g", "q", "Running");
    f.cluster.remove(resources::kQueues, "", "q");
    f.rest();
    f.queue("q");
    f.becomes("q", "Open");
    f.rest();
    EXPECT_EQ(f.gauge("running", "q"), 1);
    f.command("q", "CloseQueue");
    f.becomes("q", "Closing");
    f.rest();
    f.check();
  });
}

// users.md, theme D: volcano#3597, #3852, #4139 (a write per event, conflicts), #4270 (counts are stale).
TEST(QueueScenario, Users3597_Users4270_CountersCostNoWriteAndAreRight) {
  with_fixture([](QueueFixture& f) {
    f.start();
    f.queue("q");
    f.becomes("q", "Open");
    f.rest();
    const auto writes = f.process->writes("queues");
    for (int i = 0; i < 50; ++i) f.pod_group("g" + std::to_string(i), "q");
    for (int i = 0; i < 50; ++i) {
      const std::string name = "g" + std::to_string(i);
      f.cluster.set_pod_group_phase("default", name, "Inqueue");
      if (i % 2 == 0) f.cluster.set_pod_group_phase("default", name, "Running");
      if (i % 10 == 0) f.cluster.set_pod_group_phase("default", name, "Completed");
    }
    f.rest();
    EXPECT_EQ(f.gauge("inqueue", "q"), 25);
    EXPECT_EQ(f.gauge("running", "q"), 20);
    EXPECT_EQ(f.gauge("completed", "q"), 5);
    f.check();
    EXPECT_EQ(f.process->writes("queues"), writes);
  });
}

TEST(QueueScenario, Users3745_ARestartWritesNothing) {
  with_fixture([](QueueFixture& f) {
    make_chain(f);
    f.command("b", "CloseQueue");
    f.becomes("c", "Closed");
    for (int i = 0; i < 20; ++i) f.pod_group("g" + std::to_string(i), "a");
    f.rest();
    f.stop();
    f.start();
    f.rest(std::chrono::minutes(10));
    EXPECT_EQ(f.process->writes("queues"), 0u);
    EXPECT_EQ(f.process->writes("events"), 0u);
    f.check();
  });
}

}  // namespace
}  // namespace basalt::controllers::queue
