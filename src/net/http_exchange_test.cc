#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/http_server.h"
#include "net/test_server.h"
#include "net/test_support.h"
#include "rt/stop.h"

// Our client and our server over loopback: HTTP/1.1 plain, HTTP/1.1 in TLS for calls, HTTP/2 in TLS for streams.

namespace basalt::net {
namespace {

using ::testing::HasSubstr;
using testing::kPatience;
using testing::piece;
using ::testing::StartsWith;
using testing::TestCertificates;
using testing::TestServer;
using namespace std::chrono_literals;

enum class Way : unsigned char { Plain, Tls, TlsHttp2Streams };

class HttpExchangeTest : public ::testing::TestWithParam<Way> {
 protected:
  [[nodiscard]] bool is_tls() const { return GetParam() != Way::Plain; }
  HttpServerOptions server_options() const {
    HttpServerOptions options;
    if (is_tls()) {
      options.tls = TlsServerOptions{.certificate_pem = certificates_.server.certificate_pem,
                                     .key_pem = certificates_.server.key_pem,
                                     .client_ca_pem = certificates_.authority.certificate_pem};
    }
    return options;
  }
  HttpClientOptions client_options() const {
    HttpClientOptions options;
    options.tls.ca_pem = certificates_.authority.certificate_pem;
    options.http2_for_streams = GetParam() == Way::TlsHttp2Streams;
    return options;
  }
  std::unique_ptr<HttpClient> make_client(HttpClientOptions options) {
    return make_http_client(*runtime_, std::move(options)).value();
  }
  std::string read_text(HttpStream& stream, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
      const auto more = stream.read(runtime_->now() + kPatience);
      if (!more.ok() || more->empty()) break;
      text += *more;
    }
    return text;
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  const TestCertificates certificates_{*runtime_};
};

std::string way_name(const ::testing::TestParamInfo<Way>& way) {
  return way.param == Way::Plain ? "Plain" : way.param == Way::Tls ? "Tls" : "Http2";
}

INSTANTIATE_TEST_SUITE_P(Over, HttpExchangeTest, ::testing::Values(Way::Plain, Way::Tls, Way::TlsHttp2Streams),
                         way_name);

class HttpExchangeHttp1Test : public HttpExchangeTest {};
INSTANTIATE_TEST_SUITE_P(Over, HttpExchangeHttp1Test, ::testing::Values(Way::Plain, Way::Tls), way_name);

class HttpExchangeHttp2Test : public HttpExchangeTest {};
INSTANTIATE_TEST_SUITE_P(Over, HttpExchangeHttp2Test, ::testing::Values(Way::TlsHttp2Streams), way_name);

TEST_P(HttpExchangeTest, CarriesRequestAndAnswer) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  const auto response = client->call(
      {.method = "PUT", .url = server.url("/echo/a%2Fb?x=1&y"), .headers = {{"X-Test", "v"}}, .body = "body"}, {});
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(200, response->status);
  EXPECT_THAT(response->body, StartsWith("PUT /echo/a%2Fb?x=1&y\n"));
  EXPECT_THAT(response->body, HasSubstr("X-Test=v\n"));
  EXPECT_THAT(response->body, HasSubstr("certificate=-\n\nbody"));
  EXPECT_EQ("text/plain", find_header(response->headers, "content-type"));
}

TEST_P(HttpExchangeTest, AnyStatusIsAnAnswer) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  for (const int code : {200, 201, 204, 304, 404, 409, 500, 503}) {
    const auto response = client->call({.url = server.url("/status?code=" + std::to_string(code))}, {});
    ASSERT_TRUE(response.ok()) << code << response.error().message;
    EXPECT_EQ(code, response->status);
    EXPECT_EQ(code == 204 || code == 304 ? "" : "body", response->body);
  }
}

TEST_P(HttpExchangeTest, HeadHasNoBody) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  const auto response = client->call({.method = "HEAD", .url = server.url("/bytes?n=1000")}, {});
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ("1000", find_header(response->headers, "Content-Length"));
  EXPECT_EQ("", response->body);
  EXPECT_TRUE(client->call({.url = server.url("/echo")}, {}).ok());
}

