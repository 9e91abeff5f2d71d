#include <gtest/gtest.h>

#include <algorithm>

#include "kube/typed.h"
#include "rt/sim_test_support.h"
#include "workloads/disruption/budget_plan.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::Fate;
using testing::with_fixture;

void apply_budget(Fixture& f, std::string_view amount) {
  f.cluster.apply(
      "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {selector: {matchLabels: {app: "
      "w}}, " +
      std::string(amount) + "}}");
}
void apply_set(Fixture& f, int replicas) {
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: w}, spec: {replicas: " + std::to_string(replicas) +
      ", selector: {matchLabels: {app: w}}, template: " + testing::pod_template("w", "i") + "}}");
}
// "healthy/desired of expected, allowed"
std::string counts(Fixture& f) {
  const auto number = [&](std::string_view name) {
    return std::to_string(f.number(resources::kDisruptionBudgets, "b", {"status", name}));
  };
  return number("currentHealthy") + "/" + number("desiredHealthy") + " of " + number("expectedPods") + ", " +
         number("disruptionsAllowed");
}
bool settles_at(Fixture& f, const std::string& wanted) {
  return f.wait([&] { return counts(f) == wanted; });
}

Result<kube::Response> evict(Fixture& f, std::string_view pod, std::string_view options = "{}") {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = resources::kPods;
  request.ns = "default";
  request.name = pod;
  request.subresource = "eviction";
  request.body = R"({"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":")" + std::string(pod) +
                 R"("},"deleteOptions":)" + std::string(options) + "}";
  return f.cluster.client().call(request, {});
}
std::string a_pod(Fixture& f) { return std::string(f.active().front().string_at({"metadata", "name"})); }

TEST(DisruptionBudget, CountsWhatIsAllowed) {
  with_fixture([](Fixture& f) {
    apply_budget(f, "minAvailable: 2");
    EXPECT_TRUE(settles_at(f, "0/2 of 0, 0"));
    EXPECT_EQ(f.condition(resources::kDisruptionBudgets, "b", "DisruptionAllowed"), "False InsufficientPods");
    apply_set(f, 3);
    EXPECT_TRUE(settles_at(f, "3/2 of 3, 1"));
    EXPECT_EQ(f.condition(resources::kDisruptionBudgets, "b", "DisruptionAllowed"), "True SufficientPods");
    f.cluster.patch(resources::kDisruptionBudgets, "default", "b", R"({"spec":{"minAvailable":"50%"}})");
    EXPECT_TRUE(settles_at(f, "3/2 of 3, 1"));
    f.cluster.patch(resources::kDisruptionBudgets, "default", "b",
                    R"({"spec":{"minAvailable":null,"maxUnavailable":"100%"}})");
    EXPECT_TRUE(settles_at(f, "3/0 of 3, 3"));
    EXPECT_EQ(f.number(resources::kDisruptionBudgets, "b", {"status", "observedGeneration"}), 3);
    f.cluster.patch(resources::kReplicaSets, "default", "w", R"({"spec":{"replicas":1}})");
    EXPECT_TRUE(settles_at(f, "1/0 of 1, 1"));
    f.rest(seconds(10));
    const auto writes = f.process->writes("poddisruptionbudgets");
    f.rest(minutes(30));
    EXPECT_EQ(f.process->writes("poddisruptionbudgets"), writes);
  });
}

