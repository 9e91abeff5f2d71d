#include "net/websocket.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/test_support.h"
#include "rt/mutex.h"
#include "rt/real_runtime.h"

namespace basalt::net {
namespace {

// A frame as a client sends it.
std::string masked(unsigned char first, const std::string& payload) {
  const std::string plain = websocket_frame(static_cast<WebSocketOpcode>(first & 0x0f), payload);
  const std::size_t head = plain.size() - payload.size();
  std::string frame = plain.substr(0, head);
  frame[0] = static_cast<char>(first);
  frame[1] = static_cast<char>(frame[1] | 0x80);
  const std::string mask = "mask";
  frame += mask;
  for (std::size_t i = 0; i < payload.size(); ++i) frame += static_cast<char>(payload[i] ^ mask[i % 4]);
  return frame;
}

ServerRequest upgrade() {
  ServerRequest request;
  request.method = "GET";
  request.headers = {{"Connection", "keep-alive, Upgrade"},
                     {"Upgrade", "websocket"},
                     {"Sec-WebSocket-Version", "13"},
                     {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}};
  return request;
}

TEST(WebSocket, TheAnswerProvesThatTheRequestWasUnderstood) {
  EXPECT_TRUE(asks_for_websocket(upgrade()));
  const Headers headers = websocket_headers(upgrade(), "v5.channel.k8s.io");
  EXPECT_EQ(find_header(headers, "Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");  // RFC 6455, 1.3
  EXPECT_EQ(find_header(headers, "Sec-WebSocket-Protocol"), "v5.channel.k8s.io");
}

TEST(WebSocket, OtherRequestsAreNone) {
  for (const std::string_view name : {"Connection", "Upgrade", "Sec-WebSocket-Version", "Sec-WebSocket-Key"}) {
    ServerRequest request = upgrade();
    std::erase_if(request.headers, [&](const auto& header) { return header.first == name; });
    EXPECT_FALSE(asks_for_websocket(request)) << name;
  }
  ServerRequest request = upgrade();
  request.http2 = true;
  EXPECT_FALSE(asks_for_websocket(request));
}

TEST(WebSocket, FramesComeOutOfBytesHoweverTheyAreCut) {
  const std::string large(70'000, 'x');
  const std::string all = masked(0x89, "ping") + masked(0x82, std::string(200, 'y')) + masked(0x02, large) +
                          masked(0x80, "") + masked(0x88, websocket_close(1000, "bye"));
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, all.size()}) {
    WebSocketReader reader(1u << 20);
    std::vector<WebSocketReader::Frame> frames;
    for (std::size_t at = 0; at < all.size(); at += step) {
      auto some = reader.take(std::string_view(all).substr(at, step));
      ASSERT_TRUE(some.ok()) << some.error().message;
      for (auto& frame : *some) frames.push_back(std::move(frame));
    }
    ASSERT_EQ(frames.size(), 5U) << step;
    EXPECT_EQ(frames[0].opcode, WebSocketOpcode::Ping);
    EXPECT_EQ(frames[0].payload, "ping");
    EXPECT_EQ(frames[1].payload, std::string(200, 'y'));
    EXPECT_FALSE(frames[2].is_final);
    EXPECT_EQ(frames[2].payload, large);
    EXPECT_EQ(frames[3].opcode, WebSocketOpcode::Continuation);
    EXPECT_EQ(frames[4].opcode, WebSocketOpcode::Close);
    EXPECT_EQ(frames[4].payload.substr(2), "bye");
  }
}

TEST(WebSocket, WhatBreaksTheProtocolIsRefused) {
  EXPECT_FALSE(WebSocketReader(100).take(websocket_frame(WebSocketOpcode::Binary, "not masked")).ok());
  EXPECT_FALSE(WebSocketReader(100).take(masked(0xc2, "an extension")).ok());
  EXPECT_FALSE(WebSocketReader(100).take(masked(0x82, std::string(101, 'x'))).ok());
  EXPECT_FALSE(WebSocketReader(1000).take(masked(0x89, std::string(126, 'x'))).ok()) << "a long ping";
  EXPECT_FALSE(
      WebSocketReader(100).take(std::string("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", 14)).ok());
}

TEST(WebSocket, AnUpgradedConnectionIsOneOfBytes) {
  const auto runtime = rt::make_real_runtime();
  rt::Mutex mutex;
  std::shared_ptr<Responder> held;  // as a handler's thread would
  const auto server = start_http_server(*runtime, Logger(), {}, [&](auto request, auto responder) {
    EXPECT_TRUE(asks_for_websocket(*request));
    responder->on_bytes([weak = std::weak_ptr<Responder>(responder)](std::string_view bytes) {
      const auto alive = weak.lock();
      if (!alive) return;
      std::string echoed(bytes);
      for (char& c : echoed) c = static_cast<char>(c - 'a' + 'A');
      alive->write(std::make_shared<const std::string>(echoed));
      if (echoed.ends_with("E")) alive->finish();
    });
    rt::MutexLock lock(mutex);
    held = responder;
    responder->start(101, websocket_headers(*request, ""));
  });
  ASSERT_TRUE(server.ok());
  auto connection = testing::RawConnection::connect((*server)->port());
  // Some of it before the answer, which must not be taken for another request.
  ASSERT_TRUE(
      connection.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                      "hello"));
  ASSERT_TRUE(connection.send("goodbye"));
  const std::string answer = connection.read_to_end();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 101 ")) << answer;
  EXPECT_NE(answer.find("\r\nConnection: Upgrade\r\n"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("chunked"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nHELLOGOODBYE")) << answer;
  (*server)->stop(std::chrono::seconds(5));
  rt::MutexLock lock(mutex);
  held = nullptr;
}

// A connection of bytes whose handler holds it at the first byte.
class HeldConnection : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = start_http_server(*runtime_, Logger(), {}, [this](auto request, auto responder) {
      responder->on_bytes([this, weak = std::weak_ptr<Responder>(responder)](std::string_view bytes) {
        if (const auto alive = weak.lock(); alive && bytes_ == 0) alive->hold_bytes(true);
        bytes_ += bytes.size();
      });
      responder->on_close([this] { is_gone_ = true; });
      responder->on_drained(kMark, [this] { ++drained_; });
      rt::MutexLock lock(mutex_);
      responder_ = responder;
      responder->start(101, websocket_headers(*request, ""));
    });
    ASSERT_TRUE(started.ok());
    server_ = std::move(*started);
    client_.emplace(testing::RawConnection::connect(server_->port()));
    ASSERT_TRUE(
        client_->send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"));
    ASSERT_NE(client_->read_until("\r\n\r\n").find("101"), std::string::npos);
  }
  void TearDown() override {
    if (server_) server_->stop(std::chrono::seconds(5));
    rt::MutexLock lock(mutex_);
    responder_ = nullptr;
  }
  std::shared_ptr<Responder> responder() {
    rt::MutexLock lock(mutex_);
    return responder_;
  }
  bool wait_until(const std::function<bool()>& holds) {
    const rt::Instant deadline = runtime_->now() + testing::kPatience;
    while (!holds() && runtime_->now() < deadline) runtime_->sleep_for(std::chrono::milliseconds(5));
    return holds();
  }

  static constexpr std::size_t kMark = 100'000;
  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<HttpServer> server_;
  std::optional<testing::RawConnection> client_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<bool> is_gone_{false};
  std::atomic<int> drained_{0};
  rt::Mutex mutex_;
  std::shared_ptr<Responder> responder_ BASALT_GUARDED_BY(mutex_);
};

TEST_F(HeldConnection, IsNotReadUntilItIsReleased) {
  constexpr std::size_t kAll = 64u << 20;  // more than the system's buffers hold
  ASSERT_TRUE(client_->send("x"));
  ASSERT_TRUE(wait_until([&] { return bytes_ == 1; }));
  rt::Thread sender(*runtime_, "sender", [&] {
    const std::string piece(1u << 20, 'y');
    for (std::size_t sent = 0; sent < kAll; sent += piece.size()) EXPECT_TRUE(client_->send(piece));
  });
  // Answers to what comes meanwhile do not read on either.
  for (int i = 0; i < 20; ++i) {
    responder()->write(std::make_shared<const std::string>("z"));
    EXPECT_EQ(client_->read_exactly(1), "z");
  }
  EXPECT_EQ(bytes_, 1u);
  responder()->hold_bytes(false);
  EXPECT_TRUE(wait_until([&] { return bytes_ == kAll + 1; })) << bytes_;
  sender.join();
}

TEST_F(HeldConnection, EndsWithItsClient) {
  ASSERT_TRUE(client_->send("x"));
  ASSERT_TRUE(wait_until([&] { return bytes_ == 1; }));
  ASSERT_TRUE(client_->send("unread"));
  client_->close();
  EXPECT_TRUE(wait_until([&] { return is_gone_.load(); }));
  EXPECT_EQ(bytes_, 1u);
}

TEST_F(HeldConnection, TellsWhenItsOutputIsDrained) {
  constexpr std::size_t kAll = 32u << 20;
  EXPECT_GT(responder()->write(std::make_shared<const std::string>(kAll, 'o')).value_or(0), kMark);
  EXPECT_EQ(drained_, 0) << "nobody has read so much";
  EXPECT_EQ(client_->read_exactly(kAll).size(), kAll);
  EXPECT_TRUE(wait_until([&] { return drained_ == 1; }));
  responder()->write(std::make_shared<const std::string>("small"));
  EXPECT_EQ(client_->read_exactly(5), "small");
  EXPECT_EQ(drained_, 1) << "it was not above";
}

}  // namespace
}  // namespace basalt::net
