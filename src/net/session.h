#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/output_queue.h"
#include "net/server_exchange.h"
#include "rt/time.h"

namespace basalt::net {

struct SessionLimits {
  std::size_t body_bytes_max = 0;
  std::size_t header_bytes_max = 0;
  int streams_max = 0;  // HTTP/2, per connection
  rt::Duration header_timeout{};
  rt::Duration body_timeout{};
  rt::Duration idle_timeout{};
  rt::Duration write_timeout{};
};

struct PeerInfo {
  std::string address;
  std::string certificate_pem;
};

// What a session needs of the connection that carries it; a test or a fuzzer can stand in for one.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  [[nodiscard]] virtual const SessionLimits& limits() const = 0;
  [[nodiscard]] virtual const PeerInfo& peer() const = 0;
  [[nodiscard]] virtual rt::Instant now() const = 0;
  [[nodiscard]] virtual std::string_view date() const = 0;  // for the header of that name
  [[nodiscard]] virtual OutputQueue& output() = 0;
  [[nodiscard]] virtual const std::shared_ptr<Mailbox>& mailbox() const = 0;
  // May a request with so long a body come? Asked when its header is complete: if too many wait already it is refused
  // before its body is held.
  [[nodiscard]] virtual bool has_room_for(std::size_t body_bytes) = 0;
  // Hands a request to a handler; false if too many wait already.
  [[nodiscard]] virtual bool dispatch(std::shared_ptr<const ServerRequest> request,
                                      std::shared_ptr<Exchange> exchange) = 0;
  // Sends what is queued, then closes. If the client may still be sending, it is given a moment to read our last words
  // and to close first: bytes that meet a closed socket would make its system throw away what it has not read.
  virtual void close_after_output(bool may_client_send) = 0;
  virtual void write_soon() = 0;  // carrying out a command gave something to send or to close
  // The client will send no more, as far as the system knows; what it sent before may still be unread.
  [[nodiscard]] virtual bool has_client_ended() { return false; }
  virtual void close_at_once() = 0;  // as soon as the session's function returns; queued output is lost
};

// One protocol on one connection: bytes in, requests out; answers in, bytes out. All on the event loop. It never closes
// or frees anything while it is being called: it tells its host.
class Session {
 public:
  virtual ~Session() = default;
  virtual void take_bytes(std::string_view bytes) = 0;
  virtual void take_end() = 0;  // the client will send no more
  // False while it holds as much as it wants to.
  [[nodiscard]] virtual bool wants_bytes() const = 0;
  virtual void carry_out(ResponseCommand& command) = 0;
  // Moves what it may into the host's output; called before each write to the socket.
  virtual void produce_output() = 0;
  virtual void check_deadlines(rt::Instant now) = 0;
  // Takes no further requests and closes when those under way are answered; streams are ended now.
  virtual void stop() = 0;
  // The connection is gone: everybody who waits on it is told.
  virtual void abandon() = 0;
};

[[nodiscard]] std::unique_ptr<Session> make_http1_session(SessionHost& host);
[[nodiscard]] std::unique_ptr<Session> make_http2_session(SessionHost& host);

// Shared by both protocols: splits a request's target into path and query; false if it is none we serve.
[[nodiscard]] bool split_target(std::string_view target, ServerRequest& request);
// May a handler set this header? Not those that frame the message: they are the session's.
[[nodiscard]] bool is_sendable_header(std::string_view name);
// With blanks in place of what would break the message.
[[nodiscard]] std::string sendable_header_value(std::string_view value);
[[nodiscard]] std::string_view reason_phrase(int status);
// The headers and the message of an answer that the server gives by itself.
[[nodiscard]] const Headers& refusal_headers(int status);
[[nodiscard]] std::string refusal_text(int status);

}  // namespace basalt::net
