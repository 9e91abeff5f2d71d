#include "kube/rest_client.h"

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <sstream>

#include "kube/status.h"
#include "kube/version.h"
#include "rt/sim_runtime.h"

namespace basalt::kube {
namespace {

using namespace std::chrono_literals;

const Resource kPods{"", "v1", "pods"};

// Answers from a script, in order; writes down what it was asked.
struct Script {
  struct Seen {
    std::string method;
    std::string url;
    std::string body;
    net::Headers headers;
    rt::Duration timeout{};
  };
  std::deque<Result<net::HttpResponse>> answers;
  std::vector<Seen> seen;
  std::vector<std::string> certificates;  // of the transports that were made

  Result<net::HttpResponse> answer(const net::HttpRequest& request) {
    seen.push_back({request.method, request.url, std::string(request.body), request.headers, request.timeout});
    if (answers.empty()) return net::HttpResponse{200, {}, "{}"};
    auto next = std::move(answers.front());
    answers.pop_front();
    return next;
  }
};

class ScriptStream final : public net::HttpStream {
 public:
  explicit ScriptStream(net::HttpResponse answer) : answer_(std::move(answer)) {}
  [[nodiscard]] int status() const override { return answer_.status; }
  [[nodiscard]] const net::Headers& headers() const override { return answer_.headers; }
  Result<std::string> read(rt::Instant) override { return std::exchange(answer_.body, {}); }
  void cancel() override {}

 private:
  net::HttpResponse answer_;
};

class ScriptClient final : public net::HttpClient {
 public:
  explicit ScriptClient(Script& script) : script_(script) {}
  Result<net::HttpResponse> call(const net::HttpRequest& request, const rt::StopToken&) override {
    return script_.answer(request);
  }
  std::vector<Result<net::HttpResponse>> call_all(std::span<const net::HttpRequest> requests, int,
                                                  const rt::StopToken&) override {
    std::vector<Result<net::HttpResponse>> results;
    for (const auto& request : requests) results.push_back(script_.answer(request));
    return results;
  }
  Result<std::unique_ptr<net::HttpStream>> open_stream(const net::HttpRequest& request, const rt::StopToken&) override {
    auto answer = script_.answer(request);
    if (!answer.ok()) return answer.error();
    return std::unique_ptr<net::HttpStream>(std::make_unique<ScriptStream>(*answer));
  }

 private:
  Script& script_;
};

struct Bench {
  std::unique_ptr<rt::SimRuntime> runtime = rt::SimRuntime::make({});
  Script script;
  std::unique_ptr<RestClient> client;

