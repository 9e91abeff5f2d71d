#include <atomic>

#include "controllers/gc/gc_controller.h"
#include "controllers/hyperjob/test_support.h"
#include "controllers/queue/testing/controller_process.h"
#include "rt/sim_test_support.h"

// What a hyper job says about its children, and how it ends.
namespace basalt::controllers::hyperjob {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;
using Names = std::vector<std::string>;

json::Value group_of(Bench& bench, std::size_t index) {
  return bench.hyper_job()->find_path({"status", "replicatedJobsStatus"})->as_array()[index];
}

TEST(HyperJobStatus, Rows31And38_CountersAreSummedAndStatesCopied) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:2", "b:1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1", "h-b-0"}));
    ASSERT_TRUE(bench.set_phase("h-a-0", "Running", R"(,"running":3,"pending":1,"unknown":2)"));
    ASSERT_TRUE(bench.set_phase("h-a-1", "Completed", R"(,"succeeded":4,"terminating":1)"));
    // As an interpreter tells it that knows only tasks.
    ASSERT_TRUE(bench.set_phase("h-b-0", "Running",
                                R"(,"running":0,"taskStatusCount":{"w":{"phase":{"Running":1,"Failed":2}},)"
                                R"("v":{"phase":{"Pending":5}}})"));
    ASSERT_TRUE(bench.cluster.wait_until([&] { return bench.phase_of("b", "h-b-0") == "Running"; }));
    ASSERT_TRUE(bench.cluster.wait_until([&] { return bench.phase_of("a", "h-a-1") == "Completed"; }));
    bench.settle();
    const auto counters_of = [&](std::size_t index) {
      json::Value group = group_of(bench, index);
      group.as_object().erase("jobStates");
      return group.to_text();
    };
    EXPECT_TRUE(bench.wait([&] {
      return counters_of(0) == R"({"name":"a","pending":1,"running":3,"succeeded":4,"terminating":1,"unknown":2})";
    })) << counters_of(0);
    EXPECT_TRUE(bench.wait([&] { return counters_of(1) == R"({"failed":2,"name":"b","pending":5,"running":1})"; }))
        << counters_of(1);
    EXPECT_EQ(bench.hyper_job()->find_path({"status", "conditions"}), nullptr);
  });
}

TEST(HyperJobStatus, Row36_AChildWithoutAStatusHasAnEmptyState) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    ASSERT_TRUE(bench.wait_observed());
    bench.settle();
    EXPECT_TRUE(bench.wait([&] { return group_of(bench, 0).to_text() == R"({"jobStates":{"h-a-0":{}},"name":"a"})"; }))
        << group_of(bench, 0).to_text();
  });
}

TEST(HyperJobStatus, Row32_AllCompletedIsCompleted) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    ASSERT_TRUE(bench.set_phase("h-a-0", "Completed"));
    bench.settle();
    EXPECT_FALSE(bench.condition("Completed"));
    ASSERT_TRUE(bench.set_phase("h-a-1", "Completed"));
    ASSERT_TRUE(bench.wait_condition("Completed", "AllChildVCJobsCompleted"));
    EXPECT_EQ(bench.condition("Completed")->string_at({"message"}), "All 2 child vcJobs completed");
    EXPECT_EQ(bench.hyper_job()->find_path({"status", "conditions"})->as_array().size(), 1u);
    EXPECT_TRUE(bench.cluster.wait_until([&] { return bench.count_events("HyperJobCompleted") == 1; }));
    for (const json::Value& event : bench.cluster.list(resources::kEvents, "default"))
      EXPECT_EQ(event.string_at({"source", "component"}), "hyperjob");
  });
}

TEST(HyperJobStatus, Rows33And35_EveryWayToEndUnsuccessfully) {
  int combinations = 0;
  // A real server and a slow build are given the first, the last and what is most often met.
  const bool is_quick = sim::chosen_place() == nullptr && rt::stride_of() == 1;
  const Names phases = is_quick ? Names{"Completed", "Failed", "Aborted", "Terminated", "Running"}
                                : Names{"Completed", "Failed", "Running"};
  for (const std::string& first : phases) {
    for (const std::string& second : phases) {
      ++combinations;
      scenario(
          [&](Bench& bench) {
            bench.cluster.apply(Bench::yaml("h", {"a:2"}));
            ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
            ASSERT_TRUE(bench.set_phase("h-a-0", first) && bench.set_phase("h-a-1", second));
            ASSERT_TRUE(bench.cluster.wait_until([&] { return bench.phase_of("a", "h-a-1") == second; }));
            bench.settle();
            const auto count = [&](std::string_view phase) {
              return std::to_string((first == phase ? 1 : 0) + (second == phase ? 1 : 0));
            };
            const bool is_over = first != "Running" && second != "Running";
            const bool is_success = first == "Completed" && second == "Completed";
            EXPECT_TRUE(bench.wait([&] { return bench.condition("Completed").has_value() == is_success; }));
            EXPECT_TRUE(bench.wait([&] { return bench.condition("Failed").has_value() == (is_over && !is_success); }))
                << first << second;
            if (is_over && !is_success) {
              EXPECT_EQ(bench.condition("Failed")->string_at({"message"}),
                        "HyperJob failed: " + count("Completed") + " completed, " + count("Failed") + " failed, " +
                            count("Aborted") + " aborted, " + count("Terminated") + " terminated");
            }
          },
          1);
    }
  }
  EXPECT_EQ(combinations, is_quick ? 25 : 9);
}

