#include "webhooks/cron_syntax.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>

#include "api/duration.h"
#include "base/strings.h"
#include "net/certificates.h"

namespace basalt::webhooks {
namespace {

constexpr std::size_t kScheduleBytesMax = 1'000;

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

std::optional<int> read_value(const Field& field, std::string_view text) {
  for (std::size_t i = 0; i < field.words.size(); ++i) {
    if (base::equals_ignore_case_ascii(field.words[i], text)) return field.min + static_cast<int>(i);
  }
  if (text.empty() || !std::all_of(text.begin(), text.end(), base::is_digit)) return std::nullopt;
  const auto number = base::parse_uint64(text);
  if (!number || *number > 1'000'000) return std::nullopt;
  return static_cast<int>(*number);
}

std::string check_item(const Field& field, std::string_view item) {
  const std::string in_field = " in the field " + std::string(field.name) + " (" + std::to_string(field.min) + " to " +
                               std::to_string(field.max) + ")";
  const std::string quoted = base::quote(base::ellipsize(item, 40));
  const auto parts = base::split(item, '/');
  if (parts.size() > 2) return quoted + " has more than one step" + in_field;
  if (parts.size() == 2) {
    const auto step = parts[1].empty() || !base::is_digit(parts[1][0]) ? std::nullopt : base::parse_uint64(parts[1]);
    if (!step || *step == 0) return quoted + " has a step that is no positive number" + in_field;
  }
  if (parts[0] == "*" || parts[0] == "?") return "";
  const auto ends = base::split(parts[0], '-');
  if (ends.size() > 2) return quoted + " has more than one dash" + in_field;
  const auto first = read_value(field, ends[0]);
  const auto last = ends.size() == 2 ? read_value(field, ends[1]) : first;
  if (!first || !last) return quoted + " is not a number or range" + in_field;
  if (*first < field.min || *last > field.max || *first > field.max) {
    std::string hint;
    if (field.max == 6 && *last == 7) hint = "; Sunday is 0";
    return quoted + " is out of range" + in_field + hint;
  }
  if (*first > *last) return quoted + " ends before it begins" + in_field;
  return "";
}

}  // namespace

std::string cron_complaint(std::string_view schedule) {
  if (schedule.size() > kScheduleBytesMax) return "it is longer than " + std::to_string(kScheduleBytesMax) + " bytes";
  if (schedule.starts_with('@')) {
    if (const auto every = base::strip_prefix(schedule, "@every ")) {
      const auto duration = api::Duration::parse(base::trim(*every));
      if (!duration.ok()) return "@every needs a duration such as 1h30m: " + duration.error().message;
      return "";
    }
    if (std::find(std::begin(kDescriptors), std::end(kDescriptors), schedule) != std::end(kDescriptors)) return "";
    return "there is no descriptor " + base::quote(schedule) + base::did_you_mean(schedule, kDescriptors);
  }
  const auto fields = base::split_words(schedule);
  if (fields.size() != std::size(kFields)) {
    return "it has " + std::to_string(fields.size()) +
           " fields; 5 are needed: minute, hour, day of month, month, day of week";
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    for (const std::string_view item : base::split(fields[i], ',')) {
      if (item.empty()) continue;
      if (std::string complaint = check_item(kFields[i], item); !complaint.empty()) return complaint;
    }
  }
  return "";
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

ZoneKnowledge find_zone(const std::string& name) {
  if (name == "UTC") return ZoneKnowledge::Known;
  if (!is_zone_name(name)) return ZoneKnowledge::Unknown;
  bool has_database = false;
  for (const std::string folder : {"/usr/share/zoneinfo/", "/usr/lib/zoneinfo/", "/usr/share/lib/zoneinfo/"}) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) continue;
    has_database = true;
    const auto content = net::read_file(folder + name, 1 << 20);
    if (content.ok() && content->starts_with("TZif")) return ZoneKnowledge::Known;
  }
  return has_database ? ZoneKnowledge::Unknown : ZoneKnowledge::NoDatabase;
}

}  // namespace basalt::webhooks
