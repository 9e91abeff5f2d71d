#include "node/tcp_connect_linux.h"

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
#include <utility>

#include "node/child_streams_linux.h"

namespace basalt::node {
namespace {

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

// One attempt after the other, with one deadline and one stop for all.
class Connecting {
 public:
  Connecting(rt::Runtime& runtime, std::string peer, rt::Instant deadline)
      : runtime_(runtime), peer_(std::move(peer)), deadline_(deadline) {}

  Done run(const std::string& host, std::uint16_t port, const rt::StopToken& stop) {
    Addresses addresses;
    if (const char* why = look_up(host, port, addresses); why != nullptr) return failure(why);
    stopped_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stopped_.is_open()) return failure(errno);
    on_stop_ = stop.on_stop([fd = stopped_.get()] {
      const std::uint64_t one = 1;
      (void)!::write(fd, &one, sizeof one);
    });
    Done done = failure(EADDRNOTAVAIL);
    for (const addrinfo* one = addresses.first; one != nullptr; one = one->ai_next) {
      done = connect(*one);
      if (done.ok() || !done.error().is(Reason::Unreachable)) break;
    }
    return done;
  }

 private:
  [[nodiscard]] Error failure(const std::string& why) const {
    return Error::make(Reason::Unreachable, "cannot connect to " + peer_ + ": " + why);
  }
  [[nodiscard]] Error failure(int error) const { return failure(text_of(error)); }

  Done connect(const addrinfo& address) {
    const Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) return failure(errno);
    if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return Ok{};
    if (errno != EINPROGRESS) return failure(errno);
    BASALT_TRY_DONE(wait(socket));
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return failure(error);
    return Ok{};
  }

  // Until it is known how the attempt ended.
  Done wait(const Descriptor& socket) {
    while (true) {
      const rt::Duration left = deadline_ - runtime_.now();
      if (left <= rt::Duration::zero())
        return Error::make(Reason::DeadlineExceeded, peer_ + " did not answer within the timeout");
      const auto left_ms =
          std::chrono::ceil<std::chrono::milliseconds>(std::min<rt::Duration>(left, std::chrono::hours(1)));
      std::array<pollfd, 2> watched{pollfd{.fd = socket.get(), .events = POLLOUT, .revents = 0},
                                    pollfd{.fd = stopped_.get(), .events = POLLIN, .revents = 0}};
      const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(left_ms.count()));
      if (ready < 0 && errno != EINTR) return failure(errno);
      if (ready <= 0) continue;
      if (watched[1].revents != 0) return Error::make(Reason::Cancelled, "stopped");
      return Ok{};
    }
  }

  rt::Runtime& runtime_;
  const std::string peer_;  // "127.64.0.1:80"
  const rt::Instant deadline_;
  Descriptor stopped_;  // becomes readable
  rt::StopToken::Registration on_stop_;
};

}  // namespace

Done connect_tcp(rt::Runtime& runtime, const std::string& host, std::uint16_t port, rt::Instant deadline,
                 const rt::StopToken& stop) {
  if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped");
  const bool is_v6 = host.find(':') != std::string::npos;
  return Connecting(runtime, (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port), deadline)
      .run(host, port, stop);
}

}  // namespace basalt::node
