// Roles, reviews and tokens through the API.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "api/time.h"
#include "apiserver/access/service_tokens.h"
#include "apiserver/registry/api_server.h"
#include "json/value.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kRbac = "rbac.authorization.k8s.io";

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() : runtime_(rt::make_real_runtime()) {
    ApiServer::Options options;
    options.rbac = true;
    options.token_key = "a key of the test";
    server_ = *ApiServer::open(*runtime_, Logger(), options);
    EXPECT_TRUE(server_->start().ok());
  }
  ~AccessTest() override { server_->stop(); }

  Result<json::Value> create(const kube::Resource& resource, const std::string& ns, const std::string& body,
                             const std::string& name = "", const std::string& subresource = "") {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resource;
    request.ns = ns;
    request.name = name;
    request.subresource = subresource;
    request.body = body;
    const auto response = server_->call(request, RequestContext{ann_, "test", false});
    if (!response.ok()) return response.error();
    return json::Value::parse(*response->body);
  }
  bool may(const std::string& verb, const std::string& resource, const std::string& ns, const std::string& name = "") {
    AccessRequest request;
    request.user = ann_;
    request.verb = verb;
    request.resource = resource;
    request.ns = ns;
    request.name = name;
    return server_->authorize(request).allowed;
  }
  void bind(const std::string& kind, const std::string& role, const std::string& ns, const std::string& subject) {
    const std::string plural = ns.empty() ? "clusterrolebindings" : "rolebindings";
    const auto made = create({std::string(kRbac), "v1", plural}, ns,
                             R"({"metadata":{"name":"b-)" + role + R"("},"roleRef":{"kind":")" + kind +
                                 R"(","name":")" + role + R"("},"subjects":[)" + subject + "]}");
    ASSERT_TRUE(made.ok()) << made.error().message;
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<ApiServer> server_;
  UserInfo ann_{"ann", "", {"devs", "system:authenticated"}};
};

TEST_F(AccessTest, NobodyMayWithoutABinding) {
  EXPECT_FALSE(may("get", "pods", "default", "a"));
  AccessRequest request;
  request.user = UserInfo{"root", "", {"system:masters"}};
  request.verb = "delete";
  request.resource = "nodes";
  EXPECT_TRUE(server_->authorize(request).allowed);
}

TEST_F(AccessTest, ARoleCountsInItsNamespaceAndForItsNames) {
  ASSERT_TRUE(
      create({std::string(kRbac), "v1", "roles"}, "default",
             R"({"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]},
                         {"apiGroups":[""],"resources":["secrets"],"resourceNames":["mine"],"verbs":["get"]}]})")
          .ok());
  bind("Role", "r", "default", R"({"kind":"Group","name":"devs"})");
  EXPECT_TRUE(may("list", "pods", "default"));
  EXPECT_FALSE(may("delete", "pods", "default", "a"));
  EXPECT_FALSE(may("list", "pods", "kube-system"));
  EXPECT_TRUE(may("get", "secrets", "default", "mine"));
  EXPECT_FALSE(may("get", "secrets", "default", "other"));
}

TEST_F(AccessTest, AggregatedRolesReachUpToAdmin) {
  bind("ClusterRole", "admin", "default", R"({"kind":"User","name":"ann"})");
  EXPECT_TRUE(may("list", "pods", "default")) << "of view";
  EXPECT_TRUE(may("create", "pods", "default")) << "of edit";
  EXPECT_FALSE(may("list", "nodes", ""));
}

TEST_F(AccessTest, ReviewsAnswerWhoMayWhat) {
  bind("ClusterRole", "view", "", R"({"kind":"User","name":"ann"})");
  const auto self =
      create({"authorization.k8s.io", "v1", "selfsubjectaccessreviews"}, "",
             R"({"spec":{"resourceAttributes":{"verb":"list","resource":"pods","namespace":"default"}}})");
  ASSERT_TRUE(self.ok()) << self.error().message;
  EXPECT_TRUE(self->find_path({"status", "allowed"})->as_bool());
  EXPECT_NE(self->string_at({"status", "reason"}).find("b-view"), std::string::npos);
  const auto other = create({"authorization.k8s.io", "v1", "subjectaccessreviews"}, "",
                            R"({"spec":{"user":"bob","resourceAttributes":{"verb":"list","resource":"pods"}}})");
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->find_path({"status", "allowed"})->as_bool());
  const auto who = create({"authentication.k8s.io", "v1", "selfsubjectreviews"}, "", "{}");
  EXPECT_EQ(who->string_at({"status", "userInfo", "username"}), "ann");
}

TEST_F(AccessTest, ATokenIsForItsAccountWhileThatIsThere) {
  ASSERT_TRUE(create({"", "v1", "serviceaccounts"}, "default", R"({"metadata":{"name":"robot"}})").ok());
  const auto made = create({"", "v1", "serviceaccounts"}, "default", "{}", "robot", "token");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::string token(made->string_at({"status", "token"}));
  const auto user = server_->authenticate_token(token);
  ASSERT_TRUE(user.ok());
  EXPECT_EQ(user->name, "system:serviceaccount:default:robot");
  EXPECT_FALSE(server_->authenticate_token(token + "x").ok());
  kube::Request remove;
  remove.verb = kube::Verb::Delete;
  remove.resource = {"", "v1", "serviceaccounts"};
  remove.ns = "default";
  remove.name = "robot";
  ASSERT_TRUE(server_->call(remove, RequestContext{ann_, "test", false}).ok());
  EXPECT_FALSE(server_->authenticate_token(token).ok());
}

