#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_server.h"
#include "net/spdy.h"
#include "net/tcp_dialer.h"
#include "net/url.h"
#include "net/websocket.h"
#include "rt/mutex.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::cli {

// The client of a port-forward. kubectl and what is written in Go speaks SPDY/3.1, inside the messages of a WebSocket
// or on the connection itself: for each connection that it takes at its end it opens two streams here, first the one on
// which it hears of errors, then that of the data, and one is made to the pod's port. Others speak v4.channel.k8s.io:
// the request names the ports, each has one connection, and the first byte of each message says whose it is; when all
// have ended, so does the client's. Held by the thread that serves it; callbacks of the connections come from the
// server's and the dialer's threads.
//
// Limits: kPortsMax in a request, kConnectionsMax at once, further streams are refused. Bytes that the pod's programs
// do not take wait up to kBacklogBytesMax, then the client is not read, all its connections alike: SPDY as it is spoken
// has nothing else to hold one back. Bytes that the client does not take wait as long, then the programs are not read;
// who takes nothing at all is cut off by the connection's write timeout.
class PortForwardClient : public std::enable_shared_from_this<PortForwardClient> {
 public:
  static constexpr std::size_t kConnectionsMax = 256;
  static constexpr std::size_t kBacklogBytesMax = 1u << 20;
  static constexpr std::size_t kFrameBytesMax = 1u << 20;
  static constexpr std::size_t kPortsMax = 64;

  enum class Form : unsigned char { Spdy, SpdyInMessages, Channels };
  // How a request becomes such a connection, or what is wrong with it.
  struct Upgrade {
    net::Headers headers;  // of the answer
    Form form = Form::Spdy;
    std::vector<std::uint16_t> ports;  // of channels
  };
  [[nodiscard]] static Result<Upgrade> upgrade_of(const net::ServerRequest& request, const net::Query& query);

  struct Target {
    std::string pod;  // "default/web", for messages
    std::string address;
  };
  // `stop` ends the connection, as does the client. The dialer outlives it.
  PortForwardClient(rt::Runtime& runtime, std::shared_ptr<net::Responder> responder, net::TcpDialer& dialer,
                    Target target, const rt::StopToken& stop);

  // Answers 101; from now on the client is heard.
  void open(Upgrade upgrade);
  // The client is gone, or is not to be served any more.
  [[nodiscard]] rt::StopToken gone() const { return gone_->token(); }
  // Finds out about a client that went away while it was not read.
  void ping();
  // Closes all connections, tells the client why on each (its own fault, if there was one), and ends its own.
  void finish(std::string_view why);

 private:
  // One connection to the pod. Changed by the client's event loop only (channels: before that reads), and with mutex_
  // held. A channel is the stream with the next number.
  struct Forward {
    std::uint32_t error_stream = 0;
    std::uint32_t data_stream = 0;  // 0 until it is opened
    std::string request;
    std::uint16_t port = 0;
    std::shared_ptr<net::TcpConnection> connection;
  };
  using ForwardRef = std::shared_ptr<Forward>;

  // From the client, on its event loop.
  void take(std::string_view bytes);
  void break_off(const Error& fault);
  void take_message(const net::WebSocketReader::Frame& frame);
  void take_channel(const net::WebSocketReader::Frame& frame);
  void take_spdy(std::string_view bytes);
  void take_frame(const net::SpdyFrame& frame);
  void open_stream(const net::SpdyFrame& frame);
  [[nodiscard]] Result<ForwardRef> add_stream(const net::SpdyFrame& frame);
  void connect(const ForwardRef& forward);
  void pass_to_pod(std::uint32_t stream, std::string_view bytes, bool is_final);
  void reset_stream(std::uint32_t stream);
  void hold_if_full();

  // From the pod, on the dialer's thread.
  void pass_to_client(const ForwardRef& forward, std::string_view bytes);
  void end(const ForwardRef& forward, const Done& how);
  void read_on_if_room();

  void open_channels(const std::vector<std::uint16_t>& ports);
  std::optional<std::size_t> write(std::string_view spdy);
  std::optional<std::size_t> write_data(std::uint32_t stream, std::string_view bytes, bool is_final);
  void write_message(net::WebSocketOpcode opcode, std::string_view payload);
  [[nodiscard]] ForwardRef find(std::uint32_t stream);
  // False if it was removed before.
  bool remove(const ForwardRef& forward);
  void leave_after_last();
  [[nodiscard]] std::size_t bytes_for_pod_locked() const BASALT_REQUIRES(mutex_);
  [[nodiscard]] bool is_backlog_above(std::size_t bytes);

  // Fixed after construction, and after open().
  const std::shared_ptr<net::Responder> responder_;  // self-locking
  net::TcpDialer& dialer_;                           // self-locking
  const Target target_;
  const std::shared_ptr<rt::StopSource> gone_;  // self-locking
  Form form_ = Form::Spdy;

  rt::Mutex mutex_;
  std::map<std::uint32_t, ForwardRef> streams_ BASALT_GUARDED_BY(mutex_);
  std::map<std::string, ForwardRef> requests_ BASALT_GUARDED_BY(mutex_);
  bool is_held_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_leaving_ BASALT_GUARDED_BY(mutex_) = false;  // it will open no more streams
  bool is_over_ BASALT_GUARDED_BY(mutex_) = false;
  std::string fault_ BASALT_GUARDED_BY(mutex_);  // why the client is not served any more
  std::uint32_t last_stream_ BASALT_GUARDED_BY(mutex_) = 0;

  // Used only by the client's event loop.
  net::WebSocketReader websocket_{kFrameBytesMax};
  net::SpdyReader reader_{{.frame_bytes_max = kFrameBytesMax}};
  net::SpdyWriter writer_;
  std::optional<unsigned char> channel_;  // of the message whose frames come
};

}  // namespace basalt::cli
