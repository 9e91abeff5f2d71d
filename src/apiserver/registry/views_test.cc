// What is served differs from what is stored: events in two forms, autoscalers in two versions, objects that are older
// than the defaults of their definition; and what field validation and lists say about it.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "apiserver/http/openapi.h"
#include "apiserver/registry/api_server.h"
#include "apiserver/registry/continue_token.h"
#include "rt/real_runtime.h"
#include "yaml/reader.h"

namespace basalt::apiserver {
namespace {

const kube::Resource kCoreEvents{"", "v1", "events"};
const kube::Resource kNewEvents{"events.k8s.io", "v1", "events"};
const kube::Resource kMaps{"", "v1", "configmaps"};
const kube::Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
const kube::Resource kThings{"example.io", "v1", "things"};

constexpr std::string_view kThingCrd = R"(
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
        description: A thing.
        properties:
          spec:
            type: object
            properties: {a: {type: string}, b: {type: string, nullable: true}}
)";

class ViewsTest : public ::testing::Test {
 protected:
  ViewsTest() : runtime_(rt::make_real_runtime()) {
    server_ = *ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
  }
  ~ViewsTest() override { server_->stop(); }

  Result<json::Value> call(kube::Request request, std::string_view yaml = {}) {
    const auto type = server_->types()->find(request.resource.group, request.resource.version, request.resource.plural);
    if (type && type->namespaced) request.ns = "default";
    if (!yaml.empty() && request.body.empty()) request.body = yaml::read(yaml).value().to_text();
    auto response = server_->call(request, RequestContext{{"ann", "", {}}, "test", true});
    if (!response.ok()) return response.error();
    warnings_ = response->warnings;
    return json::Value::parse(*response->body);
  }
  Result<json::Value> create(const kube::Resource& resource, std::string_view yaml) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resource;
    return call(std::move(request), yaml);
  }
  Result<json::Value> get(const kube::Resource& resource, const std::string& name) {
    kube::Request request;
    request.verb = kube::Verb::Get;
    request.resource = resource;
    request.name = name;
    return call(std::move(request));
  }
  Result<json::Value> update(const kube::Resource& resource, const json::Value& object) {
    kube::Request request;
    request.verb = kube::Verb::Update;
    request.resource = resource;
    request.name = std::string(object.string_at({"metadata", "name"}));
    request.body = object.to_text();
    return call(std::move(request));
  }
  std::size_t count(const kube::Resource& resource, const std::string& fields) {
    kube::ListRequest list;
    list.resource = resource;
    list.ns = "default";
    list.field_selector = fields;
    const auto page = server_->list(list, RequestContext{{"ann", "", {}}, "test", true});
    EXPECT_TRUE(page.ok()) << fields;
    return page.ok() ? page->items.size() : 0;
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<ApiServer> server_;
  std::vector<std::string> warnings_;
};

TEST_F(ViewsTest, AnEventIsReadAndSelectedInBothForms) {
  const auto made = create(kNewEvents,
                           "{metadata: {name: e}, regarding: {kind: Pod, name: p, namespace: default}, reason: Bound, "
                           "note: to n1, type: Normal, action: Binding, reportingController: example.io/s, "
                           "reportingInstance: s-0, eventTime: '2024-01-01T00:00:00.000001Z'}");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->string_at({"apiVersion"}), "events.k8s.io/v1");
  EXPECT_EQ(made->string_at({"note"}), "to n1");
  const auto core = get(kCoreEvents, "e");
  ASSERT_TRUE(core.ok());
  EXPECT_EQ(core->string_at({"apiVersion"}), "v1");
  EXPECT_EQ(core->string_at({"message"}), "to n1");
  EXPECT_EQ(core->string_at({"involvedObject", "name"}), "p");
  EXPECT_EQ(core->string_at({"reportingComponent"}), "example.io/s");
  EXPECT_EQ(core->find("note"), nullptr);
  EXPECT_EQ(count(kNewEvents, "regarding.name=p,reportingController=example.io/s"), 1u);
  EXPECT_EQ(count(kCoreEvents, "involvedObject.name=p"), 1u);
  EXPECT_EQ(count(kNewEvents, "regarding.name=q"), 0u);
  // A write through either form is one of the same object.
  json::Value changed = *core;
  changed.as_object().set("count", 5);
  ASSERT_TRUE(update(kCoreEvents, changed).ok());
  EXPECT_EQ(get(kNewEvents, "e")->find("deprecatedCount")->as_int(), 5);
}

