#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/strings.h"
#include "net/session.h"

namespace basalt::net {
namespace {

namespace http = boost::beast::http;
using Parser = http::request_parser<http::string_body>;
using Kind = ResponseCommand::Kind;

constexpr std::size_t kPipelinedBytesMax = 64u << 10;    // what a client may send ahead while a request is handled
constexpr std::size_t kUnreadOutputBytesMax = 1u << 20;  // a client that does not read its answers is not read either
constexpr std::size_t kCopyBytesMax = 4u << 10;          // a body up to this size is copied behind its head

bool has_no_body(int status) { return status == 204 || status == 304 || status < 200; }

// HTTP/1.0 and 1.1. One request at a time: what a client sends ahead waits in the buffer.
class Http1Session final : public Session {
 public:
  explicit Http1Session(SessionHost& host) : host_(host), deadline_(host.now() + host.limits().header_timeout) {}

  void take_bytes(std::string_view bytes) override;
  void take_end() override;
  bool wants_bytes() const override {
    return phase_ != Phase::Closing && buffer_.size() < kPipelinedBytesMax && !is_held();
  }
  void carry_out(ResponseCommand& command) override;
  void produce_output() override;
  void check_deadlines(rt::Instant now) override;
  void stop() override;
  void abandon() override;

 private:
  enum class Phase : unsigned char { Idle, Head, Body, Dropping, Handling, Closing };

  bool may_parse() const {
    return !exchange_ && phase_ != Phase::Closing && host_.output().bytes() < kUnreadOutputBytesMax;
  }
  bool is_held() const { return is_upgraded_ && exchange_ && exchange_->holds_bytes(); }
  std::size_t parse(std::string_view input);
  bool parse_some(std::string_view& input);  // false: it needs more bytes
  void begin_request();
  void end_head();
  void dispatch();
  void refuse_before_body(bool may_body_stay_away);
  void refuse(int status);
  void refuse(const boost::beast::error_code& error);

  void send_head(int status, const Headers& headers, std::optional<std::size_t> length);
  void send_answer(int status, const Headers& headers, const std::shared_ptr<const std::string>& body);
  void start_stream(int status, const Headers& headers);
  void end_stream();
  void end_exchange();
  void begin_waiting();
  void close(bool may_client_send = false);

  SessionHost& host_;
  Phase phase_ = Phase::Idle;
  rt::Instant deadline_;
  bool is_stopping_ = false;
  bool has_ended_ = false;  // the client sends no more
  std::string buffer_;      // received and not yet parsed
  std::optional<Parser> parser_;

