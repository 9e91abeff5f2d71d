#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace basalt::cli {

// Says which process runs the cluster of a folder: a locked file that holds its number. The lock goes with the process,
// however it ends, so a number left behind deceives nobody.
class RunLock {
 public:
  // Conflict if another process has it; the message names it.
  [[nodiscard]] static Result<RunLock> take(const std::string& folder);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// The process that runs the cluster of the folder; nothing if there is none.
[[nodiscard]] std::optional<pid_t> running_process(const std::string& folder);

}  // namespace basalt::cli
