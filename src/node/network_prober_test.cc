// Real connections to servers of this process, on free ports.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>

#include "net/certificates.h"
#include "net/http_server.h"
#include "node/child_streams_linux.h"
#include "node/prober.h"
#include "rt/real_runtime.h"

namespace basalt::node {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

// Never seen by a probe that works; generous, because tests share their machine.
constexpr rt::Duration kPatience = 30s;

class NetworkProberTest : public ::testing::Test {
 protected:
  void serve(net::Handler handler, std::optional<net::TlsServerOptions> tls = std::nullopt) {
    auto started = net::start_http_server(*runtime_, Logger(), {.tls = std::move(tls)}, std::move(handler));
    ASSERT_TRUE(started.ok());
    server_ = std::move(*started);
  }
  void TearDown() override {
    prober_->stop();
    std::vector<std::shared_ptr<net::Responder>> held;
    {
      rt::MutexLock lock(mutex_);
      held.swap(held_);
    }
    held.clear();
    if (server_) server_->stop(0s);
  }
  [[nodiscard]] std::string url(std::string_view path, std::string_view scheme = "http") const {
    return std::string(scheme) + "://127.0.0.1:" + std::to_string(server_->port()) + std::string(path);
  }
  CheckResult check(NetworkCheck wanted, rt::Duration timeout = kPatience, const rt::StopToken& stop = {}) {
    auto answer = std::make_shared<std::promise<CheckResult>>();
    auto result = answer->get_future();
    const Done done = prober_->start(std::move(wanted), timeout, stop,
                                     [answer](CheckResult one) { answer->set_value(std::move(one)); });
    if (!done.ok()) return {Verdict::Errored, "not started: " + done.error().message};
    return result.get();
  }
  CheckResult get(std::string_view path) { return check(HttpCheck{url(path), {}}); }
  // Keeps the request unanswered.
  void hold(std::shared_ptr<net::Responder> responder) {
    rt::MutexLock lock(mutex_);
    held_.push_back(std::move(responder));
    held_changed_.notify_all();
  }
  void wait_for_held() {
    rt::MutexLock lock(mutex_);
    while (held_.empty()) held_changed_.wait(mutex_);
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<Prober> prober_ = make_network_prober(*runtime_);
  rt::Mutex mutex_;
  rt::Condition held_changed_{*runtime_};
  std::vector<std::shared_ptr<net::Responder>> held_ BASALT_GUARDED_BY(mutex_);
};

// A server that does what its path says; "/moved/3" leads over three others to "/status/200".
void answer_by_path(const net::ServerRequest& request, net::Responder& responder) {
  const std::string& path = request.path;
  if (path.starts_with("/status/")) {
    responder.respond(std::stoi(path.substr(8)), {}, "body"s);
  } else if (path.starts_with("/moved/")) {
    const int left = std::stoi(path.substr(7));
    responder.respond(302, {{"Location", left > 0 ? std::to_string(left - 1) + "#part" : "/status/200"}}, ""s);
  } else if (path == "/elsewhere") {
    responder.respond(301, {{"Location", "http://other.example/status/500"}}, "gone there"s);
  } else if (path == "/back") {
    responder.respond(
        307, {{"Location", "//" + std::string(net::find_header(request.headers, "Host")) + "/status/404"}}, ""s);
  } else if (path == "/large") {
    responder.respond(200, {}, std::string(1 << 20, 'x'));
  }
}

TEST_F(NetworkProberTest, StatusesFrom200To399Pass) {
  serve([](const auto& request, const auto& responder) { answer_by_path(*request, *responder); });
  for (const std::string_view path : {"/status/200", "/status/204", "/large", "/moved/0", "/moved/8"}) {
    const CheckResult result = get(path);
    EXPECT_EQ(result.verdict, Verdict::Passed) << path << ": " << result.message;
    EXPECT_EQ(result.message, "") << path;
  }
  for (const int status : {400, 404, 500, 503}) {
    const CheckResult result = get("/status/" + std::to_string(status));
    EXPECT_EQ(result.verdict, Verdict::Failed);
    EXPECT_EQ(result.message, "HTTP probe failed with statuscode: " + std::to_string(status));
  }
}

TEST_F(NetworkProberTest, RedirectsAreFollowedOnTheSameHostOnly) {
  serve([](const auto& request, const auto& responder) { answer_by_path(*request, *responder); });
  EXPECT_EQ(get("/back").message, "HTTP probe failed with statuscode: 404");
  const CheckResult elsewhere = get("/elsewhere");
  EXPECT_EQ(elsewhere.verdict, Verdict::Passed);
  EXPECT_EQ(elsewhere.message, "Probe terminated redirects, Response body: gone there");
  EXPECT_EQ(get("/status/304").verdict, Verdict::Passed);
  const CheckResult without_end = get("/moved/9");
  EXPECT_EQ(without_end.verdict, Verdict::Failed);
  EXPECT_EQ(without_end.message, "stopped after 10 redirects");
}

TEST_F(NetworkProberTest, TheRequestIsThatOfAProbe) {
  std::promise<net::ServerRequest> seen;
  serve([&](const auto& request, const auto& responder) {
    seen.set_value(*request);
    responder->respond(200, {}, ""s);
  });
  const HttpCheck wanted{url("/a%20b?full=1"), {{"Host", "shop.example"}, {"X-Trace", "7"}}};
  EXPECT_EQ(check(wanted).verdict, Verdict::Passed);
  const net::ServerRequest request = seen.get_future().get();
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/a%20b");
  EXPECT_EQ(request.query, "full=1");
  EXPECT_EQ(net::find_header(request.headers, "Host"), "shop.example");
  EXPECT_EQ(net::find_header(request.headers, "X-Trace"), "7");
  EXPECT_EQ(net::find_header(request.headers, "User-Agent"), "kube-probe/1.36");
}

TEST_F(NetworkProberTest, HttpsIsNotVerified) {
  const auto pair = net::make_self_signed({.subject = {"nobody", {}},
                                           .dns_names = {"nobody.example"},
                                           .ip_addresses = {},
                                           .is_for_servers = true,
                                           .is_for_clients = false,
                                           .not_before = runtime_->wall_now() - 2h,
                                           .not_after = runtime_->wall_now() - 1h});
  ASSERT_TRUE(pair.ok());
  net::TlsServerOptions tls;
  tls.certificate_pem = pair->certificate_pem;
  tls.key_pem = pair->key_pem;
  serve([](const auto& request, const auto& responder) { answer_by_path(*request, *responder); }, tls);
  EXPECT_EQ(check(HttpCheck{url("/status/200", "https"), {}}).verdict, Verdict::Passed);
  EXPECT_EQ(check(HttpCheck{url("/status/500", "https"), {}}).verdict, Verdict::Failed);
  EXPECT_EQ(check(HttpCheck{url("/status/200", "http"), {}}).verdict, Verdict::Failed);  // wrong scheme
}

TEST_F(NetworkProberTest, WhoDoesNotAnswerFailsAtTheTimeout) {
  serve([this](const auto& request, const auto& responder) {
    if (request->path == "/slow-body") responder->start(200, {});
    hold(responder);
  });
  for (const std::string_view path : {"/silent", "/slow-body"}) {
    const rt::Instant before = runtime_->now();
    const CheckResult result = check(HttpCheck{url(path), {}}, 100ms);
    EXPECT_EQ(result.verdict, Verdict::Failed) << path;
    EXPECT_GE(runtime_->now() - before, 100ms) << path;
  }
}

// A listener whose queue is full lets nobody in and refuses nobody, as a machine behind a firewall.
struct FullListener {
  FullListener() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(sockets.front().get(), where, size), 0);
    EXPECT_EQ(::listen(sockets.front().get(), 0), 0);
    EXPECT_EQ(::getsockname(sockets.front().get(), where, &size), 0);
    for (int i = 0; i < 8; ++i) {
      sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(sockets.back().get(), where, size);
    }
  }
  [[nodiscard]] std::uint16_t port() const { return ntohs(address.sin_port); }

