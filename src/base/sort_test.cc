#include "base/sort.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace basalt::base {
namespace {

TEST(Sort, EqualItemsKeepTheirOrder) {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<int, std::string>> items(random() % 40);
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = {static_cast<int>(random() % 5), std::to_string(i + 100)};
    auto expected = items;
    std::sort(expected.begin(), expected.end());  // the second member is the place before sorting
    stable_sort(items, [](const auto& a, const auto& b) { return a.first < b.first; });
    ASSERT_EQ(items, expected);
  }
}

TEST(Sort, SortedItemsStayWhereTheyAre) {
  std::vector<std::string> items = {"a", "b"};
  const std::string* const first = items.data();
  stable_sort(items, std::less<>());
  EXPECT_EQ(items.data(), first);
}

}  // namespace
}  // namespace basalt::base
