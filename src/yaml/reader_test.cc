#include "yaml/reader.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace basalt::yaml {
namespace {

std::string json_of(std::string_view text, const ReadOptions& options = {}) {
  const auto value = read(text, options);
  return value.ok() ? value->to_text() : "error: " + value.error().message;
}

std::string all_of(std::string_view text, const ReadOptions& options = {}) {
  const auto documents = read_all(text, options);
  if (!documents.ok()) return "error: " + documents.error().message;
  std::string out;
  for (const Document& document : *documents) {
    out += std::to_string(document.line) + ":" + document.value.to_text() + " ";
  }
  return out;
}

TEST(YamlReaderTest, Manifest) {
  EXPECT_EQ(json_of(R"(# a job
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: demo, labels: {"a": 'b', c: "d\n"}}
spec:
  minAvailable: 3
  tasks:
  - replicas: 0x10
    template:
      spec:
        containers:
          - command: [sh, -c, "echo"]
            script: |
              one
              two
            folded: >-
              one
              two
  suspended: no
  empty:
)"),
            R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job",)"
            R"("metadata":{"labels":{"a":"b","c":"d\n"},"name":"demo"},)"
            R"("spec":{"empty":null,"minAvailable":3,"suspended":false,)"
            R"("tasks":[{"replicas":16,"template":{"spec":{"containers":[{"command":["sh","-c","echo"],)"
            R"("folded":"one two","script":"one\ntwo\n"}]}}}]}})");
}

TEST(YamlReaderTest, EmptyTextIsNull) {
  for (const char* text : {"", "\n", "# only a comment", "---", "---\n...\n", "--- ~"}) {
    EXPECT_EQ(json_of(text), "null") << text;
    EXPECT_EQ(all_of(text), "") << text;
  }
}

TEST(YamlReaderTest, QuotedScalarsAreStrings) {
  EXPECT_EQ(json_of("['1', \"true\", 'null', \"\", 1, true, null, ]"), R"(["1","true","null","",1,true,null])");
}

TEST(YamlReaderTest, Tags) {
  EXPECT_EQ(
      json_of("[!!str 1, !!int '0x10', !!float 3, !!bool 'yes', !!null '', !own 5, ! 'x', !!timestamp 2001-01-01]"),
      R"(["1",16,3,true,null,"5","x","2001-01-01"])");
  EXPECT_EQ(json_of("!!set {a: 1}"), R"({"a":1})");
  EXPECT_EQ(json_of("a: !!int x"), "error: line 1, column 4: the text does not fit its tag !!int");
  EXPECT_EQ(json_of("a: !!binary aGk="),
            "error: line 1, column 4: !!binary is not supported: write the base64 text without the tag");
}

TEST(YamlReaderTest, KeysBecomeStrings) {
  EXPECT_EQ(json_of("{1: a, 1.5: b, yes: c, 0x10: d, 2001-01-01: e, 'f': g}"),
            R"({"1":"a","1.5":"b","16":"d","2001-01-01":"e","f":"g","true":"c"})");
  EXPECT_EQ(json_of("~: a"), "error: line 1, column 1: a key must not be null");
  EXPECT_EQ(json_of("? [a]\n: b"), "error: line 1, column 3: a key must be a scalar, not a list or a mapping");
  EXPECT_EQ(json_of("a: &k x\n*k : 1"), R"({"a":"x","x":1})");
}

TEST(YamlReaderTest, DuplicateKeysNameBothLines) {
  EXPECT_EQ(json_of("spec:\n  a: 1\n  b: 2\n  a: 3\n"),
            "error: line 4, column 3: duplicate key \"a\", first at line 2");
  EXPECT_EQ(json_of("1: a\n'1': b"), "error: line 2, column 1: duplicate key \"1\", first at line 1");
  EXPECT_EQ(json_of("{a: 1, a: 2}"), "error: line 1, column 8: duplicate key \"a\", first at line 1");
  EXPECT_EQ(json_of(R"({"a": 1, "a": 2})"), "error: line 1, column 10: duplicate key \"a\", first at line 1");
}

TEST(YamlReaderTest, NotFiniteNumbersAreErrors) {
  EXPECT_EQ(json_of("a: .inf"),
            "error: line 1, column 4: .inf cannot be represented in JSON; quote it if a string is meant");
  EXPECT_EQ(json_of("a: '.nan'"), R"({"a":".nan"})");
}

TEST(YamlReaderTest, AnchorsAndAliases) {
  EXPECT_EQ(json_of("a: &x {p: 1}\nb: *x\nc: [*x, *x]"), R"({"a":{"p":1},"b":{"p":1},"c":[{"p":1},{"p":1}]})");
  EXPECT_EQ(json_of("a: &x 1\nb: *x\nc: &x 2\nd: *x"), R"({"a":1,"b":1,"c":2,"d":2})");
  EXPECT_EQ(json_of("a: *x"), "error: line 1, column 4: alias *x has no anchor before it");
  EXPECT_EQ(json_of("a: &x [1, *x]"), "error: line 1, column 11: the anchor that this alias names contains the alias");
  // Anchors end with their document.
  EXPECT_EQ(all_of("a: &x 1\n---\nb: *x"), "error: line 3, column 4: alias *x has no anchor before it");
}

