#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rt/runtime.h"

namespace basalt::net {

// What happens to a connection, told on the dialer's one thread: keep it short. All may be empty.
struct TcpEvents {
  std::function<void(std::string_view)> on_bytes;
  std::function<void()> on_written;  // fewer bytes are waiting() than before
  // Once, and the last: the peer has said all it had to say, or the error by which the connection was never made or
  // broke. It is closed then.
  std::function<void(const Done&)> on_ended;
};

// A connection of bytes to a program. From any thread; nothing waits. It is open until it has ended or is closed, even
// if nobody holds it.
class TcpConnection {
 public:
  virtual ~TcpConnection() = default;
  // Sent once it is connected, in order. The caller minds waiting().
  virtual void write(std::string bytes) = 0;
  virtual void end_output() = 0;  // after what was written
  [[nodiscard]] virtual std::size_t waiting() const = 0;
  // While it is held nothing more is read, so that the peer waits; what was read already may still come.
  virtual void hold(bool is_held) = 0;
  // At once; what waits is dropped. No event comes that has not begun.
  virtual void close() = 0;
};

// Makes connections to addresses (not names) and serves all of them by one thread. Thread-safe. stop() before
// destruction.
class TcpDialer {
 public:
  virtual ~TcpDialer() = default;
  // Unreachable comes by on_ended, if nobody listens there or nobody takes the connection within kConnectTimeout.
  virtual std::shared_ptr<TcpConnection> dial(const std::string& address, std::uint16_t port, TcpEvents events) = 0;
  // Closes the connections, without events; such as are made later do nothing. Idempotent.
  virtual void stop() = 0;

  static constexpr rt::Duration kConnectTimeout = std::chrono::seconds(10);
};

[[nodiscard]] std::unique_ptr<TcpDialer> make_tcp_dialer(rt::Runtime& runtime);

}  // namespace basalt::net
