#pragma once

// Helpers of this folder's tests: a server that misbehaves by script, a raw client, certificates for one hour.

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/certificates.h"
#include "rt/real_runtime.h"
#include "rt/runtime.h"

namespace basalt::net::testing {

using namespace std::chrono_literals;

// How long anything in a test may take before it counts as stuck; generous, because tests share their machine.
inline constexpr std::chrono::seconds kPatience{30};

// One end of a TCP connection, blocking, with a deadline on everything.
class RawConnection {
 public:
  explicit RawConnection(int fd) : fd_(fd) {}
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)), rest_(std::move(other.rest_)) {}
  RawConnection& operator=(RawConnection&&) = delete;
  ~RawConnection() { close(); }

  static RawConnection connect(std::uint16_t port) {
    RawConnection connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(0, ::connect(connection.fd_, reinterpret_cast<sockaddr*>(&address), sizeof address));
    const int on = 1;
    ::setsockopt(connection.fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connection;
  }

  // False if the peer is gone or does not take it in time.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      if (!poll_for(POLLOUT)) return false;
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // What comes up to and with `mark`; what came if the peer closes before.
  std::string read_until(std::string_view mark) {
    for (;;) {
      if (const std::size_t at = rest_.find(mark); at != std::string::npos) return take(at + mark.size());
      if (!receive()) return take(rest_.size());
    }
  }
  std::string read_exactly(std::size_t bytes) {
    while (rest_.size() < bytes && receive()) continue;
    return take(std::min(bytes, rest_.size()));
  }
  std::string read_to_end() {
    while (receive()) continue;
    return take(rest_.size());
  }
  // One HTTP/1.1 answer with Content-Length (or none): head and body.
  std::string read_response() {
    std::string text = read_until("\r\n\r\n");
    const std::size_t at = text.find("Content-Length: ");
    if (at != std::string::npos) text += read_exactly(static_cast<std::size_t>(std::atoll(text.c_str() + at + 16)));
    return text;
  }
  // True once the peer closed its end; what still comes is dropped.
  bool is_closed_by_peer() {
    while (receive()) rest_.clear();
    return is_ended_;
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void reset() {  // the peer gets RST
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void shrink_receive_buffer() {
    const int bytes = 4096;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  bool poll_for(short events) {
    pollfd entry{.fd = fd_, .events = events, .revents = 0};
    return ::poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
  }
  bool receive() {
    char buffer[16384];
    if (fd_ < 0 || is_ended_ || !poll_for(POLLIN)) return false;
    const ssize_t size = ::recv(fd_, buffer, sizeof buffer, 0);
    if (size <= 0) is_ended_ = true;
    if (size > 0) rest_.append(buffer, static_cast<std::size_t>(size));
    return size > 0;
  }
  std::string take(std::size_t bytes) {
    std::string out = rest_.substr(0, bytes);
    rest_.erase(0, bytes);
    return out;
  }

  int fd_;
  bool is_ended_ = false;
  std::string rest_;
};

// Accepts connections one after the other and hands each to the script.
class ScriptedServer {
 public:
  using Script = std::function<void(RawConnection&, int index)>;

  ScriptedServer(rt::Runtime& runtime, Script script)
      : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(0, ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size));
    EXPECT_EQ(0, ::listen(listener_, 64));
    EXPECT_EQ(0, ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size));
    port_ = ntohs(address.sin_port);
    thread_ = rt::Thread(runtime, "scripted", [this] { run(); });
  }
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url(std::string_view path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + std::string(path);
  }

 private:
  void run() {
    for (int index = 0;; ++index) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      RawConnection connection(fd);
      script_(connection, index);
    }
  }

  const Script script_;
  const int listener_;
  std::uint16_t port_ = 0;
  rt::Thread thread_;
};

// A folder of its own, gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = ::testing::TempDir() + "net_test.XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    const std::string command = "rm -rf '" + path_ + "'";
    EXPECT_EQ(0, std::system(command.c_str()));
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// An authority with a server and a client certificate for loopback.
class TestCertificates {
 public:
  explicit TestCertificates(rt::Runtime& runtime) : runtime_(runtime) {
    CertificateOptions options = lifetime();
    options.subject.common_name = "test authority";
    authority = make_authority(options).value();
    server = make_server("localhost", 1h);
    options = lifetime();
    options.subject = {.common_name = "jane", .organizations = {"developers", "admins"}};
    options.is_for_clients = true;
    client = issue_certificate(authority, options).value();
  }
  [[nodiscard]] KeyPair make_server(std::string name, rt::Duration valid_for) const {
    CertificateOptions options = lifetime();
    options.not_after = runtime_.wall_now() + valid_for;
    options.subject.common_name = name;
    options.dns_names = {std::move(name)};
    options.ip_addresses = {"127.0.0.1", "::1"};
    options.is_for_servers = true;
    return issue_certificate(authority, options).value();
  }

  KeyPair authority;
  KeyPair server;
  KeyPair client;

 private:
  [[nodiscard]] CertificateOptions lifetime() const {
    CertificateOptions options;
    options.not_before = runtime_.wall_now() - 1h;
    options.not_after = runtime_.wall_now() + 1h;
    return options;
  }
  rt::Runtime& runtime_;
};

}  // namespace basalt::net::testing
