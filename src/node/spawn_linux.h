#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/mount_plan.h"

namespace basalt::node {

enum class Namespaces : std::uint8_t {
  None,
  Own,     // mount and UTS, which needs CAP_SYS_ADMIN
  OfUser,  // the same in a user namespace, in which the user keeps its number
};

// Everything the child needs, made ready before the fork: afterwards it may only make system calls.
struct SpawnPlan {
  std::vector<std::string> programs;  // paths to try in this order
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "NAME=value"
  std::string working_dir;
  std::string hostname;  // "" = leave
  std::vector<MountStep> mounts;
  Namespaces namespaces = Namespaces::None;
  std::optional<std::uint64_t> address_space_bytes_max;
  int group_fd = -1;  // members of a control group to join
  int in_fd = -1;     // becomes 0; -1: nothing to read
  int out_fd = -1;    // become 1 and 2
  int err_fd = -1;
  bool has_terminal = false;  // in_fd is one: it becomes the controlling terminal of a session of the program's own
};

// Starts the program in a process group of its own (with a terminal: in a session). Every signal is as a fresh program
// expects it; the child is killed if the calling thread ends. An error of the child (no such program, a mount that is
// refused) comes back as ours.
[[nodiscard]] Result<pid_t> spawn(const SpawnPlan& plan);

// Where a program of that name may lie, by the PATH of the environment; a name with a slash is itself.
[[nodiscard]] std::vector<std::string> program_candidates(const std::string& name, const std::vector<std::string>& env);

// Whether this process may make mount and UTS namespaces and bind mounts in them.
[[nodiscard]] bool can_isolate(const std::string& folder, Namespaces namespaces);

}  // namespace basalt::node
