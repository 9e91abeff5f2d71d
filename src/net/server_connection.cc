#include <poll.h>

#include <boost/asio/post.hpp>

#include "base/check.h"
#include "net/server_loop.h"

namespace basalt::net {
namespace {

using boost::system::error_code;
using tcp = boost::asio::ip::tcp;

constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr int kReadsPerTurn = 8;                                 // then others have their turn
constexpr rt::Duration kDrainTimeout = std::chrono::seconds(2);  // for the client to read our last answer
constexpr rt::Duration kDrainTimeoutStopping = std::chrono::milliseconds(100);
constexpr std::size_t kDrainBytesMax = 16u << 20;

}  // namespace

Connection::Connection(ServerLoop& loop, tcp::socket socket, SSL* ssl, std::string peer_address)
    : loop_(loop),
      peer_{.address = std::move(peer_address), .certificate_pem = ""},
      socket_(std::move(socket)),
      transport_(ssl == nullptr ? make_plain_transport(socket_.native_handle())
                                : make_tls_transport(ssl, socket_.native_handle())),
      deadline_(loop.shared().runtime.now() + loop.shared().limits.header_timeout) {}

Connection::~Connection() { BASALT_DCHECK(phase_ == Phase::Closed); }

void Connection::start() { shake_hands(); }

void Connection::shake_hands() {
  switch (transport_->handshake()) {
    case Transport::Outcome::Done:
      break;
    case Transport::Outcome::WantRead:
      return wait_readable();
    case Transport::Outcome::WantWrite:
      return wait_writable();
    case Transport::Outcome::Ended:
    case Transport::Outcome::Failed:
      loop_.shared().log.debug("TLS handshake failed", {{"peer", peer_.address}, {"problem", transport_->problem()}});
      return close();
  }
  phase_ = Phase::Open;
  peer_.certificate_pem = transport_->peer_certificate_pem();
  if (transport_->speaks_http2()) session_ = make_http2_session(*this);
  read();
}

void Connection::read() {
  for (int turn = 0; phase_ == Phase::Open || phase_ == Phase::Draining; ++turn) {
    if (phase_ == Phase::Open && session_ && !session_->wants_bytes()) return;  // write() reads on when it does
    if (turn == kReadsPerTurn) {
      // What TLS has received already makes the socket readable for nobody.
      if (!transport_->has_received()) return wait_readable();
      boost::asio::post(loop_.io(), [self = shared_from_this()] { self->read(); });
      return;
    }
    const Transport::Moved moved = transport_->read(loop_.read_buffer(), ServerLoop::kReadBytes);
    switch (moved.outcome) {
      case Transport::Outcome::Done:
        take_bytes({loop_.read_buffer(), moved.bytes});
        // A read that did not fill the buffer has most likely emptied the socket; waiting finds out at no extra cost.
        if (phase_ != Phase::Closed && moved.bytes < ServerLoop::kReadBytes && !transport_->has_received()) {
          if (phase_ == Phase::Draining || !session_ || session_->wants_bytes()) wait_readable();
          return;
        }
        break;
      case Transport::Outcome::WantRead:
        return wait_readable();
      case Transport::Outcome::WantWrite:
        return wait_writable();
      case Transport::Outcome::Ended:
        return take_end();
      case Transport::Outcome::Failed:
        return close();
    }
  }
}

void Connection::take_bytes(std::string_view bytes) {
  if (phase_ == Phase::Draining) {
    drained_bytes_ += bytes.size();
    if (drained_bytes_ > kDrainBytesMax) close();
    return;
  }
  if (session_) {
    session_->take_bytes(bytes);
  } else {
    choose_session(bytes);
  }
  write();
}

bool Connection::has_client_ended() {
  // Not by reading: what the client sent before its end is not to be read yet.
  pollfd asked{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// Without an agreement by ALPN the first bytes tell: HTTP/2 starts with a line that no HTTP/1 request has.
void Connection::choose_session(std::string_view bytes) {
  first_bytes_.append(bytes);
  const std::size_t common = std::min(first_bytes_.size(), kHttp2Preface.size());
  const bool may_be_http2 = limits().streams_max > 0 && first_bytes_.compare(0, common, kHttp2Preface, 0, common) == 0;
  if (may_be_http2 && common < kHttp2Preface.size()) return;
  session_ = may_be_http2 ? make_http2_session(*this) : make_http1_session(*this);
  const std::string first = std::move(first_bytes_);
  first_bytes_ = {};
  session_->take_bytes(first);
}

void Connection::take_end() {
  if (phase_ == Phase::Draining || !session_) return close();
  session_->take_end();
  write();
}

void Connection::write_soon() {
  if (is_write_queued_) return;
  is_write_queued_ = true;
  loop_.write_soon(shared_from_this());
}

void Connection::write() {
  is_write_queued_ = false;
  if (phase_ != Phase::Open) return;
  bool is_blocked = false;
  while (phase_ == Phase::Open && !is_blocked && !must_close_at_once_) {
    if (session_) session_->produce_output();
    if (output_.empty()) break;
    const Transport::Moved moved = transport_->write(output_, loop_.write_scratch());
    switch (moved.outcome) {
      case Transport::Outcome::Done:
        write_deadline_ = rt::kNever;
        break;
      case Transport::Outcome::WantWrite:
        wait_writable();
        is_blocked = true;
        break;
      case Transport::Outcome::WantRead:
        wait_readable();
        is_blocked = true;
        break;
      case Transport::Outcome::Ended:
      case Transport::Outcome::Failed:
        return close();
    }
  }
  if (is_blocked && write_deadline_ == rt::kNever) write_deadline_ = now() + limits().write_timeout;
  after_session();
}

void Connection::after_session() {
  if (must_close_at_once_) return close();
  if (must_close_after_output_ && output_.empty()) return must_drain_ ? begin_draining() : close();
  // While it waits for a handler the session goes on reading, to notice that the client went away.
  if (phase_ == Phase::Open && !must_close_after_output_ && (!session_ || session_->wants_bytes())) {
    if (transport_->has_received()) {
      boost::asio::post(loop_.io(), [self = shared_from_this()] { self->read(); });
    } else {
      wait_readable();
    }
  }
}

// Says that we are done and reads on until the client is, too.
void Connection::begin_draining() {
  if (session_) session_->abandon();
  transport_->shut_down();
  phase_ = Phase::Draining;
  deadline_ = now() + (loop_.is_stopping() ? kDrainTimeoutStopping : kDrainTimeout);
  wait_readable();
}

void Connection::wait_readable() {
  if (is_waiting_readable_ || phase_ == Phase::Closed) return;
  is_waiting_readable_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->is_waiting_readable_ = false;
    if (!error) self->on_readable();
  });
}

void Connection::wait_writable() {
  if (is_waiting_writable_ || phase_ == Phase::Closed) return;
  is_waiting_writable_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const error_code& error) {
    self->is_waiting_writable_ = false;
    if (!error) self->on_writable();
  });
}

