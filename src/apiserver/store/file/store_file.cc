#include "apiserver/store/file/store_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "apiserver/store/entry_maker.h"
#include "apiserver/store/file/log_check.h"
#include "apiserver/store/file/store_format.h"

namespace basalt::apiserver {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema =
    "CREATE TABLE meta ("
    " id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, objects INTEGER NOT NULL, sum INTEGER NOT NULL,"
    " attributes_scheme INTEGER NOT NULL, state INTEGER NOT NULL, hash INTEGER NOT NULL) STRICT;"
    "CREATE TABLE resource (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"
    "CREATE TABLE object ("
    " id INTEGER PRIMARY KEY, resource INTEGER NOT NULL, create_revision INTEGER NOT NULL, mod_revision INTEGER NOT "
    "NULL,"
    " revision_offset INTEGER NOT NULL, hash INTEGER NOT NULL, key TEXT NOT NULL, attributes BLOB NOT NULL,"
    " object TEXT NOT NULL) STRICT;";

std::uint32_t big_endian(const std::array<char, 100>& bytes, std::size_t offset) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return word;
}

Error cannot(std::string_view doing, const fs::path& path, int code) {
  return Error::invalid_input("Cannot " + std::string(doing) + " " + path.string() + ": " + std::strerror(code) + ".");
}

Done sync_directory(const fs::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return cannot("open", directory, errno);
  const bool synced = ::fsync(descriptor) == 0;
  const int code = errno;
  ::close(descriptor);
  if (!synced) return cannot("sync", directory, code);
  return Ok{};
}

}  // namespace

// ---- opening

StoreFile::StoreFile(const Options& options, DirectoryLock lock)
    : options_(options),
      file_(options.directory / "store.db"),
      log_(options.directory / "store.db-wal"),
      lock_(std::move(lock)),
      fold_at_bytes_(options.log_bytes_max) {}

StoreFile::~StoreFile() = default;

Result<std::unique_ptr<StoreFile>> StoreFile::open(const Options& options) {
  BASALT_TRY(DirectoryLock lock, DirectoryLock::take(options.directory));
  std::unique_ptr<StoreFile> file(new StoreFile(options, std::move(lock)));
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(file->file_, ignored))) {
    if (fs::exists(file->log_, ignored)) {
      return Error::invalid_input(file->log_.string() + " is there, but " + file->file_.string() +
                                  ", to which it belongs, is not. Put that file back, or move this one away.");
    }
    BASALT_TRY_DONE(file->make_file());
  }
  BASALT_TRY_DONE(file->inspect_file());
  BASALT_TRY_DONE(file->open_file());
  return file;
}

// Makes the file under another name, so that under its own it is always whole.
Done StoreFile::make_file() {
  const fs::path draft = file_.string() + ".new";
  ::unlink(draft.c_str());
  ::unlink((draft.string() + "-journal").c_str());
  // It holds secrets: for this user only. SQLite gives its log the same mode.
  const int descriptor = ::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return cannot("make", draft, errno);
  ::close(descriptor);
  {
    SqliteDatabase database;
    BASALT_TRY_DONE(database.open(draft, options_.sqlite_vfs));
    const std::string pragmas = "PRAGMA page_size=" + std::to_string(kPageBytes) +
                                ";PRAGMA auto_vacuum=NONE;PRAGMA synchronous=FULL;BEGIN;PRAGMA application_id=" +
                                std::to_string(kApplicationId) +
                                ";PRAGMA user_version=" + std::to_string(kFormatVersion) + ";";
    BASALT_TRY_DONE(database.run(pragmas.c_str()));
    BASALT_TRY_DONE(database.run(kSchema));
    meta_.attributes_scheme = options_.attributes_scheme;
    SqliteStatement insert;
    BASALT_TRY_DONE(insert.prepare(database,
                                   "INSERT INTO meta (id, revision, objects, sum, attributes_scheme, state, hash)"
                                   " VALUES (1, ?, 0, 0, ?, ?, ?)"));
    insert.bind(1, meta_.revision).bind(2, meta_.attributes_scheme).bind(3, meta_.state).bind(4, meta_hash(meta_));
    BASALT_TRY_DONE(insert.run());
    BASALT_TRY_DONE(database.run("COMMIT"));
  }
  if (::rename(draft.c_str(), file_.c_str()) != 0) return cannot("rename", draft, errno);
  return sync_directory(options_.directory);
}

