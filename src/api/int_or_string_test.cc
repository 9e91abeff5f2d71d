#include "api/int_or_string.h"

#include <gtest/gtest.h>

#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {
namespace {

using Rounding = IntOrString::Rounding;

TEST(IntOrString, Codec) {
  for (const char* text : {"1", "-1", "2147483647", R"("a")", R"("")", R"("50%")"}) {
    EXPECT_EQ(json::to_text(*json::from_text<IntOrString>(text)), text);
  }
  EXPECT_EQ(json::to_text(*json::from_text<IntOrString>("null")), "0");
  for (const char* bad : {"2147483648", "1.5", "true", "[]", "{}"}) {
    EXPECT_FALSE(json::from_text<IntOrString>(bad).ok()) << bad;
  }
}

TEST(IntOrString, KnowsWhatItIs) {
  EXPECT_EQ(IntOrString(5).to_string(), "5");
  EXPECT_EQ(IntOrString("http").to_string(), "http");
  EXPECT_TRUE(IntOrString(5).is_int());
  EXPECT_EQ(IntOrString("5").int_value(), 0);
  EXPECT_EQ(IntOrString(5).string_value(), "");
  EXPECT_EQ(IntOrString(5), IntOrString(5));
  EXPECT_FALSE(IntOrString(5) == IntOrString("5"));
}

// As intstr.GetScaledValueFromIntOrPercent, k8s.io/apimachinery v0.36.
TEST(IntOrString, ResolvesPercentages) {
  struct Case {
    IntOrString value;
    std::int64_t up;
    std::int64_t down;
  };
  const Case cases[] = {{1, 1, 1}, {"50%", 4, 3}, {"-50%", -3, -4}, {"150%", 11, 10}, {"+5%", 1, 0}, {"100%", 7, 7}};
  for (const Case& each : cases) {
    EXPECT_EQ(*each.value.resolve(7, Rounding::Up), each.up) << each.value.to_string();
    EXPECT_EQ(*each.value.resolve(7, Rounding::Down), each.down) << each.value.to_string();
  }
  for (const char* bad : {"x", "5.5%", "%", "50", "", "5 %", "99999999999999999999%"}) {
    EXPECT_FALSE(IntOrString(bad).resolve(7, Rounding::Up).ok()) << bad;
  }
  EXPECT_FALSE(IntOrString("9223372036854775807%").resolve(1000, Rounding::Up).ok());
}

}  // namespace
}  // namespace basalt::api
