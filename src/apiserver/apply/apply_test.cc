// Server-side apply through the API: what becomes of the object, who owns what, and who is told to step back.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "apiserver/apply/field_set.h"
#include "apiserver/registry/admission.h"
#include "apiserver/registry/api_server.h"
#include "json/value.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

json::Value parse(std::string_view text) {
  auto value = json::Value::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? std::move(*value) : json::Value();
}

TEST(FieldSet, HasTheFormOfFieldsV1) {
  const json::Value text =
      parse(R"({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}, "f:paused": {}}})");
  const auto set = FieldSet::decode(text);
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->encode(), text);
  EXPECT_EQ(set->paths(), (std::vector<std::string>{".spec.containers[name=\"a\"]",
                                                    ".spec.containers[name=\"a\"].image", ".spec.paused"}));
  EXPECT_FALSE(FieldSet::decode(parse(R"({"spec": {}})")).ok());
}

TEST(FieldSet, SubtractsAndIntersectsByPath) {
  FieldSet a = *FieldSet::decode(parse(R"({"f:x": {}, "f:y": {"f:z": {}}})"));
  const FieldSet b = *FieldSet::decode(parse(R"({"f:y": {"f:z": {}, "f:w": {}}})"));
  EXPECT_EQ(a.intersection(b).encode(), parse(R"({"f:y": {"f:z": {}}})"));
  a.subtract(b);
  EXPECT_EQ(a.encode(), parse(R"({"f:x": {}})"));
}

// Gives everything a label, whatever it had there, once it is switched on.
class Labels final : public AdmissionHook {
 public:
  [[nodiscard]] bool handles(const AdmissionRequest&) const override { return is_on; }
  Done mutate(AdmissionRequest&, json::Value& object) override {
    object.ensure_path({"metadata", "labels", "by"}) = "hook";
    return Ok{};
  }
  Done validate(AdmissionRequest&, const json::Value*) override { return Ok{}; }
  std::atomic<bool> is_on = false;
};

class ApplyTest : public ::testing::Test {
 protected:
  ApplyTest() : runtime_(rt::make_real_runtime()) {
    auto opened = ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(opened.ok());
    server_ = std::move(*opened);
    server_->add_admission_hook(labels_);
    EXPECT_TRUE(server_->start().ok());
  }
  ~ApplyTest() override { server_->stop(); }

  Result<json::Value> call(kube::Request request, bool tracks = true) {
    auto response = server_->call(request, RequestContext{{"admin", "", {}}, "tester/1.0", tracks});
    if (!response.ok()) return response.error();
    return json::Value::parse(*response->body);
  }
  Result<json::Value> apply(const kube::Resource& resource, const std::string& name, const std::string& body,
                            const std::string& manager, bool force = false, const std::string& subresource = "") {
    kube::Request request;
    request.verb = kube::Verb::Patch;
    request.patch_type = kube::PatchType::Apply;
    request.resource = resource;
    request.ns = "default";
    request.name = name;
    request.body = body;
    request.field_manager = manager;
    request.force = force;
    request.subresource = subresource;
    return call(std::move(request));
  }
  Result<json::Value> apply_map(const std::string& data, const std::string& manager, bool force = false) {
    return apply(kConfigMaps, "c",
                 R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":)" + data + "}", manager,
                 force);
  }
  static std::string managers(const json::Value& object) {
    std::string text;
    const json::Value* list = object.find_path({"metadata", "managedFields"});
    if (list == nullptr) return "none";
    for (const json::Value& entry : list->as_array()) {
      text += (text.empty() ? "" : "; ") + std::string(entry.string_at({"manager"})) + " " +
              std::string(entry.string_at({"operation"}));
      for (const std::string& path : FieldSet::decode(*entry.find("fieldsV1"))->paths()) text += " " + path;
    }
    return text;
  }

