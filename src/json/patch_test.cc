#include "json/patch.h"

#include <gtest/gtest.h>

#include "json/merge_patch.h"
#include "json/testing/print.h"
#include "json/testing/random_value.h"

namespace basalt::json {
namespace {

Value parsed(std::string_view text) {
  auto value = Value::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *std::move(value) : Value();
}

std::string patched(std::string_view document, std::string_view patch) {
  const auto result = apply_json_patch(parsed(document), parsed(patch));
  return result.ok() ? result->to_text()
                     : std::string(to_string(result.error().reason)) + ": " + result.error().message;
}

TEST(JsonPatchTest, Operations) {
  struct Case {
    const char* document;
    const char* patch;
    const char* result;
  };
  const Case cases[] = {
      {R"({"a":1})", R"([])", R"({"a":1})"},
      {R"({"a":1})", R"([{"op":"add","path":"/b","value":[2]}])", R"({"a":1,"b":[2]})"},
      {R"({"a":1})", R"([{"op":"add","path":"/a","value":null}])", R"({"a":null})"},
      {R"({"a":[1,3]})", R"([{"op":"add","path":"/a/1","value":2}])", R"({"a":[1,2,3]})"},
      {R"({"a":[1,3]})", R"([{"op":"add","path":"/a/-","value":4},{"op":"add","path":"/a/3","value":5}])",
       R"({"a":[1,3,4,5]})"},
      {R"({"a":1})", R"([{"op":"add","path":"","value":[]}])", "[]"},
      {R"({"a":1,"b":2})", R"([{"op":"remove","path":"/a"}])", R"({"b":2})"},
      {R"({"a":[1,2,3]})", R"([{"op":"remove","path":"/a/1"}])", R"({"a":[1,3]})"},
      {R"({"a":1})", R"([{"op":"remove","path":""}])", "null"},
      {R"({"a":[1,2,3]})", R"([{"op":"replace","path":"/a/0","value":{}}])", R"({"a":[{},2,3]})"},
      {R"({"a":1})", R"([{"op":"replace","path":"","value":7}])", "7"},
      {R"({"a":{"x":1},"b":{}})", R"([{"op":"move","from":"/a/x","path":"/b/y"}])", R"({"a":{},"b":{"y":1}})"},
      {R"([1,2,3])", R"([{"op":"move","from":"/0","path":"/2"}])", "[2,3,1]"},
      {R"({"a":1})", R"([{"op":"move","from":"/a","path":"/a"}])", R"({"a":1})"},
      {R"({"a":{"x":1}})", R"([{"op":"copy","from":"/a","path":"/a/y"}])", R"({"a":{"x":1,"y":{"x":1}}})"},
      {R"({"a":1.0})", R"([{"op":"test","path":"/a","value":1}])", R"({"a":1})"},
      {R"({"a~/b":1})", R"([{"op":"replace","path":"/a~0~1b","value":2}])", R"({"a~/b":2})"},
      // More members than those of the operation are ignored.
      {R"({})", R"([{"op":"add","path":"/a","value":1,"note":"x"}])", R"({"a":1})"},
  };
  for (const Case& c : cases) EXPECT_EQ(patched(c.document, c.patch), c.result) << c.patch;
}

TEST(JsonPatchTest, ErrorsNameTheOperation) {
  struct Case {
    const char* patch;
    const char* error;
  };
  const Case cases[] = {
      {R"({})", "BadRequest: a JSON patch must be an array of operations"},
      {R"([1])", "BadRequest: operation 0: an operation must be an object"},
      {R"([{"path":"/a"}])", "BadRequest: operation 0: \"op\" is missing"},
      {R"([{"op":"add","value":1}])", "BadRequest: operation 0 (add \"\"): \"path\" is missing"},
      {R"([{"op":"add","path":"/x"}])", "BadRequest: operation 0 (add \"/x\"): \"value\" is missing"},
      {R"([{"op":"copy","path":"/x"}])", "BadRequest: operation 0 (copy \"/x\"): \"from\" is missing"},
      {R"([{"op":"frob","path":"/x"}])", "BadRequest: operation 0 (frob \"/x\"): unknown \"op\""},
      {R"([{"op":"add","path":"x","value":1}])",
       "BadRequest: operation 0 (add \"x\"): JSON pointer \"x\" must be empty or begin with /"},
      {R"([{"op":"test","path":"/a","value":1},{"op":"test","path":"/a","value":2}])",
       "Invalid: operation 1 (test \"/a\"): the value differs from the one tested for"},
      {R"([{"op":"test","path":"/nope","value":null}])",
       "Invalid: operation 0 (test \"/nope\"): there is nothing to test"},
      {R"([{"op":"remove","path":"/nope"}])", "Invalid: operation 0 (remove \"/nope\"): there is no such member"},
      {R"([{"op":"replace","path":"/nope","value":1}])",
       "Invalid: operation 0 (replace \"/nope\"): there is nothing to replace"},
      {R"([{"op":"add","path":"/x/y","value":1}])", "Invalid: operation 0 (add \"/x/y\"): \"/x\" does not exist"},
      {R"([{"op":"add","path":"/a/y","value":1}])",
       "Invalid: operation 0 (add \"/a/y\"): \"/a\" is no object or array"},
      {R"([{"op":"add","path":"/l/3","value":1}])",
       "Invalid: operation 0 (add \"/l/3\"): index 3 is not within the array of 2"},
      {R"([{"op":"add","path":"/l/-1","value":1}])",
       "Invalid: operation 0 (add \"/l/-1\"): index -1 is not within the array of 2"},
      {R"([{"op":"remove","path":"/l/-"}])",
       "Invalid: operation 0 (remove \"/l/-\"): index - is not within the array of 2"},
      {R"([{"op":"move","from":"/l","path":"/l/0"}])",
       "Invalid: operation 0 (move \"/l/0\"): a value cannot be moved into itself"},
      {R"([{"op":"copy","from":"/nope","path":"/x"}])", "Invalid: operation 0 (copy \"/x\"): \"from\" does not exist"},
  };
  for (const Case& c : cases) EXPECT_EQ(patched(R"({"a":1,"l":[1,2]})", c.patch), c.error) << c.patch;
}

TEST(JsonPatchTest, CostsAreBounded) {
  const auto reason = [](const Value& document, Array operations, const PatchLimits& limits = {}) {
    const auto result = apply_json_patch(document, operations, limits);
    return result.ok() ? "" : std::string(to_string(result.error().reason));
  };
  const Value test = parsed(R"({"op":"test","path":"","value":{}})");
  EXPECT_EQ(reason(Object(), Array(10'000, test)), "");
  EXPECT_EQ(reason(Object(), Array(10'001, test)), "RequestEntityTooLarge");
  // Copies of copies.
  EXPECT_EQ(reason(parsed(R"({"a":"xxxxxxxxxxxxxxxx","b":[]})"),
                   Array(100, parsed(R"({"op":"copy","from":"","path":"/b/-"})"))),
            "RequestEntityTooLarge");
  // A document that grows deeper with every operation.
  const Value deeper = parsed(R"({"op":"copy","from":"","path":"/a"})");
  EXPECT_EQ(reason(Object(), Array(255, deeper)), "");
  EXPECT_EQ(reason(Object(), Array(256, deeper)), "Invalid");
  // Insertions at the front of a long list.
  PatchLimits limits;
  limits.shifts_max = 10'000;
  const Value at_front = parsed(R"({"op":"add","path":"/0","value":0})");
  EXPECT_EQ(reason(Array(1000, 1), Array(9, at_front), limits), "");
  EXPECT_EQ(reason(Array(1000, 1), Array(10, at_front), limits), "RequestEntityTooLarge");
}

TEST(JsonPatchTest, DifferencesTouchOnlyWhatDiffers) {
  const auto difference = [](std::string_view before, std::string_view after) {
    return make_json_patch(parsed(before), parsed(after)).to_text();
  };
  EXPECT_EQ(difference("{}", "{}"), "[]");
  EXPECT_EQ(
      difference(R"({"a":1,"b":{"c":2}})", R"({"b":{"c":3},"d/e":4})"),
      R"([{"op":"remove","path":"/a"},{"op":"replace","path":"/b/c","value":3},{"op":"add","path":"/d~1e","value":4}])");
  EXPECT_EQ(difference("[1,2,3,4]", "[1,9,3,4]"), R"([{"op":"replace","path":"/1","value":9}])");
  EXPECT_EQ(difference("[1,2,3]", "[1,5,2,3]"), R"([{"op":"add","path":"/1","value":5}])");
  EXPECT_EQ(difference("[1,2,3]", "[3]"), R"([{"op":"remove","path":"/1"},{"op":"remove","path":"/0"}])");
  EXPECT_EQ(difference("1", "[]"), R"([{"op":"replace","path":"","value":[]}])");
}

TEST(JsonPatchTest, DifferenceAppliedGivesTheOther) {
  testing::RandomValues random(21);
  for (int round = 0; round < 2000; ++round) {
    const Value before = random.value(4);
    const Value after = random.one_in(3) ? random.value(4) : random.changed(before, 4);
    const Value patch = make_json_patch(before, after);
    const auto result = apply_json_patch(before, patch);
    ASSERT_TRUE(result.ok()) << result.error().message << "\n" << before.to_text() << "\n" << patch.to_text();
    ASSERT_EQ(*result, after) << before.to_text() << "\n" << patch.to_text();
    ASSERT_EQ(patch.as_array().empty(), before == after);
  }
}

// The table of RFC 7386, appendix A.
TEST(MergePatchTest, Rfc7386) {
  struct Case {
    const char* target;
    const char* patch;
    const char* result;
  };
  const Case cases[] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", R"({})"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
      {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
      {R"({"a":"foo"})", R"(null)", R"(null)"},
      {R"({"a":"foo"})", R"("bar")", R"("bar")"},
      {R"({"e":null})", R"({"a":1})", R"({"a":1,"e":null})"},
      {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
      {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(apply_merge_patch(parsed(c.target), parsed(c.patch)).to_text(), c.result) << c.target << " " << c.patch;
  }
}

TEST(MergePatchTest, Differences) {
  const auto difference = [](std::string_view before, std::string_view after) {
    return make_merge_patch(parsed(before), parsed(after)).to_text();
  };
  EXPECT_EQ(difference(R"({"a":1})", R"({"a":1})"), "{}");
  EXPECT_EQ(difference(R"({"a":1,"b":{"c":2,"d":3},"l":[1,2]})", R"({"b":{"c":2,"d":4},"l":[1],"n":{"o":1}})"),
            R"({"a":null,"b":{"d":4},"l":[1],"n":{"o":1}})");
  EXPECT_EQ(difference(R"({"a":1})", R"({"a":null})"), R"({"a":null})");
}

// A merge patch cannot set null.
Value without_nulls(const Value& value) {
  if (!value.is_object()) return value;
  Object object;
  for (const Member& member : value.as_object()) {
    if (!member.value.is_null()) object.set(member.key, without_nulls(member.value));
  }
  return object;
}

TEST(MergePatchTest, DifferenceAppliedGivesTheOther) {
  testing::RandomValues random(22);
  for (int round = 0; round < 2000; ++round) {
    const Value before = random.value(4);
    const Value after = without_nulls(random.one_in(3) ? random.value(4) : random.changed(before, 4));
    const Value patch = make_merge_patch(before, after);
    ASSERT_EQ(apply_merge_patch(before, patch), after) << before.to_text() << "\n" << patch.to_text();
  }
}

}  // namespace
}  // namespace basalt::json
