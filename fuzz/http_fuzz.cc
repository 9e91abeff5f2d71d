#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "net/output_queue.h"
#include "net/server_exchange.h"
#include "net/session.h"

namespace {

using namespace basalt::net;

constexpr std::size_t kHeaderBytesMax = 2048;
constexpr std::size_t kBodyBytesMax = 4096;
constexpr std::string_view kHttp2Preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

// A connection without a socket: requests are answered at once, in one piece or as a stream, and remembered.
class MemoryHost final : public SessionHost {
 public:
  MemoryHost() : mailbox_(std::make_shared<Mailbox>([] {})) {
    limits_.body_bytes_max = kBodyBytesMax;
    limits_.header_bytes_max = kHeaderBytesMax;
    limits_.streams_max = 10;
    limits_.header_timeout = limits_.body_timeout = limits_.idle_timeout = std::chrono::seconds(10);
    limits_.write_timeout = std::chrono::seconds(10);
  }

  const SessionLimits& limits() const override { return limits_; }
  const PeerInfo& peer() const override { return peer_; }
  basalt::rt::Instant now() const override { return {}; }
  std::string_view date() const override { return "Thu, 01 Jan 1970 00:00:00 GMT"; }
  OutputQueue& output() override { return output_; }
  const std::shared_ptr<Mailbox>& mailbox() const override { return mailbox_; }
  void write_soon() override {}
  void close_after_output(bool /*may_client_send*/) override { is_closed_ = true; }
  void close_at_once() override { is_closed_ = true; }

  bool has_room_for(std::size_t /*body_bytes*/) override { return true; }
  bool dispatch(std::shared_ptr<const ServerRequest> request, std::shared_ptr<Exchange> exchange) override {
    BASALT_CHECK(request->body.size() <= kBodyBytesMax);
    BASALT_CHECK(request->path.starts_with('/') || request->path == "*");
    std::size_t header_bytes = 0;
    for (const auto& [name, value] : request->headers) header_bytes += name.size() + value.size();
    BASALT_CHECK(header_bytes <= kHeaderBytesMax);
    seen_.push_back(request->method + " " + request->path + "?" + request->query + "\n" + request->body);
    if (request->path == "/full") return false;
    const auto responder = make_responder(std::move(exchange));
    if (request->path == "/stream") {
      responder->start(200, request->headers);
      responder->write(std::make_shared<const std::string>(request->body));
      responder->finish();
    } else if (request->path != "/drop") {
      responder->respond(200, request->headers, request->body);
    }
    return true;
  }

  // Feeds the bytes in pieces of that size and lets the answers out in between.
  std::vector<std::string> run(Session& session, std::string_view bytes, std::size_t piece) {
    for (std::size_t at = 0; at < bytes.size() && !is_closed_; at += piece) {
      session.take_bytes(bytes.substr(at, piece));
      settle(session);
    }
    if (!is_closed_) session.take_end();
    settle(session);
    session.check_deadlines(basalt::rt::kNever);
    settle(session);
    session.abandon();
    return std::move(seen_);
  }

 private:
  void settle(Session& session) {
    for (int i = 0; i < 1000; ++i) {
      session.produce_output();
      output_.clear();
      std::vector<ResponseCommand> commands;
      mailbox_->take(commands);
      if (commands.empty()) return;
      for (ResponseCommand& command : commands) {
        if (command.exchange->session != nullptr) command.exchange->session->carry_out(command);
      }
    }
  }

  SessionLimits limits_;
  PeerInfo peer_;
  OutputQueue output_;
  std::shared_ptr<Mailbox> mailbox_;
  std::vector<std::string> seen_;
  bool is_closed_ = false;
};

std::vector<std::string> requests_of(bool is_http2, std::string_view bytes, std::size_t piece) {
  MemoryHost host;
  const auto session = is_http2 ? make_http2_session(host) : make_http1_session(host);
  return host.run(*session, bytes, piece);
}

}  // namespace

// The first byte chooses the protocol. However the bytes are cut, the requests are the same and within the limits. (The
// HTTP/2 library counts the pieces of a continued header as if each were a frame, so cut finely it may give up
// earlier.)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > (1u << 15)) return 0;
  const bool is_http2 = data[0] == '2';
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (is_http2) bytes.insert(0, kHttp2Preface);
  const auto whole = requests_of(is_http2, bytes, bytes.size());
  for (const std::size_t piece : {1, 7}) {
    auto cut = requests_of(is_http2, bytes, piece);
    // A header just over the limit may pass if it comes in one piece.
    if (!is_http2 && bytes.size() > kHeaderBytesMax) continue;
    BASALT_CHECK(cut.size() <= whole.size());
    if (is_http2) cut.insert(cut.end(), whole.begin() + static_cast<std::ptrdiff_t>(cut.size()), whole.end());
    BASALT_CHECK(cut == whole);
  }
  return 0;
}
