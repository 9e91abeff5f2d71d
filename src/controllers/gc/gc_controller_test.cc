#include "controllers/gc/gc_controller.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controllers/gc/testing/gc_fixture.h"
#include "controllers/gc/ttl_plan.h"
#include "rt/sim_test_support.h"

namespace basalt::controllers::gc {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::GcFixture;
namespace resources = sim::resources;

api::batch::Job job_of(std::string phase, std::optional<std::int32_t> ttl, std::int64_t finished) {
  api::batch::Job job;
  job.spec.ttl_seconds_after_finished = ttl;
  job.status.state.phase = std::move(phase);
  if (finished != 0) job.status.state.last_transition_time = api::Time::from_unix(finished);
  return job;
}
rt::WallTime at(std::int64_t milli) { return rt::WallTime(milliseconds(milli)); }

TEST(TtlPlan, EveryPhaseWithAndWithoutTtl) {
  using K = TtlPlan::Kind;
  const std::map<std::string, bool> phases = {
      {"Pending", false},    {"Aborting", false},   {"Aborted", false},  {"Running", false},
      {"Restarting", false}, {"Completing", false}, {"Completed", true}, {"Terminating", false},
      {"Terminated", true},  {"Failed", true},      {"", false},
  };
  for (const auto& [phase, is_over] : phases) {
    EXPECT_EQ(plan_ttl(job_of(phase, 0, 100), at(200'000)).kind, is_over ? K::Delete : K::Nothing) << phase;
    EXPECT_EQ(plan_ttl(job_of(phase, 500, 100), at(200'000)).kind, is_over ? K::Wait : K::Nothing) << phase;
    EXPECT_EQ(plan_ttl(job_of(phase, std::nullopt, 100), at(200'000)).kind, K::Nothing) << phase;
    EXPECT_EQ(plan_ttl(job_of(phase, 0, 0), at(200'000)).kind, is_over ? K::NoFinishTime : K::Nothing) << phase;
  }
  api::batch::Job deleting = job_of("Completed", 0, 100);
  deleting.metadata.deletion_timestamp = api::Time::from_unix(150);
  EXPECT_EQ(plan_ttl(deleting, at(200'000)).kind, K::Nothing);
}

TEST(TtlPlan, WaitsExactlyTheRest) {
  using K = TtlPlan::Kind;
  EXPECT_EQ(plan_ttl(job_of("Failed", 30, 100), at(129'999)), (TtlPlan{.kind = K::Wait, .delay = milliseconds(1)}));
  EXPECT_EQ(plan_ttl(job_of("Failed", 30, 100), at(130'000)).kind, K::Delete);
  EXPECT_EQ(plan_ttl(job_of("Failed", 1'000'000, 100), at(100'000)).delay, hours(1));
  EXPECT_EQ(plan_ttl(job_of("Failed", 2'147'483'647, 100), at(100'000)).kind, K::Wait);
  const TtlPlan skewed = plan_ttl(job_of("Failed", 1, 300), at(100'000));
  EXPECT_TRUE(skewed.finished_in_future);
  EXPECT_EQ(skewed.delay, seconds(201));
}

void with_fixture(const std::function<void(Fixture&)>& body) {
  sim::play(1, 5, [&](rt::Runtime& runtime) {
    Fixture fixture(runtime);
    body(fixture);
  });
}

TEST(TtlScenario, T1AtOnceAndInTheForeground) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job("j", 0);
    const std::string uid(f.cluster.get(resources::kJobs, "default", "j")->string_at({"metadata", "uid"}));
    f.cluster.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: p, finalizers: [example.com/hold], ownerReferences: "
        "[{apiVersion: "
        "batch.volcano.sh/v1alpha1, kind: Job, name: j, uid: " +
        uid + ", controller: true, blockOwnerDeletion: true}]}, spec: {containers: [{name: c, image: i}]}}");
    f.rest(seconds(1));
    f.finish("j");
    EXPECT_TRUE(f.cluster.wait_until(
        [&] { return f.cluster.get(resources::kJobs, "default", "j")->find_path({"metadata", "deletionTimestamp"}); },
        seconds(2)));
    f.rest(minutes(1));
    EXPECT_TRUE(f.exists("j"));  // until its pod is gone
    f.cluster.patch(resources::kPods, "default", "p", R"({"metadata":{"finalizers":null}})");
    EXPECT_TRUE(f.goes("j", seconds(10)));
    EXPECT_EQ(f.process->writes("jobs"), 1u);
  });
}

TEST(TtlScenario, T2TheRestIsCountedFromTheFinish) {
  with_fixture([](Fixture& f) {
    f.job("j", 30);
    f.finish("j", "Failed");
    f.rest(seconds(10));
    f.start();
    f.rest(seconds(19));
    EXPECT_TRUE(f.exists("j"));
    EXPECT_TRUE(f.goes("j", seconds(2)));
  });
}

TEST(TtlScenario, T4MoreTimeIsGiven) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job("j", 10);
    f.finish("j");
    f.rest(seconds(9));
    f.ttl("j", "1000");
    f.rest(seconds(985));
    EXPECT_TRUE(f.exists("j"));
    EXPECT_TRUE(f.goes("j", seconds(10)));
  });
}

TEST(TtlScenario, T5TheNextOfTheNameIsSpared) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job("j", 10);
    f.finish("j");
    // The caches learn nothing from now on.
    f.process->faults().set_plan({.event_delay_max = seconds(60)});
    f.rest(seconds(9));
    f.cluster.remove(resources::kJobs, "default", "j");
    f.job("j", 10);
    f.rest(minutes(5));
    EXPECT_TRUE(f.exists("j"));
    EXPECT_EQ(f.process->writes("jobs"), 0u);
  });
}

TEST(TtlScenario, T6T8WithoutTtlOrRunningAgainItStays) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job("a", 10);
    f.job("b", 10);
    f.finish("a");
    f.finish("b");
    f.rest(seconds(5));
    f.ttl("a", "null");
    f.finish("b", "Running");
    f.rest(hours(2));
    EXPECT_TRUE(f.exists("a"));
    EXPECT_TRUE(f.exists("b"));
    f.finish("b");
    EXPECT_TRUE(f.goes("b", seconds(12)));
  });
}

TEST(TtlScenario, T7ErrorsAreRetriedUntilItWorks) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job("j", 1);
    f.rest(seconds(1));
    f.process->faults().set_plan({.internal_error = 1});
    f.finish("j");
    f.rest(hours(1));
    f.process->faults().set_plan({});
    EXPECT_TRUE(f.goes("j", seconds(10)));
  });
}

// Scenario 37 of the job's sheet and users.md, volcano#3604, #4736: Aborted is not finished, it can be resumed.
TEST(TtlScenario, Users3604_Users4736_AnAbortedJobStays) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job("j", 1);
    f.finish("j", "Aborted");
    f.rest(hours(2));
    EXPECT_TRUE(f.exists("j"));
    f.finish("j", "Terminated");
    EXPECT_TRUE(f.goes("j", seconds(4)));
  });
}

TEST(TtlScenario, AMissingFinishTimeIsSaidOnTheJob) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job("j", 1);
    f.phase_at("j", "Completed", "");
    f.rest(hours(1));
    EXPECT_TRUE(f.exists("j"));
    const auto events = f.cluster.list(resources::kEvents, "default");
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].string_at({"reason"}), "JobStatusError");
    EXPECT_LE(f.process->writes("events"), 1u);
    f.finish("j");
    EXPECT_TRUE(f.goes("j", seconds(4)));
  });
}

TEST(TtlScenario, AFinishInTheFutureOnlyWaits) {
  with_fixture([](Fixture& f) {
    f.start();
    f.job("j", 10);
    f.phase_at("j", "Completed", "2026-01-01T00:10:00Z");
    f.rest(minutes(10));
    EXPECT_TRUE(f.exists("j"));
    EXPECT_TRUE(f.goes("j", seconds(12)));
    EXPECT_GE(f.sink->count(LogLevel::Warn), 1u);
  });
}

}  // namespace
}  // namespace basalt::controllers::gc
