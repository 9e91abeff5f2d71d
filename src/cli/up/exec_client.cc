#include "cli/up/exec_client.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/strings.h"
#include "json/value.h"
#include "kube/status.h"

namespace basalt::cli {
namespace {

// The first byte of each message says which stream it belongs to.
enum class Channel : unsigned char { In = 0, Out = 1, Err = 2, Status = 3, Resize = 4, Close = 255 };
constexpr std::string_view kProtocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io"};
constexpr std::size_t kControlBytesMax = 4096;  // of a message that is not input: a size, the end of a stream
constexpr rt::Duration kBacklogPause = std::chrono::milliseconds(10);

// The best of the protocols that the client offers; "" if we speak none of them.
std::string_view chosen_protocol(const net::ServerRequest& request) {
  for (const std::string_view known : kProtocols) {
    for (const auto& [name, value] : request.headers) {
      if (!base::equals_ignore_case_ascii(name, "Sec-WebSocket-Protocol")) continue;
      for (const std::string_view offered : base::split(value, ',')) {
        if (base::trim(offered) == known) return known;
      }
    }
  }
  return {};
}

std::shared_ptr<const std::string> message(Channel channel, std::string_view bytes) {
  std::string payload(1, static_cast<char>(channel));
  payload.append(bytes);
  return std::make_shared<const std::string>(net::websocket_frame(net::WebSocketOpcode::Binary, payload));
}

Channel channel_of(node::OutputStream stream) {
  return stream == node::OutputStream::Out ? Channel::Out : Channel::Err;
}

// How the command ended, in the words that kubectl takes its exit code from.
std::string status_of(const Result<node::ProcessExit>& exit) {
  if (!exit.ok()) return kube::encode_status(exit.error(), exit.error().subject);
  if (exit->code == 0) return json::Value(json::Object{{"metadata", json::Object()}, {"status", "Success"}}).to_text();
  const std::string code = std::to_string(exit->code);
  const json::Value cause = json::Object{{"reason", "ExitCode"}, {"message", code}};
  return json::Value(json::Object{{"metadata", json::Object()},
                                  {"status", "Failure"},
                                  {"reason", "NonZeroExitCode"},
                                  {"message", "command terminated with non-zero exit code: exit status " + code},
                                  {"details", json::Object{{"causes", json::Array{cause}}}}})
      .to_text();
}

std::optional<node::TerminalSize> parse_size(std::string_view text) {
  const auto value = json::Value::parse(text);
  if (!value.ok()) return std::nullopt;
  const auto number = [&](const char* name) {
    const json::Value* field = value->find(name);
    const std::int64_t wanted = field != nullptr && field->is_int() ? field->as_int() : 0;
    return static_cast<std::uint16_t>(std::clamp<std::int64_t>(wanted, 0, std::numeric_limits<std::uint16_t>::max()));
  };
  const node::TerminalSize size{.columns = number("Width"), .rows = number("Height")};
  if (size.columns == 0 || size.rows == 0) return std::nullopt;
  return size;
}

// Hears the client. Used only by the event loop of its connection.
class Listener {
 public:
  Listener(std::weak_ptr<net::Responder> responder, std::shared_ptr<node::CommandIo> io,
           std::shared_ptr<rt::StopSource> gone)
      : responder_(std::move(responder)), io_(std::move(io)), gone_(std::move(gone)) {}

  void take(std::string_view bytes) {
    const auto frames = reader_.take(bytes);
    if (!frames.ok()) return gone_->request_stop();
    for (const auto& frame : *frames) take(frame);
    hold_if_full();
  }

 private:
  using Opcode = net::WebSocketOpcode;

  void take(const net::WebSocketReader::Frame& frame) {
    std::string_view payload = frame.payload;
    switch (frame.opcode) {
      case Opcode::Close:
        return gone_->request_stop();
      case Opcode::Ping:
        if (const auto alive = responder_.lock())
          alive->write(std::make_shared<const std::string>(net::websocket_frame(Opcode::Pong, payload)));
        return;
      case Opcode::Text:
      case Opcode::Binary:
        control_.clear();
        channel_ = payload.empty() ? Channel::Status : static_cast<Channel>(payload.front());  // nobody's, if empty
        payload.remove_prefix(std::min<std::size_t>(1, payload.size()));
        break;
      case Opcode::Continuation:
        break;
      default:
        return;
    }
    if (channel_ == Channel::In) {
      io_->add_input(payload);
      return;
    }
    if (control_.size() + payload.size() > kControlBytesMax) return gone_->request_stop();
    control_ += payload;
    if (frame.is_final) obey();
  }