  static inline const kube::Resource kConfigMaps{"", "v1", "configmaps"};
  static inline const kube::Resource kDeployments{"apps", "v1", "deployments"};
  const std::shared_ptr<Labels> labels_ = std::make_shared<Labels>();
  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(ApplyTest, CreatesWhatIsNotThere) {
  const auto made = apply_map(R"({"a":"1"})", "one");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->string_at({"data", "a"}), "1");
  EXPECT_EQ(managers(*made), "one Apply .data.a");
}

TEST_F(ApplyTest, WithoutAManagerItIsRefused) {
  const auto refused = apply_map("{}", "");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 422);
  EXPECT_NE(refused.error().message.find("fieldManager"), std::string::npos);
}

TEST_F(ApplyTest, RepeatingItChangesNothing) {
  const auto first = apply_map(R"({"a":"1"})", "one");
  const auto second = apply_map(R"({"a":"1"})", "one");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->string_at({"metadata", "resourceVersion"}), first->string_at({"metadata", "resourceVersion"}));
}

TEST_F(ApplyTest, TwoManagersShareAnObjectFieldByField) {
  ASSERT_TRUE(apply_map(R"({"a":"1"})", "one").ok());
  const auto both = apply_map(R"({"b":"2"})", "two");
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(managers(*both), "one Apply .data.a; two Apply .data.b");
  EXPECT_EQ(both->string_at({"data", "a"}), "1");
}

TEST_F(ApplyTest, WhatAManagerNoLongerNamesGoesUnlessAnotherOwnsIt) {
  ASSERT_TRUE(apply_map(R"({"a":"1","b":"2"})", "one").ok());
  ASSERT_TRUE(apply_map(R"({"b":"2"})", "two").ok());
  const auto less = apply_map(R"({"c":"3"})", "one");
  ASSERT_TRUE(less.ok());
  EXPECT_EQ(less->find_path({"data"})->to_text(), R"({"b":"2","c":"3"})");
}

TEST_F(ApplyTest, AConflictNamesTheOtherAndTheField) {
  ASSERT_TRUE(apply_map(R"({"a":"1"})", "one").ok());
  const auto refused = apply_map(R"({"a":"2"})", "two");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 409);
  EXPECT_EQ(refused.error().message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
  ASSERT_EQ(refused.error().causes.size(), 1u);
  EXPECT_EQ(refused.error().causes[0].field, ".data.a");
}

TEST_F(ApplyTest, ForceTakesTheFieldOver) {
  ASSERT_TRUE(apply_map(R"({"a":"1","b":"1"})", "one").ok());
  const auto forced = apply_map(R"({"a":"2"})", "two", true);
  ASSERT_TRUE(forced.ok());
  EXPECT_EQ(managers(*forced), "one Apply .data.b; two Apply .data.a");
}

TEST_F(ApplyTest, AnOrdinaryWriteTakesWhatItChanges) {
  ASSERT_TRUE(apply_map(R"({"a":"1","b":"1"})", "one").ok());
  kube::Request patch;
  patch.verb = kube::Verb::Patch;
  patch.resource = kConfigMaps;
  patch.ns = "default";
  patch.name = "c";
  patch.body = R"({"data":{"a":"9"}})";
  const auto patched = call(patch);
  ASSERT_TRUE(patched.ok());
  EXPECT_EQ(managers(*patched), "one Apply .data.b; tester Update .data.a");
  EXPECT_EQ(apply_map(R"({"a":"1","b":"1"})", "one").error().message,
            "Apply failed with 1 conflict: conflict with \"tester\" using v1: .data.a");
}

TEST_F(ApplyTest, ObjectsThatNobodyTrackedBelongToTheTimeBefore) {
  kube::Request create;
  create.verb = kube::Verb::Create;
  create.resource = kConfigMaps;
  create.ns = "default";
  create.body = R"({"metadata":{"name":"c"},"data":{"a":"1"}})";
  const auto made = call(create, false);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(managers(*made), "none");
  EXPECT_EQ(apply_map(R"({"a":"2"})", "one").error().message,
            "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a");
  EXPECT_EQ(managers(*apply_map(R"({"a":"1"})", "one")), "one Apply .data.a; before-first-apply Update .data.a");
}

