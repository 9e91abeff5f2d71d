#include "api/resource_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {
namespace {

Quantity q(std::string_view text) { return Quantity::parse(text).value(); }

ResourceList list(std::initializer_list<std::pair<const char*, const char*>> entries) {
  ResourceList result;
  for (const auto& [name, amount] : entries) result.set(name, q(amount));
  return result;
}

TEST(ResourceList, IsSortedAndEachNameIsOnce) {
  const ResourceList resources{{"memory", q("1Gi")}, {"cpu", q("1")}, {"memory", q("2Gi")}};
  EXPECT_EQ(resources.to_string(), "cpu=1,memory=2Gi");
  EXPECT_EQ(resources.size(), 2);
  EXPECT_EQ(resources.get("memory"), q("2Gi"));
  EXPECT_EQ(resources.get("gpu"), Quantity());
  EXPECT_EQ(resources.find("gpu"), nullptr);
}

TEST(ResourceList, SetAndErase) {
  ResourceList resources;
  resources.set("b", q("1"));
  resources.set("a", q("2"));
  resources["b"] += q("1");
  EXPECT_EQ(resources.to_string(), "a=2,b=2");
  EXPECT_TRUE(resources.erase("a"));
  EXPECT_FALSE(resources.erase("a"));
  EXPECT_EQ(resources.to_string(), "b=2");
}

TEST(ResourceList, AddsAndSubtractsByName) {
  const ResourceList a = list({{"cpu", "1"}, {"memory", "1Gi"}});
  const ResourceList b = list({{"cpu", "500m"}, {"a", "1"}, {"zz", "3"}});
  EXPECT_EQ((a + b).to_string(), "a=1,cpu=1500m,memory=1Gi,zz=3");
  EXPECT_EQ((a - b).to_string(), "a=-1,cpu=500m,memory=1Gi,zz=-3");
  EXPECT_TRUE((a - b).has_negative());
  EXPECT_FALSE(a.has_negative());
  EXPECT_EQ((a * 3).to_string(), "cpu=3,memory=3Gi");
  EXPECT_EQ(a + b - b, a + b - b);
  ResourceList difference = a - a;
  EXPECT_TRUE(difference.is_zero());
  EXPECT_FALSE(difference.empty());
  difference.drop_zeros();
  EXPECT_TRUE(difference.empty());
}

TEST(ResourceList, RaisesAndLowers) {
  ResourceList a = list({{"cpu", "1"}, {"memory", "1Gi"}});
  a.raise_to(list({{"cpu", "2"}, {"gpu", "1"}, {"memory", "512Mi"}}));
  EXPECT_EQ(a.to_string(), "cpu=2,gpu=1,memory=1Gi");
  a.lower_to(list({{"cpu", "1500m"}, {"memory", "2Gi"}, {"zz", "0"}}));
  EXPECT_EQ(a.to_string(), "cpu=1500m,gpu=1,memory=1Gi");
}

TEST(ResourceList, Fits) {
  const ResourceList node = list({{"cpu", "4"}, {"memory", "8Gi"}});
  EXPECT_TRUE(list({{"cpu", "4"}, {"memory", "8Gi"}}).fits(node));
  EXPECT_TRUE(ResourceList().fits(node));
  EXPECT_TRUE(list({{"gpu", "0"}}).fits(node)) << "nothing asked for";
  EXPECT_EQ(list({{"cpu", "4001m"}}).first_misfit(node), "cpu");
  EXPECT_EQ(list({{"cpu", "1"}, {"gpu", "1"}}).first_misfit(node), "gpu");
  EXPECT_EQ(list({{"memory", "9Gi"}, {"cpu", "9"}}).first_misfit(node), "cpu");
}

TEST(ResourceList, EqualityIsByValueAndPresence) {
  EXPECT_EQ(list({{"cpu", "1000m"}}), list({{"cpu", "1"}}));
  EXPECT_FALSE(list({{"cpu", "0"}}) == ResourceList());
}

TEST(ResourceList, Codec) {
  const auto parsed = json::from_text<ResourceList>(R"({"memory":"1.5Gi","cpu":2,"cpu":"3","pods":null})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(json::to_text(*parsed), R"({"cpu":"3","memory":"1.5Gi","pods":"0"})");
  EXPECT_EQ(json::to_text(ResourceList()), "{}");
  EXPECT_TRUE(json::from_text<ResourceList>("null")->empty());
  EXPECT_FALSE(json::from_text<ResourceList>("[]").ok());
  const auto bad = json::from_text<ResourceList>(R"({"cpu":"1","memory":"1 GB"})");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, testing::HasSubstr("memory"));
  EXPECT_THAT(bad.error().message, testing::HasSubstr("\"1 GB\""));
}

TEST(ResourceList, ManyNamesAreMergedInLinearTime) {
  ResourceList a;
  ResourceList b;
  std::string a_text = "{";
  std::string b_text = "{";
  for (int i = 0; i < 20'000; ++i) {
    a_text += "\"a" + std::to_string(i) + "\":1,";
    b_text += "\"b" + std::to_string(i) + "\":1,";
  }
  a_text.back() = '}';
  b_text.back() = '}';
  a = json::from_text<ResourceList>(a_text).value();
  b = json::from_text<ResourceList>(b_text).value();
  EXPECT_EQ((b + a).size(), 40'000);
}

}  // namespace
}  // namespace basalt::api
