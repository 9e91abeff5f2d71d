#include <gtest/gtest.h>

#include <set>

#include "rt/sim_test_support.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::Fate;
using testing::with_fixture;

void apply(Fixture& f, int replicas, std::string_view image, std::string_view more = "") {
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: " + std::to_string(replicas) +
      ", selector: {matchLabels: {app: web}}, template: " + testing::pod_template("web", image) + std::string(more) +
      "}}");
}
void set_image(Fixture& f, std::string_view image) {
  f.cluster.patch(
      resources::kDeployments, "default", "web",
      R"({"spec":{"template":{"spec":{"containers":[{"name":"c","image":")" + std::string(image) + R"("}]}}}})");
}
bool is_rolled_out(Fixture& f, std::int64_t replicas) {
  const auto object = f.cluster.get(resources::kDeployments, "default", "web");
  return int_at(*object, {"status", "observedGeneration"}) == int_at(*object, {"metadata", "generation"}) &&
         int_at(*object, {"status", "updatedReplicas"}) == replicas &&
         int_at(*object, {"status", "replicas"}) == replicas &&
         int_at(*object, {"status", "availableReplicas"}) == replicas;
}
std::set<std::string> images(Fixture& f) {
  std::set<std::string> found;
  for (const json::Value& pod : f.active())
    found.emplace(list_at(pod, {"spec", "containers"}).front().string_at({"image"}));
  return found;
}

TEST(Deployment, RollsOutWithinItsBounds) {
  with_fixture([](Fixture& f) {
    apply(f, 3, "v1");
    ASSERT_TRUE(f.wait([&] { return is_rolled_out(f, 3); }));
    EXPECT_TRUE(f.wait(
        [&] { return f.condition(resources::kDeployments, "web", "Progressing") == "True NewReplicaSetAvailable"; }));
    EXPECT_EQ(f.condition(resources::kDeployments, "web", "Available"), "True MinimumReplicasAvailable");
    EXPECT_EQ(f.text(resources::kDeployments, "web", {"metadata", "annotations", "deployment.kubernetes.io/revision"}),
              "1");
    set_image(f, "v2");
    bool is_over = false;
    for (int i = 0; i < 3000 && !is_over; ++i) {
      f.rest(std::chrono::milliseconds(10));
      EXPECT_LE(f.active().size(), 4u);  // maxSurge 25 % of 3 is one, maxUnavailable none
      EXPECT_GE(f.count_ready(), 3u);
      is_over = is_rolled_out(f, 3);
    }
    EXPECT_TRUE(is_over);
    EXPECT_EQ(images(f), std::set<std::string>{"v2"});
    EXPECT_EQ(f.text(resources::kDeployments, "web", {"metadata", "annotations", "deployment.kubernetes.io/revision"}),
              "2");
    const auto sets = f.cluster.list(resources::kReplicaSets, "default");
    ASSERT_EQ(sets.size(), 2u);
    for (const json::Value& set : sets) {
      const std::string_view hash = set.string_at({"metadata", "labels", "pod-template-hash"});
      EXPECT_EQ(set.string_at({"metadata", "name"}), "web-" + std::string(hash));
      EXPECT_EQ(set.string_at({"spec", "selector", "matchLabels", "pod-template-hash"}), hash);
    }
    f.rest(seconds(5));
    const auto writes = f.process->writes("deployments");
    f.rest(minutes(30));
    EXPECT_EQ(f.process->writes("deployments"), writes);  // at rest it says nothing
  });
}

TEST(Deployment, UndoUsesTheOldSetAgain) {
  with_fixture([](Fixture& f) {
    apply(f, 2, "v1");
    ASSERT_TRUE(f.wait([&] { return is_rolled_out(f, 2); }));
    set_image(f, "v2");
    ASSERT_TRUE(f.wait([&] { return is_rolled_out(f, 2); }));
    set_image(f, "v1");
    ASSERT_TRUE(f.wait([&] { return is_rolled_out(f, 2); }));
    EXPECT_EQ(images(f), std::set<std::string>{"v1"});
    EXPECT_EQ(f.cluster.list(resources::kReplicaSets, "default").size(), 2u);
    EXPECT_EQ(f.text(resources::kDeployments, "web", {"metadata", "annotations", "deployment.kubernetes.io/revision"}),
              "3");
  });
}

