#include "json/pointer.h"

#include <gtest/gtest.h>

namespace basalt::json {
namespace {

// The example of RFC 6901, section 5.
TEST(PointerTest, FindsValues) {
  const auto document =
      Value::parse(R"({"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8})");
  ASSERT_TRUE(document.ok());
  const std::pair<const char*, const char*> cases[] = {
      {"/foo", R"(["bar","baz"])"},
      {"/foo/0", "\"bar\""},
      {"/", "0"},
      {"/a~1b", "1"},
      {"/c%d", "2"},
      {"/e^f", "3"},
      {"/g|h", "4"},
      {"/i\\j", "5"},
      {"/k\"l", "6"},
      {"/ ", "7"},
      {"/m~0n", "8"},
  };
  for (const auto& [text, expected] : cases) {
    const auto pointer = Pointer::parse(text);
    ASSERT_TRUE(pointer.ok()) << text;
    const Value* const found = pointer->find_in(*document);
    ASSERT_NE(found, nullptr) << text;
    EXPECT_EQ(found->to_text(), expected);
    EXPECT_EQ(pointer->to_string(), text);
  }
  EXPECT_EQ(Pointer().find_in(*document), &*document);
  for (const char* text :
       {"/nope", "/foo/2", "/foo/-", "/foo/01", "/foo/+1", "/foo/", "/foo/0/x", "/foo/18446744073709551616"}) {
    EXPECT_EQ(Pointer::parse(text)->find_in(*document), nullptr) << text;
  }
}

TEST(PointerTest, EscapesAreUndoneOnce) {
  EXPECT_EQ(Pointer::parse("/~01")->tokens(), std::vector<std::string>{"~1"});
  EXPECT_EQ(Pointer({"~1", "a/b"}).to_string(), "/~01/a~1b");
}

TEST(PointerTest, MalformedTexts) {
  EXPECT_EQ(Pointer::parse("a").error().message, "JSON pointer \"a\" must be empty or begin with /");
  EXPECT_EQ(Pointer::parse("/a~").error().message, "JSON pointer \"/a~\": ~ must be followed by 0 or 1");
  EXPECT_FALSE(Pointer::parse("/~2").ok());
}

TEST(PointerTest, Prefixes) {
  const auto at = [](const char* text) { return Pointer::parse(text).value(); };
  EXPECT_TRUE(at("/a").is_proper_prefix_of(at("/a/b")));
  EXPECT_TRUE(at("").is_proper_prefix_of(at("/a")));
  EXPECT_FALSE(at("/a").is_proper_prefix_of(at("/a")));
  EXPECT_FALSE(at("/a").is_proper_prefix_of(at("/ab")));
}

}  // namespace
}  // namespace basalt::json
