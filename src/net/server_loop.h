#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/log.h"
#include "net/output_queue.h"
#include "net/server_exchange.h"
#include "net/session.h"
#include "net/transport.h"
#include "rt/runtime.h"

// The event loops of the server and the connections on them. Asio is in this header, so only this folder's .cc files
// include it.

namespace basalt::net {

class Connection;

// Shared by all loops of one server.
struct ServerShared {
  rt::Runtime& runtime;
  const Logger log;
  const SessionLimits limits;
  const rt::Duration tick;  // how often deadlines are looked at
  // Is there room for a request with so long a body?
  const std::function<bool(std::size_t)> has_room_for;
  // Hands a request to a handler; false if too many wait.
  const std::function<bool(std::shared_ptr<const ServerRequest>, std::shared_ptr<Exchange>)> dispatch;
  // Called after a connection has ended, on its loop.
  const std::function<void()> on_connection_ended;
};

// One thread with its connections. Everything but the functions marked otherwise is for that thread.
class ServerLoop {
 public:
  ServerLoop(const ServerShared& shared, int index);
  ~ServerLoop();
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;

  // From any thread.
  void start();
  void post(std::function<void()> task);
  void stop();  // after all connections have ended

  [[nodiscard]] boost::asio::io_context& io() { return io_; }
  [[nodiscard]] const ServerShared& shared() const { return shared_; }
  [[nodiscard]] const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  [[nodiscard]] std::string_view date();
  [[nodiscard]] char* read_buffer() { return read_buffer_.data(); }
  [[nodiscard]] char* write_scratch() { return write_scratch_.data(); }

  void adopt(boost::asio::ip::tcp::socket socket, SSL* ssl, std::string peer_address);
  void forget(Connection& connection);
  void write_soon(std::shared_ptr<Connection> connection);  // after the commands that are being carried out
  void begin_stop();                                        // tells every session
  [[nodiscard]] bool is_stopping() const { return is_stopping_; }
  void close_all();

  static constexpr std::size_t kReadBytes = 64u << 10;

 private:
  void drain_mailbox();
  void tick();

  // Fixed after construction.
  const ServerShared& shared_;
  const int index_;

  // Self-locking.
  boost::asio::io_context io_;
  std::shared_ptr<Mailbox> mailbox_;

  rt::Thread thread_;

  // Used only by the loop's thread.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer timer_;
  bool is_ticking_ = false;
  bool is_stopping_ = false;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::vector<std::shared_ptr<Connection>> to_write_;
  std::vector<ResponseCommand> commands_;
  std::string date_;
  rt::Instant date_made_at_{};
  std::vector<char> read_buffer_;
  std::vector<char> write_scratch_;
};

// One accepted socket: handshake, then a session that this feeds and writes for.
class Connection final : public SessionHost, public std::enable_shared_from_this<Connection> {
 public:
  Connection(ServerLoop& loop, boost::asio::ip::tcp::socket socket, SSL* ssl, std::string peer_address);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void write();  // what the session has to send
  void check_deadlines(rt::Instant now);
  void begin_stop();
  void close();  // at once

  // SessionHost.
  const SessionLimits& limits() const override { return loop_.shared().limits; }
  const PeerInfo& peer() const override { return peer_; }
  rt::Instant now() const override { return loop_.shared().runtime.now(); }
  std::string_view date() const override { return loop_.date(); }
  OutputQueue& output() override { return output_; }
  const std::shared_ptr<Mailbox>& mailbox() const override { return loop_.mailbox(); }
  bool has_room_for(std::size_t body_bytes) override { return loop_.shared().has_room_for(body_bytes); }
  bool dispatch(std::shared_ptr<const ServerRequest> request, std::shared_ptr<Exchange> exchange) override {
    return loop_.shared().dispatch(std::move(request), std::move(exchange));
  }
  void close_after_output(bool may_client_send) override {
    must_close_after_output_ = true;
    must_drain_ = may_client_send;
  }
  bool has_client_ended() override;
  void close_at_once() override { must_close_at_once_ = true; }
  void write_soon() override;

 private:
  enum class Phase : unsigned char { Handshake, Open, Draining, Closed };

  void shake_hands();
  void read();
  void take_bytes(std::string_view bytes);
  void take_end();
  void choose_session(std::string_view bytes);
  void after_session();  // does what the session asked for
  void begin_draining();
  void wait_readable();
  void wait_writable();
  void on_readable();
  void on_writable();

  // Fixed after construction.
  ServerLoop& loop_;
  PeerInfo peer_;

  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Session> session_;  // null until the protocol is known
  std::string first_bytes_;           // until then
  OutputQueue output_;
  Phase phase_ = Phase::Handshake;
  rt::Instant deadline_;                     // of the handshake, the first bytes and of draining
  rt::Instant write_deadline_ = rt::kNever;  // while the socket takes nothing
  std::size_t drained_bytes_ = 0;
  bool is_write_queued_ = false;
  bool is_waiting_readable_ = false;
  bool is_waiting_writable_ = false;
  bool must_close_after_output_ = false;
  bool must_drain_ = false;
  bool must_close_at_once_ = false;
};

}  // namespace basalt::net
