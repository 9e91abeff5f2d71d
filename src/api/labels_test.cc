#include "api/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "api/gen/meta.h"
#include "api/string_map.h"
#include "json/reader.h"

namespace basalt::api {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Selector selector(std::string_view text) {
  const Result<Selector> parsed = Selector::parse(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << (parsed.ok() ? "" : parsed.error().message);
  return parsed.ok() ? *parsed : Selector::nothing();
}

struct Printed {
  const char* text;
  const char* printed;
};

// As labels.Parse of k8s.io/apimachinery v0.36 reads and prints them.
constexpr Printed kPrinted[] = {
    {"", ""},
    {" ", ""},
    {"a", "a"},
    {"!a", "!a"},
    {"! a", "!a"},
    {"a=b", "a=b"},
    {"a==b", "a==b"},
    {"a!=b", "a!=b"},
    {"a = b", "a=b"},
    {"a\t=\nb", "a=b"},
    {"a in (b)", "a in (b)"},
    {"a in(b)", "a in (b)"},
    {"a in (c,b,b)", "a in (b,c)"},
    {"a  notin  ( z , y )", "a notin (y,z)"},
    {"x in (a,,b)", "x in (,a,b)"},
    {"x in ()", "x in ()"},
    {"x in (,)", "x in ()"},
    {"x in (a,)", "x in (,a)"},
    {"a=", "a="},
    {"a!=", "a!="},
    {"a=,b=c", "a=,b=c"},
    {"a>1", "a>1"},
    {"a<2", "a<2"},
    {"x> 1", "x>1"},
    {"y=a,x=b", "x=b,y=a"},
    {"b,a,!a,a=1", "a,!a,a=1,b"},
    {"in in (in)", "in in (in)"},
    {"notin notin (in)", "notin notin (in)"},
    {"in", "in"},
    {"!in", "!in"},
    {"a=in", "a=in"},
    {"a in (in,notin)", "a in (in,notin)"},
    {"x in (1),x in (2)", "x in (1),x in (2)"},
    {"a.b/c=d", "a.b/c=d"},
};

TEST(Selector, ParsesAndPrintsAsKubernetesDoes) {
  for (const Printed& each : kPrinted) {
    EXPECT_EQ(selector(each.text).to_string(), each.printed) << each.text;
    EXPECT_EQ(selector(each.printed).to_string(), each.printed) << each.text;
  }
}

TEST(Selector, RefusesWithKubernetesWords) {
  constexpr Printed kBad[] = {
      {"a,", "found '', expected: identifier after ','"},
      {",a", "found ',', expected: !, identifier, or 'end of string'"},
      {"a,,b", "found ',', expected: identifier after ','"},
      {"=a", "found '=', expected: !, identifier, or 'end of string'"},
      {"(a)", "found '(', expected: !, identifier, or 'end of string'"},
      {"a=b c", "found 'c', expected: ',' or 'end of string'"},
      {"!a=b", "found '=', expected: ',' or 'end of string'"},
      {"a in (b))", "found ')', expected: ',' or 'end of string'"},
      {"a gt 1", "unable to parse requirement: found 'gt', expected: in, notin, =, ==, !=, gt, lt"},
      {"a!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"},
      {"a in", "unable to parse requirement: found '', expected: '('"},
      {"a in (b", "unable to parse requirement: found '', expected: ',' or ')'"},
      {"a in (!", "unable to parse requirement: found '!', expected: ',', ')' or identifier"},
      {"a===b", "unable to parse requirement: found '=', expected: identifier"},
      {"!", "unable to parse requirement: found '', expected: identifier"},
      {"!!a", "unable to parse requirement: found '!', expected: identifier"},
      {"a>x",
       "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be "
       "an integer"},
      {"a=-b", "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be"},
      {"-a=b", "unable to parse requirement: key: Invalid value: \"-a\": name part must consist of"},
      {"a/b/c", "unable to parse requirement: key: Invalid value: \"a/b/c\": a valid label key must consist of"},
  };
  for (const Printed& each : kBad) {
    const Result<Selector> parsed = Selector::parse(each.text);
    ASSERT_FALSE(parsed.ok()) << each.text;
    EXPECT_THAT(parsed.error().message, StartsWith(each.printed)) << each.text;
  }
  EXPECT_FALSE(Selector::parse(std::string_view("a=b\0", 4)).ok());
}

TEST(Selector, Matches) {
  struct Case {
    const char* selector;
    StringMap labels;
    bool matches;
  };
  const Case cases[] = {
      {"", {}, true},
      {"a=b", {{"a", "b"}}, true},
      {"a=b", {}, false},
      {"a=", {}, false},
      {"a=", {{"a", ""}}, true},
      {"a!=b", {}, true},
      {"a!=b", {{"a", "b"}}, false},
      {"a in (x,y)", {{"a", "y"}}, true},
      {"a in (x,y)", {{"a", "z"}}, false},
      {"a notin (x)", {}, true},
      {"a notin (x)", {{"a", "x"}}, false},
      {"a", {{"a", ""}}, true},
      {"!a", {{"a", ""}}, false},
      {"!a", {{"b", ""}}, true},
      {"a>1", {{"a", "2"}}, true},
      {"a>1", {{"a", "1"}}, false},
      {"a>1", {{"a", "x"}}, false},
      {"a>1", {}, false},
      {"a<1", {{"a", "0"}}, true},
      {"a>1", {{"a", "99999999999999999999"}}, false},
      {"a=b,c", {{"a", "b"}, {"c", "d"}}, true},
      {"a=b,c", {{"a", "b"}}, false},
      {"x in (1),x in (2)", {{"x", "1"}}, false},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(selector(each.selector).matches(each.labels), each.matches) << each.selector;
  }
  EXPECT_TRUE(selector("a>1").matches_with([](std::string_view key) -> std::optional<std::string_view> {
    EXPECT_EQ(key, "a");
    return "7";
  }));
}

TEST(Selector, EverythingAndNothing) {
  EXPECT_TRUE(Selector::everything().matches({}));
  EXPECT_TRUE(Selector::everything().is_everything());
  EXPECT_FALSE(Selector::nothing().matches({}));
  EXPECT_FALSE(Selector::nothing().is_everything());
  EXPECT_TRUE(Selector::nothing().is_nothing());
  EXPECT_TRUE(Selector::from(nullptr)->is_nothing());
  EXPECT_TRUE(Selector::from(meta::LabelSelector())->is_everything());
  EXPECT_EQ(Selector::of_labels({{"b", "2"}, {"a", "1"}}).to_string(), "a=1,b=2");
}

TEST(Selector, ExactValueForIndexes) {
  EXPECT_EQ(selector("a=b,c in (d),e in (f,g),h!=i").exact_value("a"), "b");
  EXPECT_EQ(selector("c in (d)").exact_value("c"), "d");
  EXPECT_EQ(selector("e in (f,g)").exact_value("e"), std::nullopt);
  EXPECT_EQ(selector("h!=i").exact_value("h"), std::nullopt);
}

TEST(Selector, AddKeepsTheOrder) {
  Selector result = selector("a,c");
  result.add(Requirement::make("b", Requirement::Operator::Exists, {}).value());
  EXPECT_EQ(result.to_string(), "a,b,c");
  EXPECT_EQ(result, selector("c,b,a"));
}

TEST(Selector, FromTheObjectForm) {
  const auto from = [](std::string_view text) {
    return Selector::from(json::from_text<meta::LabelSelector>(text).value());
  };
  const auto all = from(R"({"matchLabels":{"b":"b","a":"x"},"matchExpressions":[
      {"key":"z","operator":"In","values":["b","a"]},{"key":"y","operator":"NotIn","values":["b","a"]},
      {"key":"e","operator":"Exists"},{"key":"f","operator":"DoesNotExist"}]})");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->to_string(), "a=x,b=b,e,!f,y notin (a,b),z in (a,b)");
  constexpr Printed kBad[] = {
      {R"({"matchExpressions":[{"key":"z","operator":"In"}]})",
       "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"},
      {R"({"matchExpressions":[{"key":"z","operator":"Exists","values":["a"]}]})",
       R"(values: Invalid value: ["a"]: values set must be empty for exists and does not exist)"},
      {R"({"matchExpressions":[{"key":"z","operator":"Gt","values":["1"]}]})",
       R"("Gt" is not a valid label selector operator)"},
      {R"({"matchLabels":{"-a":"b"}})", R"(key: Invalid value: "-a": name part must consist of)"},
      {R"({"matchExpressions":[{"key":"-z","operator":"Exists","values":["a"]}]})", R"([key: Invalid value: "-z": )"},
  };
  for (const Printed& each : kBad) {
    const auto parsed = from(each.text);
    ASSERT_FALSE(parsed.ok()) << each.text;
    EXPECT_THAT(parsed.error().message, StartsWith(each.printed));
  }
  EXPECT_EQ(format_label_selector({}), "<none>");
  meta::LabelSelector bad;
  bad.match_labels.set("-", "x");
  EXPECT_EQ(format_label_selector(bad), "<error>");
}

