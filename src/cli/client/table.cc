#include "cli/client/table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "api/duration.h"
#include "base/strings.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kGap = 3;

// Colours stay; what else could move the cursor does not.
std::string safe_cell(std::string_view text) {
  const bool has_control = std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\x1b') || c == '\x7f';
  });
  return has_control ? base::escape_controls(text) : std::string(text);
}

}  // namespace

void Table::print(std::ostream& out, const Terminal& terminal, std::string_view indent, bool with_headings) const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(display_width(heading));
  for (const auto& cells : rows_) {
    for (std::size_t i = 0; i < cells.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(safe_cell(cells[i])));
  }
  const auto print_line = [&](const std::vector<std::string>& cells) {
    std::string line(indent);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string cell = safe_cell(cells[i]);
      line += i + 1 < cells.size() ? pad(cell, widths[i] + kGap) : cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << fit(line, terminal.width) << "\n";
  };
  if (with_headings) print_line(headings_);
  for (const auto& cells : rows_) print_line(cells);
}

void print_fixed(std::ostream& out, const std::vector<Column>& columns,
                 const std::vector<std::vector<std::string>>& rows) {
  std::string line;
  for (const Column& column : columns) line += pad(column.heading, column.width);
  out << line << "\n";
  for (const auto& cells : rows) {
    line.clear();
    for (std::size_t i = 0; i < cells.size() && i < columns.size(); ++i) line += pad(cells[i], columns[i].width);
    out << line << "\n";
  }
}

std::string age_of(api::Time since, rt::WallTime now) {
  if (since.is_zero()) return "<unknown>";
  return api::human_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()) -
                             std::chrono::nanoseconds(std::chrono::seconds(since.unix_seconds())));
}

std::string local_date(api::Time time) {
  if (time.is_zero()) return "0001-01-01";
  const std::time_t seconds = static_cast<std::time_t>(time.unix_seconds());
  std::tm parts{};
  std::array<char, 32> text{};
  localtime_r(&seconds, &parts);
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

std::string go_time(api::Time time) {
  if (time.is_zero()) return "0001-01-01 00:00:00 +0000 UTC";
  const std::time_t seconds = static_cast<std::time_t>(time.unix_seconds());
  std::tm parts{};
  std::array<char, 64> text{};
  localtime_r(&seconds, &parts);
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z %Z", &parts);
  return text.data();
}

std::string elapsed_text(rt::Duration elapsed) {
  const auto seconds = std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(elapsed).count());
  std::array<char, 48> text{};
  if (seconds < 60) {
    std::snprintf(text.data(), text.size(), "%llds", static_cast<long long>(seconds));
  } else if (seconds < 3600) {
    std::snprintf(text.data(), text.size(), "%lldm%02llds", static_cast<long long>(seconds / 60),
                  static_cast<long long>(seconds % 60));
  } else {
    std::snprintf(text.data(), text.size(), "%lldh%02lldm", static_cast<long long>(seconds / 3600),
                  static_cast<long long>(seconds / 60 % 60));
  }
  return text.data();
}

}  // namespace basalt::cli
