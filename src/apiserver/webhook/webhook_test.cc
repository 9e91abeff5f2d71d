// Admission webhooks over HTTPS: a server of the test answers, the API server asks.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "apiserver/registry/api_server.h"
#include "apiserver/webhook/https_test_support.h"
#include "base/encoding.h"
#include "json/value.h"
#include "rt/mutex.h"
#include "rt/real_runtime.h"
#include "rt/stop.h"

namespace basalt::apiserver {
namespace {

const kube::Resource kSecrets{"", "v1", "secrets"};
const kube::Resource kPods{"", "v1", "pods"};

class WebhookTest : public ::testing::Test {
 protected:
  // The `response` of the review, without its uid.
  using Answer = std::function<json::Object(const std::string& path, const json::Value& request)>;

  WebhookTest() : runtime_(rt::make_real_runtime()) {
    https_ = std::make_unique<TestHttps>(*runtime_, [this](auto request, auto responder) {
      const auto review = json::Value::parse(request->body);
      const json::Value* asked = review.ok() ? review->find("request") : nullptr;
      if (asked == nullptr || broken_) return responder->respond(500, {}, std::string("no"));
      ++calls_;
      json::Object response = answer_(request->path, *asked);
      response.set("uid", asked->string_at({"uid"}));
      responder->respond(200, {{"Content-Type", "application/json"}},
                         json::Value(json::Object{{"apiVersion", "admission.k8s.io/v1"},
                                                  {"kind", "AdmissionReview"},
                                                  {"response", std::move(response)}})
                             .to_text());
    });
    server_ = *ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
  }
  ~WebhookTest() override { server_->stop(); }

  Result<kube::Response> call(kube::Verb verb, const kube::Resource& resource, const std::string& name,
                              const std::string& body, bool dry_run = false) {
    kube::Request request;
    request.verb = verb;
    request.resource = resource;
    request.ns = resource == kSecrets || resource == kPods ? "default" : "";
    request.name = name;
    request.body = body;
    request.dry_run = dry_run;
    return server_->call(request, RequestContext{{"ann", "", {"devs"}}, "test", false});
  }
  void configure(bool is_mutating, const std::string& name, const std::string& path, const std::string& more = "",
                 const std::string& resource = "secrets", const std::string& side_effects = "None") {
    const std::string url = https_->url(path);
    const std::string body =
        R"({"metadata":{"name":")" + name + R"("},"webhooks":[{"name":")" + name + R"(.example.com","sideEffects":")" +
        side_effects + R"(","admissionReviewVersions":["v1"],"clientConfig":{"url":")" + url + R"(","caBundle":")" +
        https_->ca_bundle() +
        R"("},"rules":[{"operations":["CREATE","DELETE"],"apiGroups":[""],"apiVersions":["v1"],"resources":[")" +
        resource + R"("]}])" + more + "}]}";
    const auto made = call(kube::Verb::Create,
                           {"admissionregistration.k8s.io", "v1",
                            is_mutating ? "mutatingwebhookconfigurations" : "validatingwebhookconfigurations"},
                           "", body);
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  static json::Object allow() { return {{"allowed", true}}; }
  static json::Object patch(const std::string& operations) {
    return {{"allowed", true}, {"patchType", "JSONPatch"}, {"patch", base::base64_encode(operations)}};
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<TestHttps> https_;
  std::unique_ptr<ApiServer> server_;
  Answer answer_ = [](const std::string&, const json::Value&) { return allow(); };
  std::atomic<int> calls_{0};
  std::atomic<bool> broken_{false};
};

TEST_F(WebhookTest, ADenialReachesTheClientWithItsReason) {
  configure(false, "deny", "/v");
  answer_ = [](const std::string&, const json::Value& request) -> json::Object {
    EXPECT_EQ(request.string_at({"userInfo", "username"}), "ann");
    EXPECT_EQ(request.string_at({"operation"}), "CREATE");
    EXPECT_EQ(request.string_at({"object", "metadata", "name"}), "a");
    return {{"allowed", false}, {"status", json::Object{{"message", "not today"}, {"code", 403}}}};
  };
  const auto refused = call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a"}})");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 403);
  EXPECT_EQ(refused.error().message, "admission webhook \"deny.example.com\" denied the request: not today");
}

