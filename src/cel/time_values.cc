#include "cel/time_values.h"

#include <chrono>

#include "api/duration.h"
#include "api/time.h"
#include "base/strings.h"
#include "cel/function.h"

namespace basalt::cel {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
constexpr std::int64_t kSecondsMin = -62135596800;  // 0001-01-01T00:00:00Z
constexpr std::int64_t kSecondsMax = 253402300799;  // 9999-12-31T23:59:59Z

Error time_overflow(std::string_view what) { return Error::invalid_input(std::string(what) + " overflow"); }

// ".5", ".000000001" without trailing zeros.
std::string fraction_text(std::int64_t nanos) {
  if (nanos == 0) return "";
  std::string digits = std::to_string(kNanosPerSecond + nanos).substr(1);
  while (digits.back() == '0') digits.pop_back();
  return "." + digits;
}

std::optional<std::int64_t> zone_offset_seconds(std::string_view zone) {
  if (zone.empty() || zone == "UTC" || zone == "Z") return 0;
  const bool negative = zone.front() == '-';
  if (zone.front() == '-' || zone.front() == '+') zone.remove_prefix(1);
  const auto parts = base::split_once(zone, ':');
  if (!parts || parts->first.size() != 2 || parts->second.size() != 2) return std::nullopt;
  const auto hours = base::parse_uint64(parts->first);
  const auto minutes = base::parse_uint64(parts->second);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const auto seconds = static_cast<std::int64_t>(*hours * 3600 + *minutes * 60);
  return negative ? -seconds : seconds;
}

Result<Value> part_of_duration(const Duration& duration, std::string_view part) {
  const std::int64_t nanos = duration.nanos;
  if (part == "getHours") return Value::of_int(nanos / (3600 * kNanosPerSecond));
  if (part == "getMinutes") return Value::of_int(nanos / (60 * kNanosPerSecond));
  if (part == "getSeconds") return Value::of_int(nanos / kNanosPerSecond);
  if (part == "getMilliseconds") return Value::of_int(nanos / 1'000'000 % 1000);
  return no_overload();
}

Result<Value> part_of_day(std::int64_t second_of_day, std::int32_t nanos, std::string_view part) {
  if (part == "getHours") return Value::of_int(second_of_day / 3600);
  if (part == "getMinutes") return Value::of_int(second_of_day / 60 % 60);
  if (part == "getSeconds") return Value::of_int(second_of_day % 60);
  if (part == "getMilliseconds") return Value::of_int(nanos / 1'000'000);
  return no_overload();
}

Result<Value> part_of_date(std::chrono::sys_days day, std::string_view part) {
  const std::chrono::year_month_day date(day);
  if (part == "getFullYear") return Value::of_int(static_cast<int>(date.year()));
  if (part == "getMonth") return Value::of_int(static_cast<unsigned>(date.month()) - 1);
  if (part == "getDate") return Value::of_int(static_cast<unsigned>(date.day()));
  if (part == "getDayOfMonth") return Value::of_int(static_cast<unsigned>(date.day()) - 1);
  if (part == "getDayOfWeek") return Value::of_int(std::chrono::weekday(day).c_encoding());
  if (part == "getDayOfYear") {
    const std::chrono::sys_days first =
        std::chrono::year_month_day(date.year(), std::chrono::January, std::chrono::day(1));
    return Value::of_int((day - first).count());
  }
  return no_overload();
}

}  // namespace

std::optional<Timestamp> make_timestamp(std::int64_t seconds, std::int64_t nanos) {
  std::int64_t carried = nanos / kNanosPerSecond;
  std::int64_t rest = nanos % kNanosPerSecond;
  if (rest < 0) {
    rest += kNanosPerSecond;
    --carried;
  }
  if (__builtin_add_overflow(seconds, carried, &seconds)) return std::nullopt;
  if (seconds < kSecondsMin || seconds > kSecondsMax) return std::nullopt;
  return Timestamp{seconds, static_cast<std::int32_t>(rest)};
}

