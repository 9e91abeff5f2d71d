#include "kube/cron_schedule.h"

#include <algorithm>
#include <span>

#include "api/duration.h"
#include "base/strings.h"

namespace basalt::kube {
namespace {

constexpr std::size_t kScheduleBytesMax = 1'000;
constexpr std::int64_t kDaysAheadMax = 5 * 366;

enum : std::size_t { kMinute, kHour, kDayOfMonth, kMonth, kDayOfWeek, kFieldCount };

struct Field {
  std::string_view name;
  int min;
  int max;
  std::span<const std::string_view> words;  // for min, min + 1, ...
};

constexpr std::string_view kMonths[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                        "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::string_view kDays[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
constexpr Field kFields[] = {{"minute", 0, 59, {}},
                             {"hour", 0, 23, {}},
                             {"day of month", 1, 31, {}},
                             {"month", 1, 12, kMonths},
                             {"day of week", 0, 6, kDays}};
constexpr std::string_view kDescriptors[] = {"@yearly", "@annually", "@monthly", "@weekly",
                                             "@daily",  "@midnight", "@hourly"};
constexpr std::string_view kMeanings[] = {"0 0 1 1 *", "0 0 1 1 *", "0 0 1 * *", "0 0 * * 0",
                                          "0 0 * * *", "0 0 * * *", "0 * * * *"};

std::optional<int> read_value(const Field& field, std::string_view text) {
  for (std::size_t i = 0; i < field.words.size(); ++i) {
    if (base::equals_ignore_case_ascii(field.words[i], text)) return field.min + static_cast<int>(i);
  }
  if (text.empty() || !std::all_of(text.begin(), text.end(), base::is_digit)) return std::nullopt;
  const auto number = base::parse_uint64(text);
  if (!number || *number > 1'000'000) return std::nullopt;
  return static_cast<int>(*number);
}

struct Item {
  std::uint64_t bits = 0;
  bool is_any = false;  // "*" without a step
};

Result<Item> read_item(const Field& field, std::string_view item) {
  const auto complain = [&](const std::string& what) {
    return Error::make(Reason::Invalid, base::quote(base::ellipsize(item, 40)) + what + " in the field " +
                                            std::string(field.name) + " (" + std::to_string(field.min) + " to " +
                                            std::to_string(field.max) + ")");
  };
  const auto parts = base::split(item, '/');
  if (parts.size() > 2) return complain(" has more than one step");
  std::uint64_t step = 1;
  if (parts.size() == 2) {
    const auto number = parts[1].empty() || !base::is_digit(parts[1][0]) ? std::nullopt : base::parse_uint64(parts[1]);
    if (!number || *number == 0) return complain(" has a step that is no positive number");
    step = std::min<std::uint64_t>(*number, 64);
  }
  Item read;
  int first = field.min;
  int last = field.max;
  if (parts[0] == "*" || parts[0] == "?") {
    read.is_any = step == 1;
  } else {
    const auto ends = base::split(parts[0], '-');
    if (ends.size() > 2) return complain(" has more than one dash");
    const auto from = read_value(field, ends[0]);
    const auto to = ends.size() == 2 ? read_value(field, ends[1]) : from;
    if (!from || !to) return complain(" is not a number or range");
    if (*from < field.min || *to > field.max || *from > field.max) {
      Error error = complain(" is out of range");
      if (field.max == 6 && *to == 7) error.message += "; Sunday is 0";
      return error;
    }
    if (*from > *to) return complain(" ends before it begins");
    first = *from;
    // A number with a step begins there and goes on.
    last = ends.size() == 1 && parts.size() == 2 ? field.max : *to;
  }
  for (int value = first; value <= last; value += static_cast<int>(step)) read.bits |= std::uint64_t{1} << value;
  return read;
}

// Where a clock in the zone stands.
struct Clock {
  std::int64_t day = 0;  // since 1970
  std::int64_t second = 0;
};

Clock clock_at(std::int64_t time, const TimeZone& zone) {
  const std::int64_t local = time + zone.offset_at(time);
  const std::int64_t day = local >= 0 ? local / 86'400 : (local - 86'399) / 86'400;
  return {day, local - day * 86'400};
}

// The first moment of the next hour or day on the zone's clocks, or of one on the way there if the clocks are changed
// between: a change may put the naive answer past the beginning.
std::int64_t step_to_next(std::int64_t time, std::int64_t unit, const TimeZone& zone) {
  const Clock clock = clock_at(time, zone);
  const std::int64_t later = time + unit - clock.second % unit;
  const Clock there = clock_at(later, zone);
  const std::int64_t beyond = there.second % unit;
  if (beyond == 0) return later;
  const std::int64_t earlier = later - beyond;
  const Clock before = clock_at(earlier, zone);
  const bool is_same = before.day == there.day && before.second / unit == there.second / unit;
  return is_same && earlier > time ? earlier : later;
}

}  // namespace

Result<CronSchedule> CronSchedule::parse(std::string_view text) {
  const auto complain = [](std::string what) { return Error::make(Reason::Invalid, std::move(what)); };
  if (text.size() > kScheduleBytesMax)
    return complain("it is longer than " + std::to_string(kScheduleBytesMax) + " bytes");
  CronSchedule schedule;
  if (text.starts_with('@')) {
    if (const auto every = base::strip_prefix(text, "@every ")) {
      const auto duration = api::Duration::parse(base::trim(*every));
      if (!duration.ok()) return complain("@every needs a duration such as 1h30m: " + duration.error().message);
      const std::chrono::seconds whole = duration->seconds();
      schedule.every_ = std::max<std::chrono::seconds>(whole, std::chrono::seconds(1));
      return schedule;
    }
    const auto found = std::find(std::begin(kDescriptors), std::end(kDescriptors), text);
    if (found == std::end(kDescriptors))
      return complain("there is no descriptor " + base::quote(text) + base::did_you_mean(text, kDescriptors));
    text = kMeanings[found - std::begin(kDescriptors)];
  }
  const auto fields = base::split_words(text);
  if (fields.size() != kFieldCount) {
    return complain("it has " + std::to_string(fields.size()) +
                    " fields; 5 are needed: minute, hour, day of month, month, day of week");
  }
  for (std::size_t i = 0; i < kFieldCount; ++i) {
    for (const std::string_view item : base::split(fields[i], ',')) {
      if (item.empty()) continue;
      BASALT_TRY(const Item read, read_item(kFields[i], item));
      schedule.bits_[i] |= read.bits;
      if (i == kDayOfMonth) schedule.any_day_of_month_ |= read.is_any;
      if (i == kDayOfWeek) schedule.any_day_of_week_ |= read.is_any;
    }
  }
  return schedule;
}

bool CronSchedule::day_fits(unsigned day_of_month, unsigned day_of_week) const {
  const bool month_fits = has(kDayOfMonth, day_of_month);
  const bool week_fits = has(kDayOfWeek, day_of_week);
  return any_day_of_month_ || any_day_of_week_ ? month_fits && week_fits : month_fits || week_fits;
}

std::optional<api::Time> CronSchedule::next(api::Time after, const TimeZone& zone) const {
  using namespace std::chrono;
  if (every_) return after + *every_;
  std::int64_t time = after.unix_seconds();
  time += 60 - clock_at(time, zone).second % 60;
  const std::int64_t end = time + kDaysAheadMax * 86'400;
  while (time < end) {
    const Clock clock = clock_at(time, zone);
    const sys_days day{days(clock.day)};
    const year_month_day date(day);
    if (!has(kMonth, static_cast<unsigned>(date.month())) ||
        !day_fits(static_cast<unsigned>(date.day()), weekday(day).c_encoding())) {
      time = step_to_next(time, 86'400, zone);
    } else if (!has(kHour, static_cast<unsigned>(clock.second / 3'600))) {
      time = step_to_next(time, 3'600, zone);
    } else if (!has(kMinute, static_cast<unsigned>(clock.second / 60 % 60))) {
      time += 60;
    } else {
      return api::Time::from_unix(time);
    }
  }
  return std::nullopt;
}

// Searched from `now` backwards in ever longer stretches, so that a schedule of every minute is as quick after a year.
api::Time CronSchedule::latest_until(api::Time now, api::Time fallback, const TimeZone& zone) const {
  const auto last_from = [&](api::Time latest) {
    for (auto later = next(latest, zone); later && *later <= now; later = next(latest, zone)) latest = *later;
    return latest;
  };
  for (std::chrono::seconds stretch(60); now - stretch > fallback; stretch *= 2) {
    const auto found = next(now - stretch, zone);
    if (found && *found <= now) return last_from(*found);
  }
  return last_from(fallback);
}

std::optional<CronSchedule::Due> CronSchedule::due(api::Time after, api::Time now, const TimeZone& zone) const {
  if (every_) {
    const std::int64_t count = now > after ? (now - after) / *every_ : 0;
    if (count == 0) return std::nullopt;
    return Due{after + *every_ * count, std::min(count, kMissedMax)};
  }
  Due due;
  auto found = next(after, zone);
  for (; found && *found <= now && due.count < kMissedMax; found = next(*found, zone)) {
    due.latest = *found;
    ++due.count;
  }
  if (due.count == 0) return std::nullopt;
  if (found && *found <= now) due.latest = latest_until(now, due.latest, zone);
  return due;
}

std::string cron_complaint(std::string_view schedule) {
  const auto parsed = CronSchedule::parse(schedule);
  return parsed.ok() ? "" : parsed.error().message;
}

}  // namespace basalt::kube
