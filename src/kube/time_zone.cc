#include "kube/time_zone.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/strings.h"
#include "net/certificates.h"

namespace basalt::kube {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;
constexpr std::size_t kHeaderBytes = 44;
constexpr std::int64_t kOffsetMax = 26 * 3600;

// A file in the making of a zone; reads never leave it.
class FileBytes {
 public:
  explicit FileBytes(std::string_view text) : text_(text) {}
  [[nodiscard]] bool has(std::size_t count) const { return text_.size() - at_ >= count; }
  void skip(std::size_t count) { at_ += std::min(count, text_.size() - at_); }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  // Big-endian; 0 past the end.
  std::int64_t number(std::size_t bytes) {
    if (!has(bytes)) return skip(bytes), 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(text_[at_++]);
    if (bytes == 4) return static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
    return static_cast<std::int64_t>(value);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

struct Header {
  std::size_t utc_flags = 0;
  std::size_t standard_flags = 0;
  std::size_t leaps = 0;
  std::size_t times = 0;
  std::size_t types = 0;
  std::size_t letters = 0;
  [[nodiscard]] std::size_t body_bytes(std::size_t width) const {
    return times * (width + 1) + types * 6 + letters + leaps * (width + 4) + standard_flags + utc_flags;
  }
};

std::optional<Header> read_header(FileBytes& bytes) {
  if (!bytes.has(kHeaderBytes) || !bytes.rest().starts_with("TZif")) return std::nullopt;
  bytes.skip(20);
  Header header;
  for (std::size_t* count :
       {&header.utc_flags, &header.standard_flags, &header.leaps, &header.times, &header.types, &header.letters}) {
    const std::int64_t number = bytes.number(4);
    if (number < 0 || number > static_cast<std::int64_t>(kFileBytesMax)) return std::nullopt;
    *count = static_cast<std::size_t>(number);
  }
  return header;
}

Error malformed() { return Error::make(Reason::Invalid, "the file of the time zone is malformed"); }

// "1", "-3:30", "+5:45:10": hours, minutes, seconds.
std::optional<std::int64_t> parse_clock(std::string_view text) {
  std::int64_t sign = 1;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    if (text[0] == '-') sign = -1;
    text.remove_prefix(1);
  }
  std::int64_t seconds = 0;
  std::int64_t unit = 3600;
  for (const std::string_view part : base::split(text, ':')) {
    const auto number = base::parse_uint64(part);
    if (!number || *number > 167 || unit == 0) return std::nullopt;
    seconds += static_cast<std::int64_t>(*number) * unit;
    unit /= 60;
  }
  return sign * seconds;
}

// Takes the name of a clock ("CET", "<+03>") off the front.
bool skip_name(std::string_view& text) {
  if (text.starts_with('<')) {
    const std::size_t end = text.find('>');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
    return true;
  }
  const std::size_t end = std::min(text.find_first_of("+-0123456789,"), text.size());
  text.remove_prefix(end);
  return end > 0;
}

std::string_view take_clock(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("+-0123456789:"), text.size());
  const std::string_view clock = text.substr(0, end);
  text.remove_prefix(end);
  return clock;
}

std::int64_t days_of(std::chrono::year_month_day date) {
  return std::chrono::sys_days(date).time_since_epoch().count();
}

}  // namespace

