#include "yaml/writer.h"

#include <gtest/gtest.h>

#include "json/testing/print.h"
#include "json/testing/random_value.h"
#include "yaml/reader.h"

namespace basalt::yaml {
namespace {

std::string written(std::string_view json) {
  auto value = json::Value::parse(json);
  EXPECT_TRUE(value.ok());
  return write(*value);
}

// The expected texts are what `kubectl -o yaml` prints.
TEST(YamlWriterTest, LooksLikeKubectl) {
  EXPECT_EQ(written(R"({"spec":{"tasks":[{"name":"a","args":["-c","x"],"env":[]},{"name":"b"}],"x":{}},"kind":"Job"})"),
            "kind: Job\n"
            "spec:\n"
            "  tasks:\n"
            "  - args:\n"
            "    - -c\n"
            "    - x\n"
            "    env: []\n"
            "    name: a\n"
            "  - name: b\n"
            "  x: {}\n");
  EXPECT_EQ(written(R"([[1,2],[]])"), "- - 1\n  - 2\n- []\n");
}

TEST(YamlWriterTest, Scalars) {
  EXPECT_EQ(written("null"), "null\n");
  EXPECT_EQ(written("[true,1,-1.5,1e21,0.0000001]"), "- true\n- 1\n- -1.5\n- 1e+21\n- 1e-7\n");
  EXPECT_EQ(written("{}"), "{}\n");
}

TEST(YamlWriterTest, QuotesWhatWouldChangeItsMeaning) {
  EXPECT_EQ(written(R"(["true","1","1e3","","~","yes","0x1f","1:30","2001-01-01",".inf","<<"])"),
            "- \"true\"\n- \"1\"\n- \"1e3\"\n- \"\"\n- \"~\"\n- \"yes\"\n- \"0x1f\"\n- \"1:30\"\n- \"2001-01-01\"\n- "
            "\".inf\"\n- \"<<\"\n");
  EXPECT_EQ(
      written(R"(["a: b","# x","a #b"," a","- a","{a","*a","&a","!a","%a","@a","'a'","100m","a:b","v1.2"])"),
      "- 'a: b'\n- '# x'\n- 'a #b'\n- ' a'\n- '- a'\n- '{a'\n- '*a'\n- '&a'\n- '!a'\n- '%a'\n- '@a'\n- '''a'''\n- "
      "100m\n- a:b\n- v1.2\n");
  EXPECT_EQ(written(R"({"y":1,"1":2,"on":"off"})"), "\"1\": 2\n\"on\": \"off\"\n\"y\": 1\n");
}

TEST(YamlWriterTest, SeveralLinesAreLiteralBlocks) {
  EXPECT_EQ(written(R"({"a":"x\ny\n","b":"x\ny","c":"x\n\n"})"), "a: |\n  x\n  y\nb: |-\n  x\n  y\nc: |+\n  x\n\n");
  EXPECT_EQ(written(R"({"a":"x\r\ny"})"), "a: \"x\\r\\ny\"\n");
}

TEST(YamlWriterTest, LongTextsAreFolded) {
  const std::string words = "word word word word word word word word word word word word word word word word word word";
  const std::string text = write(json::Object{{"message", words}});
  EXPECT_NE(text.find("\n  word"), std::string::npos);
  const auto back = read(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->string_at({"message"}), words);
}

TEST(YamlWriterTest, InvalidUtf8BecomesAReplacementCharacter) {
  const auto back = read(write(json::Value("a\xFFz")));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->as_string(), "a\xEF\xBF\xBDz");
}

TEST(YamlWriterTest, EveryValueReadsBack) {
  json::testing::RandomValues random(11);
  for (int round = 0; round < 5000; ++round) {
    const json::Value value = random.value(4);
    const std::string text = write(value);
    const auto back = read(text);
    ASSERT_TRUE(back.ok()) << back.error().message << "\n" << text << "\n" << value.to_text();
    ASSERT_EQ(*back, value) << text << "\n" << value.to_text();
  }
}

}  // namespace
}  // namespace basalt::yaml
