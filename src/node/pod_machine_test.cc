#include "node/pod_machine.h"

#include <gtest/gtest.h>

#include "json/reader.h"
#include "node/pod_status.h"
#include "yaml/reader.h"

namespace basalt::node {
namespace {

using namespace std::chrono_literals;
using Indexes = std::vector<std::size_t>;

std::shared_ptr<const api::core::Pod> pod_of(std::string_view spec) {
  const auto value = yaml::read("{metadata: {name: p, namespace: default, uid: u1}, spec: " + std::string(spec) + "}");
  EXPECT_TRUE(value.ok());
  auto pod = json::from_text<api::core::Pod>(value->to_text());
  EXPECT_TRUE(pod.ok());
  return std::make_shared<const api::core::Pod>(std::move(*pod));
}

// A machine whose time the test moves, and whose processes are numbers.
struct Stage {
  explicit Stage(std::string_view spec, RestartOptions options = {}) : machine(pod_of(spec), options) {}

  // Starts all that is due; which those were.
  Indexes start_due() {
    const PodStep step = machine.step(now);
    for (const std::size_t i : step.start) machine.on_started(i, i + 1, wall, now);
    return step.start;
  }
  void exit(std::size_t index, int code) { machine.on_exit(index, {.code = code}, wall, now); }

