#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/store/entry.h"
#include "apiserver/store/file/directory_lock.h"
#include "apiserver/store/file/sqlite.h"
#include "base/result.h"

namespace basalt::apiserver {

// Hashes a row: the first eight bytes of a SHA-256 over its columns. The context is made once; one thread.
class RowHasher {
 public:
  RowHasher();
  ~RowHasher();
  RowHasher(const RowHasher&) = delete;
  RowHasher& operator=(const RowHasher&) = delete;
  [[nodiscard]] std::uint64_t hash(std::span<const std::int64_t> numbers, std::span<const std::string_view> texts);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The file of a durable store: the current version of every object, and the revision. The history is not in it.
//
// Owned by DurableStore; used by one thread at a time, the committer once the store is open. Its format, and what
// happens to it in a crash, is in docs/internals/storage-format.md. Invariant: after each commit the row `meta` holds
// the number of objects and the sum of their checksums, so that a lost or stale row is found when loading.
class StoreFile {
 public:
  struct Options {
    std::filesystem::path directory;
    bool is_synced = true;          // each commit waits for the disk
    std::size_t log_bytes_max = 0;  // a log of this size is folded into the main file
    std::size_t file_bytes_max = 0;
    int attributes_scheme = 0;  // of a new file
    std::string sqlite_vfs;     // "" = the default one
  };
  // Takes the directory and opens its file, making both if absent. Errors name the file; nothing is changed then.
  static Result<std::unique_ptr<StoreFile>> open(const Options& options);
  ~StoreFile();

  struct Row {
    std::int64_t row = 0;
    ResourceId resource{};
    std::string_view key;
    Revision create_revision = 0;
    Revision mod_revision = 0;
    std::uint32_t revision_offset = 0;
    std::string_view attributes;
    std::string_view object;
    std::uint64_t check = 0;
  };
  // Hands over the whole contents, resources first, and checks them. A callback's error ends it.
  struct Reader {
    std::function<ResourceId(std::string_view name)> on_resource;
    std::function<Done(const Row&)> on_row;
  };
  Done load(const Reader& reader);
  // Known after load().
  [[nodiscard]] Revision revision() const { return meta_.revision; }
  [[nodiscard]] int attributes_scheme() const { return static_cast<int>(meta_.attributes_scheme); }
  [[nodiscard]] std::int64_t next_row() { return ++last_row_; }

  // After load() and before the first commit: marks the file as in use. If the last run promised less than it had
  // shown (it was Fast and the machine fell), the revision jumps ahead of all that anybody may have seen.
  Done begin();

  enum class ChangeKind : std::uint8_t { Insert, Update, Delete };
  struct Change {
    ChangeKind kind = ChangeKind::Insert;
    std::int64_t row = 0;
    std::uint64_t old_check = 0;  // Update and Delete
    std::uint64_t new_check = 0;  // Insert and Update; filled in by commit()
    const Entry* entry = nullptr;
  };
  struct NewResource {
    ResourceId id{};
    std::string name;
  };
  // Whether the file has the name of a resource; if not, it goes in with its first object.
  [[nodiscard]] bool knows(ResourceId resource) const;
  // All of it or, with an error, nothing. On return it is on the disk if the file is synced.
  Done commit(std::span<const NewResource> resources, std::span<Change> changes, Revision revision);
  // Stores that all attributes are of this scheme, together with changes of them.
  Done commit_attributes(std::span<Change> changes, int scheme);
  // True if it is not certain what the disk holds: nothing more may be written.
  [[nodiscard]] bool is_failed() const { return is_failed_; }

  // Between commits: folds a log that has become long, and keeps space in reserve for it. A failure is not one of a
  // write; it is tried again later.
  void maintain();

  // Folds the log and closes in good order.
  Done close();

  [[nodiscard]] std::uint64_t log_bytes() const;
  // Of the main file in a data directory; 0 if there is none.
  [[nodiscard]] static std::uint64_t file_bytes(const std::filesystem::path& directory);
  [[nodiscard]] std::string path() const { return file_.string(); }

 private:
  struct Meta {
    Revision revision = 1;
    std::int64_t objects = 0;
    std::uint64_t sum = 0;
    std::int64_t attributes_scheme = 0;
    std::int64_t state = 0;
  };

  StoreFile(const Options& options, DirectoryLock lock);
  Done make_file();
  Done inspect_file() const;
  Done open_file();
  Done load_meta();
  Done load_resources(const Reader& reader);
  Done load_rows(const Reader& reader);
  Done apply(std::span<const NewResource> resources, std::span<Change> changes, Meta& meta);
  Done apply_change(Change& change, Meta& meta);
  Done commit_transaction(std::span<const NewResource> resources, std::span<Change> changes, Meta meta);
  Done write_meta(const Meta& meta);
  void remember(ResourceId resource, std::int64_t id, std::string name);
  void forget(std::span<const NewResource> resources);
  void reserve_log();
  [[nodiscard]] std::uint64_t meta_hash(const Meta& meta);
  [[nodiscard]] std::uint64_t row_hash(const Row& row);
  [[nodiscard]] Error damaged(std::string_view how) const;

  // Fixed after construction.
  const Options options_;
  const std::filesystem::path file_;
  const std::filesystem::path log_;
  const DirectoryLock lock_;

  SqliteDatabase database_;
  SqliteStatement insert_;
  SqliteStatement update_;
  SqliteStatement delete_;
  SqliteStatement insert_resource_;
  SqliteStatement update_meta_;
  SqliteStatement begin_;
  SqliteStatement commit_;
  RowHasher hasher_;
  struct Resource {
    std::int64_t id = 0;  // in the file; 0 = it is not there
    std::string name;
  };
  std::vector<Resource> resources_;  // by ResourceId
  std::int64_t last_resource_id_ = 0;
  Meta meta_;
  std::int64_t last_row_ = 0;
  std::int64_t page_bytes_ = 0;
  std::uint64_t log_reserved_bytes_ = 0;  // the log's file is at least so long
  std::uint64_t fold_at_bytes_ = 0;
  std::string log_damage_;  // what check_log() found; "" if nothing
  bool is_open_ = false;
  bool is_failed_ = false;
};

}  // namespace basalt::apiserver
