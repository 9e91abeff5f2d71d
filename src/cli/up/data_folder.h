#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace basalt::cli {

// With less than this nothing that matters can be written.
inline constexpr std::uint64_t kDiskFullBytes = 256 * 1024;

// A sentence if the disk that the folder is on is full.
[[nodiscard]] std::optional<std::string> disk_problem(const std::string& folder);

// Makes the folder if need be. Refuses one that cannot be written to, and one with files that are not a cluster's:
// a typing mistake in --data-dir must not spread a cluster over somebody's home.
[[nodiscard]] Done check_data_folder(const std::string& folder);

}  // namespace basalt::cli