TEST_F(WebhookTest, PatchesAreAppliedInOrderAndWarningsArePassedOn) {
  configure(true, "first", "/1");
  configure(true, "second", "/2");
  answer_ = [](const std::string& path, const json::Value& request) -> json::Object {
    if (path == "/1") return patch(R"([{"op":"add","path":"/data","value":{"a":"MQ=="}}])");
    EXPECT_EQ(request.string_at({"object", "data", "a"}), "MQ==");
    json::Object answer = patch(R"([{"op":"add","path":"/data/b","value":"Mg=="}])");
    answer.set("warnings", json::Array{"mind the gap"});
    return answer;
  };
  const auto made = call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a"}})");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(json::Value::parse(*made->body)->find("data")->to_text(), R"({"a":"MQ==","b":"Mg=="})");
  EXPECT_EQ(made->warnings, std::vector<std::string>{"mind the gap"});
}

TEST_F(WebhookTest, OneThatAsksForItIsAskedAgainAfterALaterChange) {
  configure(true, "first", "/1", R"(,"reinvocationPolicy":"IfNeeded")");
  configure(true, "second", "/2");
  answer_ = [](const std::string& path, const json::Value&) -> json::Object {
    return path == "/1" ? allow() : patch(R"([{"op":"add","path":"/data","value":{"a":"MQ=="}}])");
  };
  ASSERT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a"}})").ok());
  EXPECT_EQ(calls_.load(), 3);
}

TEST_F(WebhookTest, AFailureIsTheServersErrorOrIgnoredAsConfigured) {
  broken_ = true;
  configure(false, "strict", "/v");
  const auto refused = call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a"}})");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 500);
  EXPECT_NE(refused.error().message.find("failed calling webhook \"strict.example.com\""), std::string::npos);
  ASSERT_TRUE(
      call(kube::Verb::Delete, {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"}, "strict", "")
          .ok());
  configure(false, "lenient", "/v", R"(,"failurePolicy":"Ignore")");
  EXPECT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a"}})").ok());
}

TEST_F(WebhookTest, OnlyWhatRulesAndSelectorsNameIsAskedAbout) {
  configure(false, "some", "/v",
            R"(,"objectSelector":{"matchLabels":{"ask":"me"}},"namespaceSelector":{"matchExpressions":)"
            R"([{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system"]}]})");
  ASSERT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"plain"}})").ok());
  EXPECT_EQ(calls_.load(), 0);
  ASSERT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"b","labels":{"ask":"me"}}})").ok());
  EXPECT_EQ(calls_.load(), 1);
  ASSERT_TRUE(call(kube::Verb::Delete, kSecrets, "b", "").ok());
  EXPECT_EQ(calls_.load(), 2);
}

TEST_F(WebhookTest, ADryRunIsAskedAboutToo) {
  configure(false, "effects", "/v");
  answer_ = [](const std::string&, const json::Value& request) {
    EXPECT_TRUE(request.find("dryRun")->as_bool());
    return allow();
  };
  ASSERT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a"}})", true).ok());
  EXPECT_EQ(calls_.load(), 1);
}

// The container that it adds has what an author's container would have.
TEST_F(WebhookTest, WhatAPatchBringsInIsDefaultedAndPruned) {
  configure(true, "inject", "/1", "", "pods");
  configure(false, "look", "/2", "", "pods");
  answer_ = [](const std::string& path, const json::Value& request) -> json::Object {
    if (path == "/1") {
      return patch(
          R"([{"op":"add","path":"/spec/initContainers","value":[{"name":"added","image":"i","unknown":1}]}])");
    }
    const json::Value* added = request.find_path({"object", "spec", "initContainers"});
    EXPECT_TRUE(added != nullptr && added->is_array());
    if (added == nullptr || !added->is_array()) return allow();
    EXPECT_EQ(added->as_array()[0].string_at({"terminationMessagePolicy"}), "File");
    EXPECT_EQ(added->as_array()[0].string_at({"imagePullPolicy"}), "Always");
    return allow();
  };
  const auto made = call(kube::Verb::Create, kPods, "",
                         R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}})");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto pod = json::Value::parse(*made->body);
  const json::Value& added = pod->find_path({"spec", "initContainers"})->as_array()[0];
  EXPECT_EQ(added.string_at({"terminationMessagePath"}), "/dev/termination-log");
  EXPECT_EQ(added.find("unknown"), nullptr);
  EXPECT_EQ(calls_.load(), 2);
}

