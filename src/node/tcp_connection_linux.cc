#include "node/tcp_connection_linux.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace basalt::node {
namespace {

constexpr std::size_t kReceiveBytes = 16 * 1024;

std::string text_of(int error) { return std::generic_category().message(error); }

struct Addresses {
  addrinfo* first = nullptr;
  Addresses() = default;
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

// Nothing if all is well.
const char* look_up(const std::string& host, std::uint16_t port, Addresses& found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found.first);
  return code == 0 ? nullptr : ::gai_strerror(code);
}

}  // namespace

Result<std::unique_ptr<TcpConnection>> TcpConnection::open(rt::Runtime& runtime, const std::string& host,
                                                           std::uint16_t port, rt::Instant deadline,
                                                           const rt::StopToken& stop) {
  if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped");
  const bool is_v6 = host.find(':') != std::string::npos;
  std::string peer = (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  Addresses addresses;
  if (const char* why = look_up(host, port, addresses); why != nullptr)
    return Error::make(Reason::Unreachable, "cannot connect to " + peer + ": " + why);
  std::unique_ptr<TcpConnection> made(new TcpConnection(runtime, std::move(peer), deadline));
  made->stopped_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->stopped_.is_open()) return made->failure(Reason::Unreachable, errno);
  made->on_stop_ = stop.on_stop([fd = made->stopped_.get()] {
    const std::uint64_t one = 1;
    (void)!::write(fd, &one, sizeof one);
  });
  Done done = made->failure(Reason::Unreachable, EADDRNOTAVAIL);
  for (const addrinfo* one = addresses.first; one != nullptr; one = one->ai_next) {
    done = made->connect(*one);
    if (done.ok() || !done.error().is(Reason::Unreachable)) break;
  }
  if (!done.ok()) return done.error();
  return made;
}

Error TcpConnection::failure(Reason reason, int error) const {
  const std::string_view what =
      reason == Reason::Unreachable ? "cannot connect to " : "the connection was lost that was made to ";
  return Error::make(reason, std::string(what) + peer_ + ": " + text_of(error));
}

Done TcpConnection::connect(const addrinfo& address) {
  socket_ = Descriptor(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.is_open()) return failure(Reason::Unreachable, errno);
  if (::connect(socket_.get(), address.ai_addr, address.ai_addrlen) == 0) return Ok{};
  if (errno != EINPROGRESS) return failure(Reason::Unreachable, errno);
  BASALT_TRY_DONE(wait(POLLOUT));
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return failure(Reason::Unreachable, error);
  return Ok{};
}

Done TcpConnection::wait(short events) {
  while (true) {
    const rt::Duration left = deadline_ - runtime_.now();
    if (left <= rt::Duration::zero())
      return Error::make(Reason::DeadlineExceeded, peer_ + " did not answer within the timeout");
    const auto left_ms =
        std::chrono::ceil<std::chrono::milliseconds>(std::min<rt::Duration>(left, std::chrono::hours(1)));
    std::array<pollfd, 2> watched{pollfd{.fd = socket_.get(), .events = events, .revents = 0},
                                  pollfd{.fd = stopped_.get(), .events = POLLIN, .revents = 0}};
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(left_ms.count()));
    if (ready < 0 && errno != EINTR) return failure(Reason::ConnectionLost, errno);
    if (ready <= 0) continue;
    if (watched[1].revents != 0) return Error::make(Reason::Cancelled, "stopped");
    return Ok{};
  }
}

Done TcpConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return failure(Reason::ConnectionLost, errno);
    BASALT_TRY_DONE(wait(POLLOUT));
  }
  return Ok{};
}

Result<std::string> TcpConnection::receive() {
  std::string bytes(kReceiveBytes, '\0');
  while (true) {
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got >= 0) {
      bytes.resize(static_cast<std::size_t>(got));
      return bytes;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return failure(Reason::ConnectionLost, errno);
    BASALT_TRY_DONE(wait(POLLIN));
  }
}

}  // namespace basalt::node
