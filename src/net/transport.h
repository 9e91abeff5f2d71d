#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/output_queue.h"

using SSL = struct ssl_st;

namespace basalt::net {

// How bytes go through a connected, non-blocking socket: plainly or through TLS. Does not own the socket. Used by the
// event loop only.
class Transport {
 public:
  enum class Outcome : unsigned char {
    Done,       // `bytes` were moved
    WantRead,   // again when the socket is readable
    WantWrite,  // again when it is writable
    Ended,      // the peer closed its side
    Failed,     // the connection is of no more use
  };
  struct Moved {
    Outcome outcome = Outcome::Done;
    std::size_t bytes = 0;
  };

  virtual ~Transport() = default;
  [[nodiscard]] virtual Outcome handshake() = 0;
  [[nodiscard]] virtual Moved read(char* buffer, std::size_t size) = 0;
  // Moves some of the queue's first bytes and takes them out of it. `scratch` has kScratchBytes.
  [[nodiscard]] virtual Moved write(OutputQueue& queue, char* scratch) = 0;
  // True if bytes were received that read() would return although the socket is not readable.
  [[nodiscard]] virtual bool has_received() const = 0;
  virtual void shut_down() = 0;  // says goodbye, without waiting

  [[nodiscard]] virtual bool speaks_http2() const { return false; }  // agreed by ALPN
  [[nodiscard]] virtual std::string peer_certificate_pem() const { return {}; }
  [[nodiscard]] virtual std::string problem() const { return {}; }  // after Failed, for the log

  static constexpr std::size_t kScratchBytes = 16u << 10;
};

[[nodiscard]] std::unique_ptr<Transport> make_plain_transport(int fd);
// Takes `ssl` over.
[[nodiscard]] std::unique_ptr<Transport> make_tls_transport(SSL* ssl, int fd);

}  // namespace basalt::net
