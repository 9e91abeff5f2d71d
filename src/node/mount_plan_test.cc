#include "node/mount_plan.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "node/pod_volumes.h"
#include "node/testing/local_cluster.h"

namespace basalt::node {
namespace {

using Kind = MountStep::Kind;

bool has(const std::vector<MountStep>& steps, const MountStep& wanted) {
  return std::find(steps.begin(), steps.end(), wanted) != steps.end();
}

class MountPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_.path() + "/source/deep");
    std::filesystem::create_directories(folder_.path() + "/host/there");
    std::filesystem::create_directories(folder_.path() + "/scratch");
    ASSERT_TRUE(write_file(folder_.path() + "/host/neighbour", "n", 0644).ok());
    ASSERT_TRUE(write_file(folder_.path() + "/file", "f", 0644).ok());
    source_ = folder_.path() + "/source";
    host_ = folder_.path() + "/host";
  }
  Result<std::vector<MountStep>> plan(std::vector<BindMount> mounts) {
    return plan_mounts(std::move(mounts), folder_.path() + "/scratch");
  }
  const testing::TemporaryFolder folder_;
  std::string source_;
  std::string host_;
};

TEST_F(MountPlan, NothingToMountIsNothingToDo) { EXPECT_TRUE(plan({})->empty()); }

TEST_F(MountPlan, AnExistingFolderIsMountedOver) {
  const auto steps = plan({{source_, host_ + "/there", true}});
  ASSERT_TRUE(steps.ok());
  EXPECT_EQ(*steps, (std::vector<MountStep>{{Kind::MakePrivate, "", "/"},
                                            {Kind::Bind, source_, host_ + "/there"},
                                            {Kind::ReadOnly, "", host_ + "/there"}}));
}

TEST_F(MountPlan, AMissingFolderIsMadeInATmpfsThatShowsItsNeighbours) {
  const auto steps = plan({{source_, host_ + "/new/one", false}});
  ASSERT_TRUE(steps.ok());
  const std::string stage = folder_.path() + "/scratch/stage-0";
  EXPECT_TRUE(has(*steps, {Kind::Tmpfs, "", stage}));
  EXPECT_TRUE(has(*steps, {Kind::Bind, host_ + "/neighbour", stage + "/neighbour"}));
  EXPECT_TRUE(has(*steps, {Kind::Bind, host_ + "/there", stage + "/there"}));
  EXPECT_TRUE(has(*steps, {Kind::MakeFolder, "", stage + "/new/one"}));
  EXPECT_TRUE(has(*steps, {Kind::Bind, stage, host_}));
  EXPECT_EQ(steps->back(), (MountStep{Kind::Bind, source_, host_ + "/new/one"}));
  EXPECT_FALSE(std::filesystem::exists(host_ + "/new"));  // the host is left alone
}

TEST_F(MountPlan, AMountInsideAnotherGetsItsPlaceInTheSource) {
  const auto steps =
      plan({{source_, host_ + "/there", false}, {folder_.path() + "/file", host_ + "/there/a/b.conf", true}});
  ASSERT_TRUE(steps.ok());
  EXPECT_TRUE(std::filesystem::is_regular_file(source_ + "/a/b.conf"));
  // The outer one first, whatever the order in the manifest.
  const auto again =
      plan({{folder_.path() + "/file", host_ + "/there/a/b.conf", true}, {source_, host_ + "/there", false}});
  EXPECT_EQ(*steps, *again);
}

TEST_F(MountPlan, TheRootItselfIsRefused) {
  for (const std::string_view target : {"/", "//", "/..", "relative"})
    EXPECT_FALSE(plan({{source_, std::string(target), false}}).ok()) << target;
}

}  // namespace
}  // namespace basalt::node
