#include "cli/up/port_forward_client.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace basalt::cli {
namespace {

constexpr std::string_view kProtocol = "portforward.k8s.io";
constexpr std::string_view kWebSocketProtocol = "SPDY/3.1+portforward.k8s.io";
constexpr std::string_view kChannelProtocol = "v4.channel.k8s.io";
constexpr std::string_view kSpdy = "SPDY/3.1";
constexpr std::string_view kProtocolHeader = "X-Stream-Protocol-Version";
constexpr std::uint32_t kPingNumber = 2;  // those of a server are even

// Whether one of the values of a header, in one line or in several, is this one.
bool offers(const net::ServerRequest& request, std::string_view header, std::string_view wanted) {
  for (const auto& [name, value] : request.headers) {
    if (!base::equals_ignore_case_ascii(name, header)) continue;
    for (const std::string_view offered : base::split(value, ',')) {
      if (base::equals_ignore_case_ascii(base::trim(offered), wanted)) return true;
    }
  }
  return false;
}

Error refusal(std::string_view text) { return Error::make(Reason::BadRequest, std::string(text)); }

// 0 if it is none.
std::uint16_t parse_port(std::string_view text) {
  const auto number = base::parse_int64(text);
  return number && *number > 0 && *number < 65536 ? static_cast<std::uint16_t>(*number) : std::uint16_t{0};
}

// "?ports=80&ports=443" or "?ports=80,443".
Result<std::vector<std::uint16_t>> ports_of(const net::Query& query) {
  std::vector<std::uint16_t> ports;
  for (const auto& [name, value] : query) {
    if (name != "ports") continue;
    for (const std::string_view text : base::split(value, ',')) {
      ports.push_back(parse_port(text));
      if (ports.back() == 0) return refusal("ports: " + base::quote(text) + " is not a port; it takes 1 to 65535");
    }
  }
  if (ports.empty()) return refusal("ports: none is given; name them in the query, as in ?ports=8080");
  if (ports.size() > PortForwardClient::kPortsMax)
    return refusal("ports: there are more than " + std::to_string(PortForwardClient::kPortsMax));
  return ports;
}

}  // namespace

Result<PortForwardClient::Upgrade> PortForwardClient::upgrade_of(const net::ServerRequest& request,
                                                                 const net::Query& query) {
  if (net::asks_for_websocket(request)) {
    if (offers(request, "Sec-WebSocket-Protocol", kWebSocketProtocol))
      return Upgrade{net::websocket_headers(request, kWebSocketProtocol), Form::SpdyInMessages, {}};
    if (!offers(request, "Sec-WebSocket-Protocol", kChannelProtocol)) {
      return refusal(
          "pods/portforward is served in the WebSocket protocols SPDY/3.1+portforward.k8s.io and v4.channel.k8s.io "
          "only");
    }
    BASALT_TRY(std::vector<std::uint16_t> ports, ports_of(query));
    return Upgrade{net::websocket_headers(request, kChannelProtocol), Form::Channels, std::move(ports)};
  }
  if (request.http2 || !offers(request, "Upgrade", kSpdy) || !offers(request, "Connection", "upgrade"))
    return refusal("Upgrade request required: pods/portforward is served over WebSockets and SPDY/3.1");
  if (!offers(request, kProtocolHeader, kProtocol))
    return refusal("pods/portforward is served in the protocol portforward.k8s.io only (X-Stream-Protocol-Version)");
  return Upgrade{
      {{"Upgrade", std::string(kSpdy)}, {std::string(kProtocolHeader), std::string(kProtocol)}}, Form::Spdy, {}};
}

PortForwardClient::PortForwardClient(rt::Runtime& runtime, std::shared_ptr<net::Responder> responder,
                                     net::TcpDialer& dialer, Target target, const rt::StopToken& stop)
    : responder_(std::move(responder)),
      dialer_(dialer),
      target_(std::move(target)),
      gone_(std::make_shared<rt::StopSource>(runtime, stop)) {}

