#include "node/child_streams_linux.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "base/strings.h"

namespace basalt::node {
namespace {

// A killed process cannot have a further child, so a second round finds those of the first; more are for luck.
constexpr int kKillRoundsMax = 10;

Error system_error(std::string_view what) {
  return Error::make(Reason::InternalError, std::string(what) + ": " + std::strerror(errno));
}

void make_nonblocking(const Descriptor& descriptor) { ::fcntl(descriptor.get(), F_SETFL, O_NONBLOCK); }

Done open_pipe(Descriptor& reading, Descriptor& writing) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  reading = Descriptor(ends[0]);
  writing = Descriptor(ends[1]);
  return Ok{};
}

Result<ChildStreams> open_terminal(bool has_input) {
  ChildStreams streams;
  streams.is_terminal = true;
  streams.out = Descriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!streams.out.is_open() || ::unlockpt(streams.out.get()) != 0) return system_error("cannot make a terminal");
  // By the descriptor, not by a name: /dev/pts may be another one here.
  streams.child_out = Descriptor(::ioctl(streams.out.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!streams.child_out.is_open()) return system_error("cannot open a terminal");
  make_nonblocking(streams.out);
  if (!has_input) return streams;
  streams.in = Descriptor(::fcntl(streams.out.get(), F_DUPFD_CLOEXEC, 3));
  if (!streams.in.is_open()) return system_error("cannot open a terminal");
  return streams;
}

// The session of a process, from the text of /proc/PID/stat: PID (name) state parent group session ...
std::optional<std::int64_t> session_in(std::string_view stat) {
  const std::size_t end_of_name = stat.rfind(')');
  if (end_of_name == std::string_view::npos) return std::nullopt;
  const auto fields = base::split(stat.substr(end_of_name + 1), ' ');  // the first is empty
  return fields.size() > 4 ? base::parse_int64(fields[4]) : std::nullopt;
}

std::optional<std::int64_t> session_of(const std::string& pid) {
  std::FILE* file = std::fopen(("/proc/" + pid + "/stat").c_str(), "re");
  if (file == nullptr) return std::nullopt;
  std::array<char, 512> text{};
  const std::size_t got = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  return session_in({text.data(), got});
}

}  // namespace

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

void ChildStreams::close_child_ends() {
  child_in.close();
  child_out.close();
  child_err.close();
}

Result<ChildStreams> open_child_streams(const CommandIo* io) {
  if (io != nullptr && io->has_terminal()) return open_terminal(io->has_input());
  ChildStreams streams;
  BASALT_TRY_DONE(open_pipe(streams.out, streams.child_out));
  BASALT_TRY_DONE(open_pipe(streams.err, streams.child_err));
  make_nonblocking(streams.out);
  make_nonblocking(streams.err);
  if (io == nullptr || !io->has_input()) return streams;
  BASALT_TRY_DONE(open_pipe(streams.child_in, streams.in));
  make_nonblocking(streams.in);
  return streams;
}

void set_terminal_size(int fd, TerminalSize size) {
  const winsize wanted{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  (void)::ioctl(fd, TIOCSWINSZ, &wanted);
}

void kill_session(pid_t leader) {
  std::set<std::int64_t> killed;
  for (int round = 0; round < kKillRoundsMax; ++round) {
    const std::size_t before = killed.size();
    std::error_code error;
    for (std::filesystem::directory_iterator entries("/proc", error), end; !error && entries != end;
         entries.increment(error)) {
      const std::string name = entries->path().filename().native();
      const auto pid = base::parse_int64(name);
      if (!pid || *pid == leader || session_of(name) != leader) continue;
      ::kill(static_cast<pid_t>(*pid), SIGKILL);
      killed.insert(*pid);
    }
    if (killed.size() == before) return;
  }
}

}  // namespace basalt::node
