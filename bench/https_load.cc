#include "bench/https_load.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fcntl.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>

namespace basalt::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPatienceMs = 10'000;
constexpr std::size_t kTailBytes = 8;

bool use_identity(SSL_CTX* context, const LoadTarget& target) {
  if (target.certificate_pem.empty()) return true;
  BIO* certificate_bio = BIO_new_mem_buf(target.certificate_pem.data(), -1);
  BIO* key_bio = BIO_new_mem_buf(target.key_pem.data(), -1);
  X509* certificate = PEM_read_bio_X509(certificate_bio, nullptr, nullptr, nullptr);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(key_bio, nullptr, nullptr, nullptr);
  const bool used = certificate != nullptr && key != nullptr && SSL_CTX_use_certificate(context, certificate) == 1 &&
                    SSL_CTX_use_PrivateKey(context, key) == 1;
  X509_free(certificate);
  EVP_PKEY_free(key);
  BIO_free(certificate_bio);
  BIO_free(key_bio);
  return used;
}

int connected_socket(const LoadTarget& target) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found) != 0) return -1;
  int fd = ::socket(found->ai_family, SOCK_STREAM, 0);
  if (fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    ::close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  const int on = 1;
  if (fd >= 0) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace

// One connection and how far the answer on it has come.
struct HttpsLoad::Connection {
  int fd = -1;
  SSL* ssl = nullptr;
  Clock::time_point sent_at;
  bool is_busy = false;
  bool has_head = false;
  int status = 0;
  bool is_chunked = false;
  std::size_t body_left = 0;
  std::string head;                     // until it is complete
  std::array<char, kTailBytes> tail{};  // the last bytes of a chunked body
  std::string_view unread;              // of a stream, what came last
  bool is_broken = false;

  void begin() {
    is_busy = true;
    has_head = is_chunked = false;
    status = 0;
    body_left = 0;
    head.clear();
    tail.fill(0);
    sent_at = Clock::now();
  }

  // True when the answer is complete.
  bool take(std::string_view bytes) {
    if (!has_head) {
      const std::size_t before = head.size();
      head.append(bytes);
      const std::size_t end = head.find("\r\n\r\n");
      if (end == std::string::npos) return false;
      bytes.remove_prefix(end + 4 - before);
      head.resize(end);
      take_head();
    }
    if (is_chunked) {
      take_tail(bytes);
      return std::string_view(tail.data(), tail.size()).ends_with("0\r\n\r\n");
    }
    body_left -= std::min(body_left, bytes.size());
    return body_left == 0;
  }

 private:
  void take_head() {
    has_head = true;
    std::from_chars(head.data() + 9, head.data() + std::min<std::size_t>(head.size(), 12), status);
    std::transform(head.begin(), head.end(), head.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    is_chunked = head.find("\r\ntransfer-encoding: chunked") != std::string::npos;
    constexpr std::string_view kLength = "\r\ncontent-length: ";
    if (const auto at = head.find(kLength); at != std::string::npos) {
      const char* digits = head.data() + at + kLength.size();
      std::from_chars(digits, head.data() + head.size(), body_left);
    }
  }
  void take_tail(std::string_view bytes) {
    const std::size_t fresh = std::min(bytes.size(), tail.size());
    std::move(tail.begin() + static_cast<std::ptrdiff_t>(fresh), tail.end(), tail.begin());
    std::copy(bytes.end() - static_cast<std::ptrdiff_t>(fresh), bytes.end(),
              tail.end() - static_cast<std::ptrdiff_t>(fresh));
  }
};

double HttpsLoad::Outcome::percentile_us(double share) const {
  if (latency_us.empty()) return 0;
  return latency_us[std::min(latency_us.size() - 1,
                             static_cast<std::size_t>(share * static_cast<double>(latency_us.size())))];
}

HttpsLoad::HttpsLoad(const LoadTarget& target, int connections)
    : context_(SSL_CTX_new(TLS_client_method())), buffer_(64u << 10) {
  // The server is the one we started: it is not checked who it is.
  SSL_CTX_set_verify(context_, SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_read_ahead(context_, 1);
  SSL_CTX_set_mode(context_, SSL_MODE_RELEASE_BUFFERS);
  if (!use_identity(context_, target)) return;
  epoll_ = epoll_create1(0);
  for (int i = 0; i < connections; ++i) {
    if (connect(target)) continue;
    ::close(epoll_);
    epoll_ = -1;
    return;
  }
}

HttpsLoad::~HttpsLoad() {
  for (const auto& connection : connections_) {
    SSL_free(connection->ssl);
    if (connection->fd >= 0) ::close(connection->fd);
  }
  if (epoll_ >= 0) ::close(epoll_);
  SSL_CTX_free(context_);
}

bool HttpsLoad::connect(const LoadTarget& target) {
  auto connection = std::make_unique<Connection>();
  connection->fd = connected_socket(target);
  connection->ssl = SSL_new(context_);
  Connection& made = *connections_.emplace_back(std::move(connection));
  if (made.fd < 0 || SSL_set_fd(made.ssl, made.fd) != 1 || SSL_connect(made.ssl) != 1) return false;
  ::fcntl(made.fd, F_SETFL, O_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = connections_.size() - 1;
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, made.fd, &event) == 0;
}

bool HttpsLoad::send(Connection& connection, std::string_view request) {
  connection.begin();
  // A request fits into the socket's buffer, which is empty when it is sent.
  return SSL_write(connection.ssl, request.data(), static_cast<int>(request.size())) ==
         static_cast<int>(request.size());
}

// One portion; false if there is none now.
bool HttpsLoad::read(Connection& connection) {
  const int count = SSL_read(connection.ssl, buffer_.data(), static_cast<int>(buffer_.size()));
  if (count > 0) {
    connection.unread = {buffer_.data(), static_cast<std::size_t>(count)};
    bytes_ += connection.unread.size();
    return true;
  }
  connection.unread = {};
  connection.is_broken = SSL_get_error(connection.ssl, count) != SSL_ERROR_WANT_READ;
  return false;
}

HttpsLoad::Outcome HttpsLoad::run(std::span<const std::string> requests) {
  Outcome outcome;
  outcome.latency_us.reserve(requests.size());
  bytes_ = 0;
  std::size_t next = 0;
  std::size_t in_flight = 0;
  const auto begin = Clock::now();
  const auto send_next = [&](Connection& connection) {
    connection.is_busy = false;
    if (next == requests.size() || connection.is_broken) return;
    if (send(connection, requests[next++])) {
      ++in_flight;
    } else {
      ++outcome.failed;
      connection.is_broken = true;
    }
  };
  for (const auto& connection : connections_) send_next(*connection);
  std::array<epoll_event, 64> events{};
  while (in_flight > 0) {
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kPatienceMs);
    if (ready <= 0) break;
    for (int i = 0; i < ready; ++i) {
      Connection& connection = *connections_[events[static_cast<std::size_t>(i)].data.u64];
      while (connection.is_busy && read(connection)) {
        if (!connection.take(connection.unread)) continue;
        --in_flight;
        if (connection.status / 100 != 2) ++outcome.failed;
        outcome.latency_us.push_back(
            std::chrono::duration<double, std::micro>(Clock::now() - connection.sent_at).count());
        send_next(connection);
        break;  // there is nothing more before the next answer
      }
      if (!connection.is_broken) continue;
      epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.fd, nullptr);
      if (connection.is_busy) --in_flight, ++outcome.failed;
      connection.is_busy = false;
    }
  }
  outcome.failed += in_flight + (requests.size() - next);
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  outcome.bytes = bytes_;
  std::sort(outcome.latency_us.begin(), outcome.latency_us.end());
  return outcome;
}

bool HttpsLoad::open_streams(const std::string& request) {
  for (const auto& connection : connections_) {
    if (!send(*connection, request)) return false;
  }
  std::size_t missing = connections_.size();
  std::array<epoll_event, 64> events{};
  while (missing > 0) {
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kPatienceMs);
    if (ready <= 0) return false;
    for (int i = 0; i < ready; ++i) {
      Connection& connection = *connections_[events[static_cast<std::size_t>(i)].data.u64];
      while (read(connection)) {
        const bool had_head = connection.has_head;
        (void)connection.take(connection.unread);
        if (!had_head && connection.has_head) --missing;
      }
      if (connection.is_broken || (connection.has_head && connection.status != 200)) return false;
    }
  }
  return true;
}

bool HttpsLoad::read_streams(const std::function<bool(std::size_t, std::string_view)>& done) {
  std::array<epoll_event, 64> events{};
  while (true) {
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kPatienceMs);
    if (ready <= 0) return false;
    bool is_done = false;
    for (int i = 0; i < ready; ++i) {
      const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
      Connection& connection = *connections_[index];
      while (read(connection)) is_done = done(index, connection.unread) || is_done;
      if (connection.is_broken) return false;
    }
    if (is_done) return true;
  }
}

std::string http_request(std::string_view method, std::string_view target, std::string_view body) {
  std::string text(method);
  text.append(" ").append(target).append(" HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n");
  text.append("User-Agent: bench\r\n");
  if (!body.empty()) {
    text.append("Content-Type: application/json\r\nContent-Length: ")
        .append(std::to_string(body.size()))
        .append("\r\n");
  }
  return text.append("\r\n").append(body);
}

}  // namespace basalt::bench
