#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/certificates.h"

namespace basalt::net {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  const int fd_;
};

Error system_failure(std::string_view what, const std::string& path) {
  const int code = errno;
  return Error::invalid_input(fmt::format("{} {}: {}.", what, path, std::strerror(code)));
}

Done write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_failure("Cannot write", path);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return Ok{};
}

Done write_and_sync(int fd, std::string_view content, mode_t mode, const std::string& path) {
  if (::fchmod(fd, mode) != 0) return system_failure("Cannot set the mode of", path);
  BASALT_TRY_DONE(write_all(fd, content, path));
  if (::fsync(fd) != 0) return system_failure("Cannot sync", path);
  return Ok{};
}

}  // namespace

Done write_file_atomically(const std::string& path, std::string_view content, mode_t mode) {
  std::string temporary = path + ".XXXXXX";
  const FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return system_failure("Cannot create a file beside", path);
  Done written = write_and_sync(file.get(), content, mode, temporary);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) written = system_failure("Cannot replace", path);
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
  return Ok{};
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_failure("Cannot open", path);
  std::string content;
  char buffer[16384];
  for (;;) {
    const ssize_t size = ::read(file.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return system_failure("Cannot read", path);
    if (size == 0) return content;
    content.append(buffer, static_cast<std::size_t>(size));
    if (content.size() > bytes_max) {
      return Error::invalid_input(fmt::format("{} is larger than {} bytes.", path, bytes_max));
    }
  }
}

}  // namespace basalt::net