constexpr std::string_view kDeployment = R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{
  "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[)";

TEST_F(ApplyTest, WhatHooksAddBelongsToNobodyAndACreateIsNotAboutTheStatus) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = kDeployments;
  request.ns = "default";
  request.body =
      R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":)"
      R"({"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}},)"
      R"("status":{"replicas":7}})";
  const auto without = call(request);
  ASSERT_TRUE(without.ok()) << without.error().message;
  EXPECT_NE(managers(*without).find(" .spec.progressDeadlineSeconds .spec.replicas "), std::string::npos)
      << managers(*without);
  EXPECT_EQ(managers(*without).find(".status"), std::string::npos) << managers(*without);

  labels_->is_on = true;
  request.body.replace(request.body.find(R"("d")"), 3, R"("e")");
  const auto with = call(request);
  ASSERT_TRUE(with.ok()) << with.error().message;
  EXPECT_EQ(with->string_at({"metadata", "labels", "by"}), "hook");
  EXPECT_EQ(managers(*with), managers(*without));

  request.verb = kube::Verb::Patch;
  request.name = "e";
  request.body = R"({"metadata":{"labels":{"by":"me","mine":"yes"}}})";
  const auto patched = call(request);
  ASSERT_TRUE(patched.ok()) << patched.error().message;
  EXPECT_EQ(patched->string_at({"metadata", "labels", "by"}), "hook");
  EXPECT_NE(managers(*patched).find(".metadata.labels.mine"), std::string::npos) << managers(*patched);
}

TEST_F(ApplyTest, ListsWithKeysAreMergedByThem) {
  const auto body = [](const std::string& containers) { return std::string(kDeployment) + containers + "]}}}}"; };
  const auto first = apply(kDeployments, "d", body(R"({"name":"x","image":"x:1"},{"name":"y","image":"y:1"})"), "one");
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto second =
      apply(kDeployments, "d",
            body(R"({"name":"y","image":"y:1"},{"name":"z","image":"z:1","ports":[{"containerPort":80}]})"), "two");
  ASSERT_TRUE(second.ok()) << second.error().message;
  const auto names = [](const json::Value& object) {
    std::string text;
    for (const json::Value& one : object.find_path({"spec", "template", "spec", "containers"})->as_array())
      text += std::string(one.string_at({"name"}));
    return text;
  };
  EXPECT_EQ(names(*second), "xyz");
  EXPECT_NE(managers(*second).find(R"(.ports[containerPort=80,protocol="TCP"])"), std::string::npos)
      << managers(*second);
  // "one" gives up x and y: x goes, y is also owned by "two".
  const auto third = apply(kDeployments, "d", body(R"({"name":"z","image":"z:1"})"), "one");
  ASSERT_TRUE(third.ok()) << third.error().message;
  EXPECT_EQ(names(*third), "yz");
}

TEST_F(ApplyTest, AnItemWithoutItsKeyIsRefusedByName) {
  const auto refused = apply(kDeployments, "d", std::string(kDeployment) + R"({"image":"x:1"}]}}}})", "one");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("\"name\""), std::string::npos) << refused.error().message;
}

TEST_F(ApplyTest, TheStatusIsAppliedApart) {
  ASSERT_TRUE(apply(kDeployments, "d", std::string(kDeployment) + R"({"name":"x","image":"x:1"}]}}}})", "one").ok());
  const auto status = apply(
      kDeployments, "d",
      R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":7},"status":{"replicas":3}})",
      "keeper", false, "status");
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(status->find_path({"status", "replicas"})->as_int(), 3);
  EXPECT_EQ(status->find_path({"spec", "replicas"})->as_int(), 1);
  EXPECT_NE(managers(*status).find("keeper Apply .status.replicas"), std::string::npos) << managers(*status);
}

}  // namespace
}  // namespace basalt::apiserver
