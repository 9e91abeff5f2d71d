#include "net/http_client.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/test_support.h"
#include "rt/stop.h"

// The client against servers that misbehave. What it does with a sound one is in http_exchange_test.cc.

namespace basalt::net {
namespace {

using ::testing::HasSubstr;
using testing::kPatience;
using testing::RawConnection;
using testing::ScriptedServer;
using namespace std::chrono_literals;

class HttpClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<HttpClient> make_client(HttpClientOptions options = {}) {
    return make_http_client(*runtime_, std::move(options)).value();
  }
  Result<HttpResponse> get(HttpClient& client, const std::string& url) {
    return client.call({.url = url, .timeout = kPatience}, {});
  }
  // One connection, one request, then `answer` and the end.
  Result<HttpResponse> get_from_server_that_sends(const std::string& answer) {
    ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
      connection.read_until("\r\n\r\n");
      connection.send(answer);
    });
    const auto client = make_client();
    return get(*client, server.url());
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
};

TEST_F(HttpClientTest, SendsTheRequestAsAsked) {
  std::string head;
  std::string body;
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    head = connection.read_until("\r\n\r\n");
    body = connection.read_exactly(4);
    connection.send("HTTP/1.1 201 Created\r\nX-Test:  a b \r\nContent-Length: 2\r\n\r\nok");
    connection.is_closed_by_peer();
  });
  auto client = make_client();
  const auto response = client->call({.method = "PATCH",
                                      .url = server.url("/a%20b?c=d"),
                                      .headers = {{"Content-Type", "application/json"}, {"X-Empty", ""}},
                                      .body = "{  }"},
                                     {});
  client.reset();
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(201, response->status);
  EXPECT_EQ("ok", response->body);
  EXPECT_EQ("a b", find_header(response->headers, "x-test"));
  EXPECT_THAT(head, ::testing::StartsWith("PATCH /a%20b?c=d HTTP/1.1\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nX-Empty:\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nUser-Agent: basalt\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Length: 4\r\n"));
  EXPECT_EQ("{  }", body);
}

TEST_F(HttpClientTest, NobodyListensIsUnreachable) {
  std::uint16_t port = 0;
  {
    const ScriptedServer server(*runtime_, [](RawConnection&, int) {});
    port = server.port();
  }
  const auto client = make_client();
  const auto response = get(*client, "http://127.0.0.1:" + std::to_string(port) + "/");
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::Unreachable, response.error().reason);
  EXPECT_THAT(response.error().message, HasSubstr("127.0.0.1:" + std::to_string(port)));
}

TEST_F(HttpClientTest, UnknownHostIsUnreachable) {
  const auto client = make_client();
  const auto response = get(*client, "http://nowhere.invalid/");
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::Unreachable, response.error().reason);
  EXPECT_THAT(response.error().message, HasSubstr("nowhere.invalid"));
}

TEST_F(HttpClientTest, PlainServerBehindHttpsIsUnreachable) {
  ScriptedServer server(*runtime_, [](RawConnection& connection, int) {
    connection.send("HTTP/1.1 400 Bad Request\r\n\r\n");
    connection.is_closed_by_peer();
  });
  const auto client = make_client();
  const auto response = get(*client, "https://127.0.0.1:" + std::to_string(server.port()) + "/");
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::Unreachable, response.error().reason);
}

TEST_F(HttpClientTest, ClosedWithoutAnAnswerIsLost) {
  const auto response = get_from_server_that_sends("");
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::ConnectionLost, response.error().reason);
}

TEST_F(HttpClientTest, ClosedInTheHeaderIsLost) {
  const auto response = get_from_server_that_sends("HTTP/1.1 200 OK\r\nContent-Le");
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::ConnectionLost, response.error().reason);
}

