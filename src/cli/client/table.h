#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "api/time.h"
#include "cli/client/terminal.h"
#include "rt/time.h"

namespace basalt::cli {

// Rows under headings, as kubectl prints them: columns as wide as their widest cell and three blanks more, nothing
// after the last. Cells may hold colours. Control characters in cells are made visible.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  // On a narrow terminal lines are cut at its width.
  void print(std::ostream& out, const Terminal& terminal, std::string_view indent = {},
             bool with_headings = true) const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// vcctl's tables: every column, the last too, is padded to a width; what is wider pushes the rest.
struct Column {
  std::string heading;
  std::size_t width = 0;
};
void print_fixed(std::ostream& out, const std::vector<Column>& columns,
                 const std::vector<std::vector<std::string>>& rows);

// The age of something as kubectl prints it; "<unknown>" for no time.
[[nodiscard]] std::string age_of(api::Time since, rt::WallTime now);
// "2025-01-10" in local time; "0001-01-01" for no time.
[[nodiscard]] std::string local_date(api::Time time);
// "2025-01-10 10:07:30 +0000 UTC", as Go prints a time; the year 1 for no time.
[[nodiscard]] std::string go_time(api::Time time);
// "1m05s", "12s", "2h03m": how long something runs, for a display that is redrawn.
[[nodiscard]] std::string elapsed_text(rt::Duration elapsed);

}  // namespace basalt::cli