TEST(HyperJobStatus, Rows37And56_ASurplusChildThatHangsInItsDeletionDoesNotCount) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:3"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1", "h-a-2"}));
    bench.cluster.patch(resources::kJobs, "default", "h-a-2", R"({"metadata":{"finalizers":["example.com/hold"]}})");
    ASSERT_TRUE(bench.set_phase("h-a-0", "Completed") && bench.set_phase("h-a-2", "Completed") &&
                bench.set_phase("h-a-1", "Running"));
    bench.settle();
    bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(bench.wait_observed());
    bench.settle();
    EXPECT_FALSE(bench.condition("Completed"));
    EXPECT_EQ(bench.number({"status", "splitCount"}), 2);
    EXPECT_EQ(bench.phase_of("a", "h-a-2"), "none");
    ASSERT_TRUE(bench.set_phase("h-a-1", "Completed"));
    EXPECT_TRUE(bench.wait_condition("Completed"));
    bench.cluster.patch(resources::kJobs, "default", "h-a-2", R"({"metadata":{"finalizers":null}})");
  });
}

// karmada#2197 again, one level up: success is a durable fact, also while other children still run.
TEST(HyperJobStatus, UsersG1_AChildThatSucceededIsNotMadeAgain) {
  scenario(
      [](Bench& bench) {
        bench.cluster.apply(Bench::yaml("h", {"a:2"}));
        ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
        ASSERT_TRUE(bench.set_phase("h-a-0", "Completed", R"(,"succeeded":2)"));
        // At once, as a short time to live does: before anybody wrote the status.
        bench.cluster.remove(resources::kJobs, "default", "h-a-0");
        ASSERT_TRUE(bench.cluster.wait_until([&] { return bench.phase_of("a", "h-a-0") == "Completed"; }));
        bench.restart();
        bench.settle();
        EXPECT_FALSE(bench.job("h-a-0"));
        // A binding that is built anew empties the state of a child for a moment.
        ASSERT_TRUE(bench.set_phase("h-a-1", "Completed"));
        EXPECT_TRUE(bench.wait_condition("Completed"));
      },
      10);
}

// The collector of finished jobs runs on the control plane, because Karmada takes the time to live away from members.
TEST(HyperJobStatus, Row23_AChildWhoseTimeToLiveIsOverIsNotMadeAgain) {
  scenario([](Bench& bench) {
    controllers::testing::ControllerProcess collector(
        bench.runtime(), bench.cluster.client(), Logger(),
        {[](ControllerContext& context) { return gc::make_gc_controller(context, {}); }});
    collector.start();
    std::string yaml = Bench::yaml("h", {"a:2"});
    const std::string before = "templateSpec:\n";
    yaml.insert(yaml.find(before) + before.size(), "      ttlSecondsAfterFinished: 1\n");
    bench.cluster.apply(yaml);
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    for (const char* child : {"h-a-0", "h-a-1"}) {
      bench.cluster.patch(resources::kJobs, "default", child,
                          R"({"status":{"state":{"phase":"Completed","lastTransitionTime":"2020-01-01T00:00:00Z"}}})",
                          "status");
      ASSERT_TRUE(bench.wait([&] { return !bench.job(child); })) << child;
      ASSERT_TRUE(bench.wait([&] { return bench.phase_of("a", child) == "Completed"; })) << child;
      bench.settle();
      EXPECT_FALSE(bench.job(child)) << child;
    }
    EXPECT_TRUE(bench.wait_condition("Completed", "AllChildVCJobsCompleted"));
    bench.restart();
    bench.settle();
    EXPECT_TRUE(bench.names(resources::kJobs).empty());
    collector.stop();
  });
}

TEST(HyperJobStatus, ASuccessThatIsForgottenElsewhereStays) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    ASSERT_TRUE(bench.set_phase("h-a-0", "Completed"));
    ASSERT_TRUE(bench.cluster.wait_until([&] { return bench.phase_of("a", "h-a-0") == "Completed"; }));
    bench.cluster.patch(resources::kJobs, "default", "h-a-0", R"({"status":{"state":{"phase":"Pending"}}})", "status");
    ASSERT_TRUE(bench.set_phase("h-a-1", "Completed"));
    EXPECT_TRUE(bench.wait_condition("Completed"));
  });
}

