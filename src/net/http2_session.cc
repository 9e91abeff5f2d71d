#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "base/check.h"
#include "base/strings.h"
#include "net/session.h"

namespace basalt::net {
namespace {

using Kind = ResponseCommand::Kind;

constexpr std::size_t kOutputBytesMax = 128u << 10;      // queued for the socket; the rest stays with its stream
constexpr std::size_t kUnreadOutputBytesMax = 1u << 20;  // a client that does not read its answers is not read either
constexpr std::int32_t kStreamWindowBytes = 1 << 20;
constexpr std::size_t kConnectionWindowBytesMin = 16u << 20;  // bounds the bodies under way on one connection

// One request and its answer.
struct Stream {
  std::int32_t id = 0;
  std::shared_ptr<ServerRequest> request = std::make_shared<ServerRequest>();  // null after it was handed over
  std::string authority;
  std::string target;
  std::size_t header_bytes = 0;
  std::size_t held_window_bytes = 0;  // received but not yet given back to the connection's window
  bool has_head = false;
  bool has_request_ended = false;
  rt::Instant deadline = rt::kNever;  // for the rest of the request

  std::shared_ptr<Exchange> exchange;
  bool is_head_request = false;
  bool is_refused = false;
  bool is_streaming = false;
  bool is_answer_complete = false;  // nothing will be added to `pieces`
  bool is_deferred = false;         // the library waits for more of the body
  std::deque<std::shared_ptr<const std::string>> pieces;
  std::size_t piece_offset = 0;
  rt::Instant moved_at{};  // when the client last took some of the body
};

class Http2Session final : public Session {
 public:
  explicit Http2Session(SessionHost& host);
  ~Http2Session() override { nghttp2_session_del(session_); }
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  void take_bytes(std::string_view bytes) override;
  void take_end() override;
  bool wants_bytes() const override { return host_.output().bytes() < kUnreadOutputBytesMax; }
  void carry_out(ResponseCommand& command) override;
  void produce_output() override;
  void check_deadlines(rt::Instant now) override;
  void stop() override;
  void abandon() override;

 private:
  struct Callbacks;

  Stream* find(std::int32_t id);
  void begin_stream(std::int32_t id);
  void take_header(Stream& stream, std::string_view name, std::string_view value);
  void end_head(Stream& stream, bool is_request_complete);
  void take_body(Stream& stream, std::string_view bytes);
  void dispatch(Stream& stream);
  void end_of_stream(std::int32_t id);
  void give_back_window(Stream& stream);

  void refuse(Stream& stream, int status);
  void send_head(Stream& stream, int status, const Headers& headers, bool has_body);
  void send_answer(Stream& stream, int status, const Headers& headers, std::shared_ptr<const std::string> body);
  void add_piece(Stream& stream, std::shared_ptr<const std::string> piece);
  void complete(Stream& stream);
  ssize_t read_answer(Stream& stream, std::uint8_t* buffer, std::size_t size, std::uint32_t* flags);
  void reset(const Stream& stream, std::uint32_t code);
  void close_when_done();

  SessionHost& host_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Stream> streams_;
  rt::Instant idle_since_;
  bool had_request_ = false;
  bool is_stopping_ = false;
  bool is_broken_ = false;
};

// What the library calls; `user` is the session.
struct Http2Session::Callbacks {
  static Http2Session& self(void* user) { return *static_cast<Http2Session*>(user); }

  static int on_begin_headers(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      self(user).begin_stream(frame->hd.stream_id);
    }
    return 0;
  }

  static int on_header(nghttp2_session* /*session*/, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t /*flags*/,
                       void* user) {
    Stream* stream = self(user).find(frame->hd.stream_id);
    // Trailers come after the head and are of no use to anybody here.
    if (stream == nullptr || stream->has_head) return 0;
    self(user).take_header(*stream, {reinterpret_cast<const char*>(name), name_size},
                           {reinterpret_cast<const char*>(value), value_size});
    return 0;
  }

  static int on_frame_received(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Stream* stream = self(user).find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const bool is_last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !stream->has_head) {
      self(user).end_head(*stream, is_last);
    } else if (is_last) {
      self(user).dispatch(*stream);
    }
    return 0;
  }

  static int on_data(nghttp2_session* /*session*/, std::uint8_t /*flags*/, std::int32_t id, const std::uint8_t* data,
                     std::size_t size, void* user) {
    if (Stream* stream = self(user).find(id); stream != nullptr) {
      self(user).take_body(*stream, {reinterpret_cast<const char*>(data), size});
    } else {
      nghttp2_session_consume(self(user).session_, id, size);
    }
    return 0;
  }

