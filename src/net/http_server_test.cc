#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/test_server.h"
#include "net/test_support.h"

// The server against clients that misbehave, byte by byte over plain HTTP/1.1; each limit has a test that hits it.

namespace basalt::net {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::piece;
using testing::RawConnection;
using ::testing::StartsWith;
using testing::TestServer;
using namespace std::chrono_literals;

constexpr std::string_view kGet = "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr std::string_view kGetHeld = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr std::string_view kGetStream = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n";

class HttpServerTest : public ::testing::Test {
 protected:
  // A server that got something strange still answers the next one.
  void expect_alive(const TestServer& server) {
    auto connection = RawConnection::connect(server.port());
    ASSERT_TRUE(connection.send(kGet));
    EXPECT_THAT(connection.read_response(), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  // Which connections have something to read, once so many have.
  static std::vector<std::size_t> wait_for_answers(const std::vector<RawConnection>& connections, std::size_t count) {
    std::vector<std::size_t> answered;
    for (int i = 0; i < 30'000 && answered.size() < count; ++i) {
      answered.clear();
      for (std::size_t k = 0; k < connections.size(); ++k) {
        pollfd entry{.fd = connections[k].fd(), .events = POLLIN, .revents = 0};
        if (::poll(&entry, 1, 1) == 1) answered.push_back(k);
      }
    }
    EXPECT_EQ(count, answered.size());
    return answered;
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
};

TEST_F(HttpServerTest, KeepsConnectionsAlive) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(connection.send(kGet));
    const std::string response = connection.read_response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\nDate: "));
    EXPECT_THAT(response, Not(HasSubstr("Connection: ")));
    EXPECT_THAT(response, HasSubstr("GET /echo?\nHost=x\n"));
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  std::string all;
  for (int i = 0; i < 50; ++i) {
    const std::string body = "body " + std::to_string(i);
    all += "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  ASSERT_TRUE(connection.send(all));
  for (int i = 0; i < 50; ++i) EXPECT_THAT(connection.read_response(), EndsWith("\n\nbody " + std::to_string(i)));
}

TEST_F(HttpServerTest, TakesRequestsByteByByte) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  for (const char c : std::string("\r\nPOST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")) {
    ASSERT_TRUE(connection.send({&c, 1}));
  }
  EXPECT_THAT(connection.read_response(), EndsWith("\n\nabcde"));
}

TEST_F(HttpServerTest, TakesAnEmptyChunkedBodyByteByByte) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  for (const char c : std::string("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")) {
    ASSERT_TRUE(connection.send({&c, 1}));
    runtime_->sleep_for(1ms);  // so that most of them are read one by one
  }
  EXPECT_THAT(connection.read_response(), EndsWith("certificate=-\n\n"));
}

TEST_F(HttpServerTest, ClosesWhenAsked) {
  TestServer server(*runtime_);
  for (const char* request :
       {"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET /echo HTTP/1.0\r\n\r\n"}) {
    auto connection = RawConnection::connect(server.port());
    ASSERT_TRUE(connection.send(request));
    EXPECT_THAT(connection.read_to_end(), HasSubstr("\r\nConnection: close\r\n"));
  }
  auto old = RawConnection::connect(server.port());
  ASSERT_TRUE(old.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_THAT(old.read_response(), HasSubstr("\r\nConnection: keep-alive\r\n"));
  ASSERT_TRUE(old.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  const auto stream = server.take_stream();
  stream->write(piece("no chunks"));
  stream->finish();
  EXPECT_THAT(old.read_to_end(), EndsWith("\r\n\r\nno chunks"));
}

TEST_F(HttpServerTest, ClientThatOnlyClosedItsSendingSideIsAnswered) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send(kGetHeld));
  ASSERT_TRUE(server.wait_for_held(1));
  ::shutdown(connection.fd(), SHUT_WR);
  server.release();
  EXPECT_THAT(connection.read_to_end(), EndsWith("released"));
}

TEST_F(HttpServerTest, SendsSmallPiecesTogether) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send(kGetStream));
  const auto stream = server.take_stream();
  EXPECT_THAT(connection.read_until("\r\n\r\n"), HasSubstr("\r\nTransfer-Encoding: chunked\r\n"));
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    stream->write(piece(std::to_string(i)));
    expected += std::to_string(i);
  }
  stream->finish();
  std::string body;
  for (;;) {
    const auto size = std::stoul(connection.read_until("\r\n"), nullptr, 16);
    if (size == 0) break;
    body += connection.read_exactly(size);
    EXPECT_EQ("\r\n", connection.read_exactly(2));
  }
  EXPECT_EQ(expected, body);
  EXPECT_EQ("\r\n", connection.read_exactly(2));
  ASSERT_TRUE(connection.send(kGet));
  EXPECT_THAT(connection.read_response(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AsksForTheBodyItWasOffered) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"));
  EXPECT_EQ("HTTP/1.1 100 Continue\r\n\r\n", connection.read_until("\r\n\r\n"));
  ASSERT_TRUE(connection.send("body"));
  EXPECT_THAT(connection.read_response(), EndsWith("\n\nbody"));
}

