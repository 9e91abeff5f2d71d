#include "yaml/scalar.h"

#include <gtest/gtest.h>

namespace basalt::yaml {
namespace {

std::string type_and_text(std::string_view text) {
  constexpr std::string_view kNames[] = {"null", "bool", "int", "float", "notfinite", "string"};
  const Scalar scalar = resolve_plain(text);
  return std::string(kNames[static_cast<int>(scalar.type)]) + " " + scalar.value.to_text();
}

// Checked against sigs.k8s.io/yaml v1.6.0.
TEST(ScalarTest, ReadsAsKubernetesDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "null null"},
      {"~", "null null"},
      {"Null", "null null"},
      {"nUll", "string \"nUll\""},
      {"y", "bool true"},
      {"Yes", "bool true"},
      {"ON", "bool true"},
      {"n", "bool false"},
      {"off", "bool false"},
      {"False", "bool false"},
      {"oN", "string \"oN\""},
      {"tRue", "string \"tRue\""},
      {"0", "int 0"},
      {"-0", "int 0"},
      {"+12", "int 12"},
      {"1_000", "int 1000"},
      {"1__0_", "int 10"},
      {"_1", "string \"_1\""},
      {"010", "int 8"},
      {"0o10", "int 8"},
      {"0O10", "int 8"},
      {"08", "float 8"},
      {"0x1F", "int 31"},
      {"-0x1f", "int -31"},
      {"0x", "string \"0x\""},
      {"0b101", "int 5"},
      {"-0b101", "int -5"},
      {"0b-101", "int -5"},
      {"-0b-101", "string \"-0b-101\""},
      {"0b2", "string \"0b2\""},
      {"9223372036854775807", "int 9223372036854775807"},
      {"-9223372036854775808", "int -9223372036854775808"},
      {"9223372036854775808", "int 9223372036854776000"},  // a double: beyond int64
      {"-9223372036854775809", "float -9223372036854776000"},
      {"1.5", "float 1.5"},
      {"1.", "float 1"},
      {".5", "float 0.5"},
      {"+.5", "float 0.5"},
      {".5_0", "float 0.5"},
      {".5__0", "string \".5__0\""},
      {"._5", "string \"._5\""},
      {"1.5_0", "float 1.5"},
      {"1e3", "float 1000"},
      {"1E+3", "float 1000"},
      {"1e", "string \"1e\""},
      {"1e400", "string \"1e400\""},
      {"1e-400", "float 0"},
      {".", "string \".\""},
      {"-", "string \"-\""},
      {"+", "string \"+\""},
      {"-.", "string \"-.\""},
      {".inf", "notfinite null"},
      {"-.INF", "notfinite null"},
      {".NaN", "notfinite null"},
      {"inf", "string \"inf\""},
      {"1:30", "string \"1:30\""},
      {"2001-01-01", "string \"2001-01-01\""},
      {"1.2.3", "string \"1.2.3\""},
      {"500m", "string \"500m\""},
      {"0x1p3", "string \"0x1p3\""},
      {"<<", "string \"<<\""},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(type_and_text(text), expected) << text;
  }
}

TEST(ScalarTest, FloatKeys) {
  const std::pair<double, const char*> cases[] = {
      {1.5, "1.5"},
      {0.1, "0.1"},
      {100000.5, "100000.5"},
      {1e6, "1e+06"},
      {1234567.5, "1.2345675e+06"},
      {123456789.0, "1.2345679e+08"},
      {0.0001, "0.0001"},
      {0.00001, "1e-05"},
      {-2.0, "-2"},
      {1e300, ".inf"},
      {-1e300, "-.inf"},
      {0.0, "0"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(float_key(value), text);
}

TEST(ScalarTest, WhatOtherReadersTakeForSomethingElse) {
  for (const char* text : {"2001-01-01", "2001-12-14t21:59:43.10-05:00", "1:30", "-190:20:30.15", "<<", "="}) {
    EXPECT_TRUE(looks_special_elsewhere(text)) << text;
  }
  for (const char* text : {"", "-", "a:b", "10.0.0.1", "1.2.3", "v1", "200-01"}) {
    EXPECT_FALSE(looks_special_elsewhere(text)) << text;
  }
}

}  // namespace
}  // namespace basalt::yaml
