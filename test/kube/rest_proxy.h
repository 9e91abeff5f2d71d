#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace basalt::test {

// A TCP proxy on a loopback port between a client and a server, whose connections a test can cut. With several targets
// each new connection goes to the next one that takes it, as a Service does. Runs on one thread of its own until it is
// destroyed.
class TcpProxy {
 public:
  explicit TcpProxy(std::uint16_t target_port) : TcpProxy(std::vector<std::uint16_t>{target_port}) {}
  explicit TcpProxy(std::vector<std::uint16_t> target_ports) : target_ports_(std::move(target_ports)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return;
    if (::listen(listener_, 128) != 0) return;
    socklen_t length = sizeof(address);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~TcpProxy() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Every open connection is closed; new ones are served.
  void cut() { ++cuts_; }
  // While blocked, connections are accepted and closed at once, and open ones are cut.
  void set_blocked(bool blocked) { blocked_ = blocked; }
  // While stalled, connections stay open and no byte passes.
  void set_stalled(bool stalled) { stalled_ = stalled; }

 private:
  struct Link {
    int client = -1;
    int server = -1;
    bool is_dead = false;
  };

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }

  void accept_one() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    for (std::size_t tried = 0; tried < target_ports_.size() && !blocked_; ++tried) {
      const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = loopback(target_ports_[next_target_++ % target_ports_.size()]);
      if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
        links_.push_back({client, server, false});
        return;
      }
      ::close(server);
    }
    ::close(client);
  }

  // False if the connection has ended.
  static bool forward(int from, int to) {
    std::array<char, 65536> buffer{};
    const ssize_t got = ::recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t n = ::send(to, buffer.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += n;
    }
    return true;
  }

  void sweep(bool all) {
    for (auto link = links_.begin(); link != links_.end();) {
      if (!all && !link->is_dead) {
        ++link;
        continue;
      }
      ::close(link->client);
      ::close(link->server);
      link = links_.erase(link);
    }
  }

  void run() {
    int seen_cuts = 0;
    while (!stop_) {
      std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
      for (const Link& link : links_) {
        polled.push_back({stalled_ ? -1 : link.client, POLLIN, 0});
        polled.push_back({stalled_ ? -1 : link.server, POLLIN, 0});
      }
      (void)::poll(polled.data(), polled.size(), 20);
      std::size_t at = 1;
      for (Link& link : links_) {
        if (polled[at++].revents != 0 && !forward(link.client, link.server)) link.is_dead = true;
        if (polled[at++].revents != 0 && !forward(link.server, link.client)) link.is_dead = true;
      }
      if (polled[0].revents != 0) accept_one();
      const int cuts = cuts_;
      sweep(blocked_ || cuts != seen_cuts);
      seen_cuts = cuts;
    }
    sweep(true);
  }

  const std::vector<std::uint16_t> target_ports_;
  std::size_t next_target_ = 0;  // used by the thread only
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<bool> blocked_{false};
  std::atomic<bool> stalled_{false};
  std::atomic<int> cuts_{0};
  std::list<Link> links_;  // used by the thread only
  std::thread thread_;
};

// The port of "https://127.0.0.1:PORT".
inline std::uint16_t port_of(const std::string& url) {
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

}  // namespace basalt::test