// Reads the first bytes without SQLite, which might change a file that is not ours.
Done StoreFile::inspect_file() const {
  struct stat status{};
  if (::stat(file_.c_str(), &status) != 0) return cannot("read", file_, errno);
  const std::string advice = " Nothing was changed. Move it away, or choose another data directory.";
  if (!S_ISREG(status.st_mode)) return Error::invalid_input(file_.string() + " is not a file." + advice);
  std::array<char, 100> header{};
  errno = 0;
  std::ifstream stream(file_, std::ios::binary);
  if (!stream) return cannot("read", file_, errno);
  stream.read(header.data(), header.size());
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  if (static_cast<std::size_t>(stream.gcount()) < header.size() ||
      std::string_view(header.data(), kMagic.size()) != kMagic) {
    return Error::invalid_input(file_.string() + " is not a store of this program, or its beginning is damaged." +
                                advice);
  }
  if (const std::uint32_t id = big_endian(header, 68); id != kApplicationId) {
    return Error::invalid_input(file_.string() + " is a database of another program (application id " +
                                std::to_string(id) + ")." + advice);
  }
  if (const std::uint32_t version = big_endian(header, 60); version != kFormatVersion) {
    return Error::invalid_input(file_.string() + " has the format version " + std::to_string(version) +
                                "; this program knows version " + std::to_string(kFormatVersion) +
                                ". Nothing was changed. Use the version of the program that wrote it.");
  }
  return Ok{};
}

Done StoreFile::open_file() {
  if (const LogCheck check = check_log(log_); check.is_damaged) {
    log_damage_ = log_.string() + " is damaged";
    if (check.good_bytes > 0) {
      log_damage_ += " behind byte " + std::to_string(check.good_bytes) + ": at least " +
                     std::to_string(check.lost_transactions) +
                     " transactions that follow cannot be read. Nothing was changed. Restore the data directory from a "
                     "backup; or, to go on without them, run \"truncate -s " +
                     std::to_string(check.good_bytes) + " " + log_.string() + "\".";
    } else {
      log_damage_ +=
          " at its beginning. Nothing was changed. Restore the data directory from a backup; or, to go on without the "
          "last writes, which only that file had, move it away.";
    }
  }
  BASALT_TRY_DONE(database_.open(file_, options_.sqlite_vfs));
  // The exclusive lock keeps the log's index in this process's memory instead of a third file.
  BASALT_TRY_DONE(database_.run("PRAGMA locking_mode=EXCLUSIVE"));
  BASALT_TRY(const std::string mode, database_.query("PRAGMA journal_mode=WAL"));
  if (mode != "wal") return damaged("it cannot be switched to a write-ahead log (its mode is " + mode + ")");
  BASALT_TRY_DONE(
      database_.run("PRAGMA synchronous=FULL;PRAGMA wal_autocheckpoint=0;PRAGMA secure_delete=FAST;"
                    "PRAGMA foreign_keys=OFF;PRAGMA temp_store=MEMORY;PRAGMA cell_size_check=ON"));
  BASALT_TRY_DONE(database_.run(("PRAGMA cache_size=-" + std::to_string(kCacheKiB)).c_str()));
  BASALT_TRY(page_bytes_, database_.query_number("PRAGMA page_size"));
  if (options_.file_bytes_max > 0) {
    const auto pages = std::max<std::int64_t>(1, static_cast<std::int64_t>(options_.file_bytes_max) / page_bytes_);
    BASALT_TRY(const std::string limit, database_.query(("PRAGMA max_page_count=" + std::to_string(pages)).c_str()));
    (void)limit;
  }
  database_.set_growth_step(kGrowthBytes);
  BASALT_TRY_DONE(insert_.prepare(database_,
                                  "INSERT INTO object (id, resource, create_revision, mod_revision, revision_offset,"
                                  " hash, key, attributes, object) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"));
  BASALT_TRY_DONE(update_.prepare(database_,
                                  "UPDATE object SET resource = ?2, create_revision = ?3, mod_revision = ?4,"
                                  " revision_offset = ?5, hash = ?6, key = ?7, attributes = ?8, object = ?9"
                                  " WHERE id = ?1"));
  BASALT_TRY_DONE(delete_.prepare(database_, "DELETE FROM object WHERE id = ?1"));
  BASALT_TRY_DONE(insert_resource_.prepare(database_, "INSERT INTO resource (id, name) VALUES (?1, ?2)"));
  BASALT_TRY_DONE(update_meta_.prepare(database_,
                                       "UPDATE meta SET revision = ?1, objects = ?2, sum = ?3, attributes_scheme = ?4,"
                                       " state = ?5, hash = ?6 WHERE id = 1"));
  BASALT_TRY_DONE(begin_.prepare(database_, "BEGIN IMMEDIATE"));
  return commit_.prepare(database_, "COMMIT");
}

// ---- loading

Done StoreFile::load(const Reader& reader) {
  BASALT_TRY_DONE(load_meta());
  // What a Fast run left behind may be torn anywhere: it never promised more.
  if (!log_damage_.empty() && meta_.state != kStateOpenFast) return Error::invalid_input(log_damage_);
  BASALT_TRY_DONE(load_resources(reader));
  return load_rows(reader);
}

