#include "api/time.h"

#include <gtest/gtest.h>

#include <random>

#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::seconds;

struct Case {
  const char* text;
  std::int64_t unix_seconds;
  const char* printed;
};

// What Go 1.26 reads with time.Parse(time.RFC3339, ...), and what metav1.Time then writes.
constexpr Case kCases[] = {
    {"2020-01-02T03:04:05Z", 1'577'934'245, "2020-01-02T03:04:05Z"},
    {"2020-01-02T3:04:05Z", 1'577'934'245, "2020-01-02T03:04:05Z"},
    {"2020-01-02T03:04:05.5Z", 1'577'934'245, "2020-01-02T03:04:05Z"},
    {"2020-01-02T03:04:05,5Z", 1'577'934'245, "2020-01-02T03:04:05Z"},
    {"2020-01-02T03:04:05.123456789123Z", 1'577'934'245, "2020-01-02T03:04:05Z"},
    {"2020-01-02T03:04:05+07:00", 1'577'909'045, "2020-01-01T20:04:05Z"},
    {"2020-01-02T03:04:05-07:00", 1'577'959'445, "2020-01-02T10:04:05Z"},
    {"2020-01-02T03:04:05+24:00", 1'577'847'845, "2020-01-01T03:04:05Z"},
    {"2020-01-02T03:04:05+07:60", 1'577'905'445, "2020-01-01T19:04:05Z"},
    {"2020-01-02T03:04:05-00:00", 1'577'934'245, "2020-01-02T03:04:05Z"},
    {"2020-01-02T3:04:05.5+01:00", 1'577'930'645, "2020-01-02T02:04:05Z"},
    {"2020-02-29T00:00:00Z", 1'582'934'400, "2020-02-29T00:00:00Z"},
    {"2000-02-29T00:00:00Z", 951'782'400, "2000-02-29T00:00:00Z"},
    {"0000-01-01T00:00:00Z", -62'167'219'200, "0000-01-01T00:00:00Z"},
    {"9999-12-31T23:59:59Z", 253'402'300'799, "9999-12-31T23:59:59Z"},
    {"1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"},
    {"1969-12-31T23:59:59.5Z", -1, "1969-12-31T23:59:59Z"},
    // Go leaves the years that can be written here; we stay at their end.
    {"0000-01-01T00:00:00+01:00", -62'167'219'200, "0000-01-01T00:00:00Z"},
    {"9999-12-31T23:59:59-01:00", 253'402'300'799, "9999-12-31T23:59:59Z"},
};

TEST(Time, ReadsWhatGoReads) {
  for (const Case& each : kCases) {
    const Result<Time> time = Time::parse(each.text);
    ASSERT_TRUE(time.ok()) << each.text;
    EXPECT_EQ(time->unix_seconds(), each.unix_seconds) << each.text;
    EXPECT_EQ(time->to_string(), each.printed) << each.text;
  }
}

TEST(Time, RefusesWhatGoRefuses) {
  for (const char* bad : {"",
                          "2020-01-02T03:04:05z",
                          "2020-01-02t03:04:05Z",
                          "2020-01-02 03:04:05Z",
                          "2020-01-02T03:4:05Z",
                          "2020-01-02T03:04:5Z",
                          "2020-1-02T03:04:05Z",
                          "2020-01-2T03:04:05Z",
                          "2020-01-02T03:04:05.Z",
                          "2020-01-02T03:04:05+25:00",
                          "2020-01-02T03:04:05+07:61",
                          "2020-01-02T03:04:05+0700",
                          "2020-01-02T03:04:05+07",
                          "2020-01-02T03:04:05+7:00",
                          "2020-01-02T03:04:05",
                          "2020-01-02T03:04:60Z",
                          "2020-01-02T24:00:00Z",
                          "2020-02-30T00:00:00Z",
                          "2019-02-29T00:00:00Z",
                          "1900-02-29T00:00:00Z",
                          "10000-01-01T00:00:00Z",
                          "2020-13-01T00:00:00Z",
                          "2020-00-01T00:00:00Z",
                          "2020-01-00T00:00:00Z",
                          "2020-01-02T03:04:05Z ",
                          "2020-01-02T03:04:05ZZ",
                          " 2020-01-02T03:04:05Z",
                          "2020-01-02T-3:04:05Z",
                          "2020-01-02T03:04:05+ 7:00",
                          "2020-01-02T03:04:05+07-00",
                          "2020-01-02T03:04:05.5",
                          "2020-01-02",
                          "now",
                          "2020-01-02T03:60:05Z"}) {
    const Result<Time> time = Time::parse(bad);
    ASSERT_FALSE(time.ok()) << bad;
    EXPECT_NE(time.error().message.find("RFC 3339"), std::string::npos);
  }
}

TEST(Time, NoneIsNull) {
  const Time none;
  EXPECT_TRUE(none.is_zero());
  EXPECT_FALSE(none);
  EXPECT_EQ(none.to_string(), "");
  EXPECT_EQ(json::to_text(none), "null");
  EXPECT_TRUE(json::from_text<Time>("null")->is_zero());
  EXPECT_TRUE(json::from_text<Time>("\"0001-01-01T00:00:00Z\"")->is_zero()) << "what Go writes for none";
  EXPECT_FALSE(Time::from_unix(0).is_zero());
  EXPECT_LT(none, Time::from_unix(-62'167'219'200));
  EXPECT_EQ(none + seconds(5), none);
  EXPECT_EQ(Time::from_unix(5) - none, seconds(0));
}

TEST(Time, Codec) {
  EXPECT_EQ(json::to_text(*json::from_text<Time>("\"2020-01-02T03:04:05.9+01:00\"")), "\"2020-01-02T02:04:05Z\"");
  for (const char* bad : {"5", "\"\"", "\"yesterday\"", "{}"}) EXPECT_FALSE(json::from_text<Time>(bad).ok()) << bad;
}

TEST(Time, Arithmetic) {
  const Time time = Time::parse("2026-01-31T23:59:59Z").value();
  EXPECT_EQ((time + seconds(1)).to_string(), "2026-02-01T00:00:00Z");
  EXPECT_EQ((time - hours(24)).to_string(), "2026-01-30T23:59:59Z");
  EXPECT_EQ(time + hours(1) - time, hours(1));
  EXPECT_EQ((time + std::chrono::seconds::max()).to_string(), "9999-12-31T23:59:59Z");
  EXPECT_EQ((time - std::chrono::seconds::max()).to_string(), "0000-01-01T00:00:00Z");
  const auto point = std::chrono::system_clock::time_point(std::chrono::milliseconds(-500));
  EXPECT_EQ(Time::from(point).unix_seconds(), -1) << "cut towards the past, as the printed form is";
  EXPECT_EQ(time.to_time_point(), std::chrono::system_clock::time_point(seconds(time.unix_seconds())));
  EXPECT_EQ(Time::parse("9999-01-01T00:00:00Z")->to_time_point(), std::chrono::system_clock::time_point::max());
}

TEST(MicroTime, PrintsSixDecimals) {
  const MicroTime time = MicroTime::parse("2020-01-02T03:04:05.123456+01:00").value();
  EXPECT_EQ(time.unix_micros(), 1'577'930'645'123'456);
  EXPECT_EQ(time.to_string(), "2020-01-02T02:04:05.123456Z");
  EXPECT_EQ(json::to_text(time), "\"2020-01-02T02:04:05.123456Z\"");
  EXPECT_EQ(MicroTime::parse("1969-12-31T23:59:59.500000Z")->unix_micros(), -500'000);
  EXPECT_EQ(MicroTime::from_unix_micros(-500'000).to_string(), "1969-12-31T23:59:59.500000Z");
  EXPECT_EQ(MicroTime::from_unix_micros(-500'000).to_time().unix_seconds(), -1);
  EXPECT_EQ(MicroTime::from_unix_micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(MicroTime::parse("2020-01-02T03:04:05Z")->to_string(), "2020-01-02T03:04:05.000000Z");
  EXPECT_EQ(MicroTime::parse("2020-01-02T03:04:05.1Z")->to_string(), "2020-01-02T03:04:05.100000Z");
  EXPECT_EQ(MicroTime::parse("2020-01-02T03:04:05.1234569Z")->to_string(), "2020-01-02T03:04:05.123456Z");
}

TEST(MicroTime, NoneAndArithmetic) {
  const MicroTime none;
  EXPECT_EQ(json::to_text(none), "null");
  EXPECT_TRUE(json::from_text<MicroTime>("null")->is_zero());
  EXPECT_TRUE(MicroTime::parse("0001-01-01T00:00:00.000000Z")->is_zero());
  EXPECT_TRUE(none.to_time().is_zero());
  const MicroTime time = MicroTime::from_unix_micros(1'000'001);
  EXPECT_EQ((time + microseconds(9)).unix_micros(), 1'000'010);
  EXPECT_EQ(time - MicroTime::from_unix_micros(1), seconds(1));
  EXPECT_EQ(none + microseconds(1), none);
  EXPECT_EQ(time - none, microseconds(0));
  EXPECT_EQ((time + microseconds::max()).to_string(), "9999-12-31T23:59:59.999999Z");
  EXPECT_EQ(MicroTime::from(time.to_time_point()), time);
  EXPECT_FALSE(json::from_text<MicroTime>("1").ok());
}

TEST(Time, PrintsReadBack) {
  std::mt19937_64 random(11);
  std::uniform_int_distribution<std::int64_t> any_second(-62'167'219'200, 253'402'300'799);
  for (int i = 0; i < 20'000; ++i) {
    const Time time = Time::from_unix(any_second(random));
    ASSERT_EQ(Time::parse(time.to_string()).value(), time) << time.to_string();
    const MicroTime micro = MicroTime::from_unix_micros(any_second(random) * 1'000'000 + i);
    ASSERT_EQ(MicroTime::parse(micro.to_string()).value(), micro) << micro.to_string();
    const Time later = time + seconds(1);
    ASSERT_LT(time, later);
    ASSERT_LT(time.to_string(), later.to_string()) << "text sorts like time";
  }
}

}  // namespace
}  // namespace basalt::api
