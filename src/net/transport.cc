#include "net/transport.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "net/openssl_util.h"

namespace basalt::net {
namespace {

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(int fd) : fd_(fd) {}

  Outcome handshake() override { return Outcome::Done; }

  Moved read(char* buffer, std::size_t size) override {
    const ssize_t received = ::recv(fd_, buffer, size, 0);
    if (received > 0) return {.outcome = Outcome::Done, .bytes = static_cast<std::size_t>(received)};
    if (received == 0) return {.outcome = Outcome::Ended};
    return failure(Outcome::WantRead);
  }

  Moved write(OutputQueue& queue, char* /*scratch*/) override {
    std::array<std::string_view, kPiecesMax> pieces;
    std::array<iovec, kPiecesMax> vectors{};
    const std::size_t count = queue.peek(pieces.data(), pieces.size());
    for (std::size_t i = 0; i < count; ++i) {
      vectors[i] = {.iov_base = const_cast<char*>(pieces[i].data()), .iov_len = pieces[i].size()};
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0) return failure(Outcome::WantWrite);
    queue.consume(static_cast<std::size_t>(sent));
    return {.outcome = Outcome::Done, .bytes = static_cast<std::size_t>(sent)};
  }

  bool has_received() const override { return false; }
  void shut_down() override { ::shutdown(fd_, SHUT_WR); }
  std::string problem() const override { return std::strerror(error_); }

 private:
  static constexpr std::size_t kPiecesMax = 64;

  Moved failure(Outcome if_busy) {
    error_ = errno;
    const bool is_busy = error_ == EAGAIN || error_ == EWOULDBLOCK || error_ == EINTR;
    return {.outcome = is_busy ? if_busy : Outcome::Failed};
  }

  const int fd_;
  int error_ = 0;
};

// OpenSSL's own socket BIO would raise SIGPIPE when the peer is gone. The descriptor is the BIO's data pointer.
int bio_fd(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int bio_write(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(bio_fd(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = ::recv(bio_fd(bio), bytes, static_cast<std::size_t>(size), 0);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  if (received == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(received);
}

long bio_control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* socket_bio_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "basalt socket");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(SSL* ssl, int fd) : ssl_(ssl), fd_(fd) {
    // OpenSSL reads and writes the socket itself: no copy in between, and nothing held for an idle connection.
    BIO* bio = BIO_new(socket_bio_method());
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    SSL_set_accept_state(ssl_);
  }
  ~TlsTransport() override { SSL_free(ssl_); }
  TlsTransport(const TlsTransport&) = delete;
  TlsTransport& operator=(const TlsTransport&) = delete;

  Outcome handshake() override {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    return result == 1 ? Outcome::Done : failure(result).outcome;
  }

  Moved read(char* buffer, std::size_t size) override {
    std::size_t bytes = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_, buffer, size, &bytes);
    return result == 1 ? Moved{.outcome = Outcome::Done, .bytes = bytes} : failure(result);
  }

  Moved write(OutputQueue& queue, char* scratch) override {
    // After WantWrite OpenSSL wants the same bytes again, at least as many: the queue only grows at its end.
    const std::string_view bytes = queue.front(scratch, kScratchBytes);
    std::size_t written = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written);
    if (result != 1) return failure(result);
    queue.consume(written);
    return {.outcome = Outcome::Done, .bytes = written};
  }

  bool has_received() const override { return SSL_has_pending(ssl_) == 1; }

  void shut_down() override {
    ERR_clear_error();
    if (SSL_is_init_finished(ssl_) == 1 && problem_.empty()) SSL_shutdown(ssl_);
    ERR_clear_error();
    ::shutdown(fd_, SHUT_WR);
  }

  bool speaks_http2() const override {
    const unsigned char* name = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return std::string_view(reinterpret_cast<const char*>(name), size) == "h2";
  }

  std::string peer_certificate_pem() const override {
    X509* certificate = SSL_get0_peer_certificate(ssl_);
    return certificate == nullptr ? "" : certificate_to_pem(certificate).value_or("");
  }

  std::string problem() const override { return problem_; }

 private:
  Moved failure(int result) {
    switch (SSL_get_error(ssl_, result)) {
      case SSL_ERROR_WANT_READ:
        return {.outcome = Outcome::WantRead};
      case SSL_ERROR_WANT_WRITE:
        return {.outcome = Outcome::WantWrite};
      case SSL_ERROR_ZERO_RETURN:
        return {.outcome = Outcome::Ended};
      case SSL_ERROR_SYSCALL:
        problem_ = errno == 0 ? "the connection was closed" : std::strerror(errno);
        return {.outcome = Outcome::Failed};
      default:
        problem_ = take_openssl_error("TLS failure");
        return {.outcome = Outcome::Failed};
    }
  }

  SSL* const ssl_;
  const int fd_;
  std::string problem_;
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(int fd) { return std::make_unique<PlainTransport>(fd); }

std::unique_ptr<Transport> make_tls_transport(SSL* ssl, int fd) { return std::make_unique<TlsTransport>(ssl, fd); }

}  // namespace basalt::net