TEST(HyperJobStatus, AFinishedChildIsNotMovedWhileOthersRun) {
  scenario(
      [](Bench& bench) {
        bench.cluster.apply(Bench::yaml("h", {"a:2:c1"}));
        ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
        ASSERT_TRUE(bench.set_phase("h-a-0", "Completed") && bench.set_phase("h-a-1", "Running"));
        bench.cluster.apply(Bench::yaml("h", {"a:2:c2"}));
        const auto clusters = [&](std::string_view policy) {
          return bench.policy(policy)->find_path({"spec", "placement", "clusterAffinity", "clusterNames"})->to_text();
        };
        EXPECT_TRUE(bench.cluster.wait_until([&] { return clusters("h-a-1") == R"(["c2"])"; }));
        bench.settle();
        EXPECT_EQ(clusters("h-a-0"), R"(["c1"])");
      },
      10);
}

TEST(HyperJobStatus, Rows39And54_UsersG2_OverIsOver) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:1:c1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0"}));
    ASSERT_TRUE(bench.set_phase("h-a-0", "Completed"));
    ASSERT_TRUE(bench.wait_condition("Completed"));
    bench.settle();
    const auto condition = *bench.condition("Completed");
    const auto policy = *bench.policy("h-a-0");
    const std::size_t writes = bench.writes().size();
    ASSERT_TRUE(bench.set_phase("h-a-0", "Running"));  // rescheduled behind our back
    bench.settle();
    EXPECT_EQ(bench.writes().size(), writes);
    bench.cluster.apply(Bench::yaml("h", {"a:3:c2"}, "other"));
    EXPECT_TRUE(bench.wait_observed());
    bench.cluster.remove(resources::kJobs, "default", "h-a-0");
    bench.restart();
    bench.settle();
    EXPECT_EQ(bench.writes().size(), writes + 1);  // the generation that was seen
    EXPECT_EQ(*bench.condition("Completed"), condition);
    EXPECT_EQ(bench.phase_of("a", "h-a-0"), "Completed");
    EXPECT_EQ(*bench.policy("h-a-0"), policy);
    EXPECT_TRUE(bench.names(resources::kJobs).empty());
    EXPECT_TRUE(bench.wait([&] { return bench.count_events("HyperJobFinished") == 1; }));
  });
}

TEST(HyperJobStatus, ManyChangesBecomeFewWrites) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:3"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1", "h-a-2"}));
    ASSERT_TRUE(bench.wait_observed());
    const std::size_t before = bench.writes().size();
    for (const char* more : {R"(,"pending":2)", R"(,"pending":1,"running":1)", R"(,"pending":0,"running":2)"}) {
      for (const char* child : {"h-a-0", "h-a-1", "h-a-2"}) ASSERT_TRUE(bench.set_phase(child, "Running", more));
    }
    bench.settle();
    EXPECT_TRUE(bench.wait([&] {
      const json::Value group = group_of(bench, 0);
      return group.find("running") != nullptr && group.find("running")->as_int() == 6;
    }));
    EXPECT_LE(bench.writes().size() - before, bench.is_simulated() ? 2u : 9u);
  });
}

// A webhook that does not let one of the children in, as one does for a queue that is not open yet.
class Doorkeeper : public apiserver::AdmissionHook {
 public:
  std::atomic<bool> is_shut = true;
  [[nodiscard]] bool handles(const apiserver::AdmissionRequest&) const override { return true; }
  Done mutate(apiserver::AdmissionRequest&, json::Value&) override { return Ok{}; }
  Done validate(apiserver::AdmissionRequest&, const json::Value* object) override {
    if (is_shut && object != nullptr && object->string_at({"kind"}) == "Job" &&
        object->string_at({"metadata", "name"}) == "h-a-1")
      return Error::make(Reason::Forbidden, "queue q is not open");
    return Ok{};
  }
};

TEST(HyperJobStatus, Rows41And42_ARefusedChildHoldsUpNoOtherAndIsTriedAgain) {
  sim::play(1, 3, [](rt::Runtime& runtime) {
    const auto door = std::make_shared<Doorkeeper>();
    Bench bench(runtime, true, {door});
    bench.cluster.apply(Bench::yaml("h", {"a:3"}));
    ASSERT_TRUE(bench.wait_condition("Stalled", "ChildRefused"));
    EXPECT_NE(bench.condition("Stalled")->string_at({"message"}).find("queue q is not open"), std::string_view::npos);
    EXPECT_EQ(bench.names(resources::kJobs), (Names{"h-a-0", "h-a-2"}));
    EXPECT_EQ(bench.number({"status", "splitCount"}), 3);
    ASSERT_TRUE(bench.set_phase("h-a-0", "Running"));
    EXPECT_TRUE(bench.cluster.wait_until([&] { return bench.phase_of("a", "h-a-0") == "Running"; }));
    EXPECT_TRUE(bench.cluster.wait_until([&] { return bench.count_events("FailedCreateVCJob") >= 1; }));
    door->is_shut = false;
    EXPECT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1", "h-a-2"}));
    EXPECT_TRUE(bench.cluster.wait_until([&] { return !bench.condition("Stalled"); }));
  });
}

}  // namespace
}  // namespace basalt::controllers::hyperjob