  static int on_frame_sent(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    // A refused request may still be arriving; now that the client has the answer it can stop.
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    const Stream* stream = self(user).find(frame->hd.stream_id);
    if (stream != nullptr && stream->is_refused && !stream->has_request_ended) {
      self(user).reset(*stream, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static int on_stream_closed(nghttp2_session* /*session*/, std::int32_t id, std::uint32_t /*code*/, void* user) {
    self(user).end_of_stream(id);
    return 0;
  }

  static ssize_t read_answer(nghttp2_session* /*session*/, std::int32_t id, std::uint8_t* buffer, std::size_t size,
                             std::uint32_t* flags, nghttp2_data_source* /*source*/, void* user) {
    Stream* stream = self(user).find(id);
    return stream == nullptr ? static_cast<ssize_t>(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE)
                             : self(user).read_answer(*stream, buffer, size, flags);
  }

  static nghttp2_session* make_session(Http2Session* owner) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_option* option = nullptr;
    nghttp2_session* session = nullptr;
    BASALT_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_received);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_closed);
    nghttp2_option_set_no_auto_window_update(option, 1);
    BASALT_CHECK(nghttp2_session_server_new2(&session, callbacks, owner, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
  }
};

// 0 if it is not told.
std::size_t announced_bytes(const ServerRequest& request) {
  const std::string_view text = find_header(request.headers, "content-length");
  std::size_t bytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), bytes);
  return bytes;
}

nghttp2_nv name_value(std::string_view name, std::string_view value) {
  return {.name = reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          .value = reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = NGHTTP2_NV_FLAG_NONE};
}

Http2Session::Http2Session(SessionHost& host)
    : host_(host), session_(Callbacks::make_session(this)), idle_since_(host.now()) {
  const SessionLimits& limits = host_.limits();
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, static_cast<std::uint32_t>(limits.streams_max)},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<std::uint32_t>(kStreamWindowBytes)},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.header_bytes_max)},
  };
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  // The window of the connection is given back when a request is complete, so it bounds the bodies under way.
  const std::size_t window =
      std::min<std::size_t>(std::max(kConnectionWindowBytesMin, 2 * limits.body_bytes_max), NGHTTP2_MAX_WINDOW_SIZE);
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, static_cast<std::int32_t>(window));
}

Stream* Http2Session::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

void Http2Session::take_bytes(std::string_view bytes) {
  if (is_broken_) return;
  const ssize_t used =
      nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (used < 0) {
    is_broken_ = true;
    nghttp2_session_terminate_session(session_, NGHTTP2_PROTOCOL_ERROR);
  }
  close_when_done();
}

void Http2Session::take_end() { host_.close_at_once(); }

void Http2Session::begin_stream(std::int32_t id) {
  Stream& stream = streams_[id];
  stream.id = id;
  stream.deadline = host_.now() + host_.limits().header_timeout;
  stream.request->http2 = true;
  had_request_ = true;
}

void Http2Session::take_header(Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size() + 32;  // as RFC 9113 counts them
  if (stream.header_bytes > host_.limits().header_bytes_max) return;
  if (name == ":method") {
    stream.request->method = value;
  } else if (name == ":path") {
    stream.target = value;
  } else if (name == ":authority") {
    stream.authority = value;
  } else if (!name.starts_with(':')) {
    stream.request->headers.emplace_back(name, value);
  }
}

void Http2Session::end_head(Stream& stream, bool is_request_complete) {
  stream.has_head = true;
  stream.has_request_ended = is_request_complete;
  if (stream.header_bytes > host_.limits().header_bytes_max) return refuse(stream, 431);
  if (!split_target(stream.target, *stream.request)) return refuse(stream, 400);
  if (!stream.authority.empty() && find_header(stream.request->headers, "host").empty()) {
    stream.request->headers.emplace_back("host", std::move(stream.authority));
  }
  if (is_request_complete) return dispatch(stream);
  if (!host_.has_room_for(announced_bytes(*stream.request))) return refuse(stream, 429);
  stream.deadline = host_.now() + host_.limits().body_timeout;
  if (base::equals_ignore_case_ascii(find_header(stream.request->headers, "expect"), "100-continue")) {
    const nghttp2_nv status = name_value(":status", "100");
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream.id, nullptr, &status, 1, nullptr);
  }
}

