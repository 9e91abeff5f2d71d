#pragma once

#include <filesystem>

#include "base/result.h"

namespace basalt::apiserver {

// Holds a data directory for this process: an advisory lock on its file `lock`, which says which process holds it. The
// operating system lets go of the lock when the process ends, however it ends; the file stays.
class DirectoryLock {
 public:
  // Makes the directory, for this user only, if it is absent.
  static Result<DirectoryLock> take(const std::filesystem::path& directory);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace basalt::apiserver