TEST_F(HttpClientTest, ClosedInTheBodyIsLost) {
  for (const char* answer : {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
                             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    const auto response = get_from_server_that_sends(answer);
    ASSERT_FALSE(response.ok()) << answer;
    EXPECT_EQ(Reason::ConnectionLost, response.error().reason) << answer;
  }
}

TEST_F(HttpClientTest, GarbageIsLost) {
  for (const char* answer : {"\x16\x03\x01\x02garbage\r\n\r\n", "HTTP/9.9 200\r\n\r\n", "hello\r\n\r\n",
                             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    const auto response = get_from_server_that_sends(answer);
    ASSERT_FALSE(response.ok()) << answer;
    EXPECT_EQ(Reason::ConnectionLost, response.error().reason) << answer;
  }
}

TEST_F(HttpClientTest, InterimAnswersAreSkipped) {
  const auto response = get_from_server_that_sends(
      "HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-B: 2\r\nContent-Length: 1\r\n\r\nx");
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(200, response->status);
  EXPECT_EQ("", find_header(response->headers, "X-A"));
  EXPECT_EQ("2", find_header(response->headers, "X-B"));
}

TEST_F(HttpClientTest, WhatComesBehindTheBodyIsKeptApart) {
  const auto response = get_from_server_that_sends(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Status\r\nX-A: 1\r\n\r\n"
      "1\r\nx\r\n0\r\nGrpc-Status: 12\r\nX-A: 2\r\n\r\n");
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ("x", response->body);
  EXPECT_EQ("1", find_header(response->headers, "X-A"));
  EXPECT_EQ("", find_header(response->headers, "Grpc-Status"));
  EXPECT_EQ("12", find_header(response->trailers, "grpc-status"));
  EXPECT_EQ("2", find_header(response->trailers, "X-A"));
}

TEST_F(HttpClientTest, EndlessHeadersAreTooLarge) {
  ScriptedServer server(*runtime_, [](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\n");
    while (connection.send("X-More: " + std::string(1000, 'x') + "\r\n")) continue;
  });
  const auto client = make_client();
  const auto response = get(*client, server.url());
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::ResponseTooLarge, response.error().reason);
}

TEST_F(HttpClientTest, BodyOverTheLimitIsTooLarge) {
  ScriptedServer server(*runtime_, [](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    while (connection.send(std::string(1000, 'x'))) continue;
  });
  const auto client = make_client();
  const auto response = client->call({.url = server.url(), .response_bytes_max = 100'000}, {});
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::ResponseTooLarge, response.error().reason);
  EXPECT_THAT(response.error().message, HasSubstr("100000 bytes"));
}

TEST_F(HttpClientTest, DeadlinePasses) {
  ScriptedServer server(*runtime_, [](RawConnection& connection, int) { connection.is_closed_by_peer(); });
  const auto client = make_client();
  const auto response = client->call({.url = server.url(), .timeout = 50ms}, {});
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::DeadlineExceeded, response.error().reason);
  EXPECT_THAT(response.error().message, HasSubstr("no answer came within 50 ms"));
}

TEST_F(HttpClientTest, SlowAnswerMeetsTheDeadline) {
  std::atomic<bool> go_on = true;
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    while (go_on && connection.send("x")) runtime_->sleep_for(5ms);
  });
  const auto client = make_client();
  const auto response = client->call({.url = server.url(), .timeout = 100ms}, {});
  go_on = false;
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(Reason::DeadlineExceeded, response.error().reason);
}

