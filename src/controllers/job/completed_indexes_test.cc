#include "controllers/job/completed_indexes.h"

#include <gtest/gtest.h>

#include <set>

namespace basalt::controllers::job {
namespace {

CompletedIndexes of(const std::set<int>& indexes, int version = 2) {
  CompletedIndexes made;
  for (const int index : indexes) EXPECT_TRUE(made.add(index, version));
  return made;
}

TEST(CompletedIndexes, IsReadableWhileShort) {
  EXPECT_EQ(CompletedIndexes().to_text(), "");
  EXPECT_EQ(of({0, 1, 2, 4}).to_text(), "2:0-2,4");
  EXPECT_EQ(of({7}, 0).to_text(), "0:7");
  EXPECT_EQ(CompletedIndexes::parse("2:0-2,4"), of({0, 1, 2, 4}));
  EXPECT_EQ(CompletedIndexes::parse("2:0-2,4").version(), 2);
}

// At most a sixth of a byte an index, or 64 bytes and the version: every second index is the worst case.
TEST(CompletedIndexes, IsBounded) {
  for (const int replicas : {1, 100, 1000, 10'000, 100'000}) {
    CompletedIndexes every_second;
    for (int i = 0; i < replicas; i += 2) every_second.add(i, 12345);
    const std::string text = every_second.to_text();
    EXPECT_LE(text.size(), 8U + std::max<std::size_t>(64, static_cast<std::size_t>(replicas) / 6 + 8)) << replicas;
    EXPECT_EQ(CompletedIndexes::parse(text), every_second);
    CompletedIndexes all;
    for (int i = 0; i < replicas; ++i) all.add(i, 1);
    EXPECT_LE(all.to_text().size(), 16U);
    EXPECT_EQ(CompletedIndexes::parse(all.to_text()), all);
  }
}

TEST(CompletedIndexes, EverySubsetOfTenSurvives) {
  for (unsigned bits = 0; bits < 1024; ++bits) {
    std::set<int> indexes;
    for (int i = 0; i < 10; ++i) {
      if (((bits >> i) & 1U) != 0) indexes.insert(i);
    }
    const CompletedIndexes made = of(indexes);
    const CompletedIndexes read = CompletedIndexes::parse(made.to_text());
    EXPECT_EQ(read, made);
    EXPECT_EQ(read.size(), static_cast<std::int32_t>(indexes.size()));
    for (int i = -1; i < 12; ++i) EXPECT_EQ(read.contains(i), indexes.contains(i));
  }
}

TEST(CompletedIndexes, ForgetsWhatIsScaledAway) {
  CompletedIndexes indexes = of({0, 3, 9});
  indexes.truncate(4);
  EXPECT_EQ(indexes, of({0, 3}));
  indexes.remove(0);
  indexes.remove(3);
  EXPECT_TRUE(indexes.empty());
  EXPECT_EQ(indexes, CompletedIndexes());
}

TEST(CompletedIndexes, TakesNonsenseForNothing) {
  for (const char* text : {"", "x", "1", "1:", "1:a", "1:5-2", "1:-3", "-1:3", "1:99999999", "1:~!!", "9999999999:1",
                           "1:0-1000000", "1:1,,2"})
    EXPECT_TRUE(CompletedIndexes::parse(text).empty()) << text;
  EXPECT_FALSE(CompletedIndexes().add(-1, 0));
  CompletedIndexes indexes;
  EXPECT_FALSE(indexes.add(CompletedIndexes::kIndexMax, 0));
}

}  // namespace
}  // namespace basalt::controllers::job
