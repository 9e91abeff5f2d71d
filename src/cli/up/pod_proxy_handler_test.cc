#include "cli/up/pod_proxy_handler.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "cli/up/test_responder.h"
#include "net/test_server.h"
#include "rt/real_runtime.h"

namespace basalt::cli {
namespace {

using namespace std::chrono_literals;

// Knows the objects that a test names as "pods/default/p".
class FewObjects final : public kube::Client {
 public:
  Result<kube::Response> call(const kube::Request& request, const rt::StopToken&) override {
    const auto found = objects.find(request.resource.plural + "/" + request.ns + "/" + request.name);
    if (found == objects.end()) return Error::make(Reason::NotFound, request.name + " not found");
    return kube::Response{200, std::make_shared<const std::string>(found->second), {}};
  }
  Result<kube::ListPage> list(const kube::ListRequest&, const rt::StopToken&) override { return kube::ListPage(); }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest&, const rt::StopToken&) override {
    return Error::make(Reason::NotFound, "no watches here");
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request>, const kube::CallAllOptions&,
                                               const rt::StopToken&) override {
    return {};
  }
  std::map<std::string, std::string> objects;  // fixed before the first call
};

net::HttpServerOptions at_pod_address() {
  net::HttpServerOptions options;
  options.address = "127.64.0.9";
  return options;
}

class PodProxyHandlerTest : public ::testing::Test {
 protected:
  PodProxyHandlerTest() : pod_(*runtime_, at_pod_address()) {
    const std::string port = std::to_string(pod_.port());
    client_.objects["pods/default/p"] = R"({"spec": {"containers": [{"ports": [{"name": "other", "containerPort": 1},
      {"name": "web", "containerPort": )" +
                                        port + R"(}]}]}, "status": {"podIP": "127.64.0.9"}})";
    client_.objects["pods/default/waiting"] = R"({"spec": {"containers": []}})";
    client_.objects["pods/default/elsewhere"] = R"({"spec": {"containers": []}, "status": {"podIP": "127.0.0.1"}})";
    client_.objects["services/default/s"] =
        R"({"spec": {"ports": [{"name": "web", "port": 80}, {"name": "x", "port": 9}]}})";
    client_.objects["services/default/empty"] = R"({"spec": {"ports": [{"port": 80}]}})";
    client_.objects["endpoints/default/s"] = R"({"subsets": [{"addresses": [{"ip": "127.64.0.9"}],
      "notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "x", "port": 1}, {"name": "web", "port": )" +
                                             port + "}]}]}";
    handler_ = PodProxyHandler::make(*runtime_, client_).value();
  }
  ~PodProxyHandlerTest() override { handler_->stop(); }

