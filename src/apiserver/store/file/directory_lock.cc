#include "apiserver/store/file/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

namespace basalt::apiserver {
namespace {

namespace fs = std::filesystem;

Error cannot(const std::string& doing, const fs::path& path, int code) {
  return Error::invalid_input(doing + " " + path.string() + ": " + std::strerror(code) +
                              ". Give this user the right to write there, or choose another data directory.");
}

Done make_directory(const fs::path& directory) {
  std::error_code failed;
  if (fs::is_directory(directory, failed)) return Ok{};
  if (fs::exists(directory, failed)) {
    return Error::invalid_input(directory.string() + " is not a directory. Choose another data directory.");
  }
  if (const fs::path parent = directory.parent_path(); !parent.empty()) fs::create_directories(parent, failed);
  // It holds secrets: for this user only.
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return cannot("Cannot make directory", directory, errno);
  return Ok{};
}

std::string holder_of(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  long pid = 0;
  if (size > 0) std::from_chars(text.data(), text.data() + size, pid);
  return pid > 0 ? "process " + std::to_string(pid) : "another process";
}

}  // namespace

Result<DirectoryLock> DirectoryLock::take(const fs::path& directory) {
  BASALT_TRY_DONE(make_directory(directory));
  const fs::path file = directory / "lock";
  DirectoryLock lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.descriptor_ < 0) return cannot("Cannot open the lock file", file, errno);
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return cannot("Cannot lock", file, errno);
    return Error::invalid_input("The data directory " + directory.string() + " is in use by " +
                                holder_of(lock.descriptor_) + ", which holds " + file.string() +
                                ". Stop it, or choose another data directory.");
  }
  const std::string text = std::to_string(::getpid()) + "\n";
  // The number is for people; without it, on a full disk, the lock holds all the same.
  if (::ftruncate(lock.descriptor_, 0) != 0 || ::pwrite(lock.descriptor_, text.data(), text.size(), 0) < 0) return lock;
  return lock;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace basalt::apiserver