TEST(Requirement, NumberOfValues) {
  using Op = Requirement::Operator;
  EXPECT_FALSE(Requirement::make("a", Op::Equals, {}).ok());
  EXPECT_FALSE(Requirement::make("a", Op::Equals, {"b", "c"}).ok());
  EXPECT_FALSE(Requirement::make("a", Op::GreaterThan, {"1", "2"}).ok());
  EXPECT_FALSE(Requirement::make("a", Op::DoesNotExist, {"b"}).ok());
  EXPECT_TRUE(Requirement::make("a", Op::LessThan, {"1"}).ok());
  const auto many = Requirement::make("a", Op::In, std::vector<std::string>(100'000, "-"));
  ASSERT_FALSE(many.ok());
  EXPECT_LT(many.error().message.size(), 5000) << "only the first few are told";
}

TEST(Selector, PrintsReadBack) {
  std::mt19937 random(4);
  const std::vector<std::string> tokens = {"a", "b.c/d", "in", "notin", "=",  "==", "!=", "!", "(",      ")",
                                           ",", ">",     "<",  " ",     "12", "",   "a,", "z", "in (q)", "x=y"};
  int parsed_count = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (std::size_t n = random() % 8; n > 0; --n) text += tokens[random() % tokens.size()] + (random() % 2 ? " " : "");
    const Result<Selector> parsed = Selector::parse(text);
    if (!parsed.ok()) continue;
    ++parsed_count;
    const Result<Selector> again = Selector::parse(parsed->to_string());
    ASSERT_TRUE(again.ok()) << text << " -> " << parsed->to_string();
    ASSERT_EQ(*again, *parsed) << text;
  }
  EXPECT_GT(parsed_count, 5000);
}

}  // namespace
}  // namespace basalt::api
