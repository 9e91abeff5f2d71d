#include "api/owner.h"

#include <gtest/gtest.h>

#include "api/gen/meta.h"
#include "api/kind_info.h"

namespace basalt::api {
namespace {

constexpr KindInfo kJob{"batch.volcano.sh", "v1alpha1", "Job", "jobs", "job", true, true};

TEST(Owner, ControllerReference) {
  meta::ObjectMeta job;
  job.name = "a";
  job.uid = "u1";
  meta::ObjectMeta pod;
  EXPECT_EQ(controller_of(pod), nullptr);
  EXPECT_FALSE(is_controlled_by(pod, "u1"));

  meta::OwnerReference other;
  other.uid = "u0";
  pod.owner_references = {other, controller_reference(kJob, job)};
  const meta::OwnerReference* owner = controller_of(pod);
  ASSERT_NE(owner, nullptr);
  EXPECT_EQ(owner->api_version, "batch.volcano.sh/v1alpha1");
  EXPECT_EQ(owner->kind, "Job");
  EXPECT_EQ(owner->name, "a");
  EXPECT_TRUE(owner->block_owner_deletion.value_or(false));
  EXPECT_TRUE(is_controlled_by(pod, "u1"));
  EXPECT_FALSE(is_controlled_by(pod, "u0")) << "an owner, but not the controller";
  EXPECT_TRUE(has_owner(pod, "u0"));
  EXPECT_FALSE(has_owner(pod, "u2")) << "same name, other object";
}

TEST(Owner, NoUidOwnsNothing) {
  meta::ObjectMeta pod;
  pod.owner_references = {controller_reference(kJob, meta::ObjectMeta())};
  EXPECT_FALSE(is_controlled_by(pod, ""));
  EXPECT_FALSE(has_owner(pod, ""));
}

TEST(Owner, Finalizers) {
  meta::ObjectMeta meta;
  EXPECT_TRUE(add_finalizer(meta, "a/b"));
  EXPECT_FALSE(add_finalizer(meta, "a/b"));
  EXPECT_TRUE(has_finalizer(meta, "a/b"));
  EXPECT_TRUE(remove_finalizer(meta, "a/b"));
  EXPECT_FALSE(remove_finalizer(meta, "a/b"));
  EXPECT_TRUE(meta.finalizers.empty());
}

}  // namespace
}  // namespace basalt::api
