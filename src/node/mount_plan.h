#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/process_runner.h"

namespace basalt::node {

// One system call of the child before it becomes the program.
struct MountStep {
  enum class Kind : std::uint8_t { MakePrivate, Tmpfs, MakeFolder, MakeFile, MakeLink, Bind, ReadOnly, ChangeRoot };
  Kind kind = Kind::Bind;
  std::string source;
  std::string target;

  bool operator==(const MountStep&) const = default;
};

// The steps that make each mount's source appear at its target, in a mount namespace of the child's own, without
// creating anything on the host outside `scratch` and the sources. A target that the host lacks is made in a small
// tmpfs that stands over its deepest existing folder and shows that folder's other entries as they are. Reads the
// host's folders; changes only the sources (a mount point inside another mount).
// Limit: kFolderEntriesMax entries in a folder that must be covered so; beyond it is an error that says so.
[[nodiscard]] Result<std::vector<MountStep>> plan_mounts(std::vector<BindMount> mounts, const std::string& scratch);

inline constexpr std::size_t kFolderEntriesMax = 4096;

}  // namespace basalt::node
