#include "node/orphan_guard_linux.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace basalt::node {
namespace {

constexpr int kRoundsMax = 200;  // somebody who forks as fast as we kill is not followed for ever
constexpr int kRoundPauseMs = 10;

// The guard is a fork of a program with threads: system calls and its own stack are all it may use.

// As the kernel writes them (getdents64).
struct DirectoryEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];  // NOLINT(modernize-avoid-c-arrays): the kernel's layout
};

bool has_marker(int environ_fd, std::string_view marker) {
  constexpr std::size_t kOther = SIZE_MAX;  // this entry is not it
  std::array<char, 4096> piece;             // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
  std::size_t matched = 0;
  while (true) {
    const ssize_t got = ::read(environ_fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    for (ssize_t i = 0; i < got; ++i) {
      const char c = piece[static_cast<std::size_t>(i)];
      if (c == '\0') {
        if (matched == marker.size()) return true;
        matched = 0;
      } else if (matched != kOther) {
        matched = matched < marker.size() && c == marker[matched] ? matched + 1 : kOther;
      }
    }
  }
}

bool kill_if_marked(int proc_fd, const char* name, pid_t self, std::string_view marker) {
  pid_t pid = 0;
  for (const char* c = name; *c != '\0'; ++c) {
    if (*c < '0' || *c > '9') return false;
    pid = pid * 10 + (*c - '0');
  }
  if (pid <= 1 || pid == self) return false;
  const int folder_fd = ::openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return false;
  // The number is held by this descriptor, so that what is read and what is killed are the same process.
  const int pid_fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  const int environ_fd = ::openat(folder_fd, "environ", O_RDONLY | O_CLOEXEC);
  const bool killed = pid_fd >= 0 && environ_fd >= 0 && has_marker(environ_fd, marker) &&
                      ::syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, nullptr, 0) == 0;
  if (environ_fd >= 0) ::close(environ_fd);
  if (pid_fd >= 0) ::close(pid_fd);
  ::close(folder_fd);
  return killed;
}

int kill_round(pid_t self, std::string_view marker) {
  const int proc_fd = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc_fd < 0) return 0;
  int killed = 0;
  alignas(DirectoryEntry) std::array<char, 8192> entries;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (true) {
    const long got = ::syscall(SYS_getdents64, proc_fd, entries.data(), entries.size());
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(entries.data() + at);
      if (kill_if_marked(proc_fd, static_cast<const char*>(entry->name), self, marker)) ++killed;
      at += entry->length;
    }
  }
  ::close(proc_fd);
  return killed;
}

[[noreturn]] void guard(int pipe_fd, std::string_view marker) {
  // Not with the terminal's Ctrl-C, and not holding anything of ours open: sockets, locks, the ends of others' pipes.
  ::setsid();
  ::prctl(PR_SET_NAME, "basalt-guard");
  ::dup2(pipe_fd, 0);
  (void)::syscall(SYS_close_range, 1u, ~0u, 0u);
  char byte = 0;
  ssize_t got = 0;
  while ((got = ::read(0, &byte, 1)) < 0 && errno == EINTR) {}
  if (got == 1) ::_exit(0);
  const pid_t self = ::getpid();
  for (int round = 0; round < kRoundsMax && kill_round(self, marker) > 0; ++round) {
    (void)::poll(nullptr, 0, kRoundPauseMs);
  }
  ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<OrphanGuard>> OrphanGuard::start(std::string marker) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return Error::make(Reason::InternalError, std::string("cannot make a pipe: ") + std::strerror(errno));
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all,
                    &before);  // no handler of ours runs in the guard, and nothing but SIGKILL ends it
  const pid_t pid = ::fork();
  if (pid == 0) guard(ends[0], marker);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(ends[0]);
  if (pid < 0) {
    ::close(ends[1]);
    return Error::make(Reason::InternalError, std::string("cannot start a process: ") + std::strerror(error));
  }
  return std::unique_ptr<OrphanGuard>(new OrphanGuard(pid, ends[1]));
}

OrphanGuard::~OrphanGuard() {
  (void)!::write(pipe_fd_, "q", 1);
  ::close(pipe_fd_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
}

}  // namespace basalt::node