TEST_F(AccessTest, ATokenIsBoundToItsPod) {
  const kube::Resource accounts{"", "v1", "serviceaccounts"};
  const kube::Resource pods{"", "v1", "pods"};
  ASSERT_TRUE(create(accounts, "default", R"({"metadata":{"name":"robot"}})").ok());
  ASSERT_TRUE(create(accounts, "default", R"({"metadata":{"name":"other"}})").ok());
  const std::string body =
      R"({"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}})";
  const auto pod = create(pods, "default", body);
  ASSERT_TRUE(pod.ok()) << pod.error().message;
  const std::string uid(pod->string_at({"metadata", "uid"}));
  const auto token_of = [&](const std::string& account, const std::string& kind, const std::string& name,
                            const std::string& wanted_uid) {
    return create(accounts, "default",
                  R"({"spec":{"expirationSeconds":3607,"boundObjectRef":{"apiVersion":"v1","kind":")" + kind +
                      R"(","name":")" + name + R"(","uid":")" + wanted_uid + "\"}}}",
                  account, "token");
  };
  EXPECT_TRUE(token_of("robot", "Pod", "q", uid).error().is(Reason::NotFound));
  EXPECT_TRUE(token_of("robot", "Pod", "p", "another").error().is(Reason::Conflict));
  EXPECT_TRUE(token_of("robot", "ConfigMap", "p", uid).error().is(Reason::BadRequest));
  EXPECT_EQ(token_of("other", "Pod", "p", uid).error().message,
            "the pod \"p\" does not run with the service account \"other\", so a token of that cannot be bound to it");
  const auto made = token_of("robot", "Pod", "p", uid);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::string token(made->string_at({"status", "token"}));
  EXPECT_TRUE(server_->authenticate_token(token).ok());
  const auto review =
      create({"authentication.k8s.io", "v1", "tokenreviews"}, "", R"({"spec":{"token":")" + token + "\"}}");
  ASSERT_TRUE(review.ok());
  EXPECT_EQ(review->find_path({"status", "user", "extra", "authentication.kubernetes.io/pod-name"})->to_text(),
            R"(["p"])");
  EXPECT_NE(review->find_path({"status", "user", "extra", "authentication.kubernetes.io/credential-id"}), nullptr);
  // What every pod gets is told to live for an hour, and is good for longer to those who never read it again.
  const std::int64_t now = api::Time::from(runtime_->wall_now()).unix_seconds();
  const auto known = check_token(token, "a key of the test", now + 24 * 3600);
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->bound.kind + " " + known->bound.name + " " + known->bound.uid, "pod p " + uid);
  const auto told = api::Time::parse(made->string_at({"status", "expirationTimestamp"}));
  EXPECT_LE(told->unix_seconds(), now + 3607);
  // Another pod of the same name is another one.
  const auto remove = [&] {
    kube::Request request;
    request.verb = kube::Verb::Delete;
    request.resource = pods;
    request.ns = "default";
    request.name = "p";
    request.grace_period_seconds = 0;
    return server_->call(request, RequestContext{ann_, "test", false}).ok();
  };
  ASSERT_TRUE(remove());
  EXPECT_FALSE(server_->authenticate_token(token).ok());
  ASSERT_TRUE(create(pods, "default", body).ok());
  EXPECT_FALSE(server_->authenticate_token(token).ok());
}

TEST_F(AccessTest, ATokenForSomebodyElseIsNoneForUs) {
  const kube::Resource accounts{"", "v1", "serviceaccounts"};
  ASSERT_TRUE(create(accounts, "default", R"({"metadata":{"name":"robot"}})").ok());
  const auto made = create(accounts, "default", R"({"spec":{"audiences":["vault","bank"]}})", "robot", "token");
  ASSERT_TRUE(made.ok());
  const std::string token(made->string_at({"status", "token"}));
  EXPECT_FALSE(server_->authenticate_token(token).ok());
  const auto review = [&](const std::string& audiences) {
    const auto answer = create({"authentication.k8s.io", "v1", "tokenreviews"}, "",
                               R"({"spec":{"token":")" + token + R"(","audiences":)" + audiences + "}}");
    EXPECT_TRUE(answer.ok());
    const json::Value* shown = answer->find_path({"status", "audiences"});
    return shown == nullptr ? std::string("none") : shown->to_text();
  };
  EXPECT_EQ(review("[]"), "none");
  EXPECT_EQ(review(R"(["shop"])"), "none");
  EXPECT_EQ(review(R"(["shop","bank"])"), R"(["bank"])");
}

TEST(ServiceTokens, AreOverInTimeAndSignedByTheKey) {
  ServiceToken token;
  token.ns = "a";
  token.name = "b";
  token.uid = "u";
  token.issued = 100;
  token.expires = 200;
  const std::string text = sign_token(token, "key");
  EXPECT_EQ(check_token(text, "key", 150)->name, "b");
  EXPECT_FALSE(check_token(text, "key", 200).ok());
  EXPECT_FALSE(check_token(text, "other", 150).ok());
  EXPECT_FALSE(check_token("a.b.c", "key", 150).ok());
  EXPECT_FALSE(check_token("", "key", 150).ok());
}

}  // namespace
}  // namespace basalt::apiserver
