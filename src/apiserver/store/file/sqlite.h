#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace basalt::apiserver {

// A thin layer over SQLite: results instead of codes, errors that name the file and what to do. One thread.
class SqliteDatabase {
 public:
  SqliteDatabase() = default;
  ~SqliteDatabase() { close(); }
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Opens a file that exists; `vfs` "" is the default one. Closing it does not fold its log unless fold_on_close() was
  // called.
  Done open(const std::filesystem::path& file, const std::string& vfs);
  void close();
  void fold_on_close();

  // One or more statements without results.
  Done run(const char* sql);
  // The first column of the first row, as text; "" if there is none.
  Result<std::string> query(const char* sql);
  Result<std::int64_t> query_number(const char* sql);
  // Ends the transaction without effect, if one is open.
  void rollback();

  // Copies the log's pages to the main file. What could not be copied stays in the log.
  Done fold_log();
  // Pages in the log after the last commit.
  [[nodiscard]] std::int64_t log_pages() const { return log_pages_; }
  void set_growth_step(int bytes);

  // The error of the last call that failed.
  [[nodiscard]] Error error(std::string_view doing) const;
  // True if after the last failure it is not certain what the disk holds, so that nothing more may be written.
  [[nodiscard]] bool failure_is_final() const;

 private:
  friend class SqliteStatement;
  sqlite3* db_ = nullptr;
  std::string path_;
  std::int64_t log_pages_ = 0;
};

// A prepared statement: bind, step, columns, reset. Bound texts must outlive the step.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  ~SqliteStatement() { finish(); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  Done prepare(SqliteDatabase& database, std::string_view sql);
  void finish();

  SqliteStatement& bind(int index, std::int64_t number);
  SqliteStatement& bind(int index, std::uint64_t number) { return bind(index, static_cast<std::int64_t>(number)); }
  SqliteStatement& bind_text(int index, std::string_view text);
  SqliteStatement& bind_blob(int index, std::string_view bytes);
  // True if there is a row.
  Result<bool> step();
  // For a statement without rows: step and reset.
  Done run();
  void reset();

  [[nodiscard]] std::int64_t number(int column) const;
  // Valid until the next step or reset.
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  SqliteDatabase* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace basalt::apiserver
