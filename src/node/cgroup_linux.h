#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace basalt::node {

struct ResourceLimits {
  std::optional<std::uint64_t> memory_bytes_max;
  std::optional<std::int64_t> cpu_milli_max;

  [[nodiscard]] bool empty() const { return !memory_bytes_max && !cpu_milli_max; }
};

// Control groups (version 2) for containers with limits, one each, in a group of this program. That lies in the nearest
// group, from our own upward, that hands the memory controller on and in which we may make one: our own holds
// processes, and such a group cannot hand controllers on. Used by one thread.
class CgroupTree {
 public:
  // Null if the machine has no such hierarchy or does not let us.
  static std::unique_ptr<CgroupTree> open(std::string_view name);
  // With the hierarchy mounted at `mount` and us in the group `own` ("/a/b").
  static std::unique_ptr<CgroupTree> open_at(const std::string& mount, const std::string& own, std::string_view name);
  ~CgroupTree();
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  // A group with these limits: its folder.
  Result<std::string> make(std::string_view name, const ResourceLimits& limits);
  // A descriptor to which a process writes "0" to join; -1 and errno otherwise.
  static int open_members(const std::string& folder);
  // Whether the kernel killed a process of the group for want of memory.
  static bool was_out_of_memory(const std::string& folder);
  // Kills what is left in it.
  void remove(const std::string& folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  explicit CgroupTree(std::string folder) : folder_(std::move(folder)) {}
  void remove_dead();

  const std::string folder_;
  std::vector<std::string> dead_;  // killed, though somebody in it has not gone yet
};

}  // namespace basalt::node
