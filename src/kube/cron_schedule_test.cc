#include "kube/cron_schedule.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace basalt::kube {
namespace {

api::Time at(std::string_view text) { return *api::Time::parse(text); }

std::vector<std::string> times(std::string_view schedule, std::string_view after, int count,
                               const TimeZone& zone = {}) {
  const auto parsed = CronSchedule::parse(schedule);
  EXPECT_TRUE(parsed.ok()) << schedule;
  std::vector<std::string> found;
  api::Time time = at(after);
  for (int i = 0; i < count && parsed.ok(); ++i) {
    const auto next = parsed->next(time, zone);
    if (!next) break;
    time = *next;
    found.push_back(zone.format(time));
  }
  return found;
}

using Texts = std::vector<std::string>;

TEST(CronSchedule, FieldsAndTheirForms) {
  EXPECT_EQ(times("* * * * *", "2024-01-01T00:00:30Z", 2), (Texts{"2024-01-01T00:01:00Z", "2024-01-01T00:02:00Z"}));
  EXPECT_EQ(times("*/20 6-8/2 * * *", "2024-01-01T00:00:00Z", 4),
            (Texts{"2024-01-01T06:00:00Z", "2024-01-01T06:20:00Z", "2024-01-01T06:40:00Z", "2024-01-01T08:00:00Z"}));
  // A number with a step goes on to the end of its range.
  EXPECT_EQ(times("50/5 0 * * *", "2024-01-01T00:00:00Z", 3),
            (Texts{"2024-01-01T00:50:00Z", "2024-01-01T00:55:00Z", "2024-01-02T00:50:00Z"}));
  EXPECT_EQ(times("0 12 29 FEB *", "2024-03-01T00:00:00Z", 1), (Texts{"2028-02-29T12:00:00Z"}));
  EXPECT_EQ(times("0 0 * jan-MAR,dec Mon", "2024-03-20T00:00:00Z", 2),
            (Texts{"2024-03-25T00:00:00Z", "2024-12-02T00:00:00Z"}));
  EXPECT_EQ(times("0 0 30 2 *", "2024-01-01T00:00:00Z", 1), Texts{});
  EXPECT_EQ(times(", * * * *", "2024-01-01T00:00:00Z", 1), Texts{});
}

TEST(CronSchedule, DaysOfMonthAndWeek) {
  // Both given: one is enough. 2024-01-05 is a Friday.
  EXPECT_EQ(times("0 0 13 * fri", "2024-01-04T00:00:00Z", 3),
            (Texts{"2024-01-05T00:00:00Z", "2024-01-12T00:00:00Z", "2024-01-13T00:00:00Z"}));
  EXPECT_EQ(times("0 0 * * 5", "2024-01-04T00:00:00Z", 2), (Texts{"2024-01-05T00:00:00Z", "2024-01-12T00:00:00Z"}));
  EXPECT_EQ(times("0 0 13 * ?", "2024-01-04T00:00:00Z", 2), (Texts{"2024-01-13T00:00:00Z", "2024-02-13T00:00:00Z"}));
  // A step is no longer "any": every other day, or a Friday.
  EXPECT_EQ(times("0 0 */15 * fri", "2024-01-04T00:00:00Z", 3),
            (Texts{"2024-01-05T00:00:00Z", "2024-01-12T00:00:00Z", "2024-01-16T00:00:00Z"}));
}

TEST(CronSchedule, Descriptors) {
  EXPECT_EQ(times("@hourly", "2024-01-01T00:30:00Z", 1), Texts{"2024-01-01T01:00:00Z"});
  EXPECT_EQ(times("@daily", "2024-01-01T00:30:00Z", 1), Texts{"2024-01-02T00:00:00Z"});
  EXPECT_EQ(times("@midnight", "2024-01-01T00:30:00Z", 1), Texts{"2024-01-02T00:00:00Z"});
  EXPECT_EQ(times("@weekly", "2024-01-01T00:30:00Z", 1), Texts{"2024-01-07T00:00:00Z"});
  EXPECT_EQ(times("@monthly", "2024-01-01T00:30:00Z", 1), Texts{"2024-02-01T00:00:00Z"});
  EXPECT_EQ(times("@yearly", "2024-01-01T00:30:00Z", 1), Texts{"2025-01-01T00:00:00Z"});
  EXPECT_EQ(times("@annually", "2024-01-01T00:30:00Z", 1), Texts{"2025-01-01T00:00:00Z"});
  EXPECT_EQ(times("@every 1h30m", "2024-01-01T00:00:10Z", 2), (Texts{"2024-01-01T01:30:10Z", "2024-01-01T03:00:10Z"}));
  for (const char* bad : {"@fortnightly", "@every", "@every x", "", "* * * *", "* * * * * *", "60 * * * *",
                          "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "5-1 * * * *", "*/0 * * * *",
                          "a * * * *", "1--2 * * * *", "-1 * * * *", "* * * foo *", "1/-1 * * * *"})
    EXPECT_NE(cron_complaint(bad), "") << bad;
}

TEST(CronSchedule, WhatIsDueAndHowOftenItWasMissed) {
  const auto due = [](std::string_view schedule, std::string_view after, std::string_view now) {
    const auto found = CronSchedule::parse(schedule)->due(at(after), at(now), {});
    return found ? found->latest.to_string() + " " + std::to_string(found->count) : "nothing";
  };
  EXPECT_EQ(due("0 * * * *", "2024-01-01T00:00:00Z", "2024-01-01T00:59:59Z"), "nothing");
  EXPECT_EQ(due("0 * * * *", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"), "2024-01-01T01:00:00Z 1");
  EXPECT_EQ(due("0 * * * *", "2024-01-01T00:00:00Z", "2024-01-01T05:59:00Z"), "2024-01-01T05:00:00Z 5");
  EXPECT_EQ(due("* * * * *", "2020-01-01T00:00:00Z", "2024-01-01T05:59:01Z"), "2024-01-01T05:59:00Z 101");
  // A burst long ago, of which the last counts.
  EXPECT_EQ(due("* * 1 1 *", "2022-12-31T00:00:00Z", "2023-12-31T00:00:00Z"), "2023-01-01T23:59:00Z 101");
  EXPECT_EQ(due("@every 7s", "2024-01-01T00:00:00Z", "2024-01-01T00:00:20Z"), "2024-01-01T00:00:14Z 2");
  EXPECT_EQ(due("0 0 30 2 *", "2020-01-01T00:00:00Z", "2024-01-01T00:00:00Z"), "nothing");
  EXPECT_EQ(due("* * * * *", "2024-01-02T00:00:00Z", "2024-01-01T00:00:00Z"), "nothing");
}

// A file of the second version with these transitions, and a rule for what comes after.
std::string zone_file(const std::vector<std::pair<std::int64_t, int>>& transitions, const std::vector<int>& offsets,
                      std::string_view rule) {
  const auto number = [](std::int64_t value, int bytes) {
    std::string text;
    for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return text;
  };
  const auto header = [&](std::size_t times, std::size_t types, std::size_t letters) {
    std::string text = "TZif2" + std::string(15, '\0') + number(0, 4) + number(0, 4) + number(0, 4);
    return text + number(static_cast<std::int64_t>(times), 4) + number(static_cast<std::int64_t>(types), 4) +
           number(static_cast<std::int64_t>(letters), 4);
  };
  std::string file = header(0, 1, 1) + std::string(7, '\0') + header(transitions.size(), offsets.size(), 1);
  for (const auto& [time, type] : transitions) file += number(time, 8);
  for (const auto& [time, type] : transitions) file += static_cast<char>(type);
  for (const int offset : offsets) file += number(offset, 4) + std::string(2, '\0');
  return file + std::string(1, '\0') + "\n" + std::string(rule) + "\n";
}

TimeZone zone_of(std::string_view rule) {
  const auto zone = TimeZone::parse(zone_file({}, {0}, rule));
  EXPECT_TRUE(zone.ok()) << rule;
  return zone.ok() ? *zone : TimeZone();
}

TEST(TimeZone, TransitionsAndTheRuleAfterThem) {
  const std::int64_t then = at("2000-06-01T00:00:00Z").unix_seconds();
  const auto zone = TimeZone::parse(zone_file({{then, 1}}, {3600, 7200}, "<+05>-5"));
  ASSERT_TRUE(zone.ok());
  EXPECT_EQ(zone->offset_at(then - 1), 3600);
  EXPECT_EQ(zone->offset_at(then), 5 * 3600);
  const auto without_rule = TimeZone::parse(zone_file({{then, 1}}, {3600, 7200}, ""));
  ASSERT_TRUE(without_rule.ok());
  EXPECT_EQ(without_rule->offset_at(then), 7200);
}

TEST(TimeZone, RulesOfTheYear) {
  const TimeZone berlin = zone_of("CET-1CEST,M3.5.0,M10.5.0/3");
  EXPECT_EQ(berlin.format(at("2024-03-31T00:59:59Z")), "2024-03-31T01:59:59+01:00");
  EXPECT_EQ(berlin.format(at("2024-03-31T01:00:00Z")), "2024-03-31T03:00:00+02:00");
  EXPECT_EQ(berlin.format(at("2024-10-27T00:59:59Z")), "2024-10-27T02:59:59+02:00");
  EXPECT_EQ(berlin.format(at("2024-10-27T01:00:00Z")), "2024-10-27T02:00:00+01:00");
  // The south: summer over the turn of the year. And a summer that is said to be winter.
  const TimeZone sydney = zone_of("AEST-10AEDT,M10.1.0,M4.1.0/3");
  EXPECT_EQ(sydney.format(at("2024-01-01T00:00:00Z")), "2024-01-01T11:00:00+11:00");
  EXPECT_EQ(sydney.format(at("2024-07-01T00:00:00Z")), "2024-07-01T10:00:00+10:00");
  const TimeZone dublin = zone_of("IST-1GMT0,M10.5.0,M3.5.0/1");
  EXPECT_EQ(dublin.format(at("2024-07-01T00:00:00Z")), "2024-07-01T01:00:00+01:00");
  EXPECT_EQ(dublin.format(at("2024-01-01T00:00:00Z")), "2024-01-01T00:00:00Z");
  EXPECT_EQ(zone_of("<-0330>3:30").format(at("2024-01-01T00:00:00Z")), "2023-12-31T20:30:00-03:30");
  const TimeZone by_day = zone_of("AAA0BBB,J60/0,300/0");
  EXPECT_EQ(by_day.offset_at(at("2024-02-29T23:59:59Z").unix_seconds()), 0);
  EXPECT_EQ(by_day.offset_at(at("2024-03-01T00:00:00Z").unix_seconds()), 3600);
}

TEST(TimeZone, WhatIsNoFileIsRefused) {
  const std::string good = zone_file({{1000, 1}}, {0, 3600}, "UTC0");
  ASSERT_TRUE(TimeZone::parse(good).ok());
  for (std::size_t length = 0; length + 6 < good.size(); ++length)
    EXPECT_FALSE(TimeZone::parse(std::string_view(good).substr(0, length)).ok()) << length;
  for (const char* rule : {"5", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,x,y",
                           "CET-1CEST,M3.5.0,J0", "<CET-1", "A-1:2:3:4", "CET-999"})
    EXPECT_FALSE(TimeZone::parse(zone_file({}, {0}, rule)).ok()) << rule;
  EXPECT_FALSE(TimeZone::parse(zone_file({{1000, 2}}, {0, 3600}, "")).ok());
  EXPECT_FALSE(TimeZone::parse(zone_file({{1000, 0}, {1000, 1}}, {0, 3600}, "")).ok());
  EXPECT_TRUE(TimeZone::find("../etc/passwd").error().is(Reason::NotFound));
}

TEST(TimeZone, ThatOfTheProcess) {
  const char* before = std::getenv("TZ");
  const std::string kept = before == nullptr ? "" : before;
  const auto offset_with = [](const char* name) {
    ::setenv("TZ", name, 1);
    return TimeZone::of_this_process().offset_at(1'767'225'600);
  };
  EXPECT_EQ(offset_with("Asia/Shanghai"), 8 * 3600);
  EXPECT_EQ(offset_with(":Asia/Tokyo"), 9 * 3600);
  EXPECT_EQ(offset_with("Mars/Olympus"), 0);
  before == nullptr ? ::unsetenv("TZ") : ::setenv("TZ", kept.c_str(), 1);
}

TEST(CronSchedule, ClocksThatArePutForwardAndBack) {
  const TimeZone berlin = zone_of("CET-1CEST,M3.5.0,M10.5.0/3");
  // There is no half past two on the last Sunday of March.
  EXPECT_EQ(times("30 2 * * *", "2024-03-30T00:00:00Z", 2, berlin),
            (Texts{"2024-03-30T02:30:00+01:00", "2024-04-01T02:30:00+02:00"}));
  EXPECT_EQ(times("0 3 * * *", "2024-03-31T00:00:00Z", 2, berlin),
            (Texts{"2024-03-31T03:00:00+02:00", "2024-04-01T03:00:00+02:00"}));
  // ... and two of them in October.
  EXPECT_EQ(times("30 2 * * *", "2024-10-26T12:00:00Z", 3, berlin),
            (Texts{"2024-10-27T02:30:00+02:00", "2024-10-27T02:30:00+01:00", "2024-10-28T02:30:00+01:00"}));
  EXPECT_EQ(times("@daily", "2024-10-26T12:00:00Z", 2, berlin),
            (Texts{"2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00"}));
  // A day that begins at one.
  const TimeZone cairo = zone_of("EET-2EEST,M4.5.5/0,M10.5.4/24");
  EXPECT_EQ(times("0 1 * * *", "2024-04-25T12:00:00Z", 1, cairo), Texts{"2024-04-26T01:00:00+03:00"});
  EXPECT_EQ(times("0 0 * * *", "2024-04-25T12:00:00Z", 1, cairo), Texts{"2024-04-27T00:00:00+03:00"});
  // Half an hour.
  const TimeZone howe = zone_of("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0");
  EXPECT_EQ(times("15 * * * *", "2024-04-06T14:00:00Z", 3, howe),
            (Texts{"2024-04-07T01:15:00+11:00", "2024-04-07T02:15:00+10:30", "2024-04-07T03:15:00+10:30"}));
}

}  // namespace
}  // namespace basalt::kube