TEST_F(HttpServerTest, RefusesGarbage) {
  TestServer server(*runtime_);
  for (const char* garbage :
       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "GET\r\n\r\n", "GET /echo HTTP/1.1\r\n\r\n",
        "GET /echo HTTP/2.0\r\nHost: x\r\n\r\n", "GET echo HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", "GET /echo HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"}) {
    auto connection = RawConnection::connect(server.port());
    ASSERT_TRUE(connection.send(garbage));
    EXPECT_THAT(connection.read_to_end(), StartsWith("HTTP/1.1 400 Bad Request\r\n")) << garbage;
  }
  EXPECT_EQ(0, server.handled());
  expect_alive(server);
}

TEST_F(HttpServerTest, SurvivesClientsThatVanish) {
  TestServer server(*runtime_);
  for (int i = 0; i < 200; ++i) {
    auto connection = RawConnection::connect(server.port());
    const std::string request = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody";
    ASSERT_TRUE(connection.send(request.substr(0, static_cast<std::size_t>(i) % (request.size() + 1))));
    if (i % 2 == 0) {
      connection.reset();
    } else {
      connection.close();
    }
  }
  expect_alive(server);
}

TEST_F(HttpServerTest, LimitsTheHeader) {
  HttpServerOptions options;
  options.header_bytes_max = 1000;
  TestServer server(*runtime_, options);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send("GET /echo HTTP/1.1\r\nHost: x\r\nX-Large: " + std::string(2000, 'x') + "\r\n\r\n"));
  EXPECT_THAT(connection.read_to_end(), StartsWith("HTTP/1.1 431 "));
  auto endless = RawConnection::connect(server.port());
  ASSERT_TRUE(endless.send("GET /echo HTTP/1.1\r\n"));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(endless.send("X-More: " + std::string(100, 'x') + "\r\n"));
  EXPECT_THAT(endless.read_to_end(), StartsWith("HTTP/1.1 431 "));
  expect_alive(server);
}

