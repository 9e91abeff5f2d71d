#include "apiserver/http/openapi_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "apiserver/http/openapi_protobuf.h"
#include "apiserver/http/openapi_test_support.h"
#include "apiserver/registry/api_server.h"
#include "rt/real_runtime.h"
#include "yaml/reader.h"

namespace basalt::apiserver {
namespace {

using json::Value;

const kube::Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
constexpr std::string_view kV2 = "/openapi/v2";
constexpr std::string_view kPods = "/openapi/v3/api/v1";

std::string thing_crd(const std::string& description) {
  return R"(
metadata: {name: things.example.io}
spec:
  group: example.io
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [a]
            properties:
              a: {type: string, description: )" +
         description + R"(, enum: [x, "1"], default: x}
              b: {type: string, nullable: true}
              c: {x-kubernetes-int-or-string: true}
              d:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [k]
                items: {type: object, required: [k], properties: {k: {type: string}}}
              e: {type: object, x-kubernetes-preserve-unknown-fields: true}
              f: {type: object, additionalProperties: {type: integer, format: int64, minimum: 1}}
)";
}

class OpenApiEndpointTest : public ::testing::Test {
 protected:
  OpenApiEndpointTest() : runtime_(rt::make_real_runtime()) {
    server_ = *ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
    endpoint_ = std::make_unique<OpenApiEndpoint>(*server_);
  }
  ~OpenApiEndpointTest() override { server_->stop(); }