void Http2Session::take_body(Stream& stream, std::string_view bytes) {
  nghttp2_session_consume_stream(session_, stream.id, bytes.size());
  stream.held_window_bytes += bytes.size();
  if (!stream.request) {  // refused: the rest is dropped
    give_back_window(stream);
    return;
  }
  if (stream.request->body.size() + bytes.size() > host_.limits().body_bytes_max) return refuse(stream, 413);
  stream.request->body.append(bytes);
}

void Http2Session::give_back_window(Stream& stream) {
  nghttp2_session_consume_connection(session_, std::exchange(stream.held_window_bytes, 0));
}

void Http2Session::dispatch(Stream& stream) {
  stream.has_request_ended = true;
  stream.deadline = rt::kNever;
  give_back_window(stream);
  if (!stream.request) return;
  const std::shared_ptr<ServerRequest> request = std::exchange(stream.request, nullptr);
  request->peer_address = host_.peer().address;
  request->peer_certificate_pem = host_.peer().certificate_pem;
  stream.is_head_request = request->method == "HEAD";
  stream.exchange = std::make_shared<Exchange>(host_.mailbox());
  stream.exchange->session = this;
  stream.exchange->stream_id = stream.id;
  if (!host_.dispatch(request, stream.exchange)) {
    send_answer(stream, 429, refusal_headers(429), std::make_shared<const std::string>(refusal_text(429)));
  }
}

// An answer of our own to a request that is not taken.
void Http2Session::refuse(Stream& stream, int status) {
  stream.is_refused = true;
  stream.request = nullptr;
  stream.deadline = rt::kNever;
  give_back_window(stream);
  send_answer(stream, status, refusal_headers(status), std::make_shared<const std::string>(refusal_text(status)));
}

void Http2Session::end_of_stream(std::int32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  give_back_window(found->second);
  const std::shared_ptr<Exchange> exchange = std::move(found->second.exchange);
  streams_.erase(found);
  if (streams_.empty()) idle_since_ = host_.now();
  if (!exchange) return;
  exchange->session = nullptr;
  exchange->tell_gone();  // does nothing if the answer was complete
}

void Http2Session::carry_out(ResponseCommand& command) {
  Stream* stream = find(command.exchange->stream_id);
  if (stream == nullptr || stream->exchange != command.exchange) return;
  host_.write_soon();
  switch (command.kind) {
    case Kind::Respond:
      send_answer(*stream, command.status, command.headers, std::move(command.bytes));
      break;
    case Kind::Start:
      stream->is_streaming = true;
      stream->moved_at = host_.now();
      send_head(*stream, command.status, command.headers, !stream->is_head_request && command.status != 204);
      if (!is_stopping_) break;
      stream->exchange->tell_gone();
      complete(*stream);
      break;
    case Kind::Write:
      add_piece(*stream, std::move(command.bytes));
      break;
    case Kind::Finish:
      complete(*stream);
      break;
    case Kind::Abort:
      reset(*stream, NGHTTP2_INTERNAL_ERROR);
      break;
    case Kind::TellClosed:
      stream->exchange->tell_gone();
      break;
    case Kind::ReadOn:
      break;  // only a connection of bytes is held
  }
}

void Http2Session::send_head(Stream& stream, int status, const Headers& headers, bool has_body) {
  // The library copies names and values; lower-case names live here until then.
  std::deque<std::string> texts;
  std::vector<nghttp2_nv> fields;
  const auto add = [&](std::string name, std::string value) {
    const std::string& kept_name = texts.emplace_back(std::move(name));
    const std::string& kept_value = texts.emplace_back(std::move(value));
    fields.push_back(name_value(kept_name, kept_value));
  };
  add(":status", std::to_string(status));
  add("date", std::string(host_.date()));
  for (const auto& [name, value] : headers) {
    if (is_sendable_header(name)) add(base::to_lower_ascii(name), sendable_header_value(value));
  }
  if (stream.is_answer_complete && status != 204) {
    std::size_t length = 0;
    for (const auto& piece : stream.pieces) length += piece->size();
    add("content-length", std::to_string(length));
  }
  if (!has_body) stream.pieces.clear();
  const nghttp2_data_provider provider{.source = {.ptr = nullptr}, .read_callback = Callbacks::read_answer};
  const bool has_data = has_body && !(stream.is_answer_complete && stream.pieces.empty());
  nghttp2_submit_response(session_, stream.id, fields.data(), fields.size(), has_data ? &provider : nullptr);
}