  sockaddr_in address{};
  std::vector<Descriptor> sockets;
};

TEST_F(NetworkProberTest, AConnectionThatIsNeverMadeFailsAtTheTimeout) {
  const FullListener full;
  const std::string where = "127.0.0.1:" + std::to_string(full.port());
  const CheckResult tcp = check(TcpCheck{"127.0.0.1", full.port()}, 100ms);
  EXPECT_EQ(tcp.verdict, Verdict::Failed);
  EXPECT_EQ(tcp.message, where + " did not answer within the timeout");
  const CheckResult http = check(HttpCheck{"http://" + where + "/", {}}, 100ms);
  EXPECT_EQ(http.verdict, Verdict::Failed);
  EXPECT_EQ(http.message, "GET http://" + where + "/: no answer came within the timeout");
  rt::StopSource source(*runtime_);
  source.request_stop();
  EXPECT_EQ(check(TcpCheck{"127.0.0.1", full.port()}, 1h, source.token()).verdict, Verdict::Errored);
}

// A body without end does not matter once as much was read as is looked at.
TEST_F(NetworkProberTest, AnEndlessBodyIsCutOff) {
  serve([this](const auto&, const auto& responder) {
    responder->start(200, {});
    responder->write(std::make_shared<const std::string>(20'000, 'x'));
    hold(responder);
  });
  EXPECT_EQ(get("/").verdict, Verdict::Passed);
}

TEST_F(NetworkProberTest, AStopEndsWhatIsUnderWay) {
  serve([this](const auto&, const auto& responder) { hold(responder); });
  rt::StopSource source(*runtime_);
  rt::Thread stopper(*runtime_, "stopper", [&] {
    wait_for_held();
    source.request_stop();
  });
  EXPECT_EQ(check(HttpCheck{url("/"), {}}, 1h, source.token()).verdict, Verdict::Errored);
  stopper.join();
  EXPECT_EQ(check(TcpCheck{"127.0.0.1", server_->port()}, 1h, source.token()).verdict, Verdict::Errored);
  prober_->stop();
  EXPECT_EQ(get("/").message, "not started: the node is stopping");
}

TEST_F(NetworkProberTest, APortIsOpenOrNot) {
  serve([](const auto& request, const auto& responder) { answer_by_path(*request, *responder); });
  const std::uint16_t port = server_->port();
  EXPECT_EQ(check(TcpCheck{"127.0.0.1", port}).verdict, Verdict::Passed);
  EXPECT_EQ(check(TcpCheck{"localhost", port}).verdict, Verdict::Passed);
  server_->stop(0s);
  const CheckResult refused = check(TcpCheck{"127.0.0.1", port});
  EXPECT_EQ(refused.verdict, Verdict::Failed);
  EXPECT_EQ(refused.message, "cannot connect to 127.0.0.1:" + std::to_string(port) + ": Connection refused");
  const CheckResult http = check(HttpCheck{url("/status/200"), {}});
  EXPECT_EQ(http.verdict, Verdict::Failed);
  EXPECT_NE(http.message.find("127.0.0.1"), std::string::npos) << http.message;
  EXPECT_EQ(http.message.find(" ms"), std::string::npos) << http.message;  // the same each time
}

TEST_F(NetworkProberTest, ASilentGrpcServerFailsAtTheTimeoutAndAStopEndsIt) {
  serve([this](const auto&, const auto& responder) { hold(responder); });
  const GrpcCheck wanted{"127.0.0.1", server_->port(), ""};
  const CheckResult late = check(wanted, 100ms);
  EXPECT_EQ(late.verdict, Verdict::Failed);
  EXPECT_EQ(late.message, "POST http://127.0.0.1:" + std::to_string(server_->port()) +
                              "/grpc.health.v1.Health/Check: no answer came within the timeout");
  rt::StopSource source(*runtime_);
  rt::Thread stopper(*runtime_, "stopper", [&] {
    wait_for_held();
    source.request_stop();
  });
  EXPECT_EQ(check(wanted, 1h, source.token()).verdict, Verdict::Errored);
  stopper.join();
}

TEST_F(NetworkProberTest, GrpcServicesSayHowTheyAre) {
  serve([](const auto& request, const auto& responder) {
    EXPECT_TRUE(request->http2);
    EXPECT_EQ(request->path, "/grpc.health.v1.Health/Check");
    EXPECT_EQ(net::find_header(request->headers, "content-type"), "application/grpc");
    EXPECT_EQ(net::find_header(request->headers, "te"), "trailers");
    EXPECT_EQ(net::find_header(request->headers, "user-agent"), "kube-probe/1.36");
    const bool is_good = request->body == "\0\0\0\0\6\n\4good"s;
    responder->respond(200, {{"content-type", "application/grpc"}}, "\0\0\0\0\2\x08"s + (is_good ? '\1' : '\2'));
  });
  EXPECT_EQ(check(GrpcCheck{"127.0.0.1", server_->port(), "good"}).verdict, Verdict::Passed);
  const CheckResult bad = check(GrpcCheck{"127.0.0.1", server_->port(), ""});
  EXPECT_EQ(bad.verdict, Verdict::Failed);
  EXPECT_EQ(bad.message, "service \"\" is unhealthy: it responded with NOT_SERVING");
  const std::uint16_t port = server_->port();
  server_->stop(0s);
  const CheckResult refused = check(GrpcCheck{"127.0.0.1", port, ""});
  EXPECT_EQ(refused.verdict, Verdict::Failed);
  EXPECT_NE(refused.message.find("Cannot connect to http://127.0.0.1"), std::string::npos) << refused.message;
  EXPECT_EQ(refused.message.find(" ms"), std::string::npos) << refused.message;
}

// More at once than are done at once: they wait for their turn, and their timeouts with them.
TEST_F(NetworkProberTest, ManyAtOnce) {
  serve([](const auto& request, const auto& responder) { answer_by_path(*request, *responder); });
  constexpr int kCount = 1000;
  std::atomic<int> passed = 0;
  std::atomic<int> left = kCount;
  std::promise<void> all;
  for (int i = 0; i < kCount; ++i) {
    const Done done =
        prober_->start(TcpCheck{"127.0.0.1", server_->port()}, kPatience, {}, [&](const CheckResult& result) {
          if (result.verdict == Verdict::Passed) ++passed;
          if (--left == 0) all.set_value();
        });
    ASSERT_TRUE(done.ok());
  }
  all.get_future().get();
  EXPECT_EQ(passed, kCount);
}

}  // namespace
}  // namespace basalt::node