  PodMachine machine;
  rt::Instant now{};
  api::Time wall = api::Time::from_unix(1'000'000);
};

constexpr std::string_view kTwo = "{restartPolicy: Never, containers: [{name: a}, {name: b}]}";

// Restart policy, exit codes of two containers -> phase, and who starts again.
struct PolicyRow {
  std::string_view policy;
  int a;
  int b;
  std::string_view phase;
  Indexes again;
};

TEST(PodMachine, RestartPoliciesDecide) {
  const std::vector<PolicyRow> rows = {
      {"Never", 0, 0, "Succeeded", {}},     {"Never", 0, 1, "Failed", {}},       {"Never", 1, 1, "Failed", {}},
      {"OnFailure", 0, 0, "Succeeded", {}}, {"OnFailure", 0, 1, "Running", {1}}, {"OnFailure", 1, 1, "Running", {0, 1}},
      {"Always", 0, 0, "Running", {0, 1}},  {"Always", 1, 0, "Running", {0, 1}},
  };
  for (const PolicyRow& row : rows) {
    SCOPED_TRACE(std::string(row.policy) + " " + std::to_string(row.a) + " " + std::to_string(row.b));
    Stage stage("{restartPolicy: " + std::string(row.policy) + ", containers: [{name: a}, {name: b}]}");
    EXPECT_EQ(stage.machine.phase(), "Pending");
    EXPECT_EQ(stage.start_due(), (Indexes{0, 1}));
    EXPECT_EQ(stage.machine.phase(), "Running");
    stage.exit(0, row.a);
    stage.exit(1, row.b);
    EXPECT_EQ(stage.start_due(), row.again);
    EXPECT_EQ(stage.machine.phase(), row.phase);
  }
}

TEST(PodMachine, BackoffDoublesUpToItsCapAndStartsAnewAfterALongRun) {
  Stage stage("{restartPolicy: Always, containers: [{name: a}]}",
              {.backoff_base = 10s, .backoff_cap = 60s, .backoff_reset = 10min});
  ASSERT_EQ(stage.start_due(), Indexes{0});
  std::vector<rt::Duration> waits;
  const auto fail_and_wait = [&] {
    stage.exit(0, 1);
    const rt::Instant ended = stage.now;
    PodStep step = stage.machine.step(stage.now);
    if (step.start.empty()) stage.now = step.wake_at;
    waits.push_back(stage.now - ended);
    EXPECT_EQ(stage.start_due(), Indexes{0});
  };
  for (int i = 0; i < 6; ++i) fail_and_wait();
  EXPECT_EQ(waits, (std::vector<rt::Duration>{0s, 10s, 20s, 40s, 60s, 60s}));
  waits.clear();
  stage.now += 11min;
  fail_and_wait();
  fail_and_wait();
  EXPECT_EQ(waits, (std::vector<rt::Duration>{0s, 10s}));
  EXPECT_EQ(stage.machine.containers()[0].restart_count(), 8);
}

TEST(PodMachine, InitContainersInOrderSideCarsOnlyHaveToStart) {
  Stage stage(R"({restartPolicy: Never, initContainers: [{name: i}, {name: s, restartPolicy: Always}, {name: k}],
                  containers: [{name: m}]})");
  EXPECT_EQ(stage.start_due(), Indexes{0});
  EXPECT_EQ(stage.start_due(), Indexes{});
  stage.exit(0, 0);
  EXPECT_EQ(stage.start_due(), Indexes{1});
  EXPECT_EQ(stage.start_due(), Indexes{2});
  EXPECT_FALSE(stage.machine.is_initialized());
  stage.exit(2, 0);
  EXPECT_EQ(stage.start_due(), Indexes{3});
  EXPECT_EQ(stage.machine.phase(), "Running");
  // A side car that ends is started again; the others do not notice.
  stage.exit(1, 1);
  EXPECT_EQ(stage.start_due(), Indexes{1});
  // The main container's end ends the side car, and then the pod.
  stage.exit(3, 0);
  const PodStep step = stage.machine.step(stage.now);
  EXPECT_EQ(step.ask, Indexes{1});
  EXPECT_EQ(stage.machine.outcome(), PodOutcome::None);
  stage.exit(1, 143);
  EXPECT_EQ(stage.start_due(), Indexes{});
  EXPECT_EQ(stage.machine.phase(), "Succeeded");
}

TEST(PodMachine, AnInitContainerIsTriedAgainUnlessNever) {
  Stage once("{restartPolicy: Never, initContainers: [{name: i}], containers: [{name: m}]}");
  ASSERT_EQ(once.start_due(), Indexes{0});
  once.exit(0, 1);
  EXPECT_EQ(once.start_due(), Indexes{});
  EXPECT_EQ(once.machine.phase(), "Failed");
  Stage again("{restartPolicy: Always, initContainers: [{name: i}], containers: [{name: m}]}");
  ASSERT_EQ(again.start_due(), Indexes{0});
  again.exit(0, 1);
  EXPECT_EQ(again.start_due(), Indexes{0});
  again.exit(0, 0);
  EXPECT_EQ(again.start_due(), Indexes{1});
}

TEST(PodMachine, StopAsksThenKills) {
  Stage stage(kTwo);
  ASSERT_EQ(stage.start_due(), (Indexes{0, 1}));
  stage.machine.request_stop(StopCause::Deleted, 30s, stage.now);
  PodStep step = stage.machine.step(stage.now);
  EXPECT_EQ(step.ask, (Indexes{0, 1}));
  EXPECT_EQ(step.wake_at, stage.now + 30s);
  stage.exit(0, 0);
  step = stage.machine.step(stage.now + 10s);
  EXPECT_TRUE(step.ask.empty() && step.kill.empty());
  // A shorter grace counts.
  stage.machine.request_stop(StopCause::Deleted, 5s, stage.now + 10s);
  step = stage.machine.step(stage.now + 15s);
  EXPECT_EQ(step.kill, Indexes{1});
  step = stage.machine.step(stage.now + 16s);
  EXPECT_TRUE(step.kill.empty());  // once is enough
  stage.exit(1, 137);
  (void)stage.machine.step(stage.now + 16s);
  EXPECT_EQ(stage.machine.phase(), "Failed");
}

TEST(PodMachine, TheDeadlineFailsEvenWhatSucceedsMeanwhile) {
  Stage stage("{restartPolicy: Never, containers: [{name: a}]}");
  ASSERT_EQ(stage.start_due(), Indexes{0});
  stage.machine.request_stop(StopCause::DeadlineExceeded, 30s, stage.now);
  EXPECT_EQ(stage.machine.step(stage.now).ask, Indexes{0});
  stage.exit(0, 0);
  (void)stage.machine.step(stage.now);
  EXPECT_EQ(stage.machine.phase(), "Failed");
  EXPECT_EQ(stage.machine.reason(), "DeadlineExceeded");
}

TEST(PodMachine, WhatCannotStartFailsThePodAndEndsTheOthers) {
  Stage stage("{restartPolicy: Always, containers: [{name: a}, {name: b}]}");
  ASSERT_EQ(stage.machine.step(stage.now).start, (Indexes{0, 1}));
  stage.machine.on_started(0, 1, stage.wall, stage.now);
  stage.machine.on_start_failed(1, true, "no such program", stage.wall, stage.now);
  EXPECT_EQ(stage.machine.step(stage.now).ask, Indexes{0});
  stage.exit(0, 143);
  (void)stage.machine.step(stage.now);
  EXPECT_EQ(stage.machine.phase(), "Failed");
  EXPECT_EQ(stage.machine.message(), "container b: no such program");
  // A failure that may pass is tried again.
  Stage other("{restartPolicy: OnFailure, containers: [{name: a}]}");
  ASSERT_EQ(other.machine.step(other.now).start, Indexes{0});
  other.machine.on_start_failed(0, false, "no memory", other.wall, other.now);
  EXPECT_EQ(other.start_due(), Indexes{0});
}

TEST(PodMachine, AFailedLivenessProbeGoesTheWayOfTheRestartPolicy) {
  Stage stage("{restartPolicy: OnFailure, containers: [{name: a}]}");
  ASSERT_EQ(stage.start_due(), Indexes{0});
  stage.machine.end_container(0, "it hangs", 5s, stage.now);
  EXPECT_EQ(stage.machine.step(stage.now).ask, Indexes{0});
  EXPECT_EQ(stage.machine.step(stage.now + 5s).kill, Indexes{0});
  stage.exit(0, 137);
  EXPECT_EQ(stage.machine.containers()[0].ended->message, "it hangs");
  EXPECT_EQ(stage.start_due(), Indexes{0});
}

// What an agent finds that died at a moment -> what it does.
TEST(PodMachine, ASecondAgentFromTheRecord) {
  for (const std::string_view policy : {"Never", "OnFailure", "Always"}) {
    SCOPED_TRACE(policy);
    const std::string spec = "{restartPolicy: " + std::string(policy) + ", containers: [{name: a}, {name: b}]}";
    Stage first(spec);
    ASSERT_EQ(first.start_due(), (Indexes{0, 1}));
    first.exit(0, 0);
    Stage second(spec);
    second.machine.restore(first.machine.record(), second.wall);
    EXPECT_EQ(second.machine.containers()[1].ended->reason, "Interrupted");
    EXPECT_TRUE(second.machine.was_interrupted());
    if (policy == "Never") {
      EXPECT_EQ(second.start_due(), Indexes{});
      EXPECT_EQ(second.machine.phase(), "Failed");
    } else {
      EXPECT_EQ(second.start_due(), policy == "Always" ? (Indexes{0, 1}) : Indexes{1});
    }
  }
}

TEST(PodMachine, AStartThatMayHaveHappenedCountsAsInterrupted) {
  Stage first(kTwo);
  (void)first.machine.step(first.now);
  first.machine.container(0).is_starting = true;  // recorded, then the agent died
  Stage second(kTwo);
  second.machine.restore(first.machine.record(), second.wall);
  EXPECT_EQ(second.start_due(), Indexes{1});  // the other never began
  EXPECT_EQ(second.machine.containers()[0].ended->reason, "Interrupted");
  second.exit(1, 0);
  (void)second.machine.step(second.now);
  EXPECT_EQ(second.machine.phase(), "Failed");
}

TEST(PodMachine, ARecordedOutcomeIsFinalAndOfTheSamePodOnly) {
  Stage first("{restartPolicy: Never, containers: [{name: a}]}");
  ASSERT_EQ(first.start_due(), Indexes{0});
  first.exit(0, 0);
  (void)first.machine.step(first.now);
  Stage second("{restartPolicy: Never, containers: [{name: a}]}");
  second.machine.restore(first.machine.record(), second.wall);
  EXPECT_EQ(second.start_due(), Indexes{});
  EXPECT_EQ(second.machine.phase(), "Succeeded");
  json::Value foreign = first.machine.record();
  foreign.as_object().set("uid", "another");
  Stage third("{restartPolicy: Never, containers: [{name: a}]}");
  third.machine.restore(foreign, third.wall);
  EXPECT_EQ(third.start_due(), Indexes{0});
}

TEST(PodMachine, NonsenseInARecordIsHarmless) {
  for (const std::string_view text :
       {"{}", "[]", "3", R"({"uid":"u1"})", R"({"uid":"u1","containers":3})",
        R"({"uid":"u1","containers":[3,{"name":7}]})",
        R"({"uid":"u1","containers":[{"name":"a","state":"Running","runs":"x","ended":7}]})"}) {
    Stage stage("{restartPolicy: Always, containers: [{name: a}]}");
    stage.machine.restore(*json::Value::parse(text), stage.wall);
    EXPECT_EQ(stage.start_due(), Indexes{0}) << text;
  }
}

}  // namespace
}  // namespace basalt::node
