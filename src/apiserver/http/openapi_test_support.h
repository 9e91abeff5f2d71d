#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/proto/wire.h"
#include "json/value.h"
#include "yaml/reader.h"

// For tests only: reads the protobuf form of /openapi/v2.
namespace basalt::apiserver {

// What a message of protobuf has, by field numbers: texts and messages as bytes, numbers as they
// are. Ends the test if it is malformed.
struct ProtobufFields {
  std::map<std::uint32_t, std::vector<std::string>> bytes;
  std::map<std::uint32_t, std::uint64_t> numbers;
  std::map<std::uint32_t, double> doubles;

  explicit ProtobufFields(std::string_view message) {
    proto::WireReader reader(message);
    while (!reader.at_end()) {
      const auto tag = reader.tag().value();
      if (tag.type == proto::WireType::Bytes) {
        bytes[tag.number].emplace_back(reader.bytes().value());
      } else if (tag.type == proto::WireType::Varint) {
        numbers[tag.number] = reader.varint().value();
      } else {
        doubles[tag.number] = reader.fixed64().value();
      }
    }
  }

  [[nodiscard]] std::string one(std::uint32_t number) const {
    const auto found = bytes.find(number);
    return found == bytes.end() ? std::string() : found->second.front();
  }
  [[nodiscard]] std::vector<std::string> all(std::uint32_t number) const {
    const auto found = bytes.find(number);
    return found == bytes.end() ? std::vector<std::string>() : found->second;
  }
  // Of a map's pairs.
  [[nodiscard]] std::map<std::string, std::string> named(std::uint32_t number) const {
    std::map<std::string, std::string> pairs;
    for (const std::string& pair : all(number)) pairs[ProtobufFields(pair).one(1)] = ProtobufFields(pair).one(2);
    return pairs;
  }
};

inline json::Value openapi_any_of(const std::string& message) {
  return yaml::read(ProtobufFields(message).one(2)).value();
}

// The JSON that a schema's message was made of.
inline json::Value openapi_schema_of(const std::string& message) {
  const ProtobufFields fields(message);
  json::Object schema;
  for (const auto& [number, name] : std::map<std::uint32_t, std::string_view>{
           {1, "$ref"}, {2, "format"}, {3, "title"}, {4, "description"}, {13, "pattern"}}) {
    if (const std::string text = fields.one(number); !text.empty()) schema.set(name, text);
  }
  for (const auto& [number, name] : std::map<std::uint32_t, std::string_view>{
           {11, "maxLength"}, {12, "minLength"}, {14, "maxItems"}, {15, "minItems"}, {17, "maxProperties"}}) {
    if (fields.numbers.contains(number)) schema.set(name, static_cast<std::int64_t>(fields.numbers.at(number)));
  }
  for (const auto& [number, name] : std::map<std::uint32_t, std::string_view>{{7, "maximum"}, {9, "minimum"}}) {
    if (fields.doubles.contains(number)) schema.set(name, fields.doubles.at(number));
  }
  if (fields.bytes.contains(5)) schema.set("default", openapi_any_of(fields.one(5)));
  json::Array required;
  for (const std::string& name : fields.all(19)) required.emplace_back(name);
  if (!required.empty()) schema.set("required", std::move(required));
  json::Array values;
  for (const std::string& value : fields.all(20)) values.push_back(openapi_any_of(value));
  if (!values.empty()) schema.set("enum", std::move(values));
  if (fields.bytes.contains(21)) {
    const ProtobufFields choice(fields.one(21));
    schema.set("additionalProperties",
               choice.bytes.contains(1) ? openapi_schema_of(choice.one(1)) : choice.numbers.at(2) == 1);
  }
  if (fields.bytes.contains(22)) schema.set("type", ProtobufFields(fields.one(22)).one(1));
  if (fields.bytes.contains(23)) schema.set("items", openapi_schema_of(ProtobufFields(fields.one(23)).one(1)));
  if (fields.bytes.contains(25)) {
    json::Object properties;
    for (const auto& [name, property] : ProtobufFields(fields.one(25)).named(1))
      properties.set(name, openapi_schema_of(property));
    schema.set("properties", std::move(properties));
  }
  for (const auto& [name, value] : fields.named(31)) schema.set(name, openapi_any_of(value));
  return schema;
}

}  // namespace basalt::apiserver
