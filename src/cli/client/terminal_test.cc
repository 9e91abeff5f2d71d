#include "cli/client/terminal.h"

#include <gtest/gtest.h>

namespace basalt::cli {
namespace {

TEST(Wrap, BreaksBetweenWordsAndIndents) {
  EXPECT_EQ(wrap("  a few words", 0, "  "), "  a few words") << "no limit";
  EXPECT_EQ(wrap("  a few words", 13, "  "), "  a few words") << "it fits exactly";
  EXPECT_EQ(wrap("  a few words", 12, "    "), "  a few\n    words");
  EXPECT_EQ(wrap("- über größe straße", 8, "  "), "- über\n  größe\n  straße") << "columns, not bytes";
  EXPECT_EQ(wrap("a averyverylongword b", 6, ""), "a\naveryverylongword\nb") << "a long word stays whole";
  EXPECT_EQ(wrap("\x1b[31mred\x1b[0m and more", 7, ""), "\x1b[31mred\x1b[0m and\nmore") << "colours take no room";
}

TEST(Fit, CutsWithAnEllipsis) {
  EXPECT_EQ(fit("abcdef", 6), "abcdef");
  EXPECT_EQ(fit("abcdef", 4), "abc\u2026");
  EXPECT_EQ(fit("abcdef", 0), "abcdef");
}

}  // namespace
}  // namespace basalt::cli