void PortForwardClient::open(Upgrade upgrade) {
  form_ = upgrade.form;
  responder_->on_close([gone = gone_] { gone->request_stop(); });
  responder_->on_bytes([weak = weak_from_this()](std::string_view bytes) {
    if (const auto self = weak.lock()) self->take(bytes);
  });
  responder_->on_drained(kBacklogBytesMax / 2, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    rt::MutexLock lock(self->mutex_);
    for (const auto& [request, forward] : self->requests_) {
      if (forward->connection) forward->connection->hold(false);
    }
  });
  if (form_ != Form::Channels) return responder_->start(101, std::move(upgrade.headers));
  responder_->hold_bytes(true);  // until the channels are there
  responder_->start(101, std::move(upgrade.headers));
  open_channels(upgrade.ports);
  responder_->hold_bytes(false);
}

void PortForwardClient::open_channels(const std::vector<std::uint16_t>& ports) {
  std::vector<ForwardRef> all;
  {
    rt::MutexLock lock(mutex_);
    for (const std::uint16_t port : ports) {
      auto forward = std::make_shared<Forward>();
      forward->data_stream = last_stream_ + 1;
      forward->error_stream = last_stream_ + 2;
      last_stream_ += 2;
      forward->request = std::to_string(forward->data_stream);
      forward->port = port;
      streams_[forward->data_stream] = streams_[forward->error_stream] = requests_[forward->request] = forward;
      all.push_back(forward);
    }
    is_leaving_ = true;
  }
  for (const ForwardRef& forward : all) {
    const char number[] = {static_cast<char>(forward->port & 0xff), static_cast<char>(forward->port >> 8)};
    for (const std::uint32_t stream : {forward->data_stream, forward->error_stream})
      write_data(stream, std::string_view(number, sizeof number), false);
    connect(forward);
  }
}

void PortForwardClient::ping() {
  if (form_ == Form::Channels) return write_message(net::WebSocketOpcode::Ping, "");
  write(net::spdy_ping(kPingNumber));
}

void PortForwardClient::finish(std::string_view why) {
  std::vector<Forward> all;
  std::string fault;
  std::uint32_t last_stream = 0;
  {
    rt::MutexLock lock(mutex_);
    is_over_ = true;
    for (const auto& [request, forward] : requests_) all.push_back(*forward);
    streams_.clear();
    requests_.clear();
    last_stream = last_stream_;
    fault = fault_;
  }
  if (!fault.empty()) why = fault;
  for (const Forward& forward : all) {
    if (forward.connection) forward.connection->close();  // connect() closes one that is being made
    write_data(forward.error_stream, why, true);
    if (forward.data_stream != 0) write_data(forward.data_stream, "", true);
  }
  if (form_ != Form::Channels) write(net::spdy_go_away(last_stream));
  if (form_ != Form::Spdy)
    write_message(net::WebSocketOpcode::Close, net::websocket_close(fault.empty() ? 1000 : 1002, fault));
  responder_->finish();
}

void PortForwardClient::write_message(net::WebSocketOpcode opcode, std::string_view payload) {
  responder_->write(std::make_shared<const std::string>(net::websocket_frame(opcode, payload)));
}

std::optional<std::size_t> PortForwardClient::write(std::string_view spdy) {
  return responder_->write(std::make_shared<const std::string>(
      form_ == Form::Spdy ? std::string(spdy) : net::websocket_frame(net::WebSocketOpcode::Binary, spdy)));
}

std::optional<std::size_t> PortForwardClient::write_data(std::uint32_t stream, std::string_view bytes, bool is_final) {
  if (form_ != Form::Channels) return write(net::spdy_data(stream, bytes, is_final));
  // That a channel ends cannot be said.
  if (bytes.empty()) return 0;
  std::string payload(1, static_cast<char>(stream - 1));
  return responder_->write(
      std::make_shared<const std::string>(net::websocket_frame(net::WebSocketOpcode::Binary, payload.append(bytes))));
}

void PortForwardClient::take(std::string_view bytes) {
  if (gone().stop_requested()) return;
  if (form_ == Form::Spdy) return take_spdy(bytes);
  const auto frames = websocket_.take(bytes);
  if (!frames.ok()) return break_off(frames.error());
  for (const auto& frame : *frames) take_message(frame);
}

void PortForwardClient::break_off(const Error& fault) {
  {
    rt::MutexLock lock(mutex_);
    fault_ = "the client broke the protocol: " + fault.message;
  }
  gone_->request_stop();
}

