#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "net/http_client.h"
#include "rt/runtime.h"

namespace basalt::net {

struct ServerRequest {
  std::string method;
  std::string path;   // as sent, without the query; still percent-encoded
  std::string query;  // without '?'
  Headers headers;
  std::string body;
  std::string peer_address;          // "127.0.0.1:40312", "[::1]:40312"
  std::string peer_certificate_pem;  // "" if the client showed none; verified against client_ca if that is set
  bool http2 = false;
};

// The answer to one request. Either respond() once, or start(), write() any number of times, finish(). May be kept and
// used later from any thread; if it is destroyed unanswered, the client gets a 500. After the client went away, and
// after finish() or abort(), all calls do nothing.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void respond(int status, Headers headers, std::shared_ptr<const std::string> body) = 0;
  void respond(int status, Headers headers, std::string body) {
    respond(status, std::move(headers), std::make_shared<const std::string>(std::move(body)));
  }
  virtual void start(int status, Headers headers) = 0;
  // Queues one piece; returns the bytes now waiting to be sent, so that the caller can cut off a slow reader, or
  // nothing if the client is gone or the answer is complete.
  virtual std::optional<std::size_t> write(std::shared_ptr<const std::string> piece) = 0;
  virtual void finish() = 0;
  virtual void abort() = 0;  // closes the connection (HTTP/2: the stream) without a proper end
  // True once the client is gone or the answer is complete.
  [[nodiscard]] virtual bool is_closed() const = 0;
  // Called once when the client goes away or the server stops before the answer is complete, on the event loop: keep it
  // short. A stream that is open when the server stops is ended properly right after.
  virtual void on_close(std::function<void()> callback) = 0;
  // start(101, ...) makes an HTTP/1.1 connection one of bytes in both directions: write() sends them as they are, and
  // what the client sends comes here, on the event loop: keep it short. Set before start(); without it they are
  // dropped.
  virtual void on_bytes(std::function<void(std::string_view)> callback) { static_cast<void>(callback); }
  // While such a connection is held nothing more is read of it, so that its client waits; what was read already may
  // still come. That the client went away is noticed all the same, within seconds.
  virtual void hold_bytes(bool is_held) { static_cast<void>(is_held); }
  // Called on the event loop each time the bytes that wait to be sent fall from above `bytes_max` to it or below: keep
  // it short. Set before start().
  virtual void on_drained(std::size_t bytes_max, std::function<void()> callback) {
    static_cast<void>(bytes_max);
    static_cast<void>(callback);
  }
};

// Requests come on one of `handler_threads`; a handler may block. With handler_threads == 0 they come on the event loop
// and must not block.
using Handler = std::function<void(std::shared_ptr<const ServerRequest>, std::shared_ptr<Responder>)>;

struct TlsServerOptions {
  std::string certificate_file;  // read again when it changes; connections in progress keep theirs
  std::string key_file;
  std::string certificate_pem;  // instead of the files
  std::string key_pem;
  std::string client_ca_pem;  // ask for a client certificate and verify it against these
  bool client_certificate_required = false;
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one
  std::optional<TlsServerOptions> tls;
  int event_threads = 1;
  int handler_threads = 4;
  std::size_t handler_queue_max = 1024;              // requests waiting for a handler; beyond: 429 at once
  std::size_t handler_queue_bytes_max = 256u << 20;  // their bodies; beyond: 429 at once
  std::size_t body_bytes_max = 3u << 20;
  std::size_t header_bytes_max = 64u << 10;
  int connections_max = 4096;                              // beyond: accepted and closed
  rt::Duration header_timeout = std::chrono::seconds(10);  // to send the whole header (slow loris)
  rt::Duration body_timeout = std::chrono::seconds(30);
  rt::Duration idle_timeout = std::chrono::seconds(120);  // between requests
  rt::Duration write_timeout = std::chrono::seconds(30);  // without a byte taken by the client: cut off
  bool http2 = true;                                      // offered by ALPN; without TLS by prior knowledge
  int http2_streams_max = 1000;                           // at once, per connection
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // Stops accepting, ends open streams, lets running requests end for at most `grace`, closes the rest, and waits for
  // handlers that still run. Called before destruction.
  virtual void stop(rt::Duration grace) = 0;
};

[[nodiscard]] Result<std::unique_ptr<HttpServer>> start_http_server(rt::Runtime& runtime, Logger log,
                                                                    HttpServerOptions options, Handler handler);

}  // namespace basalt::net
