#include "workloads/deployment/deployment_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "json/reader.h"

namespace basalt::workloads {
namespace {

Object object_from(std::string_view text) {
  auto object = json::from_text<Object>(text);
  EXPECT_TRUE(object.ok()) << (object.ok() ? "" : object.error().message);
  return *object;
}

Object deployment_of(int replicas, std::string_view surge, std::string_view unavailable, std::string_view image) {
  return object_from(
      R"({"metadata":{"name":"web","namespace":"default","uid":"d","generation":1},"spec":{"replicas":)" +
      std::to_string(replicas) +
      R"(,"selector":{"matchLabels":{"app":"web"}},"strategy":{"type":"RollingUpdate","rollingUpdate":)" +
      R"({"maxSurge":)" + std::string(surge) + R"(,"maxUnavailable":)" + std::string(unavailable) +
      R"(}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"image":")" + std::string(image) + R"("}}}})");
}

std::shared_ptr<const Object> set_of(std::string_view name, int replicas, int available, std::string_view image,
                                     int age, int desired = -1, int max = -1) {
  Object set =
      object_from(R"({"metadata":{"name":")" + std::string(name) + R"(","namespace":"default","uid":")" +
                  std::string(name) + R"(","annotations":{"deployment.kubernetes.io/revision":")" +
                  std::to_string(100 - age) + R"("}},"spec":{"replicas":)" + std::to_string(replicas) +
                  R"(,"template":{"metadata":{"labels":{"app":"web","pod-template-hash":"x"}},"spec":{"image":")" +
                  std::string(image) + R"("}}},"status":{"replicas":)" + std::to_string(replicas) +
                  R"(,"availableReplicas":)" + std::to_string(available) + R"(}})");
  set.metadata.creation = api::Time::from_unix(1000 - age);
  if (desired >= 0)
    set.json.ensure_path({"metadata", "annotations", deployment_keys::kDesired}) = std::to_string(desired);
  if (max >= 0) set.json.ensure_path({"metadata", "annotations", deployment_keys::kMax}) = std::to_string(max);
  return std::make_shared<const Object>(std::move(set));
}

TEST(DeploymentView, FindsItsTemplateAndResolvesShares) {
  const Object deployment = deployment_of(10, R"("25%")", R"("25%")", "v2");
  const auto view = view_of(deployment, {set_of("new", 1, 0, "v2", 1), set_of("old", 9, 9, "v1", 5)});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->surge, 3);
  EXPECT_EQ(view->unavailable, 2);
  ASSERT_TRUE(view->current.has_value());
  EXPECT_EQ(view->current->object->metadata.name, "new");
  ASSERT_EQ(view->old.size(), 1u);
  const Object none = deployment_of(1, "0", "0", "v2");
  EXPECT_EQ(view_of(none, {})->unavailable, 1);  // else nothing could ever move
}

// Plays a roll-out to its end on paper, for many sizes and bounds: never too many, never too few, never stuck.
TEST(DeploymentPlan, RollingStaysWithinItsBoundsAndEnds) {
  for (int replicas = 1; replicas <= 7; ++replicas) {
    for (int surge = 0; surge <= 3; ++surge) {
      for (int unavailable = 0; unavailable <= 3; ++unavailable) {
        if (surge + unavailable == 0) continue;
        const Object deployment = deployment_of(replicas, std::to_string(surge), std::to_string(unavailable), "v2");
        int old_size = replicas;
        int new_size = 0;
        int steps = 0;
        while ((old_size > 0 || new_size < replicas) && ++steps < 100) {
          const auto view = view_of(
              deployment, {set_of("new", new_size, new_size, "v2", 1), set_of("old", old_size, old_size, "v1", 5)});
          const auto grown = static_cast<int>(next_size_of_new(*view, new_size));
          if (grown != new_size) {
            new_size = grown;
          } else {
            for (const SetSize& size : next_sizes_of_old(*view)) old_size = static_cast<int>(size.replicas);
          }
          ASSERT_LE(old_size + new_size, replicas + surge);
          ASSERT_GE(old_size + new_size, replicas - std::min(unavailable, replicas));
        }
        EXPECT_LT(steps, 100) << replicas << " " << surge << " " << unavailable;
      }
    }
  }
}

TEST(DeploymentPlan, BrokenOldPodsGoFirst) {
  const Object deployment = deployment_of(4, "1", "1", "v3");
  const auto view = view_of(
      deployment, {set_of("new", 1, 0, "v3", 1), set_of("broken", 2, 0, "v2", 3), set_of("old", 2, 2, "v1", 5)});
  const auto sizes = next_sizes_of_old(*view);
  ASSERT_EQ(sizes.size(), 1u);
  EXPECT_EQ(sizes[0].set->object->metadata.name, "broken");
}

TEST(DeploymentPlan, ScalingIsSharedInProportion) {
  const Object deployment = deployment_of(20, "0", "4", "v2");
  const auto view = view_of(deployment, {set_of("new", 4, 4, "v2", 1, 10, 10), set_of("old", 6, 6, "v1", 5, 10, 10)});
  ASSERT_TRUE(was_scaled(*view));
  std::int64_t sum = 0;
  for (const SetSize& size : scaled_sizes(*view)) {
    sum += size.replicas;
    EXPECT_EQ(size.replicas, size.set->object->metadata.name == "new" ? 8 : 12);
  }
  EXPECT_EQ(sum, 20);
}

TEST(DeploymentPlan, ASetOfAnEarlierTemplateBecomesTheNewestRevision) {
  const Object deployment = deployment_of(1, "1", "0", "v1");
  const auto view = view_of(deployment, {set_of("first", 0, 0, "v1", 9, 1, 2), set_of("second", 1, 1, "v2", 5, 1, 2)});
  const DeploymentPlan plan = plan_deployment(*view, rt::WallTime());
  EXPECT_TRUE(plan.create.is_null());
  EXPECT_EQ(plan.revision, 96);
  ASSERT_EQ(plan.scales.size(), 1u);
  EXPECT_EQ(plan.scales[0].patch.body.string_at({"metadata", "annotations", deployment_keys::kRevision}), "96");
  EXPECT_EQ(plan.scales[0].patch.body.string_at({"metadata", "annotations", deployment_keys::kRevisionHistory}), "91");
}

TEST(DeploymentPlan, HistoryIsBounded) {
  Object deployment = deployment_of(1, "1", "0", "v9");
  deployment.json.ensure_path({"spec", "revisionHistoryLimit"}) = 1;
  const auto view = view_of(deployment, {set_of("now", 1, 1, "v9", 1, 1, 2), set_of("a", 0, 0, "v1", 9),
                                         set_of("b", 0, 0, "v2", 8), set_of("c", 0, 0, "v3", 7)});
  const DeploymentPlan plan = plan_deployment(*view, rt::WallTime());
  ASSERT_EQ(plan.deletes.size(), 2u);
  EXPECT_EQ(plan.deletes[0].name, "a");
  EXPECT_EQ(plan.deletes[1].name, "b");
}

}  // namespace
}  // namespace basalt::workloads
