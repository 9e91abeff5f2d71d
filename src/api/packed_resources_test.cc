#include "api/packed_resources.h"

#include <gtest/gtest.h>

#include "json/reader.h"

namespace basalt::api {
namespace {

TEST(PackedResources, GivesBackWhatWasPutIn) {
  const ResourceList list = {{"cpu", Quantity::of_milli(1500)}, {"memory", Quantity::parse("2Gi").value()}};
  const PackedResources packed(list);
  EXPECT_EQ(packed.to_list(), list);
  EXPECT_EQ(packed.get("cpu"), Quantity::of_milli(1500));
  EXPECT_TRUE(packed.get("pods").is_zero());
  EXPECT_TRUE(packed.contains("memory"));
  EXPECT_EQ(packed.size(), 2u);
  EXPECT_TRUE(PackedResources().empty());
  EXPECT_EQ(PackedResources().to_list(), ResourceList());
}

TEST(PackedResources, IsReadLikeAResourceList) {
  const auto packed = json::from_text<PackedResources>(R"({"cpu":2,"memory":"1.5Gi"})");
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->get("cpu"), Quantity::of(2));
  EXPECT_EQ(packed->to_list().get("memory").to_string(), "1.5Gi");
  EXPECT_FALSE(json::from_text<PackedResources>(R"({"cpu":"much"})").ok());
}

}  // namespace
}  // namespace basalt::api
