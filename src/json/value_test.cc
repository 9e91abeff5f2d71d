#include "json/value.h"

#include <gtest/gtest.h>

#include <limits>

namespace basalt::json {
namespace {

Value parsed(std::string_view text) {
  auto result = Value::parse(text);
  EXPECT_TRUE(result.ok()) << text << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? std::move(result).value() : Value();
}

std::string error_of(std::string_view text, Value::ParseOptions options = {}) {
  const auto result = Value::parse(text, options);
  return result.ok() ? "" : result.error().message;
}

TEST(ValueTest, ParsesAndSorts) {
  const Value value = parsed(R"({"b":[1,2.5,"x\u00e9"],"a":{"z":null,"y":true}})");
  EXPECT_EQ(value.to_text(), "{\"a\":{\"y\":true,\"z\":null},\"b\":[1,2.5,\"x\xC3\xA9\"]}");
  EXPECT_EQ(parsed(value.to_text()), value);
  EXPECT_EQ(parsed(value.to_pretty_text()), value);
  EXPECT_EQ(parsed(R"({"b":[],"a":{},"c":[1,{"d":2}]})").to_pretty_text(),
            "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": 2\n    }\n  ]\n}");
}

TEST(ValueTest, NumbersKeepTheirKind) {
  EXPECT_TRUE(parsed("9223372036854775807").is_int());
  EXPECT_TRUE(parsed("-9223372036854775808").is_int());
  EXPECT_TRUE(parsed("9223372036854775808").is_double());
  EXPECT_TRUE(parsed("1.0").is_double());
  EXPECT_TRUE(parsed("1e2").is_double());
  EXPECT_EQ(parsed("1.0"), parsed("1"));
  EXPECT_NE(parsed("9223372036854775807"), parsed("9223372036854775808"));
  EXPECT_NE(Value(std::int64_t{9007199254740993}), Value(9007199254740992.0));
  EXPECT_EQ(Value(std::int64_t{9007199254740992}), Value(9007199254740992.0));
  EXPECT_NE(Value(1), Value(1.5));
  EXPECT_NE(Value(1), Value(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(Value(3).as_double(), 3.0);
  EXPECT_EQ(error_of("[1e400]"), "[0]: number 1e400 is out of range");
}

TEST(ValueTest, DuplicateKeys) {
  EXPECT_EQ(error_of(R"({"a":{"k":1,"j":2,"k":3}})"), "a: duplicate key \"k\"");
  EXPECT_EQ(error_of(R"({"":1,"":2})"), "duplicate key \"\"");
  EXPECT_EQ(error_of(R"({"a\u0062":1,"\u0061b":2})"), "duplicate key \"ab\"");
  Value::ParseOptions lenient;
  lenient.duplicate_keys_are_errors = false;
  const auto last = Value::parse(R"({"k":1,"a":0,"k":2,"k":3})", lenient);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->to_text(), R"({"a":0,"k":3})");
}

TEST(ValueTest, ErrorsNameThePath) {
  EXPECT_EQ(error_of(R"({"a":[1,{"b":tru}]})"), "a[1].b: unknown word, expected true at line 1, column 14");
  EXPECT_EQ(error_of(std::string(2000, '[')).find("nested too deeply"),
            error_of(std::string(2000, '[')).rfind("nested"));
}

TEST(ValueTest, DepthIsBoundedWhateverTheCallerAsks) {
  Value::ParseOptions options;
  options.depth_max = std::numeric_limits<int>::max();
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(error_of(nested(Reader::kDepthMax), options), "");
  EXPECT_NE(error_of(nested(Reader::kDepthMax + 1), options), "");
  EXPECT_EQ(parsed(nested(256)).depth(), 256);
  EXPECT_NE(error_of(nested(257)), "");
}

TEST(ValueTest, ObjectKeepsItsOrder) {
  Object object{{"b", 1}, {"a", 2}, {"b", 3}};
  EXPECT_EQ(Value(object).to_text(), R"({"a":2,"b":3})");
  object["aa"] = "x";
  object.set("0", nullptr);
  EXPECT_EQ(Value(object).to_text(), R"({"0":null,"a":2,"aa":"x","b":3})");
  EXPECT_TRUE(object.contains("aa"));
  EXPECT_TRUE(object.erase("aa"));
  EXPECT_FALSE(object.erase("aa"));
  EXPECT_EQ(object.find("aa"), nullptr);
  EXPECT_EQ(object.erase_if([](const Member& member) { return member.value.is_int(); }), 2U);
  EXPECT_EQ(object.size(), 1U);
  std::vector<Member> members;
  members.push_back({"z", 1});
  members.push_back({"y", 2});
  members.push_back({"z", 3});
  EXPECT_EQ(object.assign(std::move(members)), "z");
  EXPECT_EQ(Value(object).to_text(), R"({"y":2,"z":3})");
}

TEST(ValueTest, FindAndEnsure) {
  Value value = parsed(R"({"metadata":{"name":"x","labels":null},"spec":3})");
  EXPECT_EQ(value.string_at({"metadata", "name"}), "x");
  EXPECT_EQ(value.string_at({"metadata", "labels"}), "");
  EXPECT_EQ(value.string_at({"spec", "name"}), "");
  EXPECT_EQ(value.find_path({"spec", "deep", "er"}), nullptr);
  EXPECT_EQ(value.find("nope"), nullptr);
  EXPECT_EQ(Value(1).find("nope"), nullptr);
  value.ensure_path({"spec", "a", "b"}) = Array{1, "two", nullptr};
  EXPECT_TRUE(value.ensure_path({"status"}).is_null());
  EXPECT_EQ(value.to_text(),
            R"({"metadata":{"labels":null,"name":"x"},"spec":{"a":{"b":[1,"two",null]}},"status":null})");
}

TEST(ValueTest, MovesAndPartsOfItself) {
  Value value = parsed(R"({"a":[{"b":"a string that is too long to be stored in place"}]})");
  Value moved = std::move(value);
  EXPECT_TRUE(value.is_null());  // NOLINT(bugprone-use-after-move): stated in the header
  moved = std::move(moved.as_object()["a"].as_array()[0]);
  EXPECT_EQ(moved.to_text(), R"({"b":"a string that is too long to be stored in place"})");
  moved = moved.as_object()["b"];
  EXPECT_EQ(moved.as_string(), "a string that is too long to be stored in place");
  Value& same = moved;
  moved = std::move(same);
  EXPECT_TRUE(moved.is_string());
  moved = Array{1, moved};
  EXPECT_EQ(moved.as_array().size(), 2U);
}

TEST(ValueTest, TypeNames) {
  const Value value = parsed(R"([null,true,1,1.5,"s",[],{}])");
  std::string names;
  for (const Value& element : value.as_array()) names += std::string(element.type_name()) + " ";
  EXPECT_EQ(names, "null boolean integer number string array object ");
}

TEST(ValueTest, MemoryGrowsWithContent) {
  EXPECT_EQ(Value("short").memory_bytes(), 0U);
  EXPECT_GE(Value(std::string(1000, 'x')).memory_bytes(), 1000U);
  EXPECT_GE(parsed(R"({"a":[1,2,3],"b":{"c":"d"}})").memory_bytes(), 3 * sizeof(Value) + 3 * sizeof(Member));
}

TEST(ValueDeathTest, WrongTypeIsACallersMistake) {
  const Value value(1);
  EXPECT_DEATH(static_cast<void>(value.as_string()), "is_string");
}

}  // namespace
}  // namespace basalt::json
