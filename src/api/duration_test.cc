#include "api/duration.h"

#include <gtest/gtest.h>

#include <random>

#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {
namespace {

struct Case {
  const char* text;
  std::int64_t nanoseconds;
  const char* printed;
};

// As Go 1.26 parses and prints them.
constexpr Case kCases[] = {
    {"1h15m30.918273645s", 4'530'918'273'645, "1h15m30.918273645s"},
    {"1.5h", 5'400'000'000'000, "1h30m0s"},
    {"300ms", 300'000'000, "300ms"},
    {"0", 0, "0s"},
    {"+0", 0, "0s"},
    {"-0", 0, "0s"},
    {"+5s", 5'000'000'000, "5s"},
    {"-1.5h", -5'400'000'000'000, "-1h30m0s"},
    {".5s", 500'000'000, "500ms"},
    {"1.s", 1'000'000'000, "1s"},
    {"1m1m", 120'000'000'000, "2m0s"},
    {"2us", 2000, "2µs"},
    {"2µs", 2000, "2µs"},
    {"2μs", 2000, "2µs"},
    {"2.5us", 2500, "2.5µs"},
    {"1ns", 1, "1ns"},
    {"0.9ns", 0, "0s"},
    {"60s", 60'000'000'000, "1m0s"},
    {"60m", 3'600'000'000'000, "1h0m0s"},
    {"9223372036854775807ns", std::numeric_limits<std::int64_t>::max(), "2562047h47m16.854775807s"},
    {"-9223372036854775808ns", std::numeric_limits<std::int64_t>::min(), "-2562047h47m16.854775808s"},
    {"-2562047h47m16.854775808s", std::numeric_limits<std::int64_t>::min(), "-2562047h47m16.854775808s"},
    {"0.3333333333333333333h", 1'200'000'000'000, "20m0s"},
    {"0.9223372036854775807h", 3'320'413'933'267, "55m20.413933267s"},
    {"0.100000000000000000000h", 360'000'000'000, "6m0s"},
    {"1.00000000000000000000000000000000001s", 1'000'000'000, "1s"},
};

TEST(Duration, ParsesAndPrintsAsGoDoes) {
  for (const Case& each : kCases) {
    const Result<Duration> duration = Duration::parse(each.text);
    ASSERT_TRUE(duration.ok()) << each.text;
    EXPECT_EQ(duration->value.count(), each.nanoseconds) << each.text;
    EXPECT_EQ(duration->to_string(), each.printed) << each.text;
  }
}

TEST(Duration, RefusesWhatGoRefuses) {
  for (const char* bad : {"",
                          "3",
                          "3d",
                          "1s ",
                          ".s",
                          "-.s",
                          "9223372036854775808ns",
                          "-9223372036854775809ns",
                          "3000000h",
                          "1e3s",
                          "--1s",
                          "+",
                          "-",
                          "s",
                          "1 s",
                          "99999999999999999999s",
                          "1h-1m",
                          "1H",
                          "1\"s",
                          "9223372036.854775808s",
                          "-2562047h47m16.854775809s",
                          "2562047h47m16.854775808s",
                          "1h99999999999999h"}) {
    const Result<Duration> duration = Duration::parse(bad);
    ASSERT_FALSE(duration.ok()) << bad;
  }
  EXPECT_EQ(Duration::parse("3d").error().message,
            "duration \"3d\": unknown unit \"d\": must be one of ns, us, ms, s, m, h");
  EXPECT_EQ(Duration::parse("3").error().message, "duration \"3\": missing unit: one of ns, us, ms, s, m, h");
}

TEST(Duration, Codec) {
  EXPECT_EQ(json::to_text(*json::from_text<Duration>("\"90s\"")), "\"1m30s\"");
  EXPECT_EQ(json::to_text(*json::from_text<Duration>("null")), "\"0s\"");
  EXPECT_FALSE(json::from_text<Duration>("90").ok());
  EXPECT_FALSE(json::from_text<Duration>("\"90\"").ok());
}

TEST(Duration, Units) {
  const Duration duration(std::chrono::milliseconds(1500));
  EXPECT_EQ(duration.seconds().count(), 1);
  EXPECT_EQ(duration.milliseconds().count(), 1500);
  EXPECT_LT(duration, Duration(std::chrono::seconds(2)));
}

TEST(Duration, PrintsReadBack) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 50'000; ++i) {
    // Spread over all magnitudes.
    const auto count = static_cast<std::int64_t>(random()) >> (random() % 64);
    const Duration duration{std::chrono::nanoseconds(count)};
    ASSERT_EQ(Duration::parse(duration.to_string()).value(), duration) << duration.to_string();
  }
}

// As duration.HumanDuration, k8s.io/apimachinery v0.36.
TEST(Duration, HumanAges) {
  struct Age {
    std::int64_t seconds;
    const char* text;
  };
  const Age ages[] = {
      {0, "0s"},           {119, "119s"},        {120, "2m"},
      {121, "2m1s"},       {599, "9m59s"},       {600, "10m"},
      {10'799, "179m"},    {10'800, "3h"},       {10'859, "3h"},
      {11'100, "3h5m"},    {28'799, "7h59m"},    {28'800, "8h"},
      {172'799, "47h"},    {172'800, "2d"},      {176'400, "2d1h"},
      {691'199, "7d23h"},  {691'200, "8d"},      {63'071'999, "729d"},
      {63'072'000, "2y"},  {63'158'400, "2y1d"}, {252'287'999, "7y364d"},
      {252'288'000, "8y"}, {-1, "0s"},           {-2, "<invalid>"},
  };
  for (const Age& age : ages) EXPECT_EQ(human_duration(std::chrono::seconds(age.seconds)), age.text) << age.seconds;
  EXPECT_EQ(human_duration(std::chrono::nanoseconds(-1)), "0s");
  EXPECT_EQ(human_duration(std::chrono::milliseconds(-1500)), "0s");
  EXPECT_EQ(human_duration(std::chrono::nanoseconds::max()), "292y");
  EXPECT_EQ(human_duration(std::chrono::nanoseconds::min()), "<invalid>");
}

}  // namespace
}  // namespace basalt::api
