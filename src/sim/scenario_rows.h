#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

// For tests only: that a table of scenarios is covered: the tests of this program carry the rows in their names, as
// Row07_, Rows07And09_ or Rows07To15_, and whatever else there is stands in a list with its reason.

namespace basalt::sim {

struct LeftOutTest {
  std::string_view pattern;  // "Suite.Name" or the beginning of it with a '*'
  std::string_view reason;
};
struct RowElsewhere {
  int row;
  std::string_view reason;
  std::string_view file;  // from the root of the sources, where it is covered; "" if nowhere
  std::string_view text;  // that stands in the file
};

// The rows that the name of a test speaks of.
inline std::set<int> rows_in(std::string_view name) {
  std::set<int> rows;
  if (!name.starts_with("Row")) return rows;
  name.remove_prefix(name.starts_with("Rows") ? 4 : 3);
  bool is_range = false;
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
    int row = 0;
    while (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      row = row * 10 + (name[0] - '0');
      name.remove_prefix(1);
    }
    for (int between = is_range ? *rows.rbegin() : row; between <= row; ++between) rows.insert(between);
    is_range = name.starts_with("To");
    if (is_range) name.remove_prefix(2);
    if (name.starts_with("And")) name.remove_prefix(3);
  }
  return rows;
}

inline bool is_left_out(std::string_view full_name, std::span<const LeftOutTest> left_out) {
  for (const LeftOutTest& one : left_out) {
    const bool is_prefix = one.pattern.ends_with('*');
    if (is_prefix ? full_name.starts_with(one.pattern.substr(0, one.pattern.size() - 1)) : full_name == one.pattern)
      return true;
  }
  return false;
}

// The filter of GoogleTest that leaves these tests out.
inline std::string filter_without(std::span<const LeftOutTest> left_out) {
  std::string filter = "*-";
  for (const LeftOutTest& one : left_out) filter.append(one.pattern).append(":");
  return filter;
}
inline std::string filter_without(std::span<const std::string_view> patterns) {
  std::string filter = "*-";
  for (const std::string_view pattern : patterns) filter.append(pattern).append(":");
  return filter;
}

// Every row is in the name of a test of this program that is not left out, or elsewhere with a reason, and not in both.
// Whatever is left out exists.
inline void expect_covered(std::string_view where, std::span<const int> rows, std::span<const LeftOutTest> left_out,
                           std::span<const RowElsewhere> elsewhere) {
  std::set<int> covered;
  std::set<std::string_view> matched;
  int tests = 0;
  const auto& unit = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const auto& suite = *unit.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const std::string full = std::string(suite.name()) + "." + suite.GetTestInfo(k)->name();
      for (const LeftOutTest& one : left_out) {
        if (is_left_out(full, {&one, 1})) matched.insert(one.pattern);
      }
      if (is_left_out(full, left_out)) continue;
      ++tests;
      // The name of a parameterised test ends with its parameter.
      covered.merge(rows_in(suite.GetTestInfo(k)->name()));
    }
  }
  for (const LeftOutTest& one : left_out) {
    EXPECT_TRUE(matched.contains(one.pattern)) << one.pattern << " is no test";
    EXPECT_FALSE(one.reason.empty()) << one.pattern;
  }
  std::map<int, const RowElsewhere*> others;
  for (const RowElsewhere& one : elsewhere) {
    others[one.row] = &one;
    EXPECT_FALSE(one.reason.empty()) << one.row;
    EXPECT_FALSE(covered.contains(one.row)) << "row " << one.row << " is covered; it needs no excuse";
    if (one.file.empty()) continue;
    std::ifstream file(std::filesystem::path(BASALT_SOURCE_DIR) / one.file);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_NE(text.find(one.text), std::string::npos) << "row " << one.row << ": no " << one.text << " in " << one.file;
  }
  std::size_t here = 0;
  for (const int row : rows) {
    here += covered.contains(row);
    EXPECT_TRUE(covered.contains(row) || others.contains(row)) << "row " << row << " is nowhere";
  }
  std::printf("scenarios %.*s: %zu of %zu rows in %d tests, %zu elsewhere or not at all:\n",
              static_cast<int>(where.size()), where.data(), here, rows.size(), tests, elsewhere.size());
  for (const RowElsewhere& one : elsewhere)
    std::printf("  row %d: %.*s\n", one.row, static_cast<int>(one.reason.size()), one.reason.data());
}

}  // namespace basalt::sim
