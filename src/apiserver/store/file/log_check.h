#pragma once

#include <cstdint>
#include <filesystem>

namespace basalt::apiserver {

// What is wrong with a write-ahead log, seen before SQLite opens it. SQLite reads a log up to the first frame that
// fails its checksum and takes that for the end. So it must be after a crash, which may tear the last transaction; but
// with every transaction synced before the next begins, at most one can be torn. If the log goes on with more than one
// transaction, then something damaged it, and acknowledged writes would be dropped without a word.
struct LogCheck {
  bool is_damaged = false;
  std::uint64_t good_bytes = 0;         // up to the end of the last whole transaction
  std::uint64_t lost_transactions = 0;  // behind the damage, at least; 0 if the log's beginning is unreadable
};

// The format is SQLite's, "The WAL File Format" of its documentation. A log that is absent, empty or full of zeros is
// fine. Reads the file once; changes nothing.
[[nodiscard]] LogCheck check_log(const std::filesystem::path& log);

}  // namespace basalt::apiserver