std::optional<TimeZone::Turn> TimeZone::parse_turn(std::string_view text) {
  Turn turn;
  if (const auto parts = base::split_once(text, '/')) {
    const auto seconds = parse_clock(parts->second);
    if (!seconds) return std::nullopt;
    turn.seconds = *seconds;
    text = parts->first;
  }
  if (text.starts_with('M')) {
    const auto parts = base::split(text.substr(1), '.');
    if (parts.size() != 3) return std::nullopt;
    const auto month = base::parse_uint64(parts[0]);
    const auto week = base::parse_uint64(parts[1]);
    const auto day = base::parse_uint64(parts[2]);
    if (!month || !week || !day || *month < 1 || *month > 12 || *week < 1 || *week > 5 || *day > 6) return std::nullopt;
    turn.month = static_cast<int>(*month);
    turn.week = static_cast<int>(*week);
    turn.day = static_cast<int>(*day);
    return turn;
  }
  const bool has_j = text.starts_with('J');
  const auto day = base::parse_uint64(has_j ? text.substr(1) : text);
  if (!day || *day > 365 || (has_j && *day == 0)) return std::nullopt;
  turn.kind = has_j ? Turn::Kind::DayWithoutLeap : Turn::Kind::DayOfYear;
  turn.day = static_cast<int>(*day);
  return turn;
}

// "CET-1CEST,M3.5.0,M10.5.0/3": as POSIX has it for the variable TZ. Its signs count from the zone to UTC.
std::optional<TimeZone::Rule> TimeZone::parse_rule(std::string_view text) {
  Rule rule;
  if (!skip_name(text)) return std::nullopt;
  const auto offset = parse_clock(take_clock(text));
  if (!offset) return std::nullopt;
  rule.offset = -*offset;
  if (text.empty()) return rule;
  if (!skip_name(text)) return std::nullopt;
  rule.summer_offset = rule.offset + 3600;
  if (!text.empty() && !text.starts_with(',')) {
    const auto summer = parse_clock(take_clock(text));
    if (!summer) return std::nullopt;
    rule.summer_offset = -*summer;
  }
  const auto parts = base::split(text, ',');
  if (parts.size() != 3) return std::nullopt;
  rule.to_summer = parse_turn(parts[1]);
  rule.to_winter = parse_turn(parts[2]);
  if (!rule.to_summer || !rule.to_winter) return std::nullopt;
  return rule;
}

Result<TimeZone> TimeZone::parse(std::string_view file) {
  FileBytes bytes(file);
  const auto old_header = read_header(bytes);
  if (!old_header) return malformed();
  bytes.skip(old_header->body_bytes(4));
  const auto header = read_header(bytes);
  if (!header || header->types == 0 || !bytes.has(header->body_bytes(8))) return malformed();
  TimeZone zone;
  zone.transitions_.resize(header->times);
  for (Transition& transition : zone.transitions_) transition.at = bytes.number(8);
  std::vector<std::size_t> types(header->times);
  for (std::size_t& type : types) {
    type = static_cast<std::size_t>(bytes.number(1));
    if (type >= header->types) return malformed();
  }
  std::vector<std::int64_t> offsets(header->types);
  for (std::int64_t& offset : offsets) {
    offset = bytes.number(4);
    if (offset < -kOffsetMax || offset > kOffsetMax) return malformed();
    bytes.skip(2);
  }
  zone.first_offset_ = offsets[0];
  for (std::size_t i = 0; i < types.size(); ++i) {
    zone.transitions_[i].offset = offsets[types[i]];
    if (i > 0 && zone.transitions_[i].at <= zone.transitions_[i - 1].at) return malformed();
  }
  bytes.skip(header->letters + header->leaps * 12 + header->standard_flags + header->utc_flags);
  const auto lines = base::split(bytes.rest(), '\n');
  if (lines.size() < 2) return malformed();
  if (lines[1].empty()) return zone;
  zone.rule_ = parse_rule(lines[1]);
  if (!zone.rule_) return malformed();
  return zone;
}

Result<TimeZone> TimeZone::find(const std::string& name) {
  if (name == "UTC" || name.empty()) return TimeZone();
  const Error unknown = Error::make(Reason::NotFound, "the database of time zones has no zone " + base::quote(name));
  if (!is_zone_name(name)) return unknown;
  bool has_database = false;
  for (const std::string folder : {"/usr/share/zoneinfo/", "/usr/lib/zoneinfo/", "/usr/share/lib/zoneinfo/"}) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) continue;
    has_database = true;
    const auto content = net::read_file(folder + name, kFileBytesMax);
    if (content.ok() && content->starts_with("TZif")) return parse(*content);
  }
  if (has_database) return unknown;
  return Error::make(Reason::ServiceUnavailable, "this machine has no database of time zones (package tzdata)");
}