Done StoreFile::load_meta() {
  SqliteStatement select;
  BASALT_TRY_DONE(select.prepare(
      database_, "SELECT revision, objects, sum, attributes_scheme, state, hash FROM meta WHERE id = 1"));
  BASALT_TRY(const bool has_row, select.step());
  if (!has_row) return damaged("its row meta is missing");
  meta_.revision = select.number(0);
  meta_.objects = select.number(1);
  meta_.sum = static_cast<std::uint64_t>(select.number(2));
  meta_.attributes_scheme = select.number(3);
  meta_.state = select.number(4);
  if (static_cast<std::uint64_t>(select.number(5)) != meta_hash(meta_) || meta_.revision < 1) {
    return damaged("its row meta fails its checksum");
  }
  return Ok{};
}

Done StoreFile::load_resources(const Reader& reader) {
  SqliteStatement select;
  BASALT_TRY_DONE(select.prepare(database_, "SELECT id, name FROM resource ORDER BY id"));
  while (true) {
    BASALT_TRY(const bool has_row, select.step());
    if (!has_row) return Ok{};
    const std::int64_t id = select.number(0);
    if (id <= 0) return damaged("a resource has the id " + std::to_string(id));
    std::string name(select.bytes(1));
    const ResourceId resource = reader.on_resource(name);
    if (knows(resource)) return damaged("the resource \"" + name + "\" is there twice");
    remember(resource, id, std::move(name));
  }
}

Done StoreFile::load_rows(const Reader& reader) {
  std::map<std::int64_t, ResourceId> by_id;
  for (std::size_t i = 0; i < resources_.size(); ++i) {
    if (resources_[i].id != 0) by_id.emplace(resources_[i].id, static_cast<ResourceId>(i));
  }
  SqliteStatement select;
  BASALT_TRY_DONE(select.prepare(database_,
                                 "SELECT id, resource, create_revision, mod_revision, revision_offset, hash, key,"
                                 " attributes, object FROM object ORDER BY id"));
  std::int64_t rows = 0;
  std::uint64_t sum = 0;
  while (true) {
    BASALT_TRY(const bool has_row, select.step());
    if (!has_row) break;
    Row row;
    row.row = select.number(0);
    const std::string where = "row " + std::to_string(row.row);
    const auto resource = by_id.find(select.number(1));
    if (resource == by_id.end()) return damaged(where + " is of an unknown resource");
    row.resource = resource->second;
    row.create_revision = select.number(2);
    row.mod_revision = select.number(3);
    row.revision_offset = static_cast<std::uint32_t>(select.number(4));
    row.check = static_cast<std::uint64_t>(select.number(5));
    row.key = select.bytes(6);
    row.attributes = select.bytes(7);
    row.object = select.bytes(8);
    if (row.check != row_hash(row)) return damaged(where + " fails its checksum");
    if (row.mod_revision > meta_.revision) return damaged(where + " is newer than the file's revision");
    BASALT_TRY_DONE(reader.on_row(row));
    ++rows;
    sum += row.check;
    last_row_ = std::max(last_row_, row.row);
  }
  if (rows != meta_.objects || sum != meta_.sum) {
    return damaged("it holds " + std::to_string(rows) + " objects, but was last written with " +
                   std::to_string(meta_.objects) + ", or with others");
  }
  return Ok{};
}

Error StoreFile::damaged(std::string_view how) const {
  return Error::invalid_input(file_.string() + " is damaged: " + std::string(how) +
                              ". Nothing was changed. Restore it from a backup, or salvage what can be read with "
                              "\"sqlite3 " +
                              file_.string() + " .recover\" into another file.");
}

std::uint64_t StoreFile::row_hash(const Row& row) {
  const std::array<std::int64_t, 4> numbers{row.row, row.create_revision, row.mod_revision, row.revision_offset};
  const std::array<std::string_view, 4> texts{resources_[static_cast<std::size_t>(row.resource)].name, row.key,
                                              row.attributes, row.object};
  return hasher_.hash(numbers, texts);
}

std::uint64_t StoreFile::meta_hash(const Meta& meta) {
  const std::array<std::int64_t, 5> numbers{meta.revision, meta.objects, static_cast<std::int64_t>(meta.sum),
                                            meta.attributes_scheme, meta.state};
  return hasher_.hash(numbers, {});
}

bool StoreFile::knows(ResourceId resource) const {
  const auto index = static_cast<std::size_t>(resource);
  return index < resources_.size() && resources_[index].id != 0;
}

void StoreFile::remember(ResourceId resource, std::int64_t id, std::string name) {
  const auto index = static_cast<std::size_t>(resource);
  if (index >= resources_.size()) resources_.resize(index + 1);
  resources_[index] = {id, std::move(name)};
  last_resource_id_ = std::max(last_resource_id_, id);
}

void StoreFile::forget(std::span<const NewResource> resources) {
  for (const NewResource& resource : resources) resources_[static_cast<std::size_t>(resource.id)] = {};
}

}  // namespace basalt::apiserver