TEST_P(HttpExchangeTest, CarriesLargeBodiesBothWays) {
  HttpServerOptions options = server_options();
  options.body_bytes_max = 32u << 20;
  TestServer server(*runtime_, options);
  const auto client = make_client(client_options());
  std::string body(20u << 20, 'a');
  for (std::size_t i = 0; i < body.size(); i += 997) body[i] = static_cast<char>('a' + i % 26);
  const auto response = client->call({.method = "POST", .url = server.url("/echo"), .body = body}, {});
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_TRUE(response->body.ends_with(body));
}

TEST_P(HttpExchangeTest, BodyOverTheServersLimitIsAnswered) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  const std::string body(10u << 20, 'a');
  const auto response = client->call({.method = "POST", .url = server.url("/echo"), .body = body}, {});
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(413, response->status);
  EXPECT_TRUE(client->call({.url = server.url("/echo")}, {}).ok());
}

TEST_P(HttpExchangeHttp1Test, TenThousandRequestsFromEightThreads) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  std::atomic<int> good = 0;
  std::vector<rt::Thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back(*runtime_, "caller", [&, t] {
      for (int i = 0; i < 1250; ++i) {
        const std::string body = std::to_string(t * 10'000 + i);
        const auto response =
            client->call({.method = "POST", .url = server.url("/echo"), .body = body, .timeout = 2 * kPatience}, {});
        if (response.ok() && response->body.ends_with("\n\n" + body)) ++good;
      }
    });
  }
  for (rt::Thread& thread : threads) thread.join();
  EXPECT_EQ(10'000, good);
  EXPECT_EQ(10'000, server.handled());
}

TEST_P(HttpExchangeTest, CallAllKeepsOrderAndBound) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  std::vector<std::string> bodies;
  for (int i = 0; i < 2000; ++i) bodies.push_back(std::to_string(i));
  std::vector<HttpRequest> requests;
  for (const std::string& body : bodies) {
    requests.push_back({.method = "POST", .url = server.url("/echo"), .body = body, .timeout = kPatience});
  }
  const auto results = client->call_all(requests, 64, {});
  ASSERT_EQ(bodies.size(), results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].error().message;
    EXPECT_TRUE(results[i]->body.ends_with("\n\n" + bodies[i]));
  }
  EXPECT_TRUE(client->call_all({}, 64, {}).empty());
}

TEST_P(HttpExchangeTest, OneCallIsNotHeldUpByALargeBatch) {
  HttpServerOptions options = server_options();
  options.handler_threads = 8;
  TestServer server(*runtime_, options);
  HttpClientOptions with_two = client_options();
  with_two.connections_max = 2;
  const auto client = make_client(with_two);
  // Two connections, both busy with a batch that cannot end before the single call did.
  std::vector<HttpRequest> requests(20'000, {.url = server.url("/echo"), .timeout = 10 * kPatience});
  rt::StopSource stop(*runtime_);
  std::vector<Result<HttpResponse>> results;
  rt::Thread thread(*runtime_, "batch", [&] { results = client->call_all(requests, 64, stop.token()); });
  EXPECT_TRUE(client->call({.url = server.url("/echo"), .timeout = kPatience}, {}).ok());
  stop.request_stop();
  thread.join();
  EXPECT_EQ(Reason::Cancelled, results.back().error().reason);
}

TEST_P(HttpExchangeTest, StreamsEventsAsTheyCome) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  const auto stream = client->open_stream({.url = server.url("/stream")}, {}).value();
  EXPECT_EQ(200, stream->status());
  const auto responder = server.take_stream();
  EXPECT_FALSE(responder->is_closed());
  EXPECT_TRUE(responder->write(piece("first\n")).has_value());
  EXPECT_EQ("first\n", read_text(*stream, 6));
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(responder->write(piece(std::to_string(i) + "\n")).has_value());
    expected += std::to_string(i) + "\n";
  }
  EXPECT_EQ(expected, read_text(*stream, expected.size()));
  responder->finish();
  EXPECT_TRUE(responder->is_closed());
  EXPECT_FALSE(responder->write(piece("too late")).has_value());
  responder->finish();
  EXPECT_EQ("", stream->read(runtime_->now() + kPatience).value());
  EXPECT_EQ(0, server.closed());
}