TEST(YamlReaderTest, MergeKeys) {
  EXPECT_EQ(json_of("base: &b {p: 1, q: 2}\nuse:\n  <<: *b\n  q: 3"), R"({"base":{"p":1,"q":2},"use":{"p":1,"q":3}})");
  EXPECT_EQ(json_of("base: &b {p: 1, q: 2}\nuse:\n  q: 3\n  <<: *b"), R"({"base":{"p":1,"q":2},"use":{"p":1,"q":3}})");
  EXPECT_EQ(json_of("{<<: [{a: 1}, {a: 2, b: 2}], c: 3}"), R"({"a":1,"b":2,"c":3})");
  EXPECT_EQ(json_of("{'<<': {a: 1}}"), R"({"<<":{"a":1}})");
  EXPECT_EQ(json_of("<<: 1"), "error: line 1, column 5: the merge key << wants a mapping or a list of mappings");
  EXPECT_EQ(json_of("<<: {a: 1}\n<<: {b: 1}"), "error: line 2, column 1: duplicate key \"<<\", first at line 1");
}

TEST(YamlReaderTest, AliasesCannotMakeASmallTextLarge) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int k = 0; k < 9; ++k) laughs += ", " + alias;
    laughs += "]\n";
  }
  const std::string message = json_of(laughs);
  EXPECT_TRUE(message.starts_with("error: line 4, column") && message.ends_with("aliases make the text too large"))
      << message.substr(0, 200);
  // Long strings count, too.
  std::string copies = "a: &x " + std::string(100'000, 'z') + "\nb: [*x";
  for (int i = 0; i < 20'000; ++i) copies += ", *x";
  EXPECT_NE(json_of(copies + "]").find("aliases make the text too large"), std::string::npos);
  // The bound is on all documents together.
  std::string stream;
  for (int i = 0; i < 50; ++i) {
    stream +=
        "---\na: &x [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\nb: &y [*x, *x, *x, *x, *x, *x, *x, *x]\nc: [*y, *y, *y, *y]\n";
  }
  EXPECT_NE(all_of(stream).find("2:"), std::string::npos);
  ReadOptions few;
  few.alias_nodes_max = 1000;
  EXPECT_NE(all_of(stream, few).find("aliases make the text too large"), std::string::npos);
}

TEST(YamlReaderTest, DepthIsBounded) {
  EXPECT_EQ(json_of(std::string(256, '[') + std::string(256, ']')).size(), 512U);
  EXPECT_EQ(json_of(std::string(257, '[') + std::string(257, ']')),
            "error: line 1, column 257: nested deeper than 256 levels");
  EXPECT_EQ(json_of(std::string(100'000, '[')), "error: line 1, column 257: nested deeper than 256 levels");
  ReadOptions shallow;
  shallow.depth_max = 4;
  EXPECT_EQ(json_of("a: &x [[1]]\nb: [*x]", shallow), R"({"a":[[1]],"b":[[[1]]]})");
  EXPECT_EQ(json_of("a: &x [[1]]\nb: [[*x]]", shallow),
            "error: line 1, column 8: nested deeper than 4 levels once its aliases are followed");
}

TEST(YamlReaderTest, SizeIsBounded) {
  ReadOptions small;
  small.size_bytes_max = 10;
  EXPECT_EQ(json_of("0123456789a", small), "error: line 1, column 1: the text has 11 bytes, at most 10 are read");
}

TEST(YamlReaderTest, Documents) {
  EXPECT_EQ(all_of("# first\na: 1\n---\n# second\n\nb: 2\n--- # nothing\n---\n- c\n...\n"),
            R"(2:{"a":1} 6:{"b":2} 9:["c"] )");
  EXPECT_EQ(json_of("a: 1\n---\nb: 2"), "error: line 3, column 1: a second document where one is expected");
  EXPECT_EQ(json_of("---\na: 1\n---\n"), R"({"a":1})");
  ReadOptions few;
  few.documents_max = 2;
  EXPECT_EQ(all_of("a: 1\n---\nb: 1\n---\nc: 1", few), "error: line 5, column 1: more than 2 documents");
  EXPECT_EQ(all_of("a: 1\n---\nb: [\n---\nc: 1").substr(0, 14), "error: line 4,");
}

TEST(YamlReaderTest, JsonIsReadAsJson) {
  EXPECT_EQ(json_of(R"( {"a":"\ud83d\ude00","b":[1,2]} )"), "{\"a\":\"\xF0\x9F\x98\x80\",\"b\":[1,2]}");
  EXPECT_EQ(all_of("{\"a\":1}\n\n{\"b\":2}{\"c\":3}"), R"(1:{"a":1} 3:{"b":2} 3:{"c":3} )");
  // A flow mapping is YAML that begins like JSON.
  EXPECT_EQ(json_of("{a: 1, b: [x]}"), R"({"a":1,"b":["x"]})");
  EXPECT_EQ(all_of("{\"a\":1}\n---\nb: 2"), R"(1:{"a":1} 3:{"b":2} )");
}

TEST(YamlReaderTest, ErrorsNameThePlace) {
  EXPECT_EQ(
      json_of("a: 1\nb: [1, 2"),
      "error: line 3, column 1: did not find expected ',' or ']' (while parsing a flow sequence from line 2, column "
      "4)");
  EXPECT_EQ(json_of("a: 1\n b: 2").substr(0, 24), "error: line 2, column 3:");
  EXPECT_EQ(json_of("a:\n\tb: 1").substr(0, 24), "error: line 2, column 1:");
  EXPECT_EQ(json_of("a: b\nc: \"\xFF\""), "error: line 2, column 5: invalid UTF-8");
  EXPECT_EQ(json_of("a: b\nc: x\x01"), "error: line 2, column 5: control characters are not allowed");
  EXPECT_EQ(json_of("a: 'x").substr(0, 15), "error: line 1, ");
}

TEST(YamlReaderTest, WindowsLinesAndByteOrderMark) {
  EXPECT_EQ(json_of("a: 1\r\nb: |\r\n  x\r\n  y\r\n"), R"({"a":1,"b":"x\ny\n"})");
  EXPECT_EQ(json_of("\xEF\xBB\xBF"
                    "a: 1"),
            R"({"a":1})");
}

}  // namespace
}  // namespace basalt::yaml
