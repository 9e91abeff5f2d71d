#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/http/front.h"
#include "base/result.h"
#include "net/http_server.h"
#include "net/websocket.h"
#include "node/command_io.h"
#include "node/process_runner.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::cli {

// The client of a command in a pod, behind a WebSocket in the form v5.channel.k8s.io (or v4): each message begins with
// the number of its stream. Held by the thread that serves it; callbacks of the connection keep what they need.
//
// Limits: a frame of kFrameBytesMax. Input that the command does not take waits up to CommandIo::kInputBytesMax, then
// the connection is not read until it does. Output that the client does not take waits up to kBacklogBytesMax, then the
// command is not read; who takes nothing at all is cut off by the connection's write timeout. In v4 there is no end of
// input but the client's.
class ExecClient {
 public:
  static constexpr std::size_t kBacklogBytesMax = 1u << 20;
  static constexpr std::size_t kFrameBytesMax = 1u << 20;

  struct Options {
    bool has_input = false;
    bool has_terminal = false;
  };
  // Whether the request can become such a connection, or what is wrong with it.
  static Done check(const net::ServerRequest& request, std::string_view subresource);
  // The headers of the answer to a checked request.
  static net::Headers headers(const net::ServerRequest& request);

  // `stop` ends the connection, as does the client.
  ExecClient(rt::Runtime& runtime, std::shared_ptr<net::Responder> responder, Options options,
             const rt::StopToken& stop);

  // Answers 101; from now on the client is heard.
  void open(net::Headers headers);
  [[nodiscard]] const std::shared_ptr<node::CommandIo>& io() const { return io_; }
  // The client is gone, or is not to be served any more.
  [[nodiscard]] rt::StopToken gone() const { return gone_->token(); }

  // From the runner's thread: does not wait, but holds the command.
  void write(node::OutputStream stream, std::string_view bytes);
  // From a thread that may wait, for a client without a command; false when it is gone.
  [[nodiscard]] bool write_and_wait(node::OutputStream stream, std::string_view bytes);
  // Tells how it ended, and ends the connection.
  void finish(const Result<node::ProcessExit>& exit);

 private:
  rt::Runtime& runtime_;
  const std::shared_ptr<net::Responder> responder_;
  const std::shared_ptr<rt::StopSource> gone_;
  const std::shared_ptr<node::CommandIo> io_;
};

}  // namespace basalt::cli