TEST_P(HttpExchangeTest, ManyStreamsAtOnce) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  std::vector<std::unique_ptr<HttpStream>> streams;
  std::vector<std::shared_ptr<Responder>> responders;
  for (int i = 0; i < 200; ++i) {
    streams.push_back(client->open_stream({.url = server.url("/stream")}, {}).value());
    responders.push_back(server.take_stream());
    ASSERT_NE(nullptr, responders.back());
  }
  const auto event = piece(std::string(500, 'e'));
  for (int round = 0; round < 20; ++round) {
    for (const auto& responder : responders) EXPECT_TRUE(responder->write(event).has_value());
  }
  for (const auto& stream : streams) EXPECT_EQ(10'000u, read_text(*stream, 10'000).size());
  for (const auto& responder : responders) responder->finish();
  for (const auto& stream : streams) EXPECT_EQ("", stream->read(runtime_->now() + kPatience).value());
}

TEST_P(HttpExchangeTest, ServerHearsThatTheReaderLeft) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  auto stream = client->open_stream({.url = server.url("/stream")}, {}).value();
  auto other = client->open_stream({.url = server.url("/stream")}, {}).value();
  const auto responder = server.take_stream();
  const auto other_responder = server.take_stream();
  stream.reset();
  ASSERT_TRUE(server.wait_for_closed(1));
  EXPECT_TRUE(responder->is_closed());
  EXPECT_FALSE(responder->write(piece("x")).has_value());
  responder->finish();  // does nothing
  // The other stream is not touched, although it may share the connection.
  EXPECT_TRUE(other_responder->write(piece("still here")).has_value());
  EXPECT_EQ("still here", read_text(*other, 10));
  // Registered late: called at once.
  std::atomic<bool> is_told = false;
  responder->on_close([&] { is_told = true; });
  while (!is_told) runtime_->sleep_for(1ms);
}

TEST_P(HttpExchangeHttp1Test, SlowReaderIsSeenByTheSender) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  const auto slow = client->open_stream({.url = server.url("/stream")}, {}).value();
  const auto slow_responder = server.take_stream();
  const auto quick = client->open_stream({.url = server.url("/stream")}, {}).value();
  const auto quick_responder = server.take_stream();
  // Nobody reads: the buffers on the way fill up and then the bytes wait with the sender.
  const auto event = piece(std::string(1u << 20, 'e'));
  std::size_t waiting = 0;
  std::size_t written = 0;
  while (waiting < (8u << 20)) {
    waiting = slow_responder->write(event).value();
    written += event->size();
    ASSERT_LT(written, 256u << 20);
    if (waiting > (2u << 20)) runtime_->sleep_for(1ms);
  }
  // Others are not held up by it.
  EXPECT_TRUE(quick_responder->write(piece("quick")).has_value());
  EXPECT_EQ("quick", read_text(*quick, 5));
  // Reading brings everything, in the end.
  slow_responder->finish();
  EXPECT_EQ(written, read_text(*slow, written).size());
  EXPECT_EQ("", slow->read(runtime_->now() + kPatience).value());
}

TEST_P(HttpExchangeHttp2Test, SlowReaderIsCutOff) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  const auto slow = client->open_stream({.url = server.url("/stream")}, {}).value();
  const auto slow_responder = server.take_stream();
  const auto quick = client->open_stream({.url = server.url("/stream")}, {}).value();
  const auto quick_responder = server.take_stream();
  const auto event = piece(std::string(1u << 20, 'e'));
  while (slow_responder->write(event).has_value()) runtime_->sleep_for(1ms);
  EXPECT_TRUE(quick_responder->write(piece("quick")).has_value());
  EXPECT_EQ("quick", read_text(*quick, 5));
  EXPECT_GE(read_text(*slow, 16u << 20).size(), 16u << 20);
  EXPECT_EQ(Reason::ResponseTooLarge, slow->read(runtime_->now() + kPatience).error().reason);
}

