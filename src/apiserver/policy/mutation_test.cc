// MutatingAdmissionPolicy on the embedded server, and what policies say in the audit log.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "apiserver/registry/api_server.h"
#include "rt/real_runtime.h"
#include "yaml/reader.h"

namespace basalt::apiserver {
namespace {

const std::string kGroup = "admissionregistration.k8s.io";
const kube::Resource kPolicies{kGroup, "v1", "mutatingadmissionpolicies"};
const kube::Resource kBindings{kGroup, "v1", "mutatingadmissionpolicybindings"};
const kube::Resource kMaps{"", "v1", "configmaps"};
const kube::Resource kDeployments{"apps", "v1", "deployments"};
const std::string kScope =
    "matchConstraints: {resourceRules: [{apiGroups: ['', apps], apiVersions: [v1], operations: [CREATE, UPDATE], "
    "resources: [configmaps, deployments]}]}";

class MutationTest : public ::testing::Test {
 protected:
  MutationTest() : runtime_(rt::make_real_runtime()), audit_(std::make_shared<AuditAnnotations>()) {
    server_ = *ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
  }
  ~MutationTest() override { server_->stop(); }

  Result<json::Value> create(const kube::Resource& resource, const std::string& yaml) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resource;
    request.ns = resource.group == kGroup ? "" : "default";
    request.body = yaml::read(yaml).value().to_text();
    auto made = server_->call(request, RequestContext{{"ann", "", {"devs"}}, "test", false, audit_});
    if (!made.ok()) return made.error();
    return json::Value::parse(*made->body);
  }
  void define(const std::string& name, const std::string& mutations, const std::string& more = "") {
    const auto policy = create(kPolicies, "{metadata: {name: " + name + "}, spec: {reinvocationPolicy: Never, " + more +
                                              kScope + ", mutations: [" + mutations + "]}}");
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    ASSERT_TRUE(create(kBindings, "{metadata: {name: " + name + "}, spec: {policyName: " + name + "}}").ok());
  }
  static std::string apply(const std::string& expression) {
    return "{patchType: ApplyConfiguration, applyConfiguration: {expression: '" + expression + "'}}";
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::shared_ptr<AuditAnnotations> audit_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(MutationTest, AConfigurationIsMergedAndAPatchIsAppliedInOrder) {
  define("a", apply("Object{metadata: Object.metadata{annotations: {\"by\": request.userInfo.username}}}"));
  define("b",
         "{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: \"add\", path: \"/data\", value: "
         "{\"seen\": object.metadata.annotations.by}}]'}}");
  const auto made = create(kMaps, "{metadata: {name: m, annotations: {mine: kept}}}");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->string_at({"metadata", "annotations", "by"}), "ann");
  EXPECT_EQ(made->string_at({"metadata", "annotations", "mine"}), "kept");
  EXPECT_EQ(made->string_at({"data", "seen"}), "ann") << "the second sees what the first made";
}

TEST_F(MutationTest, ListsAreMergedByTheirKeysAndCompleted) {
  define("a", apply("Object{spec: Object.spec{replicas: 7, template: Object.spec.template{spec: "
                    "Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: \"side\", "
                    "image: \"s\"}]}}}}"));
  const auto made = create(kDeployments,
                           "{metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: "
                           "{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->find_path({"spec", "replicas"})->as_int(), 7);
  const json::Array& containers = made->find_path({"spec", "template", "spec", "containers"})->as_array();
  ASSERT_EQ(containers.size(), 2u);
  EXPECT_EQ(containers[1].string_at({"imagePullPolicy"}), "Always") << "defaults of what was brought in";
}

TEST_F(MutationTest, ConditionsChooseAndFailuresFollowThePolicy) {
  define("a", apply("Object{data: {\"x\": object.data.none}}"),
         "matchConditions: [{name: c, expression: "
         "'object.metadata.name != \"free\"'}], ");
  EXPECT_TRUE(create(kMaps, "{metadata: {name: free}}").ok());
  const auto refused = create(kMaps, "{metadata: {name: m}}");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("MutatingAdmissionPolicy 'a' with binding 'a' denied request: no such key"),
            std::string::npos)
      << refused.error().message;
}

TEST_F(MutationTest, WhatCannotBeCompiledIsRefused) {
  const auto bad = create(kPolicies, "{metadata: {name: p}, spec: {reinvocationPolicy: Never, " + kScope +
                                         ", mutations: [" + apply("Object{spec: }") + "]}}");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("spec.mutations[0].applyConfiguration.expression: Invalid value"),
            std::string::npos)
      << bad.error().message;
  EXPECT_FALSE(create(kPolicies, "{metadata: {name: p}, spec: {" + kScope + ", mutations: []}}").ok());
}

TEST_F(MutationTest, AuditTellsFailuresAndAnnotations) {
  ASSERT_TRUE(create({kGroup, "v1", "validatingadmissionpolicies"},
                     "{metadata: {name: p.example.com}, spec: {" + kScope +
                         ", validations: [{expression: 'has(object.data)', message: no data}], auditAnnotations: "
                         "[{key: name, valueExpression: '\"it is \" + object.metadata.name'}]}}")
                  .ok());
  ASSERT_TRUE(create({kGroup, "v1", "validatingadmissionpolicybindings"},
                     "{metadata: {name: b}, spec: {policyName: p.example.com, validationActions: [Audit]}}")
                  .ok());
  audit_->clear();
  ASSERT_TRUE(create(kMaps, "{metadata: {name: m}}").ok()) << "an audit refuses nothing";
  EXPECT_EQ((*audit_)["p.example.com/name"], "it is m");
  const auto failures = json::Value::parse((*audit_)["validation.policy.admission.k8s.io/validation_failure"]);
  ASSERT_TRUE(failures.ok());
  ASSERT_EQ(failures->as_array().size(), 1u);
  EXPECT_EQ(failures->as_array()[0].string_at({"message"}), "no data");
  EXPECT_EQ(failures->as_array()[0].string_at({"binding"}), "b");
}

}  // namespace
}  // namespace basalt::apiserver