TEST(Deployment, RecreateWaitsForTheLastOldPod) {
  with_fixture([](Fixture& f) {
    apply(f, 3, "v1", ", strategy: {type: Recreate}");
    ASSERT_TRUE(f.wait([&] { return is_rolled_out(f, 3); }));
    set_image(f, "v2");
    for (int i = 0; i < 2000 && !is_rolled_out(f, 3); ++i) {
      f.rest(std::chrono::milliseconds(5));
      std::set<std::string> all;
      for (const json::Value& pod : f.pods())
        all.emplace(list_at(pod, {"spec", "containers"}).front().string_at({"image"}));
      EXPECT_LE(all.size(), 1u);
      const std::int64_t updated = f.number(resources::kDeployments, "web", {"status", "updatedReplicas"});
      const std::int64_t counted = f.number(resources::kDeployments, "web", {"status", "replicas"});
      EXPECT_TRUE(updated == 0 || counted == updated) << counted << " pods, of them new: " << updated;
    }
    EXPECT_TRUE(is_rolled_out(f, 3));
    EXPECT_EQ(images(f), std::set<std::string>{"v2"});
  });
}

TEST(Deployment, APausedOneScalesButDoesNotRoll) {
  with_fixture([](Fixture& f) {
    apply(f, 2, "v1");
    ASSERT_TRUE(f.wait([&] { return is_rolled_out(f, 2); }));
    f.cluster.patch(resources::kDeployments, "default", "web", R"({"spec":{"paused":true}})");
    set_image(f, "v2");
    f.cluster.patch(resources::kDeployments, "default", "web", R"({"spec":{"replicas":4}})");
    EXPECT_TRUE(f.wait([&] { return f.count_ready() == 4; }));
    f.rest(seconds(10));
    EXPECT_EQ(images(f), std::set<std::string>{"v1"});
    EXPECT_EQ(f.condition(resources::kDeployments, "web", "Progressing"), "Unknown DeploymentPaused");
    f.cluster.patch(resources::kDeployments, "default", "web", R"({"spec":{"paused":false}})");
    EXPECT_TRUE(f.wait([&] { return is_rolled_out(f, 4); }));
    EXPECT_EQ(images(f), std::set<std::string>{"v2"});
  });
}

TEST(Deployment, ATemplateThatNeverWorksIsSaidAfterTheDeadline) {
  with_fixture(
      [](Fixture& f) {
        apply(f, 3, "good", ", progressDeadlineSeconds: 60");
        ASSERT_TRUE(f.wait([&] { return is_rolled_out(f, 3); }));
        f.cluster.patch(resources::kDeployments, "default", "web",
                        R"({"spec":{"template":{"metadata":{"labels":{"bad":"yes"}}}}})");
        f.rest(seconds(50));
        EXPECT_EQ(f.condition(resources::kDeployments, "web", "Progressing").substr(0, 4), "True");
        EXPECT_TRUE(f.wait(
            [&] {
              return f.condition(resources::kDeployments, "web", "Progressing") == "False ProgressDeadlineExceeded";
            },
            seconds(20)));
        EXPECT_EQ(f.count_ready(), 3u);  // the old ones go on
        EXPECT_EQ(f.condition(resources::kDeployments, "web", "Available"), "True MinimumReplicasAvailable");
        f.cluster.patch(resources::kDeployments, "default", "web",
                        R"({"spec":{"template":{"metadata":{"labels":{"bad":null}}}}})");
        EXPECT_TRUE(f.wait([&] { return is_rolled_out(f, 3); }));
        EXPECT_TRUE(f.wait([&] {
          return f.condition(resources::kDeployments, "web", "Progressing") == "True NewReplicaSetAvailable";
        }));
      },
      [](const Pod& pod) { return Fate{.becomes_ready = pod.metadata.labels.get("bad").empty()}; });
}

TEST(Deployment, ATakenNameLeadsToAnotherHash) {
  with_fixture([](Fixture& f) {
    apply(f, 1, "v1");
    ASSERT_TRUE(f.wait([&] { return is_rolled_out(f, 1); }));
    const auto set = f.cluster.list(resources::kReplicaSets, "default").front();
    f.cluster.remove(resources::kDeployments, "default", "web");
    EXPECT_TRUE(f.wait([&] { return f.pods().empty() && f.cluster.list(resources::kReplicaSets, "default").empty(); }));
    // Somebody else's set of the very name.
    f.cluster.apply(
        "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: " + std::string(set.string_at({"metadata", "name"})) +
        "}, spec: {replicas: 0, selector: {matchLabels: {app: other}}, template: " +
        testing::pod_template("other", "i") + "}}");
    apply(f, 1, "v1");
    EXPECT_TRUE(f.wait([&] { return is_rolled_out(f, 1); }));
    EXPECT_EQ(f.number(resources::kDeployments, "web", {"status", "collisionCount"}), 1);
  });
}

}  // namespace
}  // namespace basalt::workloads
