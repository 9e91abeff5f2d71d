#include "json/reader.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "json/scan.h"

namespace basalt::json {
namespace {

std::string error_of_skip(std::string_view text, Reader::Options options = {}) {
  Reader reader(text, options);
  reader.skip();
  const Done done = reader.finish();
  return done.ok() ? "" : done.error().message;
}

TEST(ReaderTest, ReadsEachKind) {
  Reader reader(R"( { "a" : 1 , "b":[true,false,null, "x"], "c":-2.5e1 } )");
  std::string seen;
  std::string_view key;
  ASSERT_TRUE(reader.begin_object());
  while (reader.next_member(key)) {
    seen += key;
    if (key == "a") {
      EXPECT_EQ(reader.read_int32(), 1);
    } else if (key == "b") {
      ASSERT_TRUE(reader.begin_array());
      ASSERT_TRUE(reader.next_element());
      EXPECT_EQ(reader.path(), "b[0]");
      EXPECT_TRUE(reader.read_bool());
      ASSERT_TRUE(reader.next_element());
      EXPECT_FALSE(reader.read_bool());
      ASSERT_TRUE(reader.next_element());
      EXPECT_EQ(reader.peek(), Kind::Null);
      EXPECT_TRUE(reader.consume_null());
      ASSERT_TRUE(reader.next_element());
      EXPECT_FALSE(reader.consume_null());
      EXPECT_EQ(reader.read_string(), "x");
      EXPECT_FALSE(reader.next_element());
    } else {
      EXPECT_EQ(reader.read_double(), -25.0);
    }
  }
  EXPECT_TRUE(reader.finish().ok());
  EXPECT_EQ(seen, "abc");
}

TEST(ReaderTest, EmptyContainers) {
  for (const std::string_view text : {"{}", "[]", "{ }", "[\n]", "[[],{}]", R"({"a":{}})"}) {
    EXPECT_EQ(error_of_skip(text), "") << text;
  }
  Reader reader("{}");
  std::string_view key;
  EXPECT_TRUE(reader.begin_object());
  EXPECT_FALSE(reader.next_member(key));
  EXPECT_TRUE(reader.finish().ok());
}

TEST(ReaderTest, WrongTypeIsNamedWithItsPath) {
  Reader reader(R"({"spec":{"tasks":[{"replicas":1},{"replicas":"two"}],"after":3}})");
  std::string_view key;
  int reads = 0;
  reader.begin_object();
  while (reader.next_member(key)) {
    reader.begin_object();
    while (reader.next_member(key)) {
      reader.begin_array();
      while (reader.next_element()) {
        reader.begin_object();
        while (reader.next_member(key)) {
          reader.read_int32();
          ++reads;
        }
      }
    }
  }
  const Done done = reader.finish();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "spec.tasks[1].replicas: expected integer, found string");
  EXPECT_EQ(done.error().reason, Reason::InvalidInput);
  EXPECT_EQ(reads, 2);
  // Everything after the error is empty and over.
  EXPECT_EQ(reader.peek(), Kind::Invalid);
  EXPECT_EQ(reader.read_string(), "");
  EXPECT_EQ(reader.read_int64(), 0);
  EXPECT_FALSE(reader.begin_object());
  EXPECT_FALSE(reader.next_element());
}

TEST(ReaderTest, PathsOfMapKeysStandInBrackets) {
  Reader reader(R"({"metadata":{"labels":{"volcano.sh/job-name":1,"\u0061b":true}}})");
  std::string_view key;
  reader.begin_object();
  reader.next_member(key);
  reader.begin_object();
  reader.next_member(key);
  reader.begin_object();
  reader.next_member(key);
  EXPECT_EQ(reader.path(), "metadata.labels[volcano.sh/job-name]");
  reader.skip();
  reader.next_member(key);
  EXPECT_EQ(key, "ab");
  EXPECT_EQ(reader.path(), "metadata.labels.ab");
}

TEST(ReaderTest, CallersErrorWins) {
  Reader reader(R"({"a":"5x"})");
  std::string_view key;
  reader.begin_object();
  reader.next_member(key);
  EXPECT_EQ(reader.read_string_view(), "5x");
  reader.fail("not a quantity");
  reader.fail("second");
  EXPECT_EQ(reader.finish().error().message, "a: not a quantity");
}

TEST(ReaderTest, Integers) {
  struct Case {
    const char* text;
    std::int64_t value;
    const char* error;
  };
  const Case cases[] = {
      {"0", 0, ""},
      {"-0", 0, ""},
      {"9223372036854775807", std::numeric_limits<std::int64_t>::max(), ""},
      {"-9223372036854775808", std::numeric_limits<std::int64_t>::min(), ""},
      {"9223372036854775808", 0, "integer 9223372036854775808 is out of range (64 bits)"},
      {"9223372036854775807.0", std::numeric_limits<std::int64_t>::max(), ""},
      {"922337203685477580.7e1", std::numeric_limits<std::int64_t>::max(), ""},
      {"1.0", 1, ""},
      {"1e3", 1000, ""},
      {"1E+3", 1000, ""},
      {"-120e-1", -12, ""},
      {"0.0e99999999999999999999", 0, ""},
      {"0.001e3", 1, ""},
      {"1e19", 0, "integer 1e19 is out of range (64 bits)"},
      {"1e99999999999999999999", 0, "integer 1e99999999999999999999 is out of range (64 bits)"},
      {"1.5", 0, "expected integer, found number 1.5"},
      {"1e-1", 0, "expected integer, found number 1e-1"},
      {"1e-99999999999999999999", 0, "expected integer, found number 1e-99999999999999999999"},
  };
  for (const Case& c : cases) {
    Reader reader(c.text);
    EXPECT_EQ(reader.read_int64(), c.value) << c.text;
    const Done done = reader.finish();
    EXPECT_EQ(done.ok() ? "" : done.error().message, c.error) << c.text;
  }
  Reader narrow("2147483648");
  EXPECT_EQ(narrow.read_int32(), 0);
  EXPECT_EQ(narrow.finish().error().message, "integer 2147483648 is out of range (32 bits)");
  Reader fits("-2147483648");
  EXPECT_EQ(fits.read_int32(), std::numeric_limits<std::int32_t>::min());
}

TEST(ReaderTest, Doubles) {
  const auto read = [](std::string_view text) {
    Reader reader(text);
    const double value = reader.read_double();
    return reader.finish().ok() ? value : -12345.0;
  };
  EXPECT_EQ(read("1.5"), 1.5);
  EXPECT_EQ(read("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(read("1.8e308"), -12345.0);
  EXPECT_EQ(read("1e-400"), 0.0);
  EXPECT_TRUE(std::signbit(read("-1e-400")));
  EXPECT_EQ(read("5e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(read(std::string(400, '9')), -12345.0);
}

TEST(ReaderTest, NumberGrammar) {
  for (const char* text : {"01", "-", "+1", "1.", ".5", "1e", "1e+", "-01", "0x10", "1.e1", "--1", "Infinity", "NaN"}) {
    EXPECT_NE(error_of_skip(text), "") << text;
    Reader reader(text);
    reader.read_double();
    EXPECT_FALSE(reader.finish().ok()) << text;
  }
  // A skipped number is as readable as one that is read.
  EXPECT_EQ(error_of_skip("[1e400]"), "number 1e400 is out of range");
  EXPECT_EQ(error_of_skip("[1e-400,0e999]"), "");
}

TEST(ReaderTest, StringsAndEscapes) {
  const auto read = [](std::string_view text) {
    Reader reader(text);
    const std::string value = reader.read_string();
    const Done done = reader.finish();
    return done.ok() ? value : "error: " + done.error().message;
  };
  EXPECT_EQ(read(R"("")"), "");
  EXPECT_EQ(read(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read(R"("\u0041\u00e9\u20AC\ud83d\uDE00")"), "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(read(R"("\u0000")"), std::string(1, '\0'));
  EXPECT_EQ(read("\"\x7f\xC3\xA9\xF4\x8F\xBF\xBF\""), "\x7f\xC3\xA9\xF4\x8F\xBF\xBF");
  EXPECT_EQ(read("\"0123456789abcdef0123456789abcdef\\n0123456789abcdef\""),
            "0123456789abcdef0123456789abcdef\n0123456789abcdef");
  EXPECT_EQ(read(R"("\ud83d")"), "error: unpaired surrogate in string at line 1, column 2");
  EXPECT_EQ(read(R"("\ud83d\u0041")"), "error: unpaired surrogate in string at line 1, column 2");
  EXPECT_EQ(read(R"("\ude00")"), "error: unpaired surrogate in string at line 1, column 2");
  EXPECT_EQ(read(R"("a\x")"), "error: invalid escape in string at line 1, column 3");
  EXPECT_EQ(read(R"("\u12g4")"), "error: invalid escape in string at line 1, column 2");
  EXPECT_EQ(read("\"abc"), "error: string is not closed at line 1, column 5");
  EXPECT_EQ(read("\"abc\\"), "error: invalid escape in string at line 1, column 5");
  EXPECT_EQ(read("\"a\nb\""), "error: control character in string at line 1, column 3");
  for (const char* bad : {"\x80", "\xC0\xAF", "\xC2", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    EXPECT_EQ(read("\"" + std::string(bad) + "\""), "error: invalid UTF-8 in string at line 1, column 2");
  }
}

TEST(ReaderTest, SyntaxErrorsNameThePlace) {
  EXPECT_EQ(error_of_skip(""), "expected a value, found the end of the text at line 1, column 1");
  EXPECT_EQ(error_of_skip("[1,\n  2,]"), "expected a value, found ']' at line 2, column 5");
  EXPECT_EQ(error_of_skip("{\"a\" 1}"), "expected a colon after the key, found '1' at line 1, column 6");
  EXPECT_EQ(error_of_skip("{a:1}"), "expected a key in quotes, found 'a' at line 1, column 2");
  EXPECT_EQ(error_of_skip("{\"a\":1,}"), "expected a key in quotes, found '}' at line 1, column 8");
  EXPECT_EQ(error_of_skip("[1}"), "expected a comma or a closing bracket, found '}' at line 1, column 3");
  EXPECT_EQ(error_of_skip("1 2"), "expected the end of the text, found '2' at line 1, column 3");
  EXPECT_EQ(error_of_skip("\xEF\xBB\xBF{}"), "expected a value, found byte 0xef at line 1, column 1");
  EXPECT_EQ(error_of_skip("nul"), "unknown word, expected null at line 1, column 1");
  EXPECT_EQ(error_of_skip("[truer]"), "expected a comma or a closing bracket, found 'r' at line 1, column 6");
}

TEST(ReaderTest, UnfinishedTextIsAnError) {
  const std::string_view text = R"({"a":[1,{"b":"c\n"}],"d":-1.5e3})";
  for (std::size_t cut = 0; cut < text.size(); ++cut) EXPECT_NE(error_of_skip(text.substr(0, cut)), "") << cut;
  Reader unread("1");
  EXPECT_FALSE(unread.finish().ok());
}

TEST(ReaderTest, DepthIsBounded) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(error_of_skip(deep), "nested too deeply at line 1, column 257");
  Reader::Options strict;
  strict.strict = true;
  EXPECT_NE(error_of_skip(deep, strict).find("nested too deeply at line 1, column 257"), std::string::npos);
  EXPECT_EQ(error_of_skip(std::string(256, '[') + std::string(256, ']')), "");
  Reader::Options two;
  two.depth_max = 2;
  EXPECT_EQ(error_of_skip("[[1]]", two), "");
  EXPECT_EQ(error_of_skip("[[[]]]", two), "nested too deeply at line 1, column 3");
}

TEST(ReaderTest, RawAndCompact) {
  Reader reader("{ \"a\" : { \"x y\" : [ 1 , \"p \\\" q\" ] } , \"b\":2 }");
  std::string_view key;
  reader.begin_object();
  reader.next_member(key);
  std::string out = "=";
  reader.read_compact(out);
  EXPECT_EQ(out, R"(={"x y":[1,"p \" q"]})");
  reader.next_member(key);
  EXPECT_EQ(reader.read_raw(), "2");
  EXPECT_FALSE(reader.next_member(key));
  EXPECT_TRUE(reader.finish().ok());
}

TEST(ReaderTest, UnknownMembersAreKeptOrSkipped) {
  const std::string_view text = R"({"a": 1, "b\n" : {"c" : 2}})";
  for (const bool keep : {true, false}) {
    Reader::Options options;
    options.keep_unknown = keep;
    Reader reader(text, options);
    std::string sink;
    std::string_view key;
    reader.begin_object();
    while (reader.next_member(key)) reader.unknown_member(key, &sink);
    EXPECT_TRUE(reader.finish().ok());
    EXPECT_EQ(sink, keep ? R"("a":1,"b\n":{"c":2})" : "");
  }
}

TEST(ReaderTest, StrictModeCollectsUnknownAndDuplicateFields) {
  Reader::Options options;
  options.strict = true;
  Reader reader(R"({"spec":{"x":1,"list":[{"k":1,"k":2,"k":3}],"y":2,"x":3},"spec":{}})", options);
  std::string_view key;
  reader.begin_object();
  while (reader.next_member(key)) {
    reader.begin_object();
    while (reader.next_member(key)) {
      if (key == "y") {
        reader.unknown_member(key, nullptr);
      } else {
        reader.skip();
      }
    }
  }
  EXPECT_TRUE(reader.finish().ok());
  const std::vector<std::string> expected = {"duplicate field \"spec.list[0].k\"", "unknown field \"spec.y\"",
                                             "duplicate field \"spec.x\"", "duplicate field \"spec\""};
  EXPECT_EQ(reader.warnings(), expected);
}

TEST(ReaderTest, WarningsAreBounded) {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) {
    const std::string member = "\"k" + std::to_string(i) + "\":0,";
    text += member + member;
  }
  text.back() = '}';
  Reader::Options options;
  options.strict = true;
  Reader reader(text, options);
  reader.skip();
  EXPECT_TRUE(reader.finish().ok());
  EXPECT_EQ(reader.warnings().size(), Reader::kWarningsMax);
}

TEST(ReaderDeathTest, AMemberThatIsNotReadIsACallersMistake) {
  Reader reader(R"({"a":1,"b":2})");
  std::string_view key;
  reader.begin_object();
  reader.next_member(key);
  EXPECT_DEATH(reader.next_member(key), "announced and not read");
}

TEST(ScanTest, FindsTheSameByteAtEveryOffset) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 70, 'a');
    for (char& c : text) c = static_cast<char>('#' + random() % 50);
    const std::size_t specials = random() % 3;
    for (std::size_t i = 0; i < specials && !text.empty(); ++i)
      text[random() % text.size()] = static_cast<char>(random());
    const char* const end = text.data() + text.size();
    const char* expected = text.data();
    while (expected != end && !is_special(*expected)) ++expected;
    ASSERT_EQ(find_special(text.data(), end), expected);
    ASSERT_EQ(find_special_portable(text.data(), end), expected);
  }
}

TEST(ScanTest, Utf8OfEveryCodePoint) {
  for (char32_t code = 0x80; code <= 0x10FFFF; ++code) {
    std::string text;
    append_utf8(text, code);
    const std::size_t length = utf8_length(text.data(), text.data() + text.size());
    if (code >= 0xD800 && code <= 0xDFFF) {
      ASSERT_EQ(length, 0U) << std::hex << static_cast<unsigned>(code);
    } else {
      ASSERT_EQ(length, text.size());
      ASSERT_EQ(utf8_decode(text.data(), length), code);
      ASSERT_EQ(utf8_length(text.data(), text.data() + text.size() - 1), 0U);
    }
  }
}

}  // namespace
}  // namespace basalt::json