std::optional<Timestamp> parse_timestamp(std::string_view text) {
  const auto time = api::Time::parse(text);
  if (!time.ok()) return std::nullopt;
  std::int64_t nanos = 0;
  if (const std::size_t dot = text.find_first_of(".,"); dot != std::string_view::npos) {
    std::int64_t unit = kNanosPerSecond / 10;
    for (std::size_t i = dot + 1; i < text.size() && base::is_digit(text[i]); ++i, unit /= 10) {
      nanos += (text[i] - '0') * unit;
    }
  }
  return make_timestamp(time->unix_seconds(), nanos);
}

std::string timestamp_text(const Timestamp& time) {
  std::string text = api::Time::from_unix(time.seconds).to_string();
  text.pop_back();
  return text + fraction_text(time.nanos) + "Z";
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto duration = api::Duration::parse(text);
  if (!duration.ok()) return std::nullopt;
  return Duration{duration->value.count()};
}

std::string duration_text(const Duration& duration) {
  const std::int64_t seconds = duration.nanos / kNanosPerSecond;
  const std::int64_t rest = duration.nanos % kNanosPerSecond;
  const std::string sign = duration.nanos < 0 && seconds == 0 ? "-" : "";
  return sign + std::to_string(seconds) + fraction_text(rest < 0 ? -rest : rest) + "s";
}

Result<Value> time_part(const Value& time, std::string_view part, std::string_view zone) {
  if (const auto* duration = time.get<Duration>()) return part_of_duration(*duration, part);
  const auto* stamp = time.get<Timestamp>();
  if (stamp == nullptr) return no_overload();
  const auto offset = zone_offset_seconds(zone);
  if (!offset)
    return Error::invalid_input("unknown time zone " + std::string(zone) + "; give UTC or an offset (+02:00)");
  const std::chrono::sys_seconds local{std::chrono::seconds(stamp->seconds + *offset)};
  const auto day = std::chrono::floor<std::chrono::days>(local);
  constexpr std::string_view kOfDay[] = {"getHours", "getMinutes", "getSeconds", "getMilliseconds"};
  for (const std::string_view name : kOfDay) {
    if (part == name) return part_of_day((local - day).count(), stamp->nanos, part);
  }
  return part_of_date(day, part);
}

Result<Value> add_times(const Value& a, const Value& b) {
  if (a.get<Duration>() && b.get<Timestamp>()) return add_times(b, a);
  const auto* delta = b.get<Duration>();
  if (delta == nullptr) return no_overload();
  if (const auto* duration = a.get<Duration>()) {
    Duration sum;
    if (__builtin_add_overflow(duration->nanos, delta->nanos, &sum.nanos)) return time_overflow("duration");
    return Value(Value::Data(sum));
  }
  const auto* stamp = a.get<Timestamp>();
  if (stamp == nullptr) return no_overload();
  const auto sum =
      make_timestamp(stamp->seconds + delta->nanos / kNanosPerSecond, stamp->nanos + delta->nanos % kNanosPerSecond);
  if (!sum) return time_overflow("timestamp");
  return Value(Value::Data(*sum));
}

Result<Value> subtract_times(const Value& a, const Value& b) {
  if (const auto* delta = b.get<Duration>()) {
    if (delta->nanos == INT64_MIN) return time_overflow("duration");
    return add_times(a, Value(Value::Data(Duration{-delta->nanos})));
  }
  const auto* from = b.get<Timestamp>();
  const auto* to = a.get<Timestamp>();
  if (from == nullptr || to == nullptr) return no_overload();
  Duration difference;
  if (__builtin_mul_overflow(to->seconds - from->seconds, kNanosPerSecond, &difference.nanos) ||
      __builtin_add_overflow(difference.nanos, to->nanos - from->nanos, &difference.nanos)) {
    return time_overflow("duration");
  }
  return Value(Value::Data(difference));
}

}  // namespace basalt::cel
