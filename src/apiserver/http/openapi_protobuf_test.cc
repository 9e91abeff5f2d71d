#include "apiserver/http/openapi_protobuf.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apiserver/http/openapi_test_support.h"
#include "yaml/reader.h"

namespace basalt::apiserver {
namespace {

using json::Value;

Value parsed(std::string_view yaml) { return yaml::read(yaml).value(); }

Value there_and_back(std::string_view yaml) {
  const Value document = json::Object{{"definitions", json::Object{{"a", parsed(yaml)}}}};
  return openapi_schema_of(ProtobufFields(ProtobufFields(to_openapi_protobuf(document)).one(9)).named(1).at("a"));
}

TEST(OpenApiProtobuf, ASchemaKeepsWhatItSays) {
  for (const char* schema : {
           "{$ref: '#/definitions/b', description: A b.}",
           "{type: string, format: date-time, pattern: '^a+$', maxLength: 3, minLength: 1, title: T}",
           "{type: integer, minimum: 1, maximum: 2.5, enum: [1, 2], default: 1}",
           "{type: string, enum: [yes, 'no', '1', ''], default: ''}",
           "{type: array, items: {type: string}, maxItems: 7, minItems: 2, x-kubernetes-list-type: set}",
           "{type: object, additionalProperties: {type: object, additionalProperties: true}, maxProperties: 2}",
           "{type: object, additionalProperties: false}",
           "{type: object, required: [a, b], properties: {a: {type: boolean}, b: {properties: {c: {type: number}}}}}",
           "{type: array, items: {type: object}, x-kubernetes-list-map-keys: [a, b], x-kubernetes-patch-strategy: "
           "'merge,retainKeys', x-kubernetes-patch-merge-key: a, x-kubernetes-list-type: map}",
           "{type: object, default: {a: [1, {b: 'true'}], c: null}, x-kubernetes-preserve-unknown-fields: true, "
           "x-kubernetes-validations: [{rule: 'self.a == \"b\"', message: \"two\\nlines\"}]}",
           "{x-kubernetes-group-version-kind: [{group: '', kind: A, version: v1}]}",
           "{}",
       }) {
    EXPECT_EQ(there_and_back(schema).to_text(), parsed(schema).to_text());
  }
}

TEST(OpenApiProtobuf, WhatSaysNothingIsLeftOut) {
  // A reader takes an object with a list of no properties as one that may have none.
  EXPECT_EQ(there_and_back("{type: object, properties: {}}").to_text(), R"({"type":"object"})");
  EXPECT_EQ(there_and_back("{type: integer, minimum: 0, description: ''}").to_text(), R"({"type":"integer"})");
  EXPECT_EQ(there_and_back("{type: string, nullable: true, oneOf: [{}]}").to_text(), R"({"type":"string"})");
}

TEST(OpenApiProtobuf, AnOperationHasItsParametersAndItsKind) {
  const std::string message = to_openapi_protobuf(parsed(R"(
swagger: '2.0'
info: {title: T, version: v1}
paths:
  /apis/g/v1/as/{name}:
    patch:
      parameters: [{in: query, name: dryRun, type: string, uniqueItems: true}, {in: query, name: fieldValidation}]
      responses: {'200': {description: OK, schema: {$ref: '#/definitions/a'}}}
      x-kubernetes-action: patch
      x-kubernetes-group-version-kind: {group: g, kind: A, version: v1}
)"));
  const ProtobufFields document(message);
  EXPECT_EQ(document.one(1), "2.0");
  EXPECT_EQ(ProtobufFields(document.one(2)).one(1), "T");
  EXPECT_EQ(ProtobufFields(document.one(2)).one(2), "v1");
  const auto paths = ProtobufFields(document.one(8)).named(2);
  ASSERT_EQ(paths.size(), 1u);
  const ProtobufFields path(paths.at("/apis/g/v1/as/{name}"));
  EXPECT_EQ(path.bytes.size(), 1u) << "patch, and nothing else";
  const ProtobufFields patch(path.one(8));
  std::vector<std::string> names;
  for (const std::string& item : patch.all(8)) {
    const ProtobufFields query(ProtobufFields(ProtobufFields(ProtobufFields(item).one(1)).one(2)).one(3));
    EXPECT_EQ(query.one(2), "query");
    names.push_back(query.one(4) + ":" + query.one(6));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"dryRun:string", "fieldValidation:"}));
  const ProtobufFields ok(ProtobufFields(ProtobufFields(patch.one(9)).named(1).at("200")).one(1));
  EXPECT_EQ(ok.one(1), "OK");
  EXPECT_EQ(openapi_schema_of(ProtobufFields(ok.one(2)).one(1)).string_at({"$ref"}), "#/definitions/a");
  EXPECT_EQ(openapi_any_of(patch.named(13).at("x-kubernetes-group-version-kind")).to_text(),
            R"({"group":"g","kind":"A","version":"v1"})");
}

}  // namespace
}  // namespace basalt::apiserver
