#include "api/fields.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace basalt::api {
namespace {

struct Case {
  const char* text;
  const char* printed;
};

// As fields.ParseSelector of k8s.io/apimachinery v0.36 reads and prints them.
constexpr Case kCases[] = {
    {"", ""},
    {",", ""},
    {"=", ""},
    {"a=b", "a=b"},
    {"a==b", "a=b"},
    {"a!=b", "a!=b"},
    {"c=d,a=b", "a=b,c=d"},
    {",a=b,", "a=b"},
    {"metadata.name=x,status.phase!=Running", "metadata.name=x,status.phase!=Running"},
    {"a=b\\,c", "a=b\\,c"},
    {"a=b\\=c", "a=b\\=c"},
    {"a=b\\\\c", "a=b\\\\c"},
    {"=b", "=b"},
    {"a=", "a="},
    {"a!=", "a!="},
    {" a = b ", " a = b "},
    {"a!b=c", "a!b=c"},
    {"a=!b", "a=!b"},
    {"a\\,b=c", "a\\,b=c"},
};

TEST(FieldSelector, ParsesAndPrintsAsKubernetesDoes) {
  for (const Case& each : kCases) {
    const Result<FieldSelector> selector = FieldSelector::parse(each.text);
    ASSERT_TRUE(selector.ok()) << each.text;
    EXPECT_EQ(selector->to_string(), each.printed) << each.text;
  }
}

TEST(FieldSelector, Refuses) {
  constexpr Case kBad[] = {
      {"a", "invalid selector: 'a'; can't understand 'a'"},
      {"a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"},
      {"a=b\\x", "invalid field selector: invalid escape sequence: \\x"},
      {"a=b\\", "invalid field selector: invalid escape sequence: \\"},
      {"a=b=c", "invalid field selector: unescaped character in value: '='"},
      {"a===b", "invalid field selector: unescaped character in value: '='"},
      {"a!==b", "invalid field selector: unescaped character in value: '='"},
      {"a\\=b=c", "invalid field selector: unescaped character in value: '='"},
  };
  for (const Case& each : kBad) {
    const Result<FieldSelector> selector = FieldSelector::parse(each.text);
    ASSERT_FALSE(selector.ok()) << each.text;
    EXPECT_EQ(selector.error().message, each.printed);
  }
}

TEST(FieldSelector, Matches) {
  const std::map<std::string, std::string, std::less<>> pod = {{"metadata.name", "x"}, {"status.phase", "Running"}};
  const auto matches = [&](std::string_view text) {
    return FieldSelector::parse(text)->matches_with([&](std::string_view field) -> std::string_view {
      const auto at = pod.find(field);
      return at == pod.end() ? std::string_view() : at->second;
    });
  };
  EXPECT_TRUE(matches(""));
  EXPECT_TRUE(matches("metadata.name=x"));
  EXPECT_FALSE(matches("metadata.name=y"));
  EXPECT_TRUE(matches("metadata.name!=y,status.phase=Running"));
  EXPECT_FALSE(matches("metadata.name=x,status.phase!=Running"));
  EXPECT_TRUE(matches("spec.nodeName=")) << "what is absent is empty";
  EXPECT_FALSE(matches("spec.nodeName!="));
  EXPECT_TRUE(FieldSelector::parse("a=b\\,c")->matches_with([](std::string_view) { return "b,c"; }));
}

TEST(FieldSelector, ExactValue) {
  const FieldSelector selector = FieldSelector::parse("metadata.name=x,a!=b").value();
  ASSERT_NE(selector.exact_value("metadata.name"), nullptr);
  EXPECT_EQ(*selector.exact_value("metadata.name"), "x");
  EXPECT_EQ(selector.exact_value("a"), nullptr);
  EXPECT_FALSE(selector.is_everything());
}

TEST(FieldSelector, AnyValueSurvivesPrinting) {
  std::mt19937 random(6);
  constexpr std::string_view kLetters = "ab=,\\! ";
  for (int i = 0; i < 20'000; ++i) {
    std::string value(random() % 8, '\0');
    for (char& c : value) c = kLetters[random() % kLetters.size()];
    const FieldSelector selector = FieldSelector::of({{"f", value, random() % 2 == 0}});
    const Result<FieldSelector> again = FieldSelector::parse(selector.to_string());
    ASSERT_TRUE(again.ok()) << selector.to_string();
    ASSERT_EQ(*again, selector) << selector.to_string();
  }
}

}  // namespace
}  // namespace basalt::api