TEST_P(HttpExchangeTest, AbortIsNoProperEnd) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  const auto stream = client->open_stream({.url = server.url("/abort")}, {});
  if (stream.ok()) {
    EXPECT_EQ(Reason::ConnectionLost, (*stream)->read(runtime_->now() + kPatience).error().reason);
  } else {
    EXPECT_EQ(Reason::ConnectionLost, stream.error().reason);
  }
  EXPECT_TRUE(client->call({.url = server.url("/echo")}, {}).ok());
}

TEST_P(HttpExchangeTest, UnansweredIsAnError) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  EXPECT_EQ(500, client->call({.url = server.url("/drop")}, {})->status);
  EXPECT_EQ(500, client->open_stream({.url = server.url("/drop")}, {}).value()->status());
  const auto stream = client->open_stream({.url = server.url("/stream")}, {}).value();
  server.take_stream().reset();
  EXPECT_EQ(Reason::ConnectionLost, stream->read(runtime_->now() + kPatience).error().reason);
}

TEST_P(HttpExchangeTest, HandlerOnTheEventLoop) {
  HttpServerOptions options = server_options();
  options.handler_threads = 0;
  options.event_threads = 2;
  TestServer server(*runtime_, options);
  const auto client = make_client(client_options());
  const std::vector<HttpRequest> requests(500, {.url = server.url("/echo"), .timeout = kPatience});
  for (const auto& result : client->call_all(requests, 32, {})) EXPECT_TRUE(result.ok());
}

TEST_P(HttpExchangeTest, StopLetsRequestsEndAndEndsStreams) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  const auto stream = client->open_stream({.url = server.url("/stream")}, {}).value();
  const auto responder = server.take_stream();
  responder->write(piece("last"));
  Result<HttpResponse> held = Error::make(Reason::Unknown, "");
  rt::Thread caller(*runtime_, "caller",
                    [&] { held = client->call({.url = server.url("/hold"), .timeout = kPatience}, {}); });
  ASSERT_TRUE(server.wait_for_held(1));
  rt::Thread stopper(*runtime_, "stopper", [&] { server.stop_without_release(kPatience); });
  // The stream ends properly, at once; its handler is told.
  EXPECT_EQ("last", read_text(*stream, 4));
  EXPECT_EQ("", stream->read(runtime_->now() + kPatience).value());
  EXPECT_TRUE(server.wait_for_closed(1));
  server.release();
  stopper.join();
  caller.join();
  ASSERT_TRUE(held.ok()) << held.error().message;
  EXPECT_EQ("released", held->body);
  EXPECT_EQ(Reason::Unreachable, client->call({.url = server.url("/echo")}, {}).error().reason);
}

TEST_P(HttpExchangeTest, StopCutsOffWhatTakesTooLong) {
  TestServer server(*runtime_, server_options());
  const auto client = make_client(client_options());
  Result<HttpResponse> held = Error::make(Reason::Unknown, "");
  rt::Thread caller(*runtime_, "caller",
                    [&] { held = client->call({.url = server.url("/hold"), .timeout = kPatience}, {}); });
  ASSERT_TRUE(server.wait_for_held(1));
  rt::Thread stopper(*runtime_, "stopper", [&] { server.stop_without_release(10ms); });
  caller.join();
  ASSERT_FALSE(held.ok());
  EXPECT_EQ(Reason::ConnectionLost, held.error().reason);
  server.release();  // stop() waits for the handler
  stopper.join();
}

TEST_P(HttpExchangeTest, ListensOnIpv6) {
  HttpServerOptions options = server_options();
  options.address = "::1";
  TestServer server(*runtime_, options);
  const auto client = make_client(client_options());
  const auto response = client->call({.url = server.url("/echo")}, {});
  ASSERT_TRUE(response.ok()) << response.error().message;
}

}  // namespace
}  // namespace basalt::net