TEST_F(HttpClientTest, WaitingForAConnectionCountsTowardsTheDeadline) {
  ScriptedServer server(*runtime_, [](RawConnection& connection, int) { connection.is_closed_by_peer(); });
  const auto client = make_client({.connections_max = 1});
  const std::vector<HttpRequest> requests = {{.url = server.url(), .timeout = kPatience},
                                             {.url = server.url(), .timeout = 50ms}};
  rt::StopSource stop(*runtime_);
  std::vector<Result<HttpResponse>> first;
  rt::Thread thread(*runtime_, "first", [&] { first = client->call_all({requests.data(), 1}, 1, stop.token()); });
  // Whichever comes first has the connection; the second must not wait for it beyond its deadline.
  const auto second = client->call(requests[1], {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(Reason::DeadlineExceeded, second.error().reason);
  stop.request_stop();
  thread.join();
  EXPECT_EQ(Reason::Cancelled, first.front().error().reason);
}

TEST_F(HttpClientTest, StopCancelsWhatIsUnderWay) {
  rt::StopSource stop(*runtime_);
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    stop.request_stop();
    connection.is_closed_by_peer();
  });
  const auto client = make_client();
  const std::vector<HttpRequest> requests(10, {.url = server.url(), .timeout = kPatience});
  for (const auto& result : client->call_all(requests, 3, stop.token())) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(Reason::Cancelled, result.error().reason);
  }
  const auto later = client->call(requests.front(), stop.token());
  EXPECT_EQ(Reason::Cancelled, later.error().reason);
}

TEST_F(HttpClientTest, KeptAliveConnectionThatDiesIsNotUsedTwiceBehindTheCallersBack) {
  std::atomic<int> requests = 0;
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    ++requests;
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    // Takes the second request and closes without a word: it may have been carried out.
    if (!connection.read_until("\r\n\r\n").empty()) ++requests;
  });
  const auto client = make_client();
  EXPECT_TRUE(get(*client, server.url()).ok());
  const auto second = client->call({.method = "POST", .url = server.url(), .body = "x"}, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(Reason::ConnectionLost, second.error().reason);
  EXPECT_EQ(2, requests);
  EXPECT_TRUE(get(*client, server.url()).ok());
}

TEST_F(HttpClientTest, ClosedIdleConnectionIsReplaced) {
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  });
  const auto client = make_client();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(get(*client, server.url()).ok());
}

TEST_F(HttpClientTest, RefusesRequestsThatCannotBeSent) {
  const auto client = make_client();
  const std::vector<HttpRequest> requests = {
      {.url = "nonsense"},
      {.url = "file:///etc/passwd"},
      {.url = "http://127.0.0.1:99999/"},
      {.method = "GET /x", .url = "http://127.0.0.1/"},
      {.url = "http://127.0.0.1/", .headers = {{"X", "a\r\nY: b"}}},
      {.url = "http://127.0.0.1/", .headers = {{"X Y", "a"}}},
  };
  for (const auto& result : client->call_all(requests, 2, {})) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(Reason::InvalidInput, result.error().reason) << result.error().message;
  }
  EXPECT_EQ(Reason::InvalidInput, client->open_stream(requests[0], {}).error().reason);
}

TEST_F(HttpClientTest, StreamsPieceByPiece) {
  std::atomic<bool> next = false;
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    while (!next) runtime_->sleep_for(1ms);
    connection.send("3\r\ntwo\r\n0\r\n\r\n");
  });
  const auto client = make_client();
  const auto stream = client->open_stream({.url = server.url()}, {}).value();
  EXPECT_EQ(200, stream->status());
  EXPECT_EQ("one", stream->read(runtime_->now() + kPatience).value());
  EXPECT_EQ(Reason::DeadlineExceeded, stream->read(runtime_->now() + 10ms).error().reason);
  next = true;
  EXPECT_EQ("two", stream->read(runtime_->now() + kPatience).value());
  EXPECT_EQ("", stream->read(runtime_->now() + kPatience).value());
  EXPECT_EQ("", stream->read(runtime_->now() + kPatience).value());
}

TEST_F(HttpClientTest, CutStreamGivesWhatCameThenAnError) {
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  });
  const auto client = make_client();
  const auto stream = client->open_stream({.url = server.url()}, {}).value();
  EXPECT_EQ("one", stream->read(runtime_->now() + kPatience).value());
  EXPECT_EQ(Reason::ConnectionLost, stream->read(runtime_->now() + kPatience).error().reason);
}