TEST_F(ViewsTest, ANewEventSaysWhoReportsIt) {
  const auto bare = create(kNewEvents, "{metadata: {name: e}, regarding: {kind: Pod, name: p, namespace: default}}");
  ASSERT_FALSE(bare.ok());
  EXPECT_TRUE(bare.error().is(Reason::Invalid));
  EXPECT_NE(bare.error().message.find("eventTime: Required value"), std::string::npos) << bare.error().message;
  // The older form asks for less.
  EXPECT_TRUE(create(kCoreEvents, "{metadata: {name: e}, involvedObject: {kind: Pod, namespace: default}}").ok());
}

TEST_F(ViewsTest, AutoscalersKeepWhatTheirFirstVersionCannotSay) {
  const kube::Resource second{"autoscaling", "v2", "horizontalpodautoscalers"};
  const kube::Resource first{"autoscaling", "v1", "horizontalpodautoscalers"};
  ASSERT_TRUE(create(second,
                     "{metadata: {name: h}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d},"
                     " behavior: {scaleDown: {stabilizationWindowSeconds: 60}}, metrics: ["
                     "{type: Resource, resource: {name: memory, target: {type: Utilization, "
                     "averageUtilization: 70}}}, {type: Resource, resource: {name: cpu, target: "
                     "{type: Utilization, averageUtilization: 50}}}]}}")
                  .ok());
  auto shown = get(first, "h");
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->find_path({"spec", "targetCPUUtilizationPercentage"})->as_int(), 50);
  EXPECT_EQ(shown->find_path({"spec", "metrics"}), nullptr);
  shown->ensure_path({"spec", "maxReplicas"}) = 4;
  ASSERT_TRUE(update(first, *shown).ok());
  const auto stored = get(second, "h");
  EXPECT_EQ(stored->find_path({"spec", "maxReplicas"})->as_int(), 4);
  EXPECT_EQ(stored->find_path({"spec", "metrics"})->as_array().size(), 2u);
  EXPECT_NE(stored->find_path({"spec", "behavior", "scaleDown"}), nullptr);
}

TEST_F(ViewsTest, WhatIsOlderThanADefaultHasItWhenRead) {
  auto crd = create(kCrds, kThingCrd);
  ASSERT_TRUE(crd.ok()) << crd.error().message;
  ASSERT_TRUE(create(kThings, "{metadata: {name: old}, spec: {}}").ok());
  json::Value changed = *get(kCrds, "things.example.io");
  json::Value& version = changed.ensure_path({"spec", "versions"}).as_array()[0];
  version.ensure_path({"schema", "openAPIV3Schema", "properties", "spec", "properties", "a", "default"}) = "set";
  ASSERT_TRUE(update(kCrds, changed).ok());
  EXPECT_EQ(get(kThings, "old")->string_at({"spec", "a"}), "set");
  kube::ListRequest list;
  list.resource = kThings;
  const auto page = server_->list(list, RequestContext{{"ann", "", {}}, "test", true});
  ASSERT_EQ(page->items.size(), 1u);
  EXPECT_NE(page->items[0]->find("\"a\":\"set\""), std::string::npos);
}

TEST_F(ViewsTest, StrictValidationNamesUnknownAndRepeatedFields) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = kMaps;
  request.field_validation = "Strict";
  request.body = R"({"metadata":{"name":"a"},"dta":{},"immutable":true,"immutable":false})";
  const auto refused = call(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(R"(strict decoding error: unknown field "dta", duplicate field "immutable")"),
            std::string::npos)
      << refused.error().message;
  request.field_validation = "Warn";
  const auto taken = call(request);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(warnings_, (std::vector<std::string>{R"(unknown field "dta")", R"(duplicate field "immutable")"}));
  EXPECT_EQ(taken->find("immutable")->as_bool(), false) << "the last one counts";
}