TEST_F(HttpServerTest, LimitsTheBody) {
  HttpServerOptions options;
  options.body_bytes_max = 100;
  TestServer server(*runtime_, options);
  auto announced = RawConnection::connect(server.port());
  ASSERT_TRUE(announced.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n" + std::string(101, 'x')));
  EXPECT_THAT(announced.read_to_end(), StartsWith("HTTP/1.1 413 "));
  auto chunked = RawConnection::connect(server.port());
  ASSERT_TRUE(chunked.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(chunked.send("a\r\n0123456789\r\n"));
  EXPECT_THAT(chunked.read_to_end(), StartsWith("HTTP/1.1 413 "));
  auto just = RawConnection::connect(server.port());
  ASSERT_TRUE(just.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x')));
  EXPECT_THAT(just.read_response(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, LastAnswerIsReadAlthoughMuchIsStillSent) {
  HttpServerOptions options;
  options.body_bytes_max = 100;
  TestServer server(*runtime_, options);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"));
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(connection.send(std::string(100'000, 'x')));
  EXPECT_THAT(connection.read_to_end(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpServerTest, LimitsWaitingRequests) {
  HttpServerOptions options;
  options.handler_threads = 1;
  options.handler_queue_max = 2;
  TestServer server(*runtime_, options);
  auto running = RawConnection::connect(server.port());
  ASSERT_TRUE(running.send(kGetHeld));
  ASSERT_TRUE(server.wait_for_held(1));
  // Two of these wait, the others are refused; which ones, is for the server to say.
  std::vector<RawConnection> connections;
  for (int i = 0; i < 5; ++i) {
    connections.push_back(RawConnection::connect(server.port()));
    ASSERT_TRUE(connections.back().send(kGet));
  }
  const std::vector<std::size_t> refused = wait_for_answers(connections, 3);
  for (const std::size_t i : refused) {
    const std::string response = connections[i].read_response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 429 "));
    EXPECT_THAT(response, HasSubstr("\r\nRetry-After: 1\r\n"));
    // A refused connection goes on.
    ASSERT_TRUE(connections[i].send(kGet));
  }
  server.release();
  EXPECT_THAT(running.read_response(), EndsWith("released"));
}

TEST_F(HttpServerTest, LimitsBytesOfWaitingRequests) {
  HttpServerOptions options;
  options.handler_threads = 1;
  options.handler_queue_bytes_max = 100;
  TestServer server(*runtime_, options);
  auto running = RawConnection::connect(server.port());
  ASSERT_TRUE(running.send(kGetHeld));
  ASSERT_TRUE(server.wait_for_held(1));
  const std::string request = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\n\r\n" + std::string(60, 'x');
  // Of three requests of 60 bytes one may wait.
  std::vector<RawConnection> connections;
  for (int i = 0; i < 3; ++i) {
    connections.push_back(RawConnection::connect(server.port()));
    ASSERT_TRUE(connections.back().send(request));
  }
  for (const std::size_t i : wait_for_answers(connections, 2)) {
    EXPECT_THAT(connections[i].read_response(), StartsWith("HTTP/1.1 429 "));
  }
  server.release();
}

TEST_F(HttpServerTest, RefusesBeforeTheBodyHasCome) {
  HttpServerOptions options;
  options.handler_threads = 1;
  options.handler_queue_bytes_max = 50'000;
  TestServer server(*runtime_, options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n";
  auto late = RawConnection::connect(server.port());
  ASSERT_TRUE(late.send(head + "\r\n"));
  EXPECT_THAT(late.read_response(), AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("\r\nRetry-After: 1\r\n"),
                                          Not(HasSubstr("Connection: close"))));
  // The body is dropped, however it comes, and the connection serves the next request.
  ASSERT_TRUE(late.send(std::string(60'000, 'x')));
  ASSERT_TRUE(late.send(std::string(40'000, 'x') + std::string(kGet)));
  EXPECT_THAT(late.read_response(), StartsWith("HTTP/1.1 200 "));

  // A client that was to be asked for its body does not send it: nothing else can come on its connection.
  auto asking = RawConnection::connect(server.port());
  ASSERT_TRUE(asking.send(head + "Expect: 100-continue\r\n\r\n"));
  EXPECT_THAT(asking.read_response(), AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("\r\nConnection: close\r\n")));
  EXPECT_TRUE(asking.is_closed_by_peer());
}

TEST_F(HttpServerTest, BodyThatIsDroppedTimesOutToo) {
  HttpServerOptions options;
  options.handler_threads = 1;
  options.handler_queue_max = 0;
  options.body_timeout = 50ms;
  TestServer server(*runtime_, options);
  auto late = RawConnection::connect(server.port());
  ASSERT_TRUE(late.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"));
  EXPECT_THAT(late.read_response(), StartsWith("HTTP/1.1 429 "));
  EXPECT_EQ(late.read_to_end(), "");
}

TEST_F(HttpServerTest, LimitsConnections) {
  HttpServerOptions options;
  options.connections_max = 3;
  TestServer server(*runtime_, options);
  std::vector<RawConnection> connections;
  for (int i = 0; i < 3; ++i) {
    connections.push_back(RawConnection::connect(server.port()));
    ASSERT_TRUE(connections.back().send(kGet));
    EXPECT_THAT(connections.back().read_response(), StartsWith("HTTP/1.1 200 "));
  }
  auto beyond = RawConnection::connect(server.port());
  EXPECT_TRUE(beyond.is_closed_by_peer());
  // One that leaves makes room.
  connections.pop_back();
  for (;;) {
    auto next = RawConnection::connect(server.port());
    next.send(kGet);
    if (next.read_response().starts_with("HTTP/1.1 200 ")) break;
  }
}

TEST_F(HttpServerTest, SlowHeaderTimesOut) {
  HttpServerOptions options;
  options.header_timeout = 50ms;
  TestServer server(*runtime_, options);
  auto silent = RawConnection::connect(server.port());
  auto slow = RawConnection::connect(server.port());
  ASSERT_TRUE(slow.send("GET /echo HTTP/1.1\r\nHost: "));
  EXPECT_THAT(slow.read_to_end(), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ("", silent.read_to_end());
  expect_alive(server);
}

TEST_F(HttpServerTest, SlowLorisTimesOutAlthoughItKeepsSending) {
  HttpServerOptions options;
  options.header_timeout = 100ms;
  TestServer server(*runtime_, options);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send("GET /echo HTTP/1.1\r\n"));
  // It gets its 408 and then the door; how many lines that took does not matter.
  while (connection.send("X: y\r\n")) runtime_->sleep_for(5ms);
  expect_alive(server);
}

TEST_F(HttpServerTest, SlowBodyTimesOut) {
  HttpServerOptions options;
  options.body_timeout = 50ms;
  TestServer server(*runtime_, options);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"));
  EXPECT_THAT(connection.read_to_end(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(HttpServerTest, IdleConnectionIsClosed) {
  HttpServerOptions options;
  options.idle_timeout = 50ms;
  TestServer server(*runtime_, options);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send(kGet));
  EXPECT_THAT(connection.read_response(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ("", connection.read_to_end());
}

TEST_F(HttpServerTest, RunningRequestsAndStreamsAreNotIdle) {
  HttpServerOptions options;
  options.idle_timeout = 20ms;
  options.header_timeout = 20ms;
  options.body_timeout = 20ms;
  TestServer server(*runtime_, options);
  auto held = RawConnection::connect(server.port());
  ASSERT_TRUE(held.send(kGetHeld));
  auto streaming = RawConnection::connect(server.port());
  ASSERT_TRUE(streaming.send(kGetStream));
  const auto stream = server.take_stream();
  ASSERT_TRUE(server.wait_for_held(1));
  runtime_->sleep_for(200ms);
  server.release();
  EXPECT_THAT(held.read_response(), EndsWith("released"));
  stream->write(piece("x"));
  stream->finish();
  EXPECT_THAT(streaming.read_until("0\r\n\r\n"), EndsWith("1\r\nx\r\n0\r\n\r\n"));
}

TEST_F(HttpServerTest, ReaderThatTakesNothingIsCutOff) {
  HttpServerOptions options;
  options.write_timeout = 100ms;
  TestServer server(*runtime_, options);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send(kGetStream));
  const auto stream = server.take_stream();
  const auto event = piece(std::string(1u << 20, 'x'));
  while (stream->write(event).value_or(100u << 20) < (32u << 20)) continue;
  EXPECT_TRUE(server.wait_for_closed(1));
  EXPECT_FALSE(stream->write(event).has_value());
  expect_alive(server);
}

TEST_F(HttpServerTest, ClientThatSendsWithoutReadingIsHeldBack) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  // The answers are large and nobody reads them: soon the server reads no further requests.
  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += "GET /bytes?n=1000000 HTTP/1.1\r\nHost: x\r\n\r\n";
  std::size_t sent = 0;
  for (int i = 0; i < 1000; ++i) {
    const ssize_t now = ::send(connection.fd(), requests.data(), requests.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (now < 0) break;
    sent += static_cast<std::size_t>(now);
  }
  EXPECT_LT(sent, 1000 * requests.size());
  // Others are served meanwhile, and of these requests only so many were taken as their answers fit the way.
  for (int i = 0; i < 20; ++i) expect_alive(server);
  EXPECT_LT(server.handled(), 100);
}

TEST_F(HttpServerTest, TellsTheHandlerThatTheClientLeft) {
  TestServer server(*runtime_);
  auto connection = RawConnection::connect(server.port());
  ASSERT_TRUE(connection.send(kGetStream));
  const auto stream = server.take_stream();
  connection.close();
  EXPECT_TRUE(server.wait_for_closed(1));
  EXPECT_TRUE(stream->is_closed());
}

TEST_F(HttpServerTest, HeadersOfHandlersCannotBreakTheMessage) {
  const auto handler = [](auto, const std::shared_ptr<Responder>& responder) {
    responder->respond(299, {{"X-Bad", "a\r\nX-Injected: b"}, {"X Y", "c"}, {"Content-Length", "99"}, {"X-Good", "d"}},
                       "body");
  };
  const auto server = start_http_server(*runtime_, Logger(), {}, handler).value();
  auto connection = RawConnection::connect(server->port());
  ASSERT_TRUE(connection.send(kGet));
  const std::string response = connection.read_response();
  EXPECT_THAT(response, HasSubstr("X-Bad: a  X-Injected: b\r\nX-Good: d\r\nContent-Length: 4\r\n"));
  EXPECT_THAT(response, Not(HasSubstr("X Y")));
  server->stop(0s);
}

TEST_F(HttpServerTest, SaysWhatIsWrongWithItsOptions) {
  const auto handler = [](auto, auto) {};
  HttpServerOptions options;
  options.address = "localhost";
  EXPECT_THAT(start_http_server(*runtime_, Logger(), options, handler).error().message, HasSubstr("not an IP address"));
  TestServer other(*runtime_);
  options.address = "127.0.0.1";
  options.port = other.port();
  EXPECT_THAT(start_http_server(*runtime_, Logger(), options, handler).error().message,
              HasSubstr("Address already in use"));
  options.port = 0;
  options.tls = TlsServerOptions{};
  EXPECT_THAT(start_http_server(*runtime_, Logger(), options, handler).error().message, HasSubstr("certificate"));
  options.tls->certificate_file = "/nowhere/tls.crt";
  EXPECT_THAT(start_http_server(*runtime_, Logger(), options, handler).error().message, HasSubstr("/nowhere/tls.crt"));
}

TEST_F(HttpServerTest, ResponderOutlivesTheServer) {
  auto server = std::make_unique<TestServer>(*runtime_);
  auto connection = RawConnection::connect(server->port());
  ASSERT_TRUE(connection.send(kGetStream));
  const auto stream = server->take_stream();
  server.reset();
  EXPECT_FALSE(stream->write(piece("x")).has_value());
  stream->finish();
  bool is_told = false;
  stream->on_close([&] { is_told = true; });
}

}  // namespace
}  // namespace basalt::net