TimeZone TimeZone::of_this_process() {
  Result<TimeZone> zone = TimeZone();
  if (const char* name = std::getenv("TZ"); name != nullptr) {
    zone = find(*name == ':' ? name + 1 : name);
  } else if (const auto content = net::read_file("/etc/localtime", kFileBytesMax); content.ok()) {
    zone = parse(*content);
  }
  return zone.ok() ? *std::move(zone) : TimeZone();
}

// Seconds from 1970 on a clock that knows no offset.
std::int64_t TimeZone::local_time_of(const Turn& turn, int year) {
  using namespace std::chrono;
  const std::chrono::year y(year);
  std::int64_t days = days_of(y / January / 1);
  switch (turn.kind) {
    case Turn::Kind::DayOfYear:
      days += turn.day;
      break;
    case Turn::Kind::DayWithoutLeap:
      days += turn.day - 1 + (y.is_leap() && turn.day >= 60 ? 1 : 0);
      break;
    case Turn::Kind::WeekOfMonth: {
      const month m(static_cast<unsigned>(turn.month));
      const weekday day(static_cast<unsigned>(turn.day));
      days = turn.week == 5 ? days_of(year_month_day(sys_days(y / m / day[last])))
                            : days_of(year_month_day(sys_days(y / m / day[static_cast<unsigned>(turn.week)])));
    }
  }
  return days * 86'400 + turn.seconds;
}

std::int64_t TimeZone::offset_by_rule(std::int64_t unix_seconds) const {
  const Rule& rule = *rule_;
  if (!rule.to_summer || !rule.to_winter) return rule.offset;
  using namespace std::chrono;
  const year_month_day date(floor<days>(sys_seconds(seconds(unix_seconds + rule.offset))));
  const int year = static_cast<int>(date.year());
  const std::int64_t summer = local_time_of(*rule.to_summer, year) - rule.offset;
  const std::int64_t winter = local_time_of(*rule.to_winter, year) - rule.summer_offset;
  const bool is_summer = summer < winter ? unix_seconds >= summer && unix_seconds < winter
                                         : unix_seconds >= summer || unix_seconds < winter;
  return is_summer ? rule.summer_offset : rule.offset;
}

std::int64_t TimeZone::offset_at(std::int64_t unix_seconds) const {
  const auto next = std::upper_bound(transitions_.begin(), transitions_.end(), unix_seconds,
                                     [](std::int64_t time, const Transition& entry) { return time < entry.at; });
  if (next == transitions_.end() && rule_) return offset_by_rule(unix_seconds);
  return next == transitions_.begin() ? first_offset_ : std::prev(next)->offset;
}

std::string TimeZone::format(api::Time time) const {
  const std::int64_t offset = offset_at(time.unix_seconds());
  std::string text = (time + std::chrono::seconds(offset)).to_string();
  if (offset == 0 || text.empty()) return text;
  text.pop_back();
  const std::int64_t minutes = (offset < 0 ? -offset : offset) / 60;
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%c%02d:%02d", offset < 0 ? '-' : '+', static_cast<int>(minutes / 60),
                static_cast<int>(minutes % 60));
  return text + buffer.data();
}

bool is_zone_name(std::string_view name) {
  constexpr std::size_t kPartMax = 14;  // of IANA's names
  for (const std::string_view part : base::split(name, '/')) {
    if (part.empty() || part.size() > kPartMax || part == "." || part == ".." || part[0] == '-') return false;
    for (const char c : part) {
      if (!base::is_alphanumeric(c) && c != '.' && c != '-' && c != '_' && c != '+') return false;
    }
  }
  return true;
}

}  // namespace basalt::kube