TEST(DisruptionBudget, EvictionsWaitUntilThereIsRoom) {
  with_fixture([](Fixture& f) {
    apply_set(f, 3);
    apply_budget(f, "minAvailable: 3");
    ASSERT_TRUE(settles_at(f, "3/3 of 3, 0"));
    const std::string first = a_pod(f);
    const auto refused = evict(f, first);
    ASSERT_FALSE(refused.ok());
    EXPECT_TRUE(refused.error().is(Reason::TooManyRequests));
    ASSERT_EQ(refused.error().causes.size(), 1u);
    EXPECT_EQ(refused.error().causes[0].type, "DisruptionBudget");
    EXPECT_FALSE(evict(f, first, R"({"dryRun":["All"]})").ok());
    f.cluster.patch(resources::kDisruptionBudgets, "default", "b", R"({"spec":{"minAvailable":2}})");
    ASSERT_TRUE(settles_at(f, "3/2 of 3, 1"));
    // A dry run takes nothing.
    EXPECT_TRUE(evict(f, first, R"({"dryRun":["All"]})").ok());
    EXPECT_EQ(counts(f), "3/2 of 3, 1");
    // Two at once: one of them.
    const auto pods = f.active();
    int evicted = 0;
    for (const json::Value& pod : pods) evicted += evict(f, pod.string_at({"metadata", "name"})).ok() ? 1 : 0;
    EXPECT_EQ(evicted, 1);
    // Its replacement makes room for the next.
    ASSERT_TRUE(settles_at(f, "3/2 of 3, 1"));
    EXPECT_EQ(f.kubelet.names().size(), 4u);
    EXPECT_TRUE(
        map_at(*f.cluster.get(resources::kDisruptionBudgets, "default", "b"), {"status", "disruptedPods"}).empty());
  });
}

TEST(DisruptionBudget, PodsThatDoNotWorkMayGo) {
  with_fixture(
      [](Fixture& f) {
        apply_set(f, 2);
        apply_budget(f, "minAvailable: 1");
        ASSERT_TRUE(settles_at(f, "0/1 of 2, 0"));
        ASSERT_TRUE(f.wait([&] { return f.text(resources::kPods, a_pod(f), {"status", "phase"}) == "Running"; }));
        EXPECT_FALSE(evict(f, a_pod(f)).ok());
        f.cluster.patch(resources::kDisruptionBudgets, "default", "b",
                        R"({"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}})");
        EXPECT_TRUE(evict(f, a_pod(f)).ok());
      },
      [](const Pod&) { return Fate{.becomes_ready = false}; });
}

TEST(DisruptionBudget, AControllerWithoutANumberIsAFailure) {
  with_fixture([](Fixture& f) {
    f.cluster.apply("{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: " +
                    testing::pod_template("w", "i", "Never") + "}}");
    apply_budget(f, "maxUnavailable: 1");
    EXPECT_TRUE(f.wait(
        [&] { return f.condition(resources::kDisruptionBudgets, "b", "DisruptionAllowed") == "False SyncFailed"; }));
    const auto reasons = f.event_reasons("b");
    EXPECT_NE(std::find(reasons.begin(), reasons.end(), "CalculateExpectedPodCountFailed"), reasons.end());
  });
}

TEST(BudgetPlan, AnEvictionThatDidNotHappenIsForgotten) {
  const Object budget = *json::from_text<Object>(
      R"({"metadata":{"name":"b","generation":1},"spec":{"minAvailable":1},)"
      R"("status":{"disruptedPods":{"p0":"2024-01-01T00:00:00Z","gone":"2024-01-01T00:00:00Z"}}})");
  std::vector<PodPtr> pods;
  for (const char* name : {"p0", "p1"}) {
    auto pod = std::make_shared<Pod>();
    pod->metadata.name = std::string_view(name);
    pod->phase = std::string_view("Running");
    pod->is_ready = true;
    pods.push_back(pod);
  }
  const auto at = [](std::string_view text) { return rt::WallTime(api::Time::parse(text)->to_time_point()); };
  const BudgetPlan soon = plan_budget(budget, pods, {}, at("2024-01-01T00:01:00Z"));
  EXPECT_EQ(int_at(soon.status, {"currentHealthy"}), 1);
  EXPECT_EQ(int_at(soon.status, {"disruptionsAllowed"}), 0);
  EXPECT_EQ(map_at(soon.status, {"disruptedPods"}).size(), 1u);
  EXPECT_EQ(soon.look_again, minutes(1));
  const BudgetPlan later = plan_budget(budget, pods, {}, at("2024-01-01T00:02:00Z"));
  EXPECT_EQ(int_at(later.status, {"disruptionsAllowed"}), 1);
  EXPECT_TRUE(map_at(later.status, {"disruptedPods"}).empty());
}

}  // namespace
}  // namespace basalt::workloads