  void obey() {
    if (channel_ == Channel::Resize) {
      if (const auto size = parse_size(control_)) io_->set_size(*size);
    } else if (channel_ == Channel::Close && control_ == std::string_view("\0", 1)) {
      io_->end_input();
    }
    control_.clear();
  }

  void hold_if_full() {
    const auto alive = responder_.lock();
    if (!alive || !io_->is_full()) return;
    alive->hold_bytes(true);
    if (!io_->is_full()) alive->hold_bytes(false);  // there was room again before the line above
  }

  net::WebSocketReader reader_{ExecClient::kFrameBytesMax};
  const std::weak_ptr<net::Responder> responder_;
  const std::shared_ptr<node::CommandIo> io_;
  const std::shared_ptr<rt::StopSource> gone_;
  Channel channel_ = Channel::Status;  // of the message whose frames come
  std::string control_;                // what has come of it, unless it is input
};

}  // namespace

Done ExecClient::check(const net::ServerRequest& request, std::string_view subresource) {
  if (!net::asks_for_websocket(request)) {
    return Error::make(Reason::BadRequest, "Upgrade request required: pods/" + std::string(subresource) +
                                               " is served over WebSockets (kubectl 1.30 and newer), not SPDY");
  }
  if (chosen_protocol(request).empty()) {
    return Error::make(Reason::BadRequest,
                       "pods/" + std::string(subresource) +
                           " is served in the WebSocket protocols v5.channel.k8s.io and v4.channel.k8s.io only");
  }
  return Ok{};
}

net::Headers ExecClient::headers(const net::ServerRequest& request) {
  return net::websocket_headers(request, chosen_protocol(request));
}

ExecClient::ExecClient(rt::Runtime& runtime, std::shared_ptr<net::Responder> responder, Options options,
                       const rt::StopToken& stop)
    : runtime_(runtime),
      responder_(std::move(responder)),
      gone_(std::make_shared<rt::StopSource>(runtime, stop)),
      io_(std::make_shared<node::CommandIo>(
          node::CommandIo::Options{.has_input = options.has_input,
                                   .has_terminal = options.has_terminal,
                                   .on_room = [weak = std::weak_ptr<net::Responder>(responder_)] {
                                     if (const auto alive = weak.lock()) alive->hold_bytes(false);
                                   }})) {}

void ExecClient::open(net::Headers headers) {
  responder_->on_close([gone = gone_] { gone->request_stop(); });
  responder_->on_drained(kBacklogBytesMax / 2, [io = io_] { io->hold_output(false); });
  auto listener = std::make_shared<Listener>(responder_, io_, gone_);
  responder_->on_bytes([listener](std::string_view bytes) { listener->take(bytes); });
  responder_->start(101, std::move(headers));
}

void ExecClient::write(node::OutputStream stream, std::string_view bytes) {
  const auto waiting = responder_->write(message(channel_of(stream), bytes));
  if (!waiting) return gone_->request_stop();
  if (*waiting <= kBacklogBytesMax) return;
  io_->hold_output(true);
  const auto now = responder_->write(std::make_shared<const std::string>());
  if (!now || *now <= kBacklogBytesMax / 2) io_->hold_output(false);  // it was drained before it was held
}

bool ExecClient::write_and_wait(node::OutputStream stream, std::string_view bytes) {
  auto waiting = responder_->write(message(channel_of(stream), bytes));
  while (waiting && *waiting > kBacklogBytesMax) {
    if (gone_->token().wait_for(runtime_, kBacklogPause)) return false;
    waiting = responder_->write(std::make_shared<const std::string>());
  }
  return waiting.has_value();
}

void ExecClient::finish(const Result<node::ProcessExit>& exit) {
  responder_->write(message(Channel::Status, status_of(exit)));
  responder_->write(std::make_shared<const std::string>(
      net::websocket_frame(net::WebSocketOpcode::Close, net::websocket_close(1000, ""))));
  responder_->finish();
}

}  // namespace basalt::cli
