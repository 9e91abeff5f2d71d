#pragma once

#include <string>
#include <string_view>

namespace basalt::webhooks {

// What is wrong with a cron schedule of five fields (or a descriptor such as @daily, @every 1h30m); "" if nothing. The
// grammar is the one that CronJob documents; the controller computes times, here it is only read.
[[nodiscard]] std::string cron_complaint(std::string_view schedule);

// Whether every part of the name could belong to a time zone: letters, digits, ".", "-", "_", "+", at most 14 long.
[[nodiscard]] bool is_zone_name(std::string_view name);
enum class ZoneKnowledge { Known, Unknown, NoDatabase };
// Looks for the zone's file in the system's database of time zones.
[[nodiscard]] ZoneKnowledge find_zone(const std::string& name);

}  // namespace basalt::webhooks