TEST_F(ViewsTest, ApplyRefusesFieldsThatThereAreNot) {
  ASSERT_TRUE(create(kCrds, kThingCrd).ok());
  kube::Request request;
  request.verb = kube::Verb::Patch;
  request.patch_type = kube::PatchType::Apply;
  request.resource = kThings;
  request.name = "t";
  request.field_manager = "m";
  const auto refused =
      call(request, "{apiVersion: example.io/v1, kind: Thing, metadata: {name: t, mine: 1}, spec: {c: 1}}");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 500);
  EXPECT_NE(refused.error().message.find(".metadata.mine: field not declared in schema"), std::string::npos);
  EXPECT_NE(refused.error().message.find(".spec.c: field not declared in schema"), std::string::npos);
}

TEST_F(ViewsTest, AStatusWriteOfABuiltInKindMayAnnotate) {
  kube::Request request;
  request.verb = kube::Verb::Patch;
  request.patch_type = kube::PatchType::Merge;
  request.resource = {"", "v1", "namespaces"};
  request.name = "default";
  request.subresource = "status";
  const auto annotated =
      call(request, "{metadata: {annotations: {a: b}}, status: {conditions: [{type: X, status: 'True'}]}}");
  ASSERT_TRUE(annotated.ok()) << annotated.error().message;
  EXPECT_EQ(annotated->string_at({"metadata", "annotations", "a"}), "b");
  // A patch of the status alone leaves them as they are.
  const auto after = call(request, "{status: {conditions: []}}");
  EXPECT_EQ(after->string_at({"metadata", "annotations", "a"}), "b");
  EXPECT_EQ(after->string_at({"metadata", "labels", "kubernetes.io/metadata.name"}), "default");
}

TEST_F(ViewsTest, AListGoesOnWithWhatThereIsNow) {
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(create(kMaps, "{metadata: {name: " + std::string(name) + "}}").ok());
  const RequestContext context{{"ann", "", {}}, "test", true};
  kube::ListRequest list;
  list.resource = kMaps;
  list.ns = "default";
  list.limit = 1;
  list.continue_token = server_->list(list, context)->continue_token;
  auto token = ContinueToken::decode(list.continue_token);
  ASSERT_TRUE(token.ok());
  token->revision = ContinueToken::kNewest;
  list.continue_token = token->encode();
  ASSERT_TRUE(create(kMaps, "{metadata: {name: aa}}").ok());
  const auto page = server_->list(list, context);
  ASSERT_TRUE(page.ok()) << page.error().message;
  ASSERT_EQ(page->items.size(), 1u);
  EXPECT_NE(page->items[0]->find("\"name\":\"aa\""), std::string::npos) << "made after the list began";
}

TEST_F(ViewsTest, TheSecondOpenApiHasEveryKindOnce) {
  ASSERT_TRUE(create(kCrds, kThingCrd).ok());
  const auto crd = [&](const std::string& name) -> std::optional<json::Value> { return *get(kCrds, name); };
  const auto text = openapi_document(*server_->types(), "/openapi/v2", crd);
  ASSERT_TRUE(text.has_value());
  const auto document = json::Value::parse(*text);
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->string_at({"swagger"}), "2.0");
  const json::Value* thing = document->find_path({"definitions", "io.example.v1.Thing"});
  ASSERT_NE(thing, nullptr);
  EXPECT_EQ(thing->string_at({"properties", "metadata", "$ref"}),
            "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
  EXPECT_EQ(thing->string_at({"properties", "spec", "properties", "a", "type"}), "string");
  EXPECT_EQ(thing->string_at({"properties", "spec", "properties", "b", "type"}), "") << "null cannot be said";
  // Whatever is referred to is there.
  const json::Object& definitions = document->find("definitions")->as_object();
  std::size_t references = 0;
  for (std::size_t at = text->find("#/definitions/"); at != std::string::npos; at = text->find("#/definitions/", at)) {
    at += std::string_view("#/definitions/").size();
    const std::string name = text->substr(at, text->find('"', at) - at);
    EXPECT_NE(definitions.find(name), nullptr) << name;
    ++references;
  }
  EXPECT_GT(references, 500u);
  EXPECT_EQ(thing->to_text().find("\"nullable\""), std::string::npos);
}

}  // namespace
}  // namespace basalt::apiserver