void PortForwardClient::take_message(const net::WebSocketReader::Frame& frame) {
  switch (frame.opcode) {
    case net::WebSocketOpcode::Binary:
    case net::WebSocketOpcode::Continuation:
    case net::WebSocketOpcode::Text:
      return form_ == Form::Channels ? take_channel(frame) : take_spdy(frame.payload);
    case net::WebSocketOpcode::Ping:
      return write_message(net::WebSocketOpcode::Pong, frame.payload);
    case net::WebSocketOpcode::Close:
      return gone_->request_stop();
    default:
      return;
  }
}

void PortForwardClient::take_channel(const net::WebSocketReader::Frame& frame) {
  std::string_view payload = frame.payload;
  if (frame.opcode != net::WebSocketOpcode::Continuation) {
    channel_.reset();
    if (payload.empty()) return;
    channel_ = static_cast<unsigned char>(payload.front());
    payload.remove_prefix(1);
  }
  if (channel_) pass_to_pod(std::uint32_t{*channel_} + 1, payload, false);
  hold_if_full();
}

void PortForwardClient::take_spdy(std::string_view bytes) {
  const auto frames = reader_.take(bytes);
  if (!frames.ok()) return break_off(frames.error());
  for (const auto& frame : *frames) take_frame(frame);
  hold_if_full();
}

void PortForwardClient::take_frame(const net::SpdyFrame& frame) {
  switch (frame.type) {
    case net::SpdyType::SynStream:
      return open_stream(frame);
    case net::SpdyType::Data:
      return pass_to_pod(frame.stream, frame.data, frame.is_final);
    case net::SpdyType::RstStream:
      return reset_stream(frame.stream);
    case net::SpdyType::Ping:
      if (frame.stream % 2 == 1) write(net::spdy_ping(frame.stream));  // the others are answers to ours
      return;
    case net::SpdyType::GoAway: {
      {
        rt::MutexLock lock(mutex_);
        is_leaving_ = true;
      }
      return leave_after_last();
    }
    default:
      return;
  }
}

void PortForwardClient::open_stream(const net::SpdyFrame& frame) {
  const auto forward = add_stream(frame);
  if (!forward.ok()) {
    const bool is_one_too_many = forward.error().is(Reason::TooManyRequests);
    write(
        net::spdy_reset(frame.stream, is_one_too_many ? net::SpdyReset::RefusedStream : net::SpdyReset::ProtocolError));
    return;
  }
  write(writer_.syn_reply(frame.stream, {}));
  if ((*forward)->data_stream != frame.stream) return;
  connect(*forward);
  if (frame.is_final && (*forward)->connection) (*forward)->connection->end_output();
}

Result<PortForwardClient::ForwardRef> PortForwardClient::add_stream(const net::SpdyFrame& frame) {
  const std::string request(net::find_header(frame.headers, "requestid"));
  const std::string_view type = net::find_header(frame.headers, "streamtype");
  const std::uint16_t port = parse_port(net::find_header(frame.headers, "port"));
  if (request.empty() || port == 0 || (type != "error" && type != "data"))
    return refusal("a stream needs streamtype, port and requestid");
  rt::MutexLock lock(mutex_);
  if (is_over_ || streams_.contains(frame.stream)) return refusal("the stream is open already");
  const auto found = requests_.find(request);
  ForwardRef forward;
  if (type == "error") {
    if (found != requests_.end()) return refusal("the request has its stream of errors");
    if (requests_.size() >= kConnectionsMax) return Error::make(Reason::TooManyRequests, "too many connections");
    forward = std::make_shared<Forward>();
    forward->error_stream = frame.stream;
    forward->request = request;
    requests_[request] = forward;
  } else {
    if (found == requests_.end()) return refusal("the stream of errors comes first");
    forward = found->second;
    if (forward->data_stream != 0) return refusal("the request has its stream of data");
    forward->data_stream = frame.stream;
    forward->port = port;
  }
  streams_[frame.stream] = forward;
  last_stream_ = std::max(last_stream_, frame.stream);
  return forward;
}

void PortForwardClient::connect(const ForwardRef& forward) {
  const auto weak = weak_from_this();
  net::TcpEvents events;
  events.on_bytes = [weak, forward](std::string_view bytes) {
    if (const auto self = weak.lock()) self->pass_to_client(forward, bytes);
  };
  events.on_written = [weak] {
    if (const auto self = weak.lock()) self->read_on_if_room();
  };
  events.on_ended = [weak, forward](const Done& how) {
    if (const auto self = weak.lock()) self->end(forward, how);
  };
  auto connection = dialer_.dial(target_.address, forward->port, std::move(events));
  bool is_late = false;
  {
    rt::MutexLock lock(mutex_);
    is_late = is_over_;
    forward->connection = connection;
  }
  if (is_late) connection->close();
}

