#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/strings.h"
#include "kube/credentials.h"

namespace basalt::kube {
namespace {

constexpr rt::Duration kTimeout = std::chrono::seconds(60);
constexpr std::size_t kOutputBytesMax = 1u << 20;
constexpr int kPollMilliseconds = 20;  // how late a stop may be noticed

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

bool make_pipe(Pipe& pipe) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  pipe.read = Descriptor(ends[0]);
  pipe.write = Descriptor(ends[1]);
  return true;
}

std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& extra) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (const auto pair = base::split_once(*entry, '=')) merged[std::string(pair->first)] = pair->second;
  }
  for (const auto& [name, value] : extra) merged[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : merged) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

Result<pid_t> spawn(std::vector<std::string> argv, std::vector<std::string> env, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own, so that what it starts ends with it; signals as a fresh program expects them.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int failure =
      ::posix_spawnp(&pid, argv[0].c_str(), &actions, &attributes, pointers(argv).data(), pointers(env).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return Error::invalid_input(std::strerror(failure));
  return pid;
}

// False at the end of the stream.
bool drain(int fd, std::string& into) {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    (void)wait();
  }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

}  // namespace

ProcessRunner make_process_runner(rt::Runtime& runtime) {
  return [&runtime](const std::vector<std::string>& argv, const std::vector<std::pair<std::string, std::string>>& env,
                    const rt::StopToken& stop) -> Result<ProcessResult> {
    Pipe out;
    Pipe err;
    if (!make_pipe(out) || !make_pipe(err)) return Error::invalid_input(std::strerror(errno));
    BASALT_TRY(const pid_t pid, spawn(argv, merged_environment(env), out, err));
    Child child(pid);
    out.write.close();
    err.write.close();
    ProcessResult result;
    const rt::Instant deadline = runtime.now() + kTimeout;
    bool out_open = true;
    bool err_open = true;
    while (out_open || err_open) {
      if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped while a program was running");
      if (runtime.now() >= deadline) return Error::make(Reason::DeadlineExceeded, "it did not end within 60 s");
      if (result.out.size() + result.err.size() > kOutputBytesMax) {
        return Error::make(Reason::ResponseTooLarge, "it printed more than 1 MiB");
      }
      std::array<pollfd, 2> polled = {pollfd{out_open ? out.read.get() : -1, POLLIN, 0},
                                      pollfd{err_open ? err.read.get() : -1, POLLIN, 0}};
      (void)::poll(polled.data(), polled.size(), kPollMilliseconds);
      if (polled[0].revents != 0) out_open = drain(out.read.get(), result.out);
      if (polled[1].revents != 0) err_open = drain(err.read.get(), result.err);
    }
    result.exit_code = child.wait();
    return result;
  };
}

}  // namespace basalt::kube