void Connection::on_readable() {
  if (phase_ == Phase::Closed) return;
  if (phase_ == Phase::Handshake) return shake_hands();
  read();
}

void Connection::on_writable() {
  if (phase_ == Phase::Closed) return;
  if (phase_ == Phase::Handshake) return shake_hands();
  write();
}

void Connection::check_deadlines(rt::Instant now) {
  if (phase_ == Phase::Closed) return;
  if (write_deadline_ <= now) {
    loop_.shared().log.debug("the client does not read, its connection is closed", {{"peer", peer_.address}});
    return close();
  }
  if (phase_ == Phase::Open && session_) {
    session_->check_deadlines(now);
    return write();
  }
  if (deadline_ <= now) close();
}

void Connection::begin_stop() {
  if (phase_ == Phase::Handshake || !session_) return close();
  if (phase_ == Phase::Draining) deadline_ = std::min(deadline_, now() + kDrainTimeoutStopping);
  if (phase_ != Phase::Open) return;
  session_->stop();
  write();
}

void Connection::close() {
  if (phase_ == Phase::Closed) return;
  const std::shared_ptr<Connection> self = shared_from_this();
  if (phase_ == Phase::Open && session_) session_->abandon();
  if (phase_ != Phase::Draining) transport_->shut_down();
  phase_ = Phase::Closed;
  output_.clear();
  error_code ignored;
  socket_.close(ignored);
  loop_.forget(*this);
}

}  // namespace basalt::net
