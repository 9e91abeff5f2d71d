#include "base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace basalt::base {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Strings, SplitKeepsEmptyPieces) {
  EXPECT_THAT(split("a,b,c", ','), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split(",a,", ','), ElementsAre("", "a", ""));
  EXPECT_FALSE(split_once("abc", '/').has_value());
  EXPECT_EQ(split_once("a/b/c", '/'), std::pair(std::string_view("a"), std::string_view("b/c")));
}

TEST(Strings, WordsAndLines) {
  EXPECT_THAT(split_words("  a \t b\n"), ElementsAre("a", "b"));
  EXPECT_THAT(split_words(" \t"), IsEmpty());
  EXPECT_THAT(split_lines("a\r\nb\n\nc"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split_lines("a\n"), ElementsAre("a"));
  EXPECT_THAT(split_lines(""), IsEmpty());
}

TEST(Strings, TrimAndStrip) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" "), "");
  EXPECT_EQ(trim_start(" a "), "a ");
  EXPECT_EQ(trim_end(" a "), " a");
  EXPECT_EQ(strip_prefix("--name", "--"), "name");
  EXPECT_EQ(strip_prefix("-name", "--"), std::nullopt);
  EXPECT_EQ(strip_suffix("50%", "%"), "50");
  EXPECT_EQ(strip_suffix("50", "%"), std::nullopt);
}

TEST(Strings, JoinReplaceAndCase) {
  EXPECT_EQ(join({"a", "b", ""}, ", "), "a, b, ");
  EXPECT_EQ(join(std::vector<std::string>{}, ","), "");
  EXPECT_EQ(replace_all("aXbXX", "X", "--"), "a--b----");
  EXPECT_EQ(replace_all("aaa", "", "b"), "aaa");
  EXPECT_EQ(to_lower_ascii("AbÉ"), "abÉ");
  EXPECT_EQ(to_upper_ascii("aBé"), "ABé");
  EXPECT_TRUE(equals_ignore_case_ascii("Content-Type", "content-type"));
  EXPECT_FALSE(equals_ignore_case_ascii("a", "ab"));
}

TEST(Strings, ParseNumbers) {
  EXPECT_EQ(parse_int64("0"), 0);
  EXPECT_EQ(parse_int64("+7"), 7);
  EXPECT_EQ(parse_int64("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  for (const char* bad : {"", "+", "-", "+-1", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "1e3"}) {
    EXPECT_EQ(parse_int64(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_uint64("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_uint64("-1"), std::nullopt);
  EXPECT_EQ(parse_double("1.5e3"), 1500);
  EXPECT_EQ(parse_double("+0.5"), 0.5);
  for (const char* bad : {"", "inf", "nan", "1e999", "1x", "+-1"}) EXPECT_EQ(parse_double(bad), std::nullopt) << bad;
}

TEST(Strings, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1'047'552), "1 MiB") << "1023 KiB would take four digits";
  EXPECT_EQ(human_bytes(12'582'912), "12 MiB");
  EXPECT_EQ(human_bytes(1'288'490'189), "1.2 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16 EiB");
}

TEST(Strings, ParseBytes) {
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_EQ(parse_bytes("1.5 KiB"), 1536);
  EXPECT_EQ(parse_bytes("64Ki"), 65'536);
  EXPECT_EQ(parse_bytes("10M"), 10'000'000);
  EXPECT_EQ(parse_bytes("12 B"), 12);
  for (const char* bad : {"", "Ki", "-1", "-1Ki", "1 Q", "1.5", "99999999999999E", "1e3Ki", "1..5k", "infk"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

TEST(Strings, QuoteIsOneSafeLine) {
  EXPECT_EQ(quote("a b"), "\"a b\"");
  EXPECT_EQ(quote("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(quote("a\nb\tc\r"), R"("a\nb\tc\r")");
  EXPECT_EQ(quote(std::string_view("\0\x1b[31m\x7f", 7)), R"("\x00\x1b[31m\x7f")");
  EXPECT_EQ(quote("é世"), "\"é世\"");
  EXPECT_EQ(quote("\xff\xc3"), R"("\xff\xc3")");
  EXPECT_EQ(quote("\xc2\x9b"), R"("\xc2\x9b")") << "a terminal takes U+009B for ESC [";
  EXPECT_EQ(escape_controls("say \"hi\"\n"), "say \"hi\"\\n");
}

TEST(Strings, Utf8) {
  EXPECT_TRUE(is_valid_utf8("aé世🙂"));
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8"}) {
    EXPECT_FALSE(is_valid_utf8(bad)) << quote(bad);
  }
}

TEST(Strings, EllipsizeCutsBetweenCharacters) {
  EXPECT_EQ(ellipsize("abc", 3), "abc");
  EXPECT_EQ(ellipsize("abcdef", 5), "ab...");
  EXPECT_EQ(ellipsize("ééééé", 6), "é...");
  EXPECT_EQ(ellipsize("abcdef", 2), "..");
  EXPECT_EQ(ellipsize("", 0), "");
}

TEST(Strings, EditDistance) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 10), 3);
  EXPECT_EQ(edit_distance("", "abc", 10), 3);
  EXPECT_EQ(edit_distance("abc", "abc", 0), 0);
  EXPECT_EQ(edit_distance("queue", "quuee", 5), 1) << "a swap is one edit";
  EXPECT_EQ(edit_distance("abcdef", "ghijkl", 2), 3) << "above the limit it is limit + 1";
}

TEST(Strings, EditDistanceWithALimitAgreesWithOneWithout) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string a(random() % 7, 'a');
    std::string b(random() % 7, 'a');
    for (char& c : a) c = static_cast<char>('a' + random() % 3);
    for (char& c : b) c = static_cast<char>('a' + random() % 3);
    const std::size_t exact = edit_distance(a, b, 100);
    for (std::size_t limit = 0; limit < 5; ++limit) {
      ASSERT_EQ(edit_distance(a, b, limit), std::min(exact, limit + 1)) << a << " " << b << " " << limit;
    }
    ASSERT_EQ(exact, edit_distance(b, a, 100));
  }
}

TEST(Strings, ClosestMatch) {
  EXPECT_EQ(closest_match("minAvailble", {"minAvailable", "maxRetry", "queue"}), "minAvailable");
  EXPECT_EQ(closest_match("MINAVAILABLE", {"minAvailable"}), "minAvailable");
  EXPECT_EQ(closest_match("lsit", {"list", "last"}), "list");
  EXPECT_EQ(closest_match("zzz", {"list", "watch"}), "");
  EXPECT_EQ(closest_match("", {"list"}), "");
  EXPECT_EQ(closest_match("x", {"y", "z"}), "y") << "of equals the first";
  const std::vector<std::string_view> commands = {"delete", "list"};
  EXPECT_EQ(did_you_mean("delte", commands), "; did you mean \"delete\"?");
  EXPECT_EQ(did_you_mean("frobnicate", commands), "");
}

}  // namespace
}  // namespace basalt::base
