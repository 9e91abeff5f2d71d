#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_server.h"

// What a server needs of RFC 6455 once Responder::start(101, ...) has made a connection one of bytes.

namespace basalt::net {

// Whether the request is to become a WebSocket of the only version there is.
[[nodiscard]] bool asks_for_websocket(const ServerRequest& request);
// The headers of the answer 101; `protocol` is the one chosen of those that the client offers, "" for none.
[[nodiscard]] Headers websocket_headers(const ServerRequest& request, std::string_view protocol);

enum class WebSocketOpcode : std::uint8_t { Continuation = 0, Text = 1, Binary = 2, Close = 8, Ping = 9, Pong = 10 };

// A whole message in one frame, as a server sends it: not masked.
[[nodiscard]] std::string websocket_frame(WebSocketOpcode opcode, std::string_view payload);
// The payload of a Close frame.
[[nodiscard]] std::string websocket_close(std::uint16_t code, std::string_view reason);

// Frames of a client out of bytes as they come. One thread.
class WebSocketReader {
 public:
  struct Frame {
    WebSocketOpcode opcode = WebSocketOpcode::Continuation;
    bool is_final = true;
    std::string payload;
  };
  explicit WebSocketReader(std::size_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}
  // The frames that are complete now. An error if the client breaks the protocol or a frame is longer than the limit:
  // the connection is to be closed then.
  [[nodiscard]] Result<std::vector<Frame>> take(std::string_view bytes);

 private:
  const std::size_t frame_bytes_max_;
  std::string buffer_;
};

}  // namespace basalt::net
