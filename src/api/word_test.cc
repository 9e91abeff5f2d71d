#include "api/word.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {
namespace {

TEST(Word, WellKnownWordsCostNothing) {
  EXPECT_EQ(Word("Running"), "Running");
  EXPECT_EQ(Word("Running").memory_bytes(), 0u);
  EXPECT_EQ(Word("batch.volcano.sh/v1alpha1").memory_bytes(), 0u);
  EXPECT_EQ(Word("").memory_bytes(), 0u);
  EXPECT_TRUE(Word("").empty());
  EXPECT_EQ(Word(""), Word());
}

TEST(Word, OtherTextIsOwned) {
  const std::string text = "job1-worker-0 and some more text";
  Word word(text);
  EXPECT_EQ(word.view(), text);
  EXPECT_GE(word.memory_bytes(), text.size());
  Word copy = word;
  EXPECT_EQ(copy, word);
  EXPECT_NE(copy.view().data(), word.view().data());
  Word moved = std::move(copy);
  EXPECT_EQ(moved.view(), text);
  word = Word("Running");
  EXPECT_EQ(word, "Running");
  word = moved;
  EXPECT_EQ(word.view(), text);
  const Word& self = word;
  word = self;
  EXPECT_EQ(word.view(), text);
}

TEST(Word, ComparesByText) {
  EXPECT_EQ(Word("x"), Word("x"));
  EXPECT_NE(Word("x"), Word("y"));
  EXPECT_NE(Word("Running"), Word("Pending"));
  EXPECT_EQ(std::string_view(Word("Pending")), "Pending");
}

TEST(Word, TheListIsSortedAndWithoutDoubles) {
  const auto words = well_known_words();
  EXPECT_GT(words.size(), 50u);
  EXPECT_TRUE(std::is_sorted(words.begin(), words.end()));
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
}

TEST(Word, IsReadAndWrittenAsAString) {
  const auto word = json::from_text<Word>(R"("a\u00e4b")");
  ASSERT_TRUE(word.ok());
  EXPECT_EQ(word->view(), "a\u00e4b");
  EXPECT_EQ(json::to_text(*word), "\"a\u00e4b\"");
  EXPECT_FALSE(json::from_text<Word>("1").ok());
}

}  // namespace
}  // namespace basalt::api