  void write_crd(kube::Verb verb, const std::string& yaml) {
    kube::Request request;
    request.verb = verb;
    request.resource = kCrds;
    request.name = verb == kube::Verb::Create ? "" : "things.example.io";
    if (verb == kube::Verb::Patch) request.patch_type = kube::PatchType::Merge;
    if (!yaml.empty()) request.body = yaml::read(yaml).value().to_text();
    const auto done = server_->call(request, RequestContext{{"ann", "", {}}, "test", true});
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  OpenApiEndpoint::Answer get(std::string_view path, std::string_view accept, std::string_view tag = {}) {
    auto answer = endpoint_->answer(path, accept, tag);
    if (!answer.ok() || !*answer) {
      ADD_FAILURE() << path << " " << accept;
      return {};
    }
    return std::move(**answer);
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<ApiServer> server_;
  std::unique_ptr<OpenApiEndpoint> endpoint_;
};

// What protobuf cannot tell from absence.
void drop_empty(Value& schema) {
  if (!schema.is_object()) return;
  json::Object& members = schema.as_object();
  members.erase_if([](const json::Member& member) {
    return (member.key == "minimum" && member.value == Value(0)) ||
           (member.key == "properties" && member.value.is_object() && member.value.as_object().empty());
  });
  for (const std::string_view name : {"items", "additionalProperties"}) {
    if (Value* inner = members.find(name)) drop_empty(*inner);
  }
  if (Value* properties = members.find("properties")) {
    for (json::Member& property : properties->as_object()) drop_empty(property.value);
  }
}

TEST_F(OpenApiEndpointTest, BothFormsHaveTheSameDefinitions) {
  write_crd(kube::Verb::Create, thing_crd("An a."));
  Value json = Value::parse(get(kV2, "application/json").body).value();
  const auto protobuf = get(kV2, kOpenApiProtobufOlder);
  EXPECT_EQ(protobuf.content_type, kOpenApiProtobuf);
  const ProtobufFields document(protobuf.body);
  const auto definitions = ProtobufFields(document.one(9)).named(1);
  EXPECT_EQ(definitions.size(), json.find("definitions")->as_object().size());
  EXPECT_GT(definitions.size(), 400u);
  for (json::Member& member : json.find("definitions")->as_object()) {
    drop_empty(member.value);
    ASSERT_TRUE(definitions.contains(member.key)) << member.key;
    EXPECT_EQ(openapi_schema_of(definitions.at(member.key)).to_text(), member.value.to_text()) << member.key;
  }
  EXPECT_EQ(ProtobufFields(document.one(8)).named(2).size(), json.find("paths")->as_object().size());

  const Value thing = openapi_schema_of(definitions.at("io.example.v1.Thing"));
  const Value* spec = thing.find_path({"properties", "spec"});
  ASSERT_NE(spec, nullptr);
  EXPECT_EQ(spec->find("required")->to_text(), R"(["a"])");
  EXPECT_EQ(spec->find_path({"properties", "a"})->to_text(),
            R"({"default":"x","description":"An a.","enum":["x","1"],"type":"string"})");
  EXPECT_EQ(spec->find_path({"properties", "c"})->to_text(), R"({"x-kubernetes-int-or-string":true})");
  EXPECT_EQ(spec->find_path({"properties", "d", "x-kubernetes-list-map-keys"})->to_text(), R"(["k"])");
  EXPECT_EQ(spec->find_path({"properties", "e"})->to_text(), R"({"x-kubernetes-preserve-unknown-fields":true})");
  EXPECT_EQ(thing.find("x-kubernetes-group-version-kind")->to_text(),
            R"([{"group":"example.io","kind":"Thing","version":"v1"}])");
}

TEST_F(OpenApiEndpointTest, BuiltInKindsSayHowTheirListsAreMerged) {
  const ProtobufFields document(get(kV2, kOpenApiProtobuf).body);
  const auto definitions = ProtobufFields(document.one(9)).named(1);
  const auto property = [&](const std::string& definition, std::string_view name) {
    const Value schema = openapi_schema_of(definitions.at(definition));
    const Value* found = schema.find_path({"properties", name});
    return found == nullptr ? std::string() : found->to_text();
  };
  EXPECT_EQ(property("io.k8s.api.core.v1.Container", "ports"),
            R"({"items":{"$ref":"#/definitions/io.k8s.api.core.v1.ContainerPort"},"type":"array",)"
            R"("x-kubernetes-list-map-keys":["containerPort","protocol"],"x-kubernetes-list-type":"map",)"
            R"("x-kubernetes-patch-merge-key":"containerPort","x-kubernetes-patch-strategy":"merge"})");
  EXPECT_EQ(property("io.k8s.api.core.v1.PodSpec", "volumes"),
            R"({"items":{"$ref":"#/definitions/io.k8s.api.core.v1.Volume"},"type":"array",)"
            R"("x-kubernetes-list-map-keys":["name"],"x-kubernetes-list-type":"map",)"
            R"("x-kubernetes-patch-merge-key":"name","x-kubernetes-patch-strategy":"merge,retainKeys"})");
  EXPECT_EQ(property("io.k8s.api.core.v1.PodSpec", "tolerations"),
            R"({"items":{"$ref":"#/definitions/io.k8s.api.core.v1.Toleration"},"type":"array"})");
  EXPECT_EQ(property("io.k8s.api.apps.v1.DeploymentSpec", "strategy"),
            R"({"$ref":"#/definitions/io.k8s.api.apps.v1.DeploymentStrategy",)"
            R"("x-kubernetes-patch-strategy":"retainKeys"})");
  EXPECT_EQ(property("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "selector"),
            R"({"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",)"
            R"("x-kubernetes-patch-strategy":"replace"})");
  // A kind that another has as a part.
  EXPECT_NE(property("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "conditions").find(R"(patch-merge-key":"type")"),
            std::string::npos);
  // Values of any type, and a list that is a message of its own.
  const std::string crds = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";
  EXPECT_EQ(property(crds + "JSONSchemaProps", "default"), R"({"$ref":"#/definitions/)" + crds + R"(JSON"})");
  EXPECT_EQ(openapi_schema_of(definitions.at(crds + "JSON")).find("type"), nullptr);
  EXPECT_EQ(property(crds + "JSONSchemaProps", "additionalProperties"),
            R"({"$ref":"#/definitions/)" + crds + R"(JSONSchemaPropsOrBool"})");
  EXPECT_EQ(openapi_schema_of(definitions.at(crds + "JSONSchemaPropsOrBool")).find("type"), nullptr);
  EXPECT_EQ(property("io.k8s.api.authorization.v1.SubjectAccessReviewSpec", "extra"),
            R"({"additionalProperties":{"items":{"type":"string"},"type":"array"},"type":"object"})");
}

TEST_F(OpenApiEndpointTest, JsonUnlessProtobufIsWantedMore) {
  const std::string both = std::string(kOpenApiProtobuf) + ", application/json";
  EXPECT_EQ(get(kV2, "").content_type, "application/json");
  EXPECT_EQ(get(kV2, "*/*").content_type, "application/json");
  EXPECT_EQ(get(kV2, "application/*").content_type, "application/json");
  EXPECT_EQ(get(kV2, both).content_type, kOpenApiProtobuf);
  EXPECT_EQ(get(kV2, std::string(kOpenApiProtobuf) + ";q=0.5, application/json").content_type, "application/json");
  for (const std::string_view other : {"text/plain", "application/vnd.kubernetes.protobuf", "application/json;q=0"}) {
    const auto refused = endpoint_->answer(kV2, other, "");
    ASSERT_FALSE(refused.ok()) << other;
    EXPECT_EQ(refused.error().code, 406);
    EXPECT_NE(refused.error().message.find(kOpenApiProtobuf), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(get(kPods, kOpenApiProtobuf).content_type, "application/json") << "the newer ones have one form";
  EXPECT_FALSE(endpoint_->answer("/openapi/v3/apis/nothing", "", "")->has_value());
  EXPECT_FALSE(endpoint_->answer("/api", "", "")->has_value());
}

TEST_F(OpenApiEndpointTest, WhoHasThePresentDocumentIsToldSo) {
  for (const std::string_view accept : {std::string_view("application/json"), kOpenApiProtobuf}) {
    const auto first = get(kV2, accept);
    EXPECT_EQ(first.status, 200);
    const auto again = get(kV2, accept, "W/\"x\", " + first.tag);
    EXPECT_EQ(again.status, 304);
    EXPECT_EQ(again.tag, first.tag);
    EXPECT_TRUE(again.body.empty());
    EXPECT_EQ(get(kV2, accept, "\"x\"").status, 200);
    // A server that has just started knows none of the tags, and finds out.
    OpenApiEndpoint fresh(*server_);
    EXPECT_EQ((*fresh.answer(kV2, accept, first.tag))->status, 304);
  }
  EXPECT_NE(get(kV2, "").tag, get(kV2, kOpenApiProtobuf).tag);
}

TEST_F(OpenApiEndpointTest, ACrdThatChangesChangesTheTag) {
  const std::string without = get(kV2, kOpenApiProtobuf).tag;
  write_crd(kube::Verb::Create, thing_crd("An a."));
  const auto with = get(kV2, kOpenApiProtobuf, without);
  EXPECT_EQ(with.status, 200);
  EXPECT_NE(with.body.find("io.example.v1.Thing"), std::string::npos);
  const std::string pods = get(kPods, "").tag;
  write_crd(kube::Verb::Patch, thing_crd("Another a."));
  const auto changed = get(kV2, kOpenApiProtobuf, with.tag);
  EXPECT_EQ(changed.status, 200);
  EXPECT_NE(changed.tag, with.tag);
  EXPECT_EQ(get(kPods, "", pods).status, 304) << "nothing changed there";
}

}  // namespace
}  // namespace basalt::apiserver
