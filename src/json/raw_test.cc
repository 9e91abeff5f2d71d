#include "json/raw.h"

#include <gtest/gtest.h>

namespace basalt::json {
namespace {

// What the generator writes for a struct with one known field.
struct Sample {
  std::int32_t replicas = 0;
  Raw pod_template;
  UnknownFields unknown;
};

void decode(Reader& reader, Sample& sample) {
  if (!reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    if (key == "replicas") {
      sample.replicas = reader.read_int32();
    } else if (key == "template") {
      decode(reader, sample.pod_template);
    } else {
      sample.unknown.take(reader, key);
    }
  }
}

void encode(Writer& writer, const Sample& sample) {
  writer.begin_object();
  writer.key("replicas");
  writer.integer(sample.replicas);
  if (!sample.pod_template.empty()) {
    writer.key("template");
    encode(writer, sample.pod_template);
  }
  writer.raw_members(sample.unknown.members());
  writer.end_object();
}

TEST(RawTest, CarriesWhatItDoesNotRead) {
  const auto sample = from_text<Sample>(R"({
    "new\u0041": [ 1, 2 ],
    "replicas": 3,
    "template": { "spec": { "a b": 1e2 } },
    "other": "\ud83d\ude00"
  })");
  ASSERT_TRUE(sample.ok()) << sample.error().message;
  EXPECT_EQ(sample->pod_template.text(), R"({"spec":{"a b":1e2}})");
  EXPECT_EQ(sample->pod_template.value().find_path({"spec", "a b"})->as_double(), 100.0);
  EXPECT_EQ(to_text(*sample),
            R"({"replicas":3,"template":{"spec":{"a b":1e2}},"new\u0041":[1,2],"other":"\ud83d\ude00"})");
  const auto again = from_text<Sample>(to_text(*sample));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->unknown, sample->unknown);
  EXPECT_EQ(again->pod_template, sample->pod_template);
}

TEST(RawTest, ProjectionsDropWhatTheyDoNotKnow) {
  Reader::Options options;
  options.keep_unknown = false;
  const auto sample = from_text<Sample>(R"({"x":{"y":[1]},"replicas":3})", options);
  ASSERT_TRUE(sample.ok());
  EXPECT_TRUE(sample->unknown.empty());
  EXPECT_EQ(sizeof(UnknownFields), sizeof(void*));
}

TEST(RawTest, EmptyIsNull) {
  EXPECT_TRUE(Raw().empty());
  EXPECT_TRUE(Raw().value().is_null());
  EXPECT_EQ(to_text(Raw()), "null");
  EXPECT_EQ(Raw::of(Value(Object{{"b", 1}, {"a", 2}})).text(), R"({"a":2,"b":1})");
}

TEST(RawTest, ErrorsLeaveItEmpty) {
  Reader reader("{\"a\":}");
  Raw raw = Raw::of(std::string("1"));
  decode(reader, raw);
  EXPECT_FALSE(reader.finish().ok());
  EXPECT_TRUE(raw.empty());
}

TEST(RawTest, DuplicateKeysInsideKeepTheLast) {
  const auto raw = from_text<Raw>(R"({"a":1,"a":2})");
  ASSERT_TRUE(raw.ok());
  EXPECT_EQ(raw->value().to_text(), R"({"a":2})");
}

TEST(UnknownFieldsTest, CopiesAreDeep) {
  Reader reader(R"({"k":1})");
  UnknownFields fields;
  std::string_view key;
  reader.begin_object();
  while (reader.next_member(key)) fields.take(reader, key);
  UnknownFields copy = fields;
  EXPECT_EQ(copy, fields);
  fields = UnknownFields();
  EXPECT_EQ(copy.members(), R"("k":1)");
}

}  // namespace
}  // namespace basalt::json
