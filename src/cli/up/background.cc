#include "cli/up/background.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <utility>

#include "cli/cli.h"

namespace basalt::cli {
namespace {

int fail(Invocation& invocation, const std::string& what) {
  invocation.err << invocation.program << ": " << what << ": " << std::strerror(errno) << "\n";
  return kExitFailed;
}

// Standard input from nowhere, output to the log.
bool redirect(const std::string& log) {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  return null >= 0 && out >= 0 && ::dup2(null, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0 &&
         ::dup2(out, STDERR_FILENO) >= 0;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(size));
    } else if (size == 0 || errno != EINTR) {
      return text;
    }
  }
}

}  // namespace

Readiness::~Readiness() {
  if (fd_ >= 0) ::close(fd_);
}

void Readiness::tell(char sign, std::string_view text) {
  if (fd_ < 0) return;
  const std::string message = sign + std::string(text);
  std::size_t written = 0;
  while (written < message.size()) {
    const ssize_t size = ::write(fd_, message.data() + written, message.size() - written);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    written += static_cast<std::size_t>(size);
  }
  ::close(std::exchange(fd_, -1));
}

std::string background_log_path(const std::string& folder) { return folder + "/basalt.log"; }

int detach(Invocation& invocation, const std::string& folder, const std::function<int(Readiness&)>& body) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail(invocation, "a pipe cannot be made");
  const pid_t child = ::fork();
  if (child < 0) return fail(invocation, "a process cannot be made");
  if (child == 0) {
    ::close(pipe[0]);
    ::setsid();
    Readiness readiness(pipe[1]);
    if (!redirect(background_log_path(folder))) {
      readiness.failed("the log " + background_log_path(folder) + " cannot be written: " + std::strerror(errno));
      std::_Exit(kExitFailed);
    }
    std::_Exit(body(readiness));
  }
  ::close(pipe[1]);
  const std::string answer = read_all(pipe[0]);
  ::close(pipe[0]);
  if (answer.starts_with('+')) {
    invocation.out << answer.substr(1) << std::flush;
    return kExitOk;
  }
  invocation.err << invocation.program << ": "
                 << (answer.empty() ? "the cluster ended before it was ready; see " + background_log_path(folder)
                                    : answer.substr(1))
                 << "\n";
  int status = 0;
  ::waitpid(child, &status, 0);
  return kExitFailed;
}

}  // namespace basalt::cli
