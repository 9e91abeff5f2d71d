// ValidatingAdmissionPolicy on the embedded server, and the policies that Basalt ships.

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/registry/api_server.h"
#include "rt/real_runtime.h"
#include "yaml/reader.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kGroup = "admissionregistration.k8s.io";
const kube::Resource kPolicies{std::string(kGroup), "v1", "validatingadmissionpolicies"};
const kube::Resource kBindings{std::string(kGroup), "v1", "validatingadmissionpolicybindings"};
const kube::Resource kMaps{"", "v1", "configmaps"};

std::string file_text(const std::string& path) {
  std::string text(1u << 20, '\0');
  std::FILE* file = std::fopen((std::string(BASALT_SOURCE_DIR "/") + path).c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  if (file == nullptr) return "";
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

class PolicyTest : public ::testing::Test {
 protected:
  PolicyTest() : runtime_(rt::make_real_runtime()) {
    server_ = *ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
  }
  ~PolicyTest() override { server_->stop(); }

  Result<kube::Response> call(kube::Verb verb, const kube::Resource& resource, const std::string& name,
                              const json::Value& body) {
    kube::Request request;
    request.verb = verb;
    request.resource = resource;
    const auto type = server_->types()->find(resource.group, resource.version, resource.plural);
    request.ns = type != nullptr && type->namespaced ? "default" : "";
    request.name = name;
    if (!body.is_null()) request.body = body.to_text();
    return server_->call(request, RequestContext{{"ann", "", {"devs"}}, "test", false});
  }
  // "" if it was taken, else the message.
  std::string create(const kube::Resource& resource, const std::string& yaml) {
    auto made = call(kube::Verb::Create, resource, "", yaml::read(yaml).value());
    warnings_ = made.ok() ? made->warnings : std::vector<std::string>();
    code_ = made.ok() ? made->code : made.error().code;
    return made.ok() ? "" : made.error().message;
  }
  void bind(const std::string& more = "validationActions: [Deny]") {
    ASSERT_EQ(create(kBindings, "{metadata: {name: b}, spec: {policyName: p, " + more + "}}"), "");
  }
  // A policy "p" about creates and updates of config maps.
  std::string define(const std::string& more) {
    return create(
        kPolicies,
        "{metadata: {name: p}, spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], "
        "operations: [CREATE, UPDATE, DELETE], resources: [configmaps]}]}, " +
            more + "}}");
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<ApiServer> server_;
  std::vector<std::string> warnings_;
  int code_ = 0;
};

TEST_F(PolicyTest, ADenialNamesPolicyBindingAndMessage) {
  ASSERT_EQ(define("variables: [{name: data, expression: 'has(object.data) ? object.data : {}'}, "
                   "{name: count, expression: variables.data.size()}], "
                   "matchConditions: [{name: not-deletes, expression: request.operation != 'DELETE'}], "
                   "validations: [{expression: variables.count <= 1, message: one is enough}, "
                   "{expression: '!(\"bad\" in variables.data)', reason: Forbidden, "
                   "messageExpression: '\"not in \" + object.metadata.name'}]"),
            "");
  EXPECT_EQ(create(kMaps, "{metadata: {name: free}, data: {a: '1', b: '2'}}"), "") << "a policy without a binding";
  bind();
  EXPECT_EQ(create(kMaps, "{metadata: {name: a}, data: {a: '1'}}"), "");
  EXPECT_EQ(
      create(kMaps, "{metadata: {name: b}, data: {a: '1', b: '2'}}"),
      "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: one is enough");
  EXPECT_EQ(code_, 422);
  EXPECT_EQ(create(kMaps, "{metadata: {name: c}, data: {bad: '1'}}"),
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not in c");
  EXPECT_EQ(code_, 403);
  EXPECT_TRUE(call(kube::Verb::Delete, kMaps, "free", json::Value()).ok()) << "the condition is about deletes";
  ASSERT_TRUE(call(kube::Verb::Delete, kBindings, "b", json::Value()).ok());
  EXPECT_EQ(create(kMaps, "{metadata: {name: d}, data: {a: '1', b: '2'}}"), "") << "without the binding again";
}

TEST_F(PolicyTest, WarnWarnsAndSelectorsChoose) {
  ASSERT_EQ(define("validations: [{expression: 'has(object.data)'}]"), "");
  bind("validationActions: [Warn, Audit], matchResources: {objectSelector: {matchLabels: {ask: me}}}");
  EXPECT_EQ(create(kMaps, "{metadata: {name: a}}"), "");
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(create(kMaps, "{metadata: {name: b, labels: {ask: me}}}"), "");
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed "
                                     "expression: has(object.data)"});
}

TEST_F(PolicyTest, AnErrorFollowsTheFailurePolicy) {
  ASSERT_EQ(define("validations: [{expression: 'object.data.a == \"1\"'}]"), "");
  bind();
  EXPECT_EQ(create(kMaps, "{metadata: {name: a}}"),
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: expression "
            "'object.data.a == \"1\"' resulted in error: no such key: data");
  ASSERT_TRUE(call(kube::Verb::Delete, kPolicies, "p", json::Value()).ok());
  ASSERT_EQ(define("failurePolicy: Ignore, validations: [{expression: 'object.data.a == \"1\"'}]"), "");
  EXPECT_EQ(create(kMaps, "{metadata: {name: a}}"), "");
}

TEST_F(PolicyTest, ParametersComeByNameAndBySelector) {
  ASSERT_EQ(define("paramKind: {apiVersion: v1, kind: ConfigMap}, matchConditions: [{name: c, expression: "
                   "'!object.metadata.name.startsWith(\"param\")'}], validations: [{expression: 'size(object.data) <= "
                   "int(params.data.max)', messageExpression: '\"at most \" + params.data.max'}]"),
            "");
  bind("validationActions: [Deny], paramRef: {name: param, parameterNotFoundAction: Deny}");
  EXPECT_NE(create(kMaps, "{metadata: {name: a}, data: {a: '1'}}").find("no params found"), std::string::npos);
  ASSERT_TRUE(call(kube::Verb::Delete, kBindings, "b", json::Value()).ok());
  ASSERT_EQ(create(kMaps, "{metadata: {name: param, labels: {use: me}}, data: {max: '1'}}"), "");
  bind("validationActions: [Deny], paramRef: {name: param, parameterNotFoundAction: Deny}");
  EXPECT_EQ(create(kMaps, "{metadata: {name: a}, data: {a: '1'}}"), "");
  EXPECT_NE(create(kMaps, "{metadata: {name: b}, data: {a: '1', b: '2'}}").find("at most 1"), std::string::npos);
  ASSERT_TRUE(call(kube::Verb::Delete, kBindings, "b", json::Value()).ok());
  bind("validationActions: [Deny], paramRef: {selector: {matchLabels: {use: me}}, parameterNotFoundAction: Allow}");
  EXPECT_NE(create(kMaps, "{metadata: {name: b}, data: {a: '1', b: '2'}}").find("at most 1"), std::string::npos);
}

TEST_F(PolicyTest, WhatCannotBeCompiledIsRefusedWithItsPlace) {
  EXPECT_NE(define("validations: [{expression: 'object.a >'}]").find("spec.validations[0].expression: Invalid value"),
            std::string::npos);
  EXPECT_NE(define("validations: [{expression: 'variables.x'}]").find("undefined field 'x'"), std::string::npos);
  EXPECT_NE(define("validations: [{expression: '1'}]").find("must evaluate to bool"), std::string::npos);
  EXPECT_NE(define("variables: [{name: a, expression: nothing}], validations: [{expression: 'true'}]")
                .find("spec.variables[0].expression: Invalid value: \"nothing\": compilation failed"),
            std::string::npos);
  EXPECT_NE(define("failurePolicy: Fail").find("spec.validations: Required value"), std::string::npos);
  EXPECT_NE(
      create(kBindings, "{metadata: {name: b}, spec: {policyName: p}}").find("spec.validationActions: Required value"),
      std::string::npos);
  EXPECT_NE(create(kBindings, "{metadata: {name: b}, spec: {policyName: p, validationActions: [Deny, Warn]}}")
                .find("must not contain both Deny and Warn"),
            std::string::npos);
}

TEST_F(PolicyTest, TheAuthorizerAndTheNamespaceCanBeAsked) {
  ASSERT_EQ(define("validations: [{expression: \"authorizer.group('').resource('configmaps').namespace('default')."
                   "check('create').allowed() && authorizer.requestResource.check('get').allowed()\"}, {expression: "
                   "\"namespaceObject.metadata.name == request.namespace && request.userInfo.username == 'ann'\"}]"),
            "");
  bind();
  EXPECT_EQ(create(kMaps, "{metadata: {name: a}}"), "");
}

TEST_F(PolicyTest, OurPoliciesLoadAndRefuseWhatTheyShould) {
  const kube::Resource crds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
  for (const std::string_view name :
       {"batch.volcano.sh_jobs", "scheduling.volcano.sh_queues", "topology.volcano.sh_hypernodes"}) {
    ASSERT_EQ(create(crds, file_text("deploy/crds/" + std::string(name) + ".yaml")), "") << name;
  }
  const auto documents = yaml::read_all(file_text("deploy/policies/admission-policies.yaml"));
  ASSERT_TRUE(documents.ok());
  std::size_t policies = 0;
  for (const auto& document : *documents) {
    const bool is_policy = document.value.string_at({"kind"}) == "ValidatingAdmissionPolicy";
    const auto made = call(kube::Verb::Create, is_policy ? kPolicies : kBindings, "", document.value);
    ASSERT_TRUE(made.ok()) << made.error().message;
    policies += is_policy ? 1 : 0;
  }
  EXPECT_GE(policies, 11u);
  const kube::Resource jobs{"batch.volcano.sh", "v1alpha1", "jobs"};
  const kube::Resource queues{"scheduling.volcano.sh", "v1beta1", "queues"};
  const std::string task = "{name: t, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}";
  EXPECT_EQ(create(jobs, "{metadata: {name: good}, spec: {minAvailable: 2, tasks: [" + task + "}]}}"), "");
  struct Refusal {
    const kube::Resource& resource;
    std::string yaml;
    std::string_view message;
  };
  const Refusal refusals[] = {
      {jobs, "{metadata: {name: root}, spec: {queue: root, tasks: [" + task + "}]}}",
       "spec.queue: can not submit job to root queue"},
      {jobs, "{metadata: {name: many}, spec: {minAvailable: 3, tasks: [" + task + "}]}}",
       "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks"},
      {jobs, "{metadata: {name: twice}, spec: {tasks: [" + task + "}, " + task + "}]}}", "duplicated task name"},
      {jobs, "{metadata: {name: over}, spec: {tasks: [" + task + ", minAvailable: 3}]}}",
       "'minAvailable' is greater than 'replicas'"},
      {jobs, "{metadata: {name: plugin}, spec: {plugins: {nope: []}, tasks: [" + task + "}]}}",
       "unable to find job plugin"},
      {queues, "{metadata: {name: q}, spec: {deserved: {cpu: 1}, guarantee: {resource: {cpu: 2}}}}",
       "deserved must be >= guarantee"},
      {queues, "{metadata: {name: q}, spec: {capability: {cpu: '-1'}}}", "amounts must be greater than or equal to 0"},
      {queues, "{metadata: {name: q}, spec: {parent: q}}", "a queue cannot use itself as parent"}};
  for (const Refusal& one : refusals) {
    const std::string message = create(one.resource, one.yaml);
    EXPECT_NE(message.find(one.message), std::string::npos) << one.yaml << "\n" << message;
  }
  EXPECT_EQ(create(queues, "{metadata: {name: q}, spec: {weight: 1, deserved: {cpu: 2}, capability: {cpu: 4}}}"), "");
  ASSERT_EQ(create(queues, "{metadata: {name: default}, spec: {weight: 1}}"), "");
  const auto kept = call(kube::Verb::Delete, queues, "default", json::Value());
  ASSERT_FALSE(kept.ok());
  EXPECT_NE(kept.error().message.find("`default` and `root` queue can not be deleted"), std::string::npos);
  EXPECT_TRUE(call(kube::Verb::Delete, queues, "q", json::Value()).ok());
}

}  // namespace
}  // namespace basalt::apiserver