void Http2Session::send_answer(Stream& stream, int status, const Headers& headers,
                               std::shared_ptr<const std::string> body) {
  stream.moved_at = host_.now();
  stream.is_answer_complete = true;
  if (!body->empty()) stream.pieces.push_back(std::move(body));
  send_head(stream, status, headers, !stream.is_head_request && status != 204 && status != 304);
  if (stream.exchange) stream.exchange->set_answered();
}

void Http2Session::add_piece(Stream& stream, std::shared_ptr<const std::string> piece) {
  if (stream.is_answer_complete || stream.is_head_request) {
    stream.exchange->subtract_waiting(piece->size());
    return;
  }
  if (stream.pieces.empty()) stream.moved_at = host_.now();
  stream.pieces.push_back(std::move(piece));
  if (std::exchange(stream.is_deferred, false)) nghttp2_session_resume_data(session_, stream.id);
}

void Http2Session::complete(Stream& stream) {
  stream.is_answer_complete = true;
  stream.exchange->set_answered();
  if (std::exchange(stream.is_deferred, false)) nghttp2_session_resume_data(session_, stream.id);
}

ssize_t Http2Session::read_answer(Stream& stream, std::uint8_t* buffer, std::size_t size, std::uint32_t* flags) {
  std::size_t filled = 0;
  while (filled < size && !stream.pieces.empty()) {
    const std::string_view piece = std::string_view(*stream.pieces.front()).substr(stream.piece_offset);
    const std::size_t part = std::min(piece.size(), size - filled);
    std::memcpy(buffer + filled, piece.data(), part);
    filled += part;
    stream.piece_offset += part;
    if (part == piece.size()) {
      stream.pieces.pop_front();
      stream.piece_offset = 0;
    }
  }
  if (filled > 0) {
    stream.moved_at = host_.now();
    if (stream.is_streaming) stream.exchange->subtract_waiting(filled);
  }
  if (stream.pieces.empty() && stream.is_answer_complete) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  } else if (filled == 0) {
    stream.is_deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return static_cast<ssize_t>(filled);
}

void Http2Session::reset(const Stream& stream, std::uint32_t code) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, code);
}

void Http2Session::produce_output() {
  while (host_.output().bytes() < kOutputBytesMax) {
    const std::uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) {
      host_.close_at_once();
      return;
    }
    if (size == 0) break;
    host_.output().append({reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)});
  }
  close_when_done();
}

void Http2Session::close_when_done() {
  const bool is_over = nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
  const bool has_stopped = is_stopping_ && streams_.empty() && nghttp2_session_want_write(session_) == 0;
  if (is_over || has_stopped || (is_broken_ && nghttp2_session_want_write(session_) == 0)) {
    host_.close_after_output(/*may_client_send=*/true);
  }
}

void Http2Session::check_deadlines(rt::Instant now) {
  const SessionLimits& limits = host_.limits();
  if (streams_.empty() && !is_stopping_) {
    const rt::Duration patience = had_request_ ? limits.idle_timeout : limits.header_timeout;
    if (now - idle_since_ >= patience) stop();
    return;
  }
  std::vector<std::int32_t> late;
  for (const auto& [id, stream] : streams_) {
    const bool is_stalled = !stream.pieces.empty() && now - stream.moved_at >= limits.write_timeout;
    if (now >= stream.deadline || is_stalled) late.push_back(id);
  }
  for (const std::int32_t id : late) {
    Stream* stream = find(id);
    if (stream == nullptr) continue;
    if (!stream->has_head) {
      // Until a header is complete nothing else can come on the connection.
      is_broken_ = true;
      nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
    } else if (now >= stream->deadline) {
      refuse(*stream, 408);
    } else {
      reset(*stream, NGHTTP2_CANCEL);
    }
  }
}

void Http2Session::stop() {
  if (std::exchange(is_stopping_, true)) return;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  for (auto& [id, stream] : streams_) {
    if (!stream.is_streaming || stream.is_answer_complete) continue;
    stream.exchange->tell_gone();
    complete(stream);
  }
}

void Http2Session::abandon() {
  std::map<std::int32_t, Stream> streams;
  streams.swap(streams_);
  for (auto& [id, stream] : streams) {
    if (!stream.exchange) continue;
    stream.exchange->session = nullptr;
    stream.exchange->tell_gone();
  }
}

}  // namespace

std::unique_ptr<Session> make_http2_session(SessionHost& host) { return std::make_unique<Http2Session>(host); }

}  // namespace basalt::net
