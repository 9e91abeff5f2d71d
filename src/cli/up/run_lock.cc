#include "cli/up/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/strings.h"

namespace basalt::cli {
namespace {

std::string lock_path(const std::string& folder) { return folder + "/up.lock"; }

pid_t read_number(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size() - 1, 0);
  if (size <= 0) return 0;
  const auto number = base::parse_int64(base::trim(std::string_view(text.data(), static_cast<std::size_t>(size))));
  return number ? static_cast<pid_t>(*number) : 0;
}

}  // namespace

Result<RunLock> RunLock::take(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = lock_path(folder);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return Error::make(Reason::Forbidden, "the file " + path + " cannot be opened: " + std::strerror(errno) +
                                              ". Choose another folder by --data-dir.");
  RunLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return Error::make(Reason::Conflict, "the cluster in " + folder + " is already running as process " +
                                             std::to_string(read_number(fd)) +
                                             ". Use it, end it by 'basalt down', or choose another --data-dir.");
  }
  const std::string number = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, number.data(), number.size(), 0) != static_cast<ssize_t>(number.size()))
    return Error::make(Reason::InternalError, "the file " + path + " cannot be written: " + std::strerror(errno));
  return lock;
}

RunLock::RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<pid_t> running_process(const std::string& folder) {
  const int fd = ::open(lock_path(folder).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::optional<pid_t> found;
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) found = read_number(fd);
  ::close(fd);
  if (found && *found <= 0) found.reset();
  return found;
}

}  // namespace basalt::cli
