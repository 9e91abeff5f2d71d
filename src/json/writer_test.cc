#include "json/writer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "json/number.h"

namespace basalt::json {
namespace {

std::string number_text(double value) {
  std::string out;
  Writer(out).number(value);
  return out;
}

std::string json_quoted(std::string_view value, Writer::Options options = {}) {
  std::string out;
  append_quoted(out, value, options);
  return out;
}

TEST(WriterTest, WritesCompactText) {
  std::string out;
  Writer writer(out);
  writer.begin_object();
  writer.key("a");
  writer.begin_array();
  writer.integer(1);
  writer.null();
  writer.boolean(true);
  writer.begin_object();
  writer.end_object();
  writer.begin_array();
  writer.end_array();
  writer.string("x");
  writer.end_array();
  writer.raw_members("");
  writer.raw_members(R"("u":1,"v":[2])");
  writer.key("b");
  writer.raw(R"({"c":3})");
  writer.end_object();
  EXPECT_EQ(out, R"({"a":[1,null,true,{},[],"x"],"u":1,"v":[2],"b":{"c":3}})");
}

TEST(WriterTest, RawMembersMayComeFirst) {
  std::string out;
  Writer writer(out);
  writer.begin_object();
  writer.raw_members(R"("u":1)");
  writer.key("b");
  writer.integer(2);
  writer.end_object();
  EXPECT_EQ(out, R"({"u":1,"b":2})");
}

// The expected texts are what Go's encoding/json prints for the same float64.
TEST(WriterTest, DoublesInGoNotation) {
  const std::pair<double, const char*> cases[] = {
      {0.0, "0"},
      {-0.0, "-0"},
      {1.0, "1"},
      {-1.5, "-1.5"},
      {100.0, "100"},
      {123456789.125, "123456789.125"},
      {0.1, "0.1"},
      {0.000001, "0.000001"},
      {0.0000015, "0.0000015"},
      {0.0000001, "1e-7"},
      {1.5e-10, "1.5e-10"},
      {1e20, "100000000000000000000"},
      {1.2345678901234567e20, "123456789012345670000"},
      {1e21, "1e+21"},
      {1.5e300, "1.5e+300"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {9007199254740993.0, "9007199254740992"},
      {-4804732230939067000.0, "-4804732230939067392"},  // Go: the shortest digits, padded with zeros
      {9223372036854775808.0, "9223372036854776000"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(number_text(value), text);
  EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "null");
}

TEST(WriterTest, EveryDoubleReadsBack) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100'000; ++round) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    double back = 0;
    ASSERT_TRUE(to_double(number_text(value), back));
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(value));
  }
}

TEST(WriterTest, Integers) {
  std::string out;
  Writer writer(out);
  writer.begin_array();
  writer.integer(std::numeric_limits<std::int64_t>::min());
  writer.integer(std::numeric_limits<std::int64_t>::max());
  writer.end_array();
  EXPECT_EQ(out, "[-9223372036854775808,9223372036854775807]");
}

TEST(WriterTest, EscapesAsGoDoes) {
  EXPECT_EQ(json_quoted("plain <&> text/\x7f"), "\"plain <&> text/\x7f\"");
  EXPECT_EQ(json_quoted("\"\\\b\f\n\r\t"), R"("\"\\\b\f\n\r\t")");
  EXPECT_EQ(json_quoted(std::string("\0\x01\x1f", 3)), R"("\u0000\u0001\u001f")");
  EXPECT_EQ(json_quoted("\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA"), "\"\\u2028\\u2029\xE2\x80\xAA\"");
  EXPECT_EQ(json_quoted("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
  EXPECT_EQ(json_quoted("a\xFF\xC3z"), R"("a\ufffd\ufffdz")");
  EXPECT_EQ(json_quoted("a<b>&c", {.escape_html = true}), R"("a\u003cb\u003e\u0026c")");
}

#ifndef NDEBUG
TEST(WriterDeathTest, UnbalancedUseIsCaught) {
  EXPECT_DEATH(
      {
        std::string out;
        Writer writer(out);
        writer.end_array();
      },
      "depth_");
}
#endif

}  // namespace
}  // namespace basalt::json
