#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace basalt::node {

// A small process beside this one that waits for it to be gone, however it ended, and then kills every process of this
// user whose environment has the marker ("NAME=value"). So a `kill -9` of the agent leaves no orphans, also not those
// that left their process group. One owner.
class OrphanGuard {
 public:
  static Result<std::unique_ptr<OrphanGuard>> start(std::string marker);
  // Ends it in peace: nobody is killed.
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  OrphanGuard(pid_t pid, int pipe_fd) : pid_(pid), pipe_fd_(pipe_fd) {}
  const pid_t pid_;
  const int pipe_fd_;  // a byte ends the guard; its end without one means that we are dead
};

}  // namespace basalt::node
