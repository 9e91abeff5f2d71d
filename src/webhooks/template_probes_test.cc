#include "webhooks/template_probes.h"

#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rt/sim_test_support.h"
#include "webhooks/webhooks_test_support.h"

// What the API server is asked about templates, how often, and what its answers mean.

namespace basalt::webhooks {
namespace {

using ::testing::HasSubstr;
using namespace testing;
using namespace std::chrono_literals;

// Answers calls from a list and remembers them; everything else is refused.
class ScriptedClient final : public kube::Client {
 public:
  Result<kube::Response> call(const kube::Request& request, const rt::StopToken&) override {
    calls.push_back(request);
    if (answers.empty()) return Error::make(Reason::Unreachable, "nobody is there");
    auto answer = std::move(answers.front());
    answers.pop_front();
    return answer;
  }
  Result<kube::ListPage> list(const kube::ListRequest&, const rt::StopToken&) override {
    return Error::make(Reason::Unreachable, "nobody is there");
  }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest&, const rt::StopToken&) override {
    return Error::make(Reason::Unreachable, "nobody is there");
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests, const kube::CallAllOptions&,
                                               const rt::StopToken& stop) override {
    std::vector<Result<kube::Response>> results;
    for (const kube::Request& request : requests) results.push_back(call(request, stop));
    return results;
  }
  void say(std::string body) { answers.emplace_back(kube::Response{201, kube::make_bytes(std::move(body)), {}}); }
  void refuse(Reason reason, std::string message) { answers.emplace_back(Error::make(reason, std::move(message))); }

  std::deque<Result<kube::Response>> answers;
  std::vector<kube::Request> calls;
};

const ReviewUser kJane{"jane", "u1", {"dev"}, nullptr};

json::Value pod_template(std::string_view image = "busybox", std::string_view account = "") {
  return from_yaml("{metadata: {labels: {a: b}}, spec: {serviceAccountName: '" + std::string(account) +
                   "', containers: [{name: c, image: " + std::string(image) + "}]}}");
}

TEST(DryRunProbe, AsksOncePerTemplateAndNamespace) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    ScriptedClient client;
    DryRunProbe probe(runtime, client, Logger());
    client.say("{}");
    EXPECT_TRUE(probe.check(kJane, "team", pod_template()).ok());
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(probe.check(kJane, "team", pod_template()).ok());
    ASSERT_EQ(1u, client.calls.size());
    EXPECT_TRUE(client.calls[0].dry_run);
    EXPECT_EQ(kube::Verb::Create, client.calls[0].verb);
    EXPECT_EQ("team", client.calls[0].ns);
    EXPECT_EQ("b", json::Value::parse(client.calls[0].body).value().string_at({"metadata", "labels", "a"}));

    client.refuse(Reason::Invalid, "Pod \"x\" is invalid: spec.containers[0].image: too odd");
    const Done refused = probe.check(kJane, "team", pod_template("odd"));
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("spec.containers[0].image: too odd"));
    EXPECT_FALSE(probe.check(kJane, "team", pod_template("odd")).ok());
    EXPECT_EQ(2u, client.calls.size()) << "refusals are remembered, too";
    client.say("{}");
    EXPECT_TRUE(probe.check(kJane, "other", pod_template("odd")).ok()) << "another namespace, another policy";

    runtime.sleep_for(6min);
    client.say("{}");
    EXPECT_TRUE(probe.check(kJane, "team", pod_template("odd")).ok()) << "answers do not last for ever";
    EXPECT_EQ(4u, client.calls.size());
  });
}

TEST(DryRunProbe, WhatIsNoJudgementOfTheTemplateLetsPass) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    ScriptedClient client;
    DryRunProbe probe(runtime, client, Logger());
    client.refuse(Reason::Forbidden, "pods \"x\" is forbidden: exceeded quota: q");
    EXPECT_TRUE(probe.check(kJane, "team", pod_template()).ok());
    client.refuse(Reason::Forbidden, "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\"");
    EXPECT_FALSE(probe.check(kJane, "team", pod_template()).ok()) << "nothing was remembered of the quota";
    EXPECT_TRUE(probe.check(kJane, "away", pod_template()).ok()) << "no answer is no refusal";
  });
}

TEST(AccessProbe, AsksForTheUserOfTheReview) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    ScriptedClient client;
    AccessProbe probe(runtime, client);
    client.say(R"({"status":{"allowed":true}})");
    EXPECT_TRUE(probe.check(kJane, "team", pod_template()).ok());
    EXPECT_TRUE(probe.check(kJane, "team", pod_template("other")).ok());
    ASSERT_EQ(1u, client.calls.size()) << "the image does not matter";
    const json::Value review = json::Value::parse(client.calls[0].body).value();
    EXPECT_EQ("jane", review.string_at({"spec", "user"}));
    EXPECT_EQ("create", review.string_at({"spec", "resourceAttributes", "verb"}));
    EXPECT_EQ("pods", review.string_at({"spec", "resourceAttributes", "resource"}));
    EXPECT_EQ("team", review.string_at({"spec", "resourceAttributes", "namespace"}));

    client.say(R"({"status":{"allowed":false,"reason":"no role binds you"}})");
    const Done refused = probe.check(kJane, "team", pod_template("busybox", "admin"));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ("user \"jane\" may not use serviceaccounts \"admin\" in namespace \"team\": no role binds you",
              refused.error().message);
    EXPECT_EQ("admin",
              json::Value::parse(client.calls[1].body).value().string_at({"spec", "resourceAttributes", "name"}));
  });
}

TEST(AccessProbe, NoAnswerMeansNotNow) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    ScriptedClient client;
    AccessProbe probe(runtime, client);
    const Done done = probe.check(kJane, "team", pod_template());
    ASSERT_FALSE(done.ok());
    EXPECT_TRUE(done.error().is(Reason::ServiceUnavailable));
    client.say(R"({"status":{"allowed":true}})");
    EXPECT_TRUE(probe.check(kJane, "team", pod_template()).ok()) << "it is asked again";
  });
}

}  // namespace
}  // namespace basalt::webhooks
