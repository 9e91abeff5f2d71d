#pragma once

// A server for this folder's tests, with a handler that does by path what a test needs.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/http_server.h"
#include "net/test_support.h"
#include "net/url.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::net::testing {

//   /echo            the request as text: first line, headers, peer's certificate (or "-"), body
//   /bytes?n=5       5 bytes
//   /status?code=404
//   /hold            waits for release(); counted by wait_for_held()
//   /stream          start(); the test goes on with take_stream()
//   /drop            destroys its responder
//   /abort           start(), then abort()
class TestServer {
 public:
  explicit TestServer(rt::Runtime& runtime, HttpServerOptions options = {})
      : runtime_(runtime), changed_(runtime), is_tls_(options.tls.has_value()), is_v6_(options.address == "::1") {
    auto server = start_http_server(runtime, Logger(), std::move(options),
                                    [this](auto request, auto responder) { handle(request, responder); });
    EXPECT_TRUE(server.ok()) << (server.ok() ? "" : server.error().message);
    if (server.ok()) server_ = std::move(server).value();
  }
  ~TestServer() { stop(std::chrono::seconds(0)); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  void stop(rt::Duration grace) {
    release();
    if (server_) server_->stop(grace);
  }
  void stop_without_release(rt::Duration grace) { server_->stop(grace); }

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] std::string url(std::string_view path) const {
    return std::string(is_tls_ ? "https://" : "http://") + (is_v6_ ? "[::1]" : "127.0.0.1") + ":" +
           std::to_string(port()) + std::string(path);
  }

  void release() {
    rt::MutexLock lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }
  bool wait_for_held(int count) {
    return wait([this, count]() BASALT_REQUIRES(mutex_) { return held_ >= count; });
  }
  // The responder of the oldest stream that was not taken yet; null if none comes.
  std::shared_ptr<Responder> take_stream() {
    if (!wait([this]() BASALT_REQUIRES(mutex_) { return !streams_.empty(); })) return nullptr;
    rt::MutexLock lock(mutex_);
    auto stream = std::move(streams_.front());
    streams_.erase(streams_.begin());
    return stream;
  }
  bool wait_for_closed(int count) {
    return wait([this, count]() BASALT_REQUIRES(mutex_) { return closed_ >= count; });
  }
  int closed() {
    rt::MutexLock lock(mutex_);
    return closed_;
  }
  int handled() {
    rt::MutexLock lock(mutex_);
    return handled_;
  }

 private:
  template <class Predicate>
  bool wait(Predicate predicate) {
    const rt::Instant deadline = runtime_.now() + kPatience;
    rt::MutexLock lock(mutex_);
    while (!predicate()) {
      if (!changed_.wait_until(mutex_, deadline) && !predicate()) return false;
    }
    return true;
  }

  static std::string echo(const ServerRequest& request) {
    std::string text = request.method + " " + request.path + "?" + request.query + (request.http2 ? " HTTP/2\n" : "\n");
    for (const auto& [name, value] : request.headers) text += name + "=" + value + "\n";
    text += "certificate=";
    text += request.peer_certificate_pem.empty()
                ? "-"
                : read_certificate(request.peer_certificate_pem).value().subject.common_name;
    return text + "\n\n" + request.body;
  }

  void handle(const std::shared_ptr<const ServerRequest>& request, const std::shared_ptr<Responder>& responder) {
    {
      rt::MutexLock lock(mutex_);
      ++handled_;
    }
    const Query query = parse_query(request->query).value();
    const Headers text = {{"Content-Type", "text/plain"}};
    if (request->path == "/bytes") {
      responder->respond(200, text, std::string(std::stoul(std::string(*find_parameter(query, "n"))), 'x'));
    } else if (request->path == "/status") {
      responder->respond(std::stoi(std::string(*find_parameter(query, "code"))), text, "body");
    } else if (request->path == "/hold") {
      hold(responder);
    } else if (request->path == "/stream") {
      responder->on_close([this] {
        rt::MutexLock lock(mutex_);
        ++closed_;
        changed_.notify_all();
      });
      responder->start(200, text);
      rt::MutexLock lock(mutex_);
      streams_.push_back(responder);
      changed_.notify_all();
    } else if (request->path == "/abort") {
      responder->start(200, text);
      responder->abort();
    } else if (request->path != "/drop") {
      responder->respond(200, text, echo(*request));
    }
  }

  void hold(const std::shared_ptr<Responder>& responder) {
    {
      rt::MutexLock lock(mutex_);
      ++held_;
      changed_.notify_all();
      while (!is_released_) changed_.wait(mutex_);
    }
    responder->respond(200, {}, "released");
  }

  rt::Runtime& runtime_;
  rt::Mutex mutex_;
  rt::Condition changed_;
  const bool is_tls_;
  const bool is_v6_;
  bool is_released_ BASALT_GUARDED_BY(mutex_) = false;
  int held_ BASALT_GUARDED_BY(mutex_) = 0;
  int closed_ BASALT_GUARDED_BY(mutex_) = 0;
  int handled_ BASALT_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<Responder>> streams_ BASALT_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;
};

inline std::shared_ptr<const std::string> piece(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace basalt::net::testing