void PortForwardClient::pass_to_pod(std::uint32_t stream, std::string_view bytes, bool is_final) {
  const ForwardRef forward = find(stream);
  // On the stream of errors a client says nothing; on one that has ended its last words are too late.
  if (!forward || forward->data_stream != stream || !forward->connection) return;
  if (!bytes.empty()) forward->connection->write(std::string(bytes));
  if (is_final) forward->connection->end_output();
}

void PortForwardClient::reset_stream(std::uint32_t stream) {
  const ForwardRef forward = find(stream);
  if (!forward || !remove(forward)) return;
  if (forward->connection) forward->connection->close();
  const std::uint32_t other = stream == forward->data_stream ? forward->error_stream : forward->data_stream;
  if (other != 0) write_data(other, "", true);
  read_on_if_room();
  leave_after_last();
}

void PortForwardClient::pass_to_client(const ForwardRef& forward, std::string_view bytes) {
  const auto waiting = write_data(forward->data_stream, bytes, false);
  if (!waiting || *waiting <= kBacklogBytesMax) return;
  std::shared_ptr<net::TcpConnection> connection;
  {
    rt::MutexLock lock(mutex_);
    connection = forward->connection;
  }
  if (!connection) return;  // it is about to be known; the next piece will find it
  connection->hold(true);
  const auto now = responder_->write(std::make_shared<const std::string>());
  if (!now || *now <= kBacklogBytesMax / 2) connection->hold(false);  // it was drained before it was held
}

void PortForwardClient::end(const ForwardRef& forward, const Done& how) {
  if (!remove(forward)) return;
  const bool is_unreachable = !how.ok() && how.error().is(Reason::Unreachable);
  std::string text;
  if (is_unreachable) {
    text = "error forwarding port " + std::to_string(forward->port) + " to pod " + target_.pod +
           ": nobody answers at " + target_.address + ":" + std::to_string(forward->port) + " (" + how.error().message +
           "); its program has to listen there or at 0.0.0.0, and one at 127.0.0.1 is reached without forwarding";
  }
  write_data(forward->error_stream, text, true);
  // A program that broke its connection off breaks this one; it is no error of the forwarding, for which kubectl would
  // give up all the others.
  if (how.ok() || is_unreachable || form_ == Form::Channels) {
    write_data(forward->data_stream, "", true);
  } else {
    write(net::spdy_reset(forward->data_stream, net::SpdyReset::Cancel));
  }
  read_on_if_room();
  leave_after_last();
}

PortForwardClient::ForwardRef PortForwardClient::find(std::uint32_t stream) {
  rt::MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second;
}

bool PortForwardClient::remove(const ForwardRef& forward) {
  rt::MutexLock lock(mutex_);
  if (streams_.erase(forward->error_stream) == 0) return false;
  streams_.erase(forward->data_stream);
  requests_.erase(forward->request);
  return true;
}

void PortForwardClient::leave_after_last() {
  {
    rt::MutexLock lock(mutex_);
    if (!is_leaving_ || !requests_.empty()) return;
  }
  gone_->request_stop();
}

std::size_t PortForwardClient::bytes_for_pod_locked() const {
  std::size_t bytes = 0;
  for (const auto& [request, forward] : requests_) bytes += forward->connection ? forward->connection->waiting() : 0;
  return bytes;
}

bool PortForwardClient::is_backlog_above(std::size_t bytes) {
  rt::MutexLock lock(mutex_);
  return bytes_for_pod_locked() > bytes;
}

void PortForwardClient::hold_if_full() {
  {
    rt::MutexLock lock(mutex_);
    if (bytes_for_pod_locked() <= kBacklogBytesMax) return;
    is_held_ = true;
  }
  responder_->hold_bytes(true);
  if (!is_backlog_above(kBacklogBytesMax / 2)) responder_->hold_bytes(false);  // there was room again before
}

void PortForwardClient::read_on_if_room() {
  {
    rt::MutexLock lock(mutex_);
    if (!is_held_ || bytes_for_pod_locked() > kBacklogBytesMax / 2) return;
    is_held_ = false;
  }
  responder_->hold_bytes(false);
}

}  // namespace basalt::cli
