#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "node/child_streams_linux.h"
#include "rt/runtime.h"
#include "rt/stop.h"

struct addrinfo;

namespace basalt::node {

// A connection to a server, with one deadline and one stop for all that is done with it. Waits for its caller, one
// thread; only on the operating system's runtime. Errors: Unreachable, ConnectionLost, DeadlineExceeded, Cancelled.
class TcpConnection {
 public:
  // `host` is an address or a name. Names are looked up by the system, whose own timeouts hold for that.
  static Result<std::unique_ptr<TcpConnection>> open(rt::Runtime& runtime, const std::string& host, std::uint16_t port,
                                                     rt::Instant deadline, const rt::StopToken& stop);

  Done send(std::string_view bytes);
  // At least one byte, 16 KiB at most; "" at the end.
  Result<std::string> receive();

 private:
  TcpConnection(rt::Runtime& runtime, std::string peer, rt::Instant deadline)
      : runtime_(runtime), peer_(std::move(peer)), deadline_(deadline) {}
  // Until the socket can be read or written (POLLIN, POLLOUT).
  Done wait(short events);
  Done connect(const addrinfo& address);
  Error failure(Reason reason, int error) const;

  rt::Runtime& runtime_;
  const std::string peer_;  // "127.64.0.1:80"
  const rt::Instant deadline_;
  Descriptor socket_;
  Descriptor stopped_;  // becomes readable
  rt::StopToken::Registration on_stop_;
};

}  // namespace basalt::node