  void run(const std::function<void()>& body, RestClientOptions options = {},
           std::shared_ptr<Credentials> credentials = bearer_token("t")) {
    const auto report = runtime->run([&] {
      RestClient::Target target;
      target.server = "https://api/";
      target.credentials = std::move(credentials);
      target.impersonation.user = "boss";
      target.impersonation.groups = {"a", "b"};
      target.make_http = [this](const Credential& credential) -> Result<std::unique_ptr<net::HttpClient>> {
        script.certificates.push_back(credential.certificate_pem);
        return std::unique_ptr<net::HttpClient>(std::make_unique<ScriptClient>(script));
      };
      client = RestClient::make(*runtime, Logger(), std::move(target), std::move(options));
      body();
    });
    EXPECT_TRUE(report.completed) << report.problem;
  }
};

net::HttpResponse failure(Reason reason, std::string_view retry_after = "") {
  const Error error = Error::make(reason, "no");
  net::HttpResponse response{error.code, {}, encode_status(error)};
  if (!retry_after.empty()) response.headers.emplace_back("retry-after", retry_after);
  return response;
}

Request get() { return {.verb = Verb::Get, .resource = kPods, .ns = "a", .name = "b"}; }
Request create() { return {.verb = Verb::Create, .resource = kPods, .ns = "a", .body = "{\"x\":1}"}; }

TEST(RestClient, SendsWhatKubernetesExpects) {
  Bench bench;
  bench.run([&] {
    bench.script.answers.push_back(net::HttpResponse{
        201, {{"Warning", R"(299 - "unknown field \"x\"")"}, {"warning", "299 - \"two\""}}, "{\"kind\":\"Pod\"}"});
    const auto created = bench.client->call(create(), {});
    ASSERT_TRUE(created.ok());
    EXPECT_EQ(created->code, 201);
    EXPECT_EQ(*created->body, "{\"kind\":\"Pod\"}");
    EXPECT_EQ(created->warnings, (std::vector<std::string>{"unknown field \"x\"", "two"}));
    const auto& seen = bench.script.seen.at(0);
    EXPECT_EQ(seen.method, "POST");
    EXPECT_EQ(seen.url, "https://api/api/v1/namespaces/a/pods");
    EXPECT_EQ(seen.body, "{\"x\":1}");
    EXPECT_EQ(net::find_header(seen.headers, "Content-Type"), "application/json");
    EXPECT_EQ(net::find_header(seen.headers, "Accept"), "application/json");
    EXPECT_EQ(net::find_header(seen.headers, "Authorization"), "Bearer t");
    EXPECT_EQ(net::find_header(seen.headers, "Impersonate-User"), "boss");
    EXPECT_EQ(std::count_if(seen.headers.begin(), seen.headers.end(),
                            [](const auto& header) { return header.first == "Impersonate-Group"; }),
              2);
    const std::pair<PatchType, std::string_view> types[] = {
        {PatchType::Json, "application/json-patch+json"},
        {PatchType::Merge, "application/merge-patch+json"},
        {PatchType::StrategicMerge, "application/strategic-merge-patch+json"},
        {PatchType::Apply, "application/apply-patch+yaml"}};
    for (const auto& [type, content_type] : types) {
      Request patch = get();
      patch.verb = Verb::Patch;
      patch.patch_type = type;
      patch.body = "{}";
      EXPECT_TRUE(bench.client->call(patch, {}).ok());
      EXPECT_EQ(net::find_header(bench.script.seen.back().headers, "Content-Type"), content_type);
      EXPECT_EQ(bench.script.seen.back().method, "PATCH");
    }
    Request remove = get();
    remove.verb = Verb::Delete;
    remove.precondition_uid = "u";
    EXPECT_TRUE(bench.client->call(remove, {}).ok());
    EXPECT_EQ(bench.script.seen.back().body,
              R"({"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"}})");
  });
}

TEST(RestClient, RetriesReadsOnEveryTransientError) {
  Bench bench;
  bench.run([&] {
    for (const Reason reason : {Reason::InternalError, Reason::ServiceUnavailable, Reason::TooManyRequests}) {
      bench.script.answers.push_back(failure(reason));
    }
    bench.script.answers.push_back(Error::make(Reason::ConnectionLost, "reset"));
    bench.script.answers.push_back(Error::make(Reason::Unreachable, "refused"));
    EXPECT_TRUE(bench.client->call(get(), {}).ok());
    EXPECT_EQ(bench.script.seen.size(), 6u);
    bench.script.answers.push_back(failure(Reason::NotFound));
    EXPECT_EQ(bench.client->call(get(), {}).error().reason, Reason::NotFound);
    EXPECT_EQ(bench.script.seen.size(), 7u);
  });
}

TEST(RestClient, RetriesWritesOnlyIfTheyWereCertainlyNotCarriedOut) {
  const struct {
    Result<net::HttpResponse> answer;
    bool again;
  } cases[] = {
      {Error::make(Reason::Unreachable, "refused"), true},   {failure(Reason::TooManyRequests, "1"), true},
      {failure(Reason::ServiceUnavailable, "1"), true},      {failure(Reason::TooManyRequests), false},
      {failure(Reason::ServiceUnavailable), false},          {failure(Reason::InternalError), false},
      {failure(Reason::InternalError, "1"), false},          {failure(Reason::Conflict), false},
      {Error::make(Reason::ConnectionLost, "reset"), false}, {Error::make(Reason::DeadlineExceeded, "slow"), false},
  };
  for (const auto& c : cases) {
    for (const bool together : {false, true}) {
      Bench bench;
      bench.run([&] {
        bench.script.answers.push_back(c.answer);
        const Request request = create();
        const auto result =
            together ? bench.client->call_all(std::span(&request, 1), {}, {}).at(0) : bench.client->call(request, {});
        EXPECT_EQ(result.ok(), c.again);
        EXPECT_EQ(bench.script.seen.size(), c.again ? 2u : 1u);
      });
    }
  }
}

TEST(RestClient, KeepsTheDeadlineOfTheWholeCallAndRetryAfter) {
  Bench bench;
  bench.run([&] {
    for (int i = 0; i < 20; ++i) bench.script.answers.push_back(failure(Reason::ServiceUnavailable, "4"));
    Request request = get();
    request.timeout = 10s;
    const rt::Instant begin = bench.runtime->now();
    const auto result = bench.client->call(request, {});
    EXPECT_EQ(result.error().reason, Reason::ServiceUnavailable) << "the last answer, not the deadline";
    EXPECT_EQ(bench.script.seen.size(), 3u) << "at 0, 4 and 8 s";
    EXPECT_LE(bench.runtime->now() - begin, 10s);
    EXPECT_EQ(bench.script.seen.at(0).timeout, 10s);
    EXPECT_LE(bench.script.seen.at(2).timeout, 2s);
  });
}

TEST(RestClient, RenewsTheCredentialOnceOn401) {
  class Rotating final : public Credentials {
   public:
    Result<Credential> get(const rt::StopToken&) override {
      return Credential{.authorization = "Bearer " + std::to_string(generation),
                        .certificate_pem = "cert" + std::to_string(generation),
                        .key_pem = "key"};
    }
    bool refresh(const Credential&) override { return ++generation < 100; }
    int generation = 0;
  };
  auto credentials = std::make_shared<Rotating>();
  Bench bench;
  bench.run(
      [&] {
        const Request requests[] = {create(), create(), create()};
        bench.script.answers.push_back(failure(Reason::Unauthorized));
        EXPECT_TRUE(bench.client->call(create(), {}).ok()) << "a 401 was certainly not carried out";
        EXPECT_EQ(net::find_header(bench.script.seen.back().headers, "Authorization"), "Bearer 1");
        EXPECT_EQ(bench.script.certificates, (std::vector<std::string>{"cert0", "cert1"}));
        for (int i = 0; i < 2; ++i) bench.script.answers.push_back(failure(Reason::Unauthorized));
        EXPECT_EQ(bench.client->call(create(), {}).error().reason, Reason::Unauthorized) << "once only";
        bench.script.answers.push_back(failure(Reason::Unauthorized));
        for (const auto& result : bench.client->call_all(requests, {}, {})) EXPECT_TRUE(result.ok());
        bench.script.answers.push_back(failure(Reason::Unauthorized));
        EXPECT_TRUE(bench.client->watch({.resource = kPods}, {}).ok());
      },
      {}, credentials);
}

TEST(RestClient, ListsAndWatches) {
  Bench bench;
  bench.run([&] {
    bench.script.answers.push_back(net::HttpResponse{
        200, {}, R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{}]})"});
    EXPECT_EQ(bench.client->list({.resource = kPods}, {})->items.size(), 1u);
    bench.script.answers.push_back(failure(Reason::Expired));
    EXPECT_EQ(bench.client->list({.resource = kPods, .continue_token = "x"}, {}).error().reason, Reason::Expired);
    bench.script.answers.push_back(failure(Reason::Expired));
    EXPECT_EQ(bench.client->watch({.resource = kPods}, {}).error().reason, Reason::Expired);
    bench.script.answers.push_back(
        net::HttpResponse{200, {}, "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\"}}\n{\"type\":\"ADD"});
    auto stream = bench.client->watch({.resource = kPods}, {});
    ASSERT_TRUE(stream.ok());
    EXPECT_EQ((*stream)->next(rt::kNever)->value().type, WatchEventType::Added);
    EXPECT_EQ((*stream)->next(rt::kNever).error().reason, Reason::ConnectionLost) << "ended inside an event";
    bench.script.answers.push_back(net::HttpResponse{200, {}, ""});
    EXPECT_FALSE((*bench.client->watch({.resource = kPods}, {}))->next(rt::kNever)->has_value());
  });
}