TEST_F(WebhookTest, OneThatHasSideEffectsIsNotAskedAboutADryRun) {
  configure(false, "effects", "/v", "", "secrets", "NoneOnDryRun");
  EXPECT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a"}})", true).ok());
  EXPECT_EQ(calls_.load(), 1);
  const auto made =
      call(kube::Verb::Create, {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"}, "",
           R"({"metadata":{"name":"bad"},"webhooks":[{"name":"bad.example.com","sideEffects":"Some",)"
           R"("admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"}}]})");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("sideEffects"), std::string::npos) << made.error().message;
}

TEST_F(WebhookTest, OneThatDoesNotAnswerInItsTimeHasFailed) {
  configure(false, "slow", "/v", R"(,"timeoutSeconds":1)");
  rt::StopSource done(*runtime_);
  answer_ = [&](const std::string&, const json::Value&) {
    (void)done.token().wait_for(*runtime_, std::chrono::seconds(30));
    return allow();
  };
  const rt::Instant begun = runtime_->now();
  const auto refused = call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a"}})");
  done.request_stop();
  ASSERT_FALSE(refused.ok());
  EXPECT_LT(runtime_->now() - begun, std::chrono::seconds(20));
  EXPECT_NE(refused.error().message.find("failed calling webhook \"slow.example.com\""), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("context deadline exceeded"), std::string::npos) << refused.error().message;
}

TEST_F(WebhookTest, MatchConditionsChooseAndTheirErrorsFollowTheFailurePolicy) {
  configure(false, "some", "/v",
            R"(,"matchConditions":[{"name":"only-ann","expression":"request.userInfo.username == 'ann'"},)"
            R"({"name":"labels","expression":"object == null || object.metadata.labels['ask'] == 'me'"}])");
  ASSERT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"a","labels":{"ask":"not"}}})").ok());
  EXPECT_EQ(calls_.load(), 0);
  ASSERT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"b","labels":{"ask":"me"}}})").ok());
  EXPECT_EQ(calls_.load(), 1);
  const auto refused = call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"c"}})");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 403);
  EXPECT_NE(refused.error().message.find("match condition \"labels\""), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("no such key: labels"), std::string::npos) << refused.error().message;
  EXPECT_EQ(calls_.load(), 1);
  const kube::Resource configurations{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"};
  ASSERT_TRUE(call(kube::Verb::Delete, configurations, "some", "").ok());
  configure(
      false, "lenient", "/v",
      R"(,"failurePolicy":"Ignore","matchConditions":[{"name":"labels","expression":"object.metadata.labels['a'] == 'b'"}])");
  EXPECT_TRUE(call(kube::Verb::Create, kSecrets, "", R"({"metadata":{"name":"c"}})").ok());
  EXPECT_EQ(calls_.load(), 1);
}

TEST_F(WebhookTest, AMatchConditionThatCannotBeCompiledIsRefused) {
  const auto refused = call(
      kube::Verb::Create, {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"}, "",
      R"({"metadata":{"name":"x"},"webhooks":[{"name":"x.example.com","sideEffects":"None","admissionReviewVersions":["v1"],)"
      R"("clientConfig":{"url":"https://127.0.0.1:1/"},"matchConditions":[{"name":"c","expression":"params.a == 1"}]}]})");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("webhooks[0].matchConditions[0].expression: Invalid value"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace basalt::apiserver
