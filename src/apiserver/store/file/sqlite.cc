#include "apiserver/store/file/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace basalt::apiserver {
namespace {

int remember_log_pages(void* target, sqlite3* /*db*/, const char* /*schema*/, int pages) {
  *static_cast<std::int64_t*>(target) = pages;
  return SQLITE_OK;
}

bool is_disk_full(int code, int system_errno) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  return (code & 0xff) == SQLITE_IOERR && (system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EFBIG) &&
         code == SQLITE_IOERR_WRITE;
}

}  // namespace

Done SqliteDatabase::open(const std::filesystem::path& file, const std::string& vfs) {
  path_ = file.string();
  // The store's own lock file keeps other processes away and one thread uses the connection, hence no mutex in it.
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
  if (sqlite3_open_v2(path_.c_str(), &db_, flags, vfs.empty() ? nullptr : vfs.c_str()) != SQLITE_OK)
    return error("cannot open it");
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  // A damaged schema must not run code of its own.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // Replaces SQLite's own folding of the log.
  sqlite3_wal_hook(db_, &remember_log_pages, &log_pages_);
  return Ok{};
}

void SqliteDatabase::close() {
  if (db_ == nullptr) return;
  BASALT_CHECK_MSG(sqlite3_close(db_) == SQLITE_OK, "statements are finished before their database is closed");
  db_ = nullptr;
}

void SqliteDatabase::fold_on_close() { sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr); }

Done SqliteDatabase::run(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error(sql);
  return Ok{};
}

Result<std::string> SqliteDatabase::query(const char* sql) {
  SqliteStatement statement;
  BASALT_TRY_DONE(statement.prepare(*this, sql));
  BASALT_TRY(const bool has_row, statement.step());
  return has_row ? std::string(statement.bytes(0)) : std::string();
}

Result<std::int64_t> SqliteDatabase::query_number(const char* sql) {
  SqliteStatement statement;
  BASALT_TRY_DONE(statement.prepare(*this, sql));
  BASALT_TRY(const bool has_row, statement.step());
  return has_row ? statement.number(0) : 0;
}

void SqliteDatabase::rollback() {
  // A full disk may have ended the transaction already. If this fails, too, the next BEGIN says so.
  if (sqlite3_get_autocommit(db_) == 0) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Done SqliteDatabase::fold_log() {
  int pages = 0;
  int folded = 0;
  if (sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages, &folded) != SQLITE_OK) {
    return error("cannot fold the log into it");
  }
  return Ok{};
}

void SqliteDatabase::set_growth_step(int bytes) {
  // Only a hint: a file system that cannot reserve space goes on as before.
  sqlite3_file_control(db_, nullptr, SQLITE_FCNTL_CHUNK_SIZE, &bytes);
}

Error SqliteDatabase::error(std::string_view doing) const {
  const int code = db_ == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(db_);
  const int system = db_ == nullptr ? 0 : sqlite3_system_errno(db_);
  std::string what = path_ + ": " + std::string(doing) + ": ";
  what += db_ == nullptr ? "out of memory" : sqlite3_errmsg(db_);
  if (system != 0) what += " (" + std::string(std::strerror(system)) + ")";
  if (is_disk_full(code, system)) {
    return Error::make(Reason::ServiceUnavailable,
                       what +
                           ". The disk is full and the write was not carried out. Free some space; nothing that was "
                           "acknowledged is lost, and writes are taken again as soon as they fit.");
  }
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_SCHEMA:
    case SQLITE_ERROR:
      return Error::invalid_input(what + ". The file is damaged; nothing was changed. Restore it from a backup, or " +
                                  "salvage what can be read with \"sqlite3 " + path_ +
                                  " .recover\" into another file.");
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return Error::invalid_input(what + ". Give this user the right to write the file and its folder, or choose " +
                                  "another data directory.");
    case SQLITE_BUSY:
      return Error::invalid_input(what + ". Another program has the file open. Close it.");
    default:
      return Error::make(Reason::InternalError,
                         what + ". The disk failed. What was acknowledged before is kept; after a restart the last " +
                             "write may be there or not. Check the disk.");
  }
}

bool SqliteDatabase::failure_is_final() const {
  return !is_disk_full(sqlite3_extended_errcode(db_), sqlite3_system_errno(db_));
}

Done SqliteStatement::prepare(SqliteDatabase& database, std::string_view sql) {
  finish();
  database_ = &database;
  if (sqlite3_prepare_v3(database.db_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement_,
                         nullptr) != SQLITE_OK) {
    return database.error("cannot read it");
  }
  return Ok{};
}

void SqliteStatement::finish() {
  sqlite3_finalize(statement_);
  statement_ = nullptr;
}

// Binding fails only for a wrong index, which is our mistake, or without memory.
SqliteStatement& SqliteStatement::bind(int index, std::int64_t number) {
  BASALT_CHECK(sqlite3_bind_int64(statement_, index, number) == SQLITE_OK);
  return *this;
}

SqliteStatement& SqliteStatement::bind_text(int index, std::string_view text) {
  BASALT_CHECK(sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8) ==
               SQLITE_OK);
  return *this;
}

SqliteStatement& SqliteStatement::bind_blob(int index, std::string_view bytes) {
  // A null pointer would be stored as NULL.
  const char* data = bytes.empty() ? "" : bytes.data();
  BASALT_CHECK(sqlite3_bind_blob64(statement_, index, data, bytes.size(), SQLITE_STATIC) == SQLITE_OK);
  return *this;
}

Result<bool> SqliteStatement::step() {
  switch (sqlite3_step(statement_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return database_->error("cannot carry out a statement");
  }
}

Done SqliteStatement::run() {
  auto stepped = step();
  // After a failure the database keeps its error code through the reset.
  reset();
  if (!stepped.ok()) return std::move(stepped).error();
  return Ok{};
}

void SqliteStatement::reset() { sqlite3_reset(statement_); }

std::int64_t SqliteStatement::number(int column) const { return sqlite3_column_int64(statement_, column); }

std::string_view SqliteStatement::bytes(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string_view() : std::string_view(data, static_cast<std::size_t>(size));
}

}  // namespace basalt::apiserver