TEST(RestClient, LimitsItsRateIfAskedTo) {
  Bench bench;
  bench.run(
      [&] {
        const rt::Instant begin = bench.runtime->now();
        for (int i = 0; i < 30; ++i) EXPECT_TRUE(bench.client->call(get(), {}).ok());
        EXPECT_NEAR(std::chrono::duration<double>(bench.runtime->now() - begin).count(), 2.0, 0.1);
        Request hurried = get();
        hurried.timeout = 1ms;
        EXPECT_EQ(bench.client->call(hurried, {}).error().reason, Reason::DeadlineExceeded);
      },
      {.calls_per_second = 10, .burst = 10});
}

TEST(RestClient, CallAllStopsAfterTooManyFailures) {
  Bench bench;
  bench.run([&] {
    const std::vector<Request> requests(10, create());
    for (int i = 0; i < 10; ++i) bench.script.answers.push_back(failure(Reason::Forbidden));
    const auto results = bench.client->call_all(requests, {.in_flight_max = 2, .failures_max = 3}, {});
    ASSERT_EQ(results.size(), 10u);
    EXPECT_EQ(results[3].error().reason, Reason::Forbidden);
    EXPECT_EQ(results[4].error().reason, Reason::Cancelled);
    EXPECT_EQ(bench.script.seen.size(), 4u);
  });
}

TEST(RestClient, UserAgentCarriesTheVersionOfTheProject) {
  EXPECT_EQ(
      default_user_agent("vc-controller-manager").find("vc-controller-manager/" + std::string(kVersion) + " (linux/"),
      0u);
  std::ifstream file(std::string(BASALT_SOURCE_DIR) + "/CMakeLists.txt");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("VERSION " + std::string(kVersion) + " "), std::string::npos);
}

}  // namespace
}  // namespace basalt::kube