TEST_F(HttpClientTest, StreamIsCancelledByItsOwnerByTheTokenAndByTheClient) {
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    connection.is_closed_by_peer();
  });
  auto client = make_client();
  {
    const auto stream = client->open_stream({.url = server.url()}, {}).value();
    rt::Thread thread(*runtime_, "canceller", [&] { stream->cancel(); });
    EXPECT_EQ(Reason::Cancelled, stream->read(rt::kNever).error().reason);
    thread.join();
  }
  {
    rt::StopSource stop(*runtime_);
    const auto stream = client->open_stream({.url = server.url()}, stop.token()).value();
    rt::Thread thread(*runtime_, "stopper", [&] { stop.request_stop(); });
    EXPECT_EQ(Reason::Cancelled, stream->read(rt::kNever).error().reason);
    thread.join();
  }
  const auto stream = client->open_stream({.url = server.url()}, {}).value();
  client.reset();
  EXPECT_EQ(Reason::Cancelled, stream->read(rt::kNever).error().reason);
}

TEST_F(HttpClientTest, StreamThatDoesNotOpenInTimeFails) {
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) { connection.is_closed_by_peer(); });
  const auto client = make_client();
  const auto stream = client->open_stream({.url = server.url(), .timeout = 50ms}, {});
  ASSERT_FALSE(stream.ok());
  EXPECT_EQ(Reason::DeadlineExceeded, stream.error().reason);
}

TEST_F(HttpClientTest, OpenStreamOutlivesItsOpeningTimeout) {
  std::atomic<bool> next = false;
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    while (!next) runtime_->sleep_for(1ms);
    connection.send("late");
  });
  const auto client = make_client();
  const auto stream = client->open_stream({.url = server.url(), .timeout = 1s}, {}).value();
  EXPECT_EQ(Reason::DeadlineExceeded, stream->read(runtime_->now() + 1100ms).error().reason);
  next = true;
  EXPECT_EQ("late", stream->read(runtime_->now() + kPatience).value());
}

TEST_F(HttpClientTest, SlowReaderHoldsTheSenderBack) {
  std::atomic<std::size_t> sent = 0;
  const std::size_t total = 64u << 20;
  ScriptedServer server(*runtime_, [&](RawConnection& connection, int) {
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(total) + "\r\n\r\n");
    const std::string piece(64u << 10, 'x');
    while (sent < total && connection.send(piece)) sent += piece.size();
  });
  const auto client = make_client();
  const auto stream = client->open_stream({.url = server.url()}, {}).value();
  // Let it run until nothing moves any more: far from everything has been sent.
  std::size_t before = 1;
  while (before != sent) {
    before = sent;
    runtime_->sleep_for(100ms);
  }
  EXPECT_LT(sent, total / 2);
  std::size_t received = 0;
  for (;;) {
    const auto piece = stream->read(runtime_->now() + kPatience);
    ASSERT_TRUE(piece.ok()) << piece.error().message;
    if (piece->empty()) break;
    ASSERT_LE(piece->size(), (1u << 20) + (64u << 10));
    received += piece->size();
  }
  EXPECT_EQ(total, received);
}

TEST_F(HttpClientTest, GoesThroughAProxy) {
  std::string head;
  ScriptedServer proxy(*runtime_, [&](RawConnection& connection, int) {
    head = connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  auto client = make_client({.proxy_url = proxy.url()});
  EXPECT_TRUE(get(*client, "http://target.invalid/x").ok());
  EXPECT_THAT(head, ::testing::StartsWith("GET http://target.invalid/x HTTP/1.1\r\n"));
}

TEST_F(HttpClientTest, SaysWhatIsWrongWithItsOptions) {
  HttpClientOptions options;
  options.tls.ca_pem = "no certificate";
  EXPECT_EQ(Reason::InvalidInput, make_http_client(*runtime_, options).error().reason);
  options = {};
  options.tls.ca_file = "/nowhere/ca.crt";
  EXPECT_THAT(make_http_client(*runtime_, options).error().message, HasSubstr("/nowhere/ca.crt"));
}

}  // namespace
}  // namespace basalt::net
