// Rules of CRDs in CEL (x-kubernetes-validations), through the API server.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "apiserver/registry/api_server.h"
#include "rt/real_runtime.h"
#include "yaml/reader.h"

namespace basalt::apiserver {
namespace {

const kube::Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
const kube::Resource kToys{"example.com", "v1", "toys"};

class SchemaRulesTest : public ::testing::Test {
 protected:
  SchemaRulesTest() : runtime_(rt::make_real_runtime()) {
    server_ = *ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
  }
  ~SchemaRulesTest() override { server_->stop(); }

  Result<kube::Response> call(kube::Verb verb, const kube::Resource& resource, const std::string& name,
                              const std::string& yaml) {
    kube::Request request;
    request.verb = verb;
    request.resource = resource;
    request.ns = resource == kToys ? "default" : "";
    request.name = name;
    request.body = yaml::read(yaml).value().to_text();
    return server_->call(request, RequestContext{{"ann", "", {"devs"}}, "test", false});
  }

  // A CRD whose spec has these members of its schema, as YAML in braces.
  static std::string crd_of(const std::string& spec_schema, const std::string& version) {
    return R"(
metadata: {name: toys.example.com, resourceVersion: ')" +
           version + R"('}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: toys, kind: Toy, singular: toy, listKind: ToyList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: )" +
           spec_schema;
  }
  Result<kube::Response> define(const std::string& spec_schema) {
    return call(kube::Verb::Create, kCrds, "", crd_of(spec_schema, ""));
  }
  Result<kube::Response> redefine(const std::string& spec_schema) {
    return call(kube::Verb::Update, kCrds, "toys.example.com",
                crd_of(spec_schema, version_of(kCrds, "toys.example.com")));
  }
  std::string version_of(const kube::Resource& resource, const std::string& name) {
    kube::Request get;
    get.verb = kube::Verb::Get;
    get.resource = resource;
    get.ns = resource == kToys ? "default" : "";
    get.name = name;
    const auto found = server_->call(get, RequestContext{{"ann", "", {}}, "test", false});
    EXPECT_TRUE(found.ok());
    return found.ok() ? std::string(json::Value::parse(*found->body)->string_at({"metadata", "resourceVersion"})) : "";
  }
  // "" if it was taken, else the causes: "field: message" each.
  std::string create(const std::string& spec, const std::string& name = "a") {
    return causes_of(call(kube::Verb::Create, kToys, "", "{metadata: {name: " + name + "}, spec: " + spec + "}"));
  }
  std::string update(const std::string& spec) {
    return causes_of(
        call(kube::Verb::Update, kToys, "a",
             "{metadata: {name: a, resourceVersion: '" + version_of(kToys, "a") + "'}, spec: " + spec + "}"));
  }
  static std::string causes_of(const Result<kube::Response>& result) {
    if (result.ok()) return "";
    std::string text;
    for (const Cause& cause : result.error().causes) {
      text += (text.empty() ? "" : "\n") + cause.type + " " + cause.field + ": " + cause.message;
    }
    return text.empty() ? result.error().message : text;
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(SchemaRulesTest, ARuleThatFailsIsACauseWithItsMessage) {
  ASSERT_EQ(causes_of(define(R"(
              type: object
              x-kubernetes-validations:
                - {rule: 'self.min <= self.max', message: min must not exceed max}
                - {rule: 'self.max < 100'}
                - {rule: '!has(self.tag) || self.tag != "bad"', reason: FieldValueForbidden, fieldPath: .tag, message: no bad tags}
                - {rule: 'self.max != 13', messageExpression: '"max is " + string(self.max)'}
              properties:
                min: {type: integer}
                max: {type: integer}
                tag: {type: string}
                ratio: {type: number, x-kubernetes-validations: [{rule: 'self / 2.0 <= 1.0'}]}
                born: {type: string, format: date-time, x-kubernetes-validations: [{rule: 'self.getFullYear() >= 2000'}]}
                list: {type: array, items: {type: string, x-kubernetes-validations: [{rule: 'self.startsWith("x")'}]}}
)")),
            "");
  EXPECT_EQ(create("{min: 1, max: 2, ratio: 2, born: '2026-01-01T00:00:00Z', list: [x, xy]}"), "");
  EXPECT_EQ(create("{min: 3, max: 2}", "b"),
            "FieldValueInvalid spec: Invalid value: \"object\": min must not exceed max");
  EXPECT_EQ(create("{min: 3, max: 100}", "b"),
            "FieldValueInvalid spec: Invalid value: \"object\": failed rule: self.max < 100");
  EXPECT_EQ(create("{min: 3, max: 4, tag: bad}", "b"), "FieldValueForbidden spec.tag: Forbidden: no bad tags");
  EXPECT_EQ(create("{min: 3, max: 13}", "b"), "FieldValueInvalid spec: Invalid value: \"object\": max is 13");
  EXPECT_EQ(create("{min: 1, max: 2, ratio: 3}", "b"),
            "FieldValueInvalid spec.ratio: Invalid value: \"number\": failed rule: self / 2.0 <= 1.0");
  EXPECT_EQ(create("{min: 1, max: 2, born: '1999-01-01T00:00:00Z'}", "b"),
            "FieldValueInvalid spec.born: Invalid value: \"string\": failed rule: self.getFullYear() >= 2000");
  EXPECT_EQ(create("{min: 1, max: 2, list: [x, w]}", "b"),
            "FieldValueInvalid spec.list[1]: Invalid value: \"string\": failed rule: self.startsWith(\"x\")");
  EXPECT_EQ(create("{min: 1}", "b"),
            "FieldValueInvalid spec: Invalid value: \"object\": no such key: max evaluating rule: min "
            "must not exceed max\nFieldValueInvalid spec: Invalid value: \"object\": no such key: max "
            "evaluating rule: self.max < 100\nFieldValueInvalid spec: Invalid value: \"object\": no such "
            "key: max evaluating rule: self.max != 13");
}

TEST_F(SchemaRulesTest, RulesAboutAChangeSeeTheOldValue) {
  ASSERT_EQ(causes_of(define(R"(
              type: object
              x-kubernetes-validations:
                - {rule: 'self.size >= oldSelf.size', message: may only grow}
                - {rule: 'oldSelf.hasValue() || self.size == 1', optionalOldSelf: true, message: starts with one}
              properties:
                size: {type: integer}
                parts:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [name]
                  items:
                    type: object
                    required: [name]
                    properties:
                      name: {type: string}
                      color: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: the colour stays}]}
)")),
            "");
  EXPECT_EQ(create("{size: 2}"), "FieldValueInvalid spec: Invalid value: \"object\": starts with one");
  ASSERT_EQ(create("{size: 1, parts: [{name: a, color: red}, {name: b, color: blue}]}"), "");
  EXPECT_EQ(update("{size: 0}"), "FieldValueInvalid spec: Invalid value: \"object\": may only grow");
  EXPECT_EQ(update("{size: 2, parts: [{name: c, color: green}, {name: b, color: red}]}"),
            "FieldValueInvalid spec.parts[1].color: Invalid value: \"string\": the colour stays");
  EXPECT_EQ(update("{size: 2, parts: [{name: b, color: blue}, {name: a, color: red}]}"), "");
}

TEST_F(SchemaRulesTest, WhatDoesNotChangeMayBreakARuleThatCameLater) {
  const std::string plain = "{type: object, properties: {a: {type: integer}, b: {type: integer}}}";
  ASSERT_EQ(causes_of(define(plain)), "");
  ASSERT_EQ(create("{a: -1, b: 1}"), "");
  ASSERT_EQ(
      causes_of(redefine("{type: object, properties: {b: {type: integer}, a: {type: integer, x-kubernetes-validations: "
                         "[{rule: self >= 0, message: too small}]}}}")),
      "");
  EXPECT_EQ(update("{a: -1, b: 2}"), "");
  EXPECT_EQ(update("{a: -2, b: 2}"), "FieldValueInvalid spec.a: Invalid value: \"integer\": too small");
}

TEST_F(SchemaRulesTest, ARuleThatCannotBeCompiledIsRefusedWithItsPlace) {
  const std::string at = "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
  const auto refused = [&](const std::string& rule) {
    return causes_of(
        define("{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [" + rule + "]}"));
  };
  EXPECT_EQ(refused("{rule: 'self.b > 0'}"),
            "FieldValueInvalid " + at +
                ".rule: Invalid value: \"self.b > 0\": compilation failed: ERROR: <input>:1:6: undefined " +
                "field 'b'\n | self.b > 0\n | .....^");
  EXPECT_NE(refused("{rule: 'self.a >'}").find(at + ".rule: Invalid value: \"self.a >\": compilation failed"),
            std::string::npos);
  EXPECT_EQ(refused("{rule: 'self.a'}"),
            "FieldValueInvalid " + at + ".rule: Invalid value: \"self.a\": must evaluate to a bool");
  EXPECT_EQ(refused("{rule: 'self.a == 1', messageExpression: 'self.a'}"),
            "FieldValueInvalid " + at + ".messageExpression: Invalid value: \"self.a\": must evaluate to a string");
  EXPECT_EQ(refused("{message: x}"), "FieldValueRequired " + at + ".rule: Required value: rule is not specified");
  EXPECT_NE(refused("{rule: 'self.a == \"x\"'}").find("found no matching overload for '_==_'"), std::string::npos);
}

TEST_F(SchemaRulesTest, ARuleThatCostsTooMuchIsStoppedAndSaysSo) {
  ASSERT_EQ(causes_of(define(R"(
              type: object
              x-kubernetes-validations:
                - {rule: 'self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))', message: dear}
                - {rule: 'false'}
              properties:
                list: {type: array, items: {type: integer}}
)")),
            "");
  std::string list = "[0";
  for (int i = 1; i < 200; ++i) list += "," + std::to_string(i);
  EXPECT_EQ(create("{list: " + list + "]}"),
            "FieldValueInvalid spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no "
            "further "
            "validation rules will be run due to call cost exceeds limit for rule: dear");
}

TEST_F(SchemaRulesTest, TheRuleOfOurOwnKindsIsInForce) {
  const std::string path = BASALT_SOURCE_DIR "/deploy/crds/topology.volcano.sh_hypernodes.yaml";
  std::FILE* file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  std::string text(1u << 20, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  const auto made = call(kube::Verb::Create, kCrds, "", text);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const kube::Resource nodes{"topology.volcano.sh", "v1alpha1", "hypernodes"};
  const auto one = [&](const std::string& selector) {
    return call(kube::Verb::Create, nodes, "",
                "{metadata: {generateName: h-}, spec: {tier: 1, members: [{type: Node, selector: " + selector + "}]}}");
  };
  EXPECT_EQ(causes_of(one("{exactMatch: {name: a}}")), "");
  EXPECT_NE(causes_of(one("{exactMatch: {name: a}, regexMatch: {pattern: b}}")), "");
}

}  // namespace
}  // namespace basalt::apiserver