  std::shared_ptr<TestResponder> ask(std::string_view plural, std::string_view name, net::ServerRequest request) {
    auto answer = std::make_shared<TestResponder>();
    request.path =
        "/api/v1/namespaces/default/" + std::string(plural) + "/" + std::string(name) + "/proxy" + request.path;
    if (request.method.empty()) request.method = "GET";
    const auto path = apiserver::parse_api_path(request.path);
    EXPECT_TRUE(handler_->handler()({request, *path, *net::parse_query(request.query), {}}, answer));
    return answer;
  }
  std::string text(std::string_view plural, std::string_view name, net::ServerRequest request) {
    const auto answer = ask(plural, name, std::move(request));
    EXPECT_TRUE(wait([&] { return answer->is_over(); }));
    return answer->text();
  }
  bool wait(const std::function<bool()>& is_so) {
    const rt::Instant deadline = runtime_->now() + 60s;
    while (!is_so() && runtime_->now() < deadline) runtime_->sleep_for(1ms);
    return is_so();
  }
  net::ServerRequest to(std::string path, std::string query = "") {
    net::ServerRequest request;
    request.path = std::move(path);
    request.query = std::move(query);
    return request;
  }
  [[nodiscard]] std::string by_number() const { return "p:" + std::to_string(pod_.port()); }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  net::testing::TestServer pod_;
  FewObjects client_;
  std::unique_ptr<PodProxyHandler> handler_;
};

TEST_F(PodProxyHandlerTest, ARequestReachesThePodAsItWasSent) {
  net::ServerRequest request = to("/echo/a%2Fb/", "x=1&y=%20");
  request.method = "POST";
  request.body = "some text";
  request.headers = {
      {"X-Mine", "yes"}, {"Authorization", "Bearer secret"}, {"Impersonate-User", "jane"}, {"Host", "api"}};
  const std::string got = text("pods", by_number(), std::move(request));
  EXPECT_TRUE(got.starts_with("200 POST /echo/a%2Fb/?x=1&y=%20\n")) << got;
  EXPECT_TRUE(got.ends_with("\n\nsome text")) << got;
  EXPECT_NE(got.find("=yes\n"), std::string::npos) << got;
  EXPECT_EQ(got.find("secret"), std::string::npos) << got;
  EXPECT_EQ(got.find("jane"), std::string::npos) << got;
}

TEST_F(PodProxyHandlerTest, PortsAreFoundByNumberByNameAndByTheService) {
  for (const auto& [plural, name] :
       {std::pair("pods", by_number()), std::pair("pods", std::string("p:web")),
        std::pair("services", std::string("s")), std::pair("services", std::string("s:80")),
        std::pair("services", std::string("http:s:web"))}) {
    EXPECT_TRUE(text(plural, name, to("")).starts_with("200 GET /?\n")) << name;
  }
}

TEST_F(PodProxyHandlerTest, ThePodsOwnErrorsAndLongAnswersComeBack) {
  EXPECT_EQ(text("pods", "p:web", to("/status", "code=418")), "418 body");
  EXPECT_EQ(text("pods", "p:web", to("/status", "code=304")), "304 ");
  EXPECT_EQ(text("pods", "p:web", to("/bytes", "n=5000000")).size(), 5000004u);
}

TEST_F(PodProxyHandlerTest, AnAnswerThatBreaksOffDoesNotLookComplete) {
  const auto answer = ask("pods", "p:web", to("/stream"));
  const auto pods_end = pod_.take_stream();
  ASSERT_TRUE(pods_end != nullptr);
  pods_end->write(std::make_shared<const std::string>("half"));
  EXPECT_TRUE(wait([&] { return answer->has("half"); }));
  pods_end->abort();
  EXPECT_TRUE(wait([&] { return answer->is_over(); }));
  EXPECT_EQ(answer->text(), "-1 half");
}

TEST_F(PodProxyHandlerTest, MistakesAreNamed) {
  const auto has = [&](std::string_view plural, std::string_view name, std::string_view code, std::string_view words) {
    const std::string got = text(plural, name, to("/"));
    EXPECT_TRUE(got.starts_with(code)) << got;
    EXPECT_NE(got.find(words), std::string::npos) << got;
  };
  has("pods", "nobody:80", "404", "nobody not found");
  has("pods", "ftp:p:80", "400", "http or https");
  has("pods", "p:nothing", "400", "no port");
  has("pods", "p:1", "503", "was not reached at port 1");
  has("pods", "waiting:80", "503", "has no address yet");
  has("services", "s:81", "400", "no port");
  has("services", "empty", "503", "no pod that is ready");
  net::ServerRequest upgrade = to("/");
  upgrade.headers = {{"Upgrade", "websocket"}};
  EXPECT_TRUE(text("pods", by_number(), std::move(upgrade)).starts_with("400 "));
}

TEST_F(PodProxyHandlerTest, AStatusDoesNotOpenTheWayToOtherServicesOfTheMachine) {
  const std::string got = text("pods", "elsewhere:" + std::to_string(pod_.port()), to("/"));
  EXPECT_TRUE(got.starts_with("503 ")) << got;
  EXPECT_NE(got.find("127.0.0.1"), std::string::npos) << got;
  EXPECT_EQ(pod_.handled(), 0);
}

TEST_F(PodProxyHandlerTest, ARequestEndsWithItsClientAndWithTheCluster) {
  const auto gone = ask("pods", "p:web", to("/stream"));
  ASSERT_TRUE(pod_.take_stream() != nullptr);
  gone->go_away();
  EXPECT_TRUE(pod_.wait_for_closed(1));
  const auto stopped = ask("pods", "p:web", to("/stream"));
  ASSERT_TRUE(pod_.take_stream() != nullptr);
  handler_->stop();
  EXPECT_TRUE(pod_.wait_for_closed(2));
  EXPECT_TRUE(text("pods", "p:web", to("/")).starts_with("503 ")) << stopped->text();
}

}  // namespace
}  // namespace basalt::cli
