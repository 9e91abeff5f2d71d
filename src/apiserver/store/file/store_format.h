#pragma once

#include <cstddef>
#include <cstdint>

// Constants of the storage format and of the way in which the file is kept; docs/internals/storage-format.md.
namespace basalt::apiserver {

inline constexpr std::uint32_t kApplicationId = 0x42534c54;  // "BSLT"
inline constexpr std::uint32_t kFormatVersion = 1;

// Four or five pods of 1.5 KB a page: smaller pages waste a third of themselves on such rows, larger ones make a single
// update dearer.
inline constexpr int kPageBytes = 8192;

// `meta.state`.
inline constexpr std::int64_t kStateClosed = 0;    // closed in good order
inline constexpr std::int64_t kStateOpenFull = 1;  // in use, every commit synced
inline constexpr std::int64_t kStateOpenFast = 2;  // in use, commits not synced

// A Fast store whose machine fell may have lost writes that clients have seen. It starts again beyond all revisions
// that it can have given out: more than thirty seconds of writes, which is when Linux has written everything back.
inline constexpr std::int64_t kFastRevisionJump = 100'000'000;

// SQLite's page cache. Reads come from our own memory, so it only serves the path to the page that is written.
inline constexpr int kCacheKiB = 8192;
// The main file grows in such steps.
inline constexpr int kGrowthBytes = 1 << 20;

// The log's file is extended ahead of its use, by zeros that are synced: a sync that need not also record a new length
// takes a tenth of a millisecond instead of several on ext4.
inline constexpr std::uint64_t kLogReserveFirst = 4U << 20;
inline constexpr std::uint64_t kLogReserveHeadroom = 1U << 20;

}  // namespace basalt::apiserver
