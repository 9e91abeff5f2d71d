#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "net/curl_loop.h"

namespace basalt::net {
namespace {

std::uint32_t epoll_events(int curl_what) {
  switch (curl_what) {
    case CURL_POLL_IN:
      return EPOLLIN;
    case CURL_POLL_OUT:
      return EPOLLOUT;
    case CURL_POLL_INOUT:
      return EPOLLIN | EPOLLOUT;
    default:
      return 0;
  }
}

}  // namespace

SocketSet::SocketSet()
    : epoll_fd_(::epoll_create1(EPOLL_CLOEXEC)),
      streams_epoll_fd_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  BASALT_CHECK(epoll_fd_ >= 0 && streams_epoll_fd_ >= 0 && wake_fd_ >= 0);
  for (const int fd : {wake_fd_, streams_epoll_fd_}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    BASALT_CHECK(::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0);
  }
}

SocketSet::~SocketSet() {
  ::close(wake_fd_);
  ::close(streams_epoll_fd_);
  ::close(epoll_fd_);
}

SocketSet::State& SocketSet::state(int fd) {
  const auto index = static_cast<std::size_t>(fd);
  if (index >= states_.size()) states_.resize(index + 64);
  return states_[index];
}

void SocketSet::want(int lane, int fd, int curl_what) {
  State& s = state(fd);
  if (s.lane != lane) set_registered(fd, s, 0);  // a number that was used again
  s.lane = lane;
  s.wanted = epoll_events(curl_what);
  if (s.wanted == 0 && !s.is_ours) {
    // Not opened through us (the resolver's): it may be closed right after this without a word.
    set_registered(fd, s, 0);
  } else if (!s.is_dirty) {
    s.is_dirty = true;
    dirty_.push_back(fd);
  }
}

void SocketSet::set_registered(int fd, State& s, std::uint32_t events) {
  if (s.registered == events) return;
  epoll_event event{.events = events, .data = {.fd = fd}};
  const int operation = events == 0 ? EPOLL_CTL_DEL : s.registered == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  const int epoll_fd = epoll_of(s.lane);
  if (::epoll_ctl(epoll_fd, operation, fd, &event) != 0 && operation == EPOLL_CTL_ADD && errno == EEXIST) {
    ::epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event);
  }
  s.registered = events;
}

void SocketSet::apply_changes() {
  for (const int fd : dirty_) {
    State& s = state(fd);
    s.is_dirty = false;
    // An idle connection stays registered for reading: the next request asks for just that.
    if (s.wanted == 0 && s.registered == EPOLLIN) continue;
    set_registered(fd, s, s.wanted);
  }
  dirty_.clear();
}

const std::vector<SocketSet::Ready>& SocketSet::wait(int timeout_ms) {
  apply_changes();
  ready_.clear();
  collect(epoll_fd_, timeout_ms);
  return ready_;
}

const std::vector<SocketSet::Ready>& SocketSet::ready_streams() {
  apply_changes();
  ready_.clear();
  collect(streams_epoll_fd_, 0);
  return ready_;
}

void SocketSet::pause_streams(bool is_pausing) {
  if (std::exchange(streams_are_paused_, is_pausing) == is_pausing) return;
  epoll_event event{.events = is_pausing ? 0U : static_cast<std::uint32_t>(EPOLLIN), .data = {.fd = streams_epoll_fd_}};
  BASALT_CHECK(::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, streams_epoll_fd_, &event) == 0);
}

void SocketSet::collect(int epoll_fd, int timeout_ms) {
  epoll_event events[kReadyMax];
  const int count = ::epoll_wait(epoll_fd, events, kReadyMax, timeout_ms);
  for (int i = 0; i < count; ++i) {
    const int fd = events[i].data.fd;
    if (fd == wake_fd_) {
      std::uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t size = ::read(wake_fd_, &ignored, sizeof ignored);
      continue;
    }
    if (fd == streams_epoll_fd_) {
      collect(streams_epoll_fd_, 0);
      continue;
    }
    State& s = state(fd);
    if (s.wanted == 0) {
      set_registered(fd, s, 0);
      continue;
    }
    // Errors show when libcurl reads or writes; it would take the error flag alone for a failed poll.
    std::uint32_t bits = events[i].events;
    if ((bits & (EPOLLERR | EPOLLHUP)) != 0) bits |= s.wanted;
    const int mask = ((bits & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) | ((bits & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0);
    ready_.push_back({.lane = s.lane, .fd = fd, .curl_mask = mask});
  }
}

void SocketSet::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = ::write(wake_fd_, &one, sizeof one);
}

bool SocketSet::is_current(const Ready& ready) const {
  const auto index = static_cast<std::size_t>(ready.fd);
  return index < states_.size() && states_[index].wanted != 0 && states_[index].lane == ready.lane;
}

void SocketSet::on_socket_opened(int fd) {
  State& s = state(fd);
  const bool is_dirty = s.is_dirty;
  s = {};
  s.is_ours = true;
  s.is_dirty = is_dirty;
}

void SocketSet::on_socket_closed(int fd) {
  State& s = state(fd);
  // Closing takes it out of the epoll set.
  const bool is_dirty = s.is_dirty;
  s = {};
  s.is_dirty = is_dirty;
}

}  // namespace basalt::net