  // Of the request that is handled.
  std::shared_ptr<Exchange> exchange_;
  bool is_kept_alive_ = true;
  bool is_head_request_ = false;
  bool is_http10_ = false;
  bool is_streaming_ = false;
  bool is_chunked_ = false;
  bool is_upgraded_ = false;  // bytes both ways, until the connection closes
  bool has_body_ = true;
  std::vector<std::shared_ptr<const std::string>> pieces_;  // the next chunk
};

void Http1Session::take_bytes(std::string_view bytes) {
  if (phase_ == Phase::Closing) return;
  if (is_upgraded_) {
    if (exchange_) exchange_->take_bytes(bytes);
    return;
  }
  if (buffer_.empty()) {
    buffer_ = bytes.substr(parse(bytes));
    return;
  }
  buffer_.append(bytes);
  buffer_.erase(0, parse(buffer_));
}

// Parses and dispatches as far as it goes; returns how many bytes are used up.
std::size_t Http1Session::parse(std::string_view input) {
  const std::size_t size = input.size();
  while (may_parse() && parse_some(input)) continue;
  return size - input.size();
}

bool Http1Session::parse_some(std::string_view& input) {
  if (phase_ == Phase::Idle) {
    // Empty lines before a request are to be ignored.
    input.remove_prefix(std::min(input.find_first_not_of("\r\n"), input.size()));
    if (input.empty()) return false;
    begin_request();
  }
  if (input.empty()) return false;
  boost::beast::error_code error;
  input.remove_prefix(parser_->put(boost::asio::const_buffer(input.data(), input.size()), error));
  if (error == http::error::need_more) error = {};
  if (error) {
    refuse(error);
    return false;
  }
  if (phase_ == Phase::Head && parser_->is_header_done()) end_head();
  if (phase_ == Phase::Dropping) parser_->get().body().clear();
  if (phase_ != Phase::Body && phase_ != Phase::Dropping) return false;
  if (!parser_->is_done()) return false;
  if (phase_ == Phase::Body) {
    dispatch();
  } else {
    begin_waiting();
  }
  return true;
}

void Http1Session::begin_request() {
  phase_ = Phase::Head;
  deadline_ = host_.now() + host_.limits().header_timeout;
  parser_.emplace();
  parser_->eager(true);
  parser_->header_limit(static_cast<std::uint32_t>(host_.limits().header_bytes_max));
  parser_->body_limit(host_.limits().body_bytes_max);
}

void Http1Session::end_head() {
  phase_ = Phase::Body;
  deadline_ = host_.now() + host_.limits().body_timeout;
  if (parser_->is_done()) return;
  const bool is_body_asked_for =
      base::equals_ignore_case_ascii(std::string_view(parser_->get()[http::field::expect]), "100-continue");
  if (!host_.has_room_for(parser_->content_length().value_or(0))) return refuse_before_body(is_body_asked_for);
  if (is_body_asked_for) host_.output().append("HTTP/1.1 100 Continue\r\n\r\n");
}

// Too many wait: the answer goes out at once. The body is dropped as it comes, and then the connection serves the next
// request: making a new one would cost both sides more.
void Http1Session::refuse_before_body(bool may_body_stay_away) {
  auto& message = parser_->get();
  is_kept_alive_ = message.keep_alive() && !is_stopping_ && !may_body_stay_away;
  is_http10_ = message.version() != 11;
  is_head_request_ = message.method() == http::verb::head;
  const std::string text = refusal_text(429);
  send_head(429, refusal_headers(429), text.size());
  if (!is_head_request_) host_.output().append(text);
  if (!is_kept_alive_) return close(/*may_client_send=*/true);
  message.body() = {};
  phase_ = Phase::Dropping;
}

void Http1Session::dispatch() {
  auto request = std::make_shared<ServerRequest>();
  auto& message = parser_->get();
  request->method = message.method_string();
  for (const auto& field : message) {
    request->headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  request->peer_address = host_.peer().address;
  request->peer_certificate_pem = host_.peer().certificate_pem;
  const bool is_http11 = message.version() == 11;
  const bool is_valid = split_target(message.target(), *request) && (is_http11 || message.version() == 10) &&
                        !(is_http11 && find_header(request->headers, "Host").empty());
  if (!is_valid) return refuse(400);
  request->body = std::move(message.body());

  is_kept_alive_ = message.keep_alive() && !is_stopping_ && !has_ended_;
  is_head_request_ = request->method == "HEAD";
  is_http10_ = !is_http11;
  is_streaming_ = false;
  parser_.reset();
  phase_ = Phase::Handling;
  deadline_ = rt::kNever;
  exchange_ = std::make_shared<Exchange>(host_.mailbox());
  exchange_->session = this;
  if (!host_.dispatch(std::move(request), exchange_)) {
    send_answer(429, refusal_headers(429), std::make_shared<const std::string>(refusal_text(429)));
  }
}

void Http1Session::refuse(const boost::beast::error_code& error) {
  if (error == http::error::header_limit) return refuse(431);
  if (error == http::error::body_limit) return refuse(413);
  refuse(400);
}

// An answer of our own to a request that is not taken; the rest of what the client sends cannot be trusted.
void Http1Session::refuse(int status) {
  is_kept_alive_ = false;
  is_http10_ = false;
  is_head_request_ = false;
  const std::string text = refusal_text(status);
  send_head(status, refusal_headers(status), text.size());
  host_.output().append(text);
  close(/*may_client_send=*/true);
}

void Http1Session::take_end() {
  has_ended_ = true;
  if (phase_ == Phase::Closing) return;
  if (!exchange_ || is_streaming_) {
    close();
    host_.close_at_once();
    return;
  }
  // A client that has only closed its sending side still gets its answer; most are gone, so the handler is told.
  is_kept_alive_ = false;
  exchange_->tell_gone();
}

void Http1Session::carry_out(ResponseCommand& command) {
  if (command.exchange != exchange_) return;
  host_.write_soon();
  switch (command.kind) {
    case Kind::Respond:
      send_answer(command.status, command.headers, command.bytes);
      break;
    case Kind::Start:
      start_stream(command.status, command.headers);
      break;
    case Kind::Write:
      pieces_.push_back(std::move(command.bytes));
      return;
    case Kind::Finish:
      end_stream();
      break;
    case Kind::Abort:
      close();
      host_.close_at_once();
      return;
    case Kind::TellClosed:
      exchange_->tell_gone();
      return;
    case Kind::ReadOn:
      return;  // writing soon also reads on
  }
}

void Http1Session::send_head(int status, const Headers& headers, std::optional<std::size_t> length) {
  std::string head;
  head.reserve(256);
  auto out = std::back_inserter(head);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\nDate: {}\r\n", status, reason_phrase(status), host_.date());
  for (const auto& [name, value] : headers) {
    if (is_sendable_header(name)) fmt::format_to(out, "{}: {}\r\n", name, sendable_header_value(value));
  }
  if (length && (*length > 0 || !has_no_body(status))) fmt::format_to(out, "Content-Length: {}\r\n", *length);
  if (is_chunked_ && !length) head += "Transfer-Encoding: chunked\r\n";
  if (is_upgraded_) {
    head += "Connection: Upgrade\r\n";
  } else if (!is_kept_alive_) {
    head += "Connection: close\r\n";
  } else if (is_http10_) {
    head += "Connection: keep-alive\r\n";
  }
  head += "\r\n";
  host_.output().append(head);
}

void Http1Session::send_answer(int status, const Headers& headers, const std::shared_ptr<const std::string>& body) {
  if (has_ended_ || is_stopping_) is_kept_alive_ = false;
  if (has_no_body(status)) {
    send_head(status, headers, 0);
  } else {
    send_head(status, headers, body->size());
    if (is_head_request_) {
      // The length without the body.
    } else if (body->size() <= kCopyBytesMax) {
      host_.output().append(*body);
    } else {
      host_.output().append(body, nullptr);
    }
  }
  end_exchange();
}

void Http1Session::start_stream(int status, const Headers& headers) {
  if (has_ended_) {
    close();
    host_.close_at_once();
    return;
  }
  is_streaming_ = true;
  is_upgraded_ = status == 101;
  has_body_ = is_upgraded_ || (!is_head_request_ && !has_no_body(status));
  is_chunked_ = has_body_ && !is_http10_ && !is_upgraded_;
  if (is_upgraded_) is_kept_alive_ = false;
  if (is_stopping_ || (has_body_ && is_http10_)) is_kept_alive_ = false;
  send_head(status, headers, std::nullopt);
  if (is_upgraded_ && !buffer_.empty()) {  // sent ahead
    const std::string bytes = std::exchange(buffer_, {});
    exchange_->take_bytes(bytes);
  }
  if (is_stopping_) {
    exchange_->tell_gone();
    end_stream();
  }
}

void Http1Session::produce_output() {
  // What the client sent ahead has its turn when the last exchange is over and its answer on the way.
  if (phase_ == Phase::Idle && !buffer_.empty() && may_parse()) {
    const std::size_t used = parse(buffer_);
    buffer_.erase(0, used);
  }
  if (pieces_.empty()) return;
  std::size_t bytes = 0;
  for (const auto& piece : pieces_) bytes += piece->size();
  if (!exchange_ || !has_body_) {
    if (exchange_) exchange_->subtract_waiting(bytes);
    pieces_.clear();
    return;
  }
  OutputQueue& output = host_.output();
  if (is_chunked_) output.append(fmt::format("{:x}\r\n", bytes));
  for (auto& piece : pieces_) output.append(std::move(piece), exchange_);
  pieces_.clear();
  if (is_chunked_) output.append("\r\n");
}

void Http1Session::end_stream() {
  produce_output();
  if (is_chunked_) host_.output().append("0\r\n\r\n");
  end_exchange();
}

void Http1Session::end_exchange() {
  const std::shared_ptr<Exchange> exchange = std::move(exchange_);
  exchange_ = nullptr;
  exchange->session = nullptr;
  exchange->set_answered();
  is_streaming_ = false;
  is_chunked_ = false;
  // A client that speaks has to be heard out, or it loses our last words.
  if (!is_kept_alive_) return close(/*may_client_send=*/std::exchange(is_upgraded_, false));
  begin_waiting();
}

void Http1Session::begin_waiting() {
  parser_.reset();
  phase_ = Phase::Idle;
  deadline_ = host_.now() + host_.limits().idle_timeout;
}

void Http1Session::close(bool may_client_send) {
  phase_ = Phase::Closing;
  deadline_ = rt::kNever;
  buffer_.clear();
  parser_.reset();
  host_.close_after_output(may_client_send);
}

void Http1Session::check_deadlines(rt::Instant now) {
  if (is_held() && host_.has_client_ended()) return take_end();  // which reading would have found
  if (now < deadline_) return;
  if (phase_ == Phase::Idle) {
    close();
  } else if (phase_ == Phase::Dropping) {  // it has its answer
    close(/*may_client_send=*/true);
  } else {
    refuse(408);
  }
}

void Http1Session::stop() {
  is_stopping_ = true;
  if (phase_ == Phase::Idle) return close();
  if (phase_ == Phase::Dropping) return close(/*may_client_send=*/true);
  if (!exchange_) return;
  is_kept_alive_ = false;
  if (!is_streaming_) return;
  exchange_->tell_gone();
  end_stream();
}

void Http1Session::abandon() {
  if (!exchange_) return;
  const std::shared_ptr<Exchange> exchange = std::move(exchange_);
  exchange_ = nullptr;
  exchange->session = nullptr;
  exchange->tell_gone();
}

}  // namespace

std::unique_ptr<Session> make_http1_session(SessionHost& host) { return std::make_unique<Http1Session>(host); }

}  // namespace basalt::net
