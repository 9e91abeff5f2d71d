// What is refused at start, and what a file holds.

#include "apiserver/store/file/store_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/store/file/log_check.h"
#include "apiserver/store/file/store_format.h"
#include "apiserver/store/store.h"
#include "apiserver/store/store_test_support.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

using ::testing::AllOf;
using testing::data_of;
using ::testing::HasSubstr;
using testing::open_or_fail;
using testing::TemporaryDirectory;
using testing::TestWrite;

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  if (!fs::is_regular_file(path)) return "";
  std::string contents(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(contents.data(), static_cast<std::streamsize>(contents.size()));
  return contents;
}

void write_file(const fs::path& path, std::string_view contents) {
  std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

void run_sql(const fs::path& path, const char* sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, &message), SQLITE_OK) << (message != nullptr ? message : "");
  sqlite3_close(db);
}

class StoreFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] StoreOptions options() const {
    StoreOptions options;
    options.durability = Durability::Full;
    options.directory = data_;
    return options;
  }
  // A store with some objects, closed in good order, so that all of it is in the main file.
  void make_store(int objects = 50) {
    auto store = open_or_fail(*runtime_, options());
    ASSERT_TRUE(store);
    add(*store, 0, objects);
    ASSERT_TRUE(store->close().ok());
  }
  static void add(Store& store, int begin, int end) {
    for (int i = begin; i < end; ++i) {
      ASSERT_TRUE(
          TestWrite::create(store.resource("/pods"), "ns", "p" + std::to_string(i), "marker" + std::to_string(i))
              .on(store)
              .ok());
    }
  }
  // The folder as a kill would leave it, with its log, in a place of its own.
  fs::path make_killed_store(int objects) {
    auto store = open_or_fail(*runtime_, options());
    add(*store, 0, objects);
    const fs::path copy = directory_.path() / "killed";
    fs::copy(data_, copy, fs::copy_options::recursive);
    EXPECT_TRUE(store->close().ok());
    return copy;
  }
  // Opens, expects a failure that leaves everything as it was, and returns the error.
  Error refused(const StoreOptions& wanted) {
    const fs::path log = wanted.directory / "store.db-wal";
    const std::string before = read_file(wanted.directory / "store.db");
    const std::string log_before = read_file(log);
    auto store = Store::open(*runtime_, wanted);
    EXPECT_FALSE(store.ok());
    if (store.ok()) {
      EXPECT_TRUE((*store)->close().ok());
      return Error::make(Reason::Unknown, "it was opened");
    }
    EXPECT_EQ(read_file(wanted.directory / "store.db"), before) << "a file that is refused is not changed";
    EXPECT_EQ(read_file(log), log_before);
    return store.error();
  }
  Error refused() { return refused(options()); }

  TemporaryDirectory directory_;
  const fs::path data_ = directory_.path() / "data";
  const fs::path file_ = data_ / "store.db";
  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
};

TEST_F(StoreFileTest, HoldsEverythingAcrossARestart) {
  {
    auto store = open_or_fail(*runtime_, options());
    add(*store, 0, 20);
    const ResourceId jobs = store->resource("batch.volcano.sh/jobs");
    ASSERT_TRUE(TestWrite::create(jobs, "ns", "j", "job").on(*store).ok());
    ASSERT_TRUE(TestWrite::update(store->resource("/pods"), "ns", "p3", "changed").on(*store).ok());
    ASSERT_TRUE(TestWrite::remove(store->resource("/pods"), "ns", "p4").on(*store).ok());
    ASSERT_TRUE(store->close().ok());
  }
  EXPECT_FALSE(fs::exists(data_ / "store.db-wal")) << "a store that was closed is one file";
  auto store = open_or_fail(*runtime_, options());
  ASSERT_TRUE(store);
  EXPECT_EQ(store->revision(), 24);
  // Ids are those of this run; names are those of the file.
  const ResourceId nodes = store->resource("/nodes");
  const ResourceId pods = store->resource("/pods");
  EXPECT_EQ(store->count(pods, ""), 19u);
  EXPECT_EQ(store->count(nodes, ""), 0u);
  EXPECT_EQ(data_of(*store->get(store->resource("batch.volcano.sh/jobs"), "ns", "j")), "job");
  const EntryRef changed = store->get(pods, "ns", "p3");
  EXPECT_EQ(data_of(*changed), "changed");
  EXPECT_EQ(changed->create_revision(), 5);
  EXPECT_EQ(changed->mod_revision(), 23);
  EXPECT_EQ(store->get(pods, "ns", "p4"), nullptr);
  EXPECT_EQ(store->oldest_revision(pods), 24) << "the history is not kept";
  WatchQuery query;
  query.resource = pods;
  query.after = 23;
  EXPECT_EQ(store->watch(query).error().reason, Reason::Expired);
  query.after = 24;
  EXPECT_TRUE(store->watch(query).ok());
  ASSERT_TRUE(TestWrite::create(nodes, "", "n", "x").on(*store).ok());
  EXPECT_EQ(store->revision(), 25);
  ASSERT_TRUE(store->close().ok());
  store = nullptr;
  store = open_or_fail(*runtime_, options());
  EXPECT_EQ(store->revision(), 25);
  EXPECT_TRUE(store->get(store->resource("/nodes"), "", "n"));
  ASSERT_TRUE(store->close().ok());
}

TEST_F(StoreFileTest, AKilledStoreIsReadFromItsLog) {
  StoreOptions killed = options();
  killed.directory = make_killed_store(30);
  auto store = open_or_fail(*runtime_, killed);
  ASSERT_TRUE(store);
  EXPECT_EQ(store->count(store->resource("/pods"), ""), 30u);
  EXPECT_EQ(store->revision(), 31);
  ASSERT_TRUE(store->close().ok());
}

TEST_F(StoreFileTest, IsForThisUserOnly) {
  make_store(1);
  struct stat status{};
  ASSERT_EQ(::stat(data_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(StoreFileTest, ALongLogIsFolded) {
  StoreOptions folding = options();
  folding.log_bytes_max = 200'000;
  auto store = open_or_fail(*runtime_, folding);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(TestWrite::create(store->resource("/pods"), "ns", "p" + std::to_string(i), std::string(2000, 'x'))
                    .on(*store)
                    .ok());
    ASSERT_LE(store->stats().log_bytes, 250'000u);
  }
  EXPECT_GT(fs::file_size(file_), 500'000u);
  ASSERT_TRUE(store->close().ok());
}

TEST_F(StoreFileTest, RefusesAFileThatIsNoDatabase) {
  fs::create_directories(data_);
  for (const std::string& contents : {std::string(), std::string("hello"), std::string(5000, 'x')}) {
    write_file(file_, contents);
    const Error error = refused();
    EXPECT_EQ(error.reason, Reason::InvalidInput);
    EXPECT_THAT(error.message, AllOf(HasSubstr(file_.string()), HasSubstr("not a store"), HasSubstr("Move it away")));
  }
}

TEST_F(StoreFileTest, RefusesADatabaseOfAnotherProgram) {
  fs::create_directories(data_);
  run_sql(file_, "PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES (1);");
  const Error error = refused();
  EXPECT_THAT(error.message,
              AllOf(HasSubstr(file_.string()), HasSubstr("another program"), HasSubstr("Nothing was changed")));
}

TEST_F(StoreFileTest, RefusesANewerFormat) {
  make_store();
  run_sql(file_, "PRAGMA user_version=99");
  fs::remove(data_ / "store.db-wal");
  const Error error = refused();
  EXPECT_THAT(error.message, AllOf(HasSubstr(file_.string()), HasSubstr("version 99"), HasSubstr("version 1.")));
}

TEST_F(StoreFileTest, RefusesALogWithoutItsFile) {
  fs::create_directories(data_);
  write_file(data_ / "store.db-wal", "something");
  const Error error = refused();
  EXPECT_THAT(error.message, HasSubstr("store.db-wal"));
}

TEST_F(StoreFileTest, RefusesADirectoryInPlaceOfTheFile) {
  fs::create_directories(file_);
  EXPECT_THAT(refused().message, HasSubstr("is not a file"));
}

TEST_F(StoreFileTest, RefusesAFileInPlaceOfTheDirectory) {
  write_file(data_, "x");
  EXPECT_THAT(refused().message, AllOf(HasSubstr(data_.string()), HasSubstr("is not a directory")));
}

TEST_F(StoreFileTest, RefusesATruncatedFile) {
  make_store(200);
  const std::string whole = read_file(file_);
  const std::size_t end = whole.find_last_not_of('\0');
  for (const std::size_t size : {std::size_t{100}, std::size_t{4096}, std::size_t{kPageBytes} * 3, end}) {
    write_file(file_, whole.substr(0, size));
    const Error error = refused();
    EXPECT_EQ(error.reason, Reason::InvalidInput) << error.to_string();
    EXPECT_THAT(error.message, AllOf(HasSubstr(file_.string()), HasSubstr("damaged"), HasSubstr("backup")));
  }
}

TEST_F(StoreFileTest, FindsEveryGarbledObject) {
  make_store(20);
  const std::string whole = read_file(file_);
  int found = 0;
  for (std::size_t at = whole.find("marker"); at != std::string::npos; at = whole.find("marker", at + 1)) {
    std::string garbled = whole;
    garbled[at] = 'M';
    write_file(file_, garbled);
    const Error error = refused();
    EXPECT_THAT(error.message, AllOf(HasSubstr("damaged"), HasSubstr("checksum"), HasSubstr(".recover")));
    ++found;
  }
  EXPECT_EQ(found, 40) << "in the text and in the attributes of each";
}

// Any one damaged byte is either found or changes nothing that the store reads.
TEST_F(StoreFileTest, NoGarbledByteGoesUnnoticed) {
  make_store(30);
  const std::string whole = read_file(file_);
  int refusals = 0;
  // The file grows in large steps; what is behind its last page is nothing.
  const std::size_t end = whole.find_last_not_of('\0');
  for (std::size_t at = 100; at < end; at += end / 500) {
    std::string garbled = whole;
    garbled[at] = static_cast<char>(garbled[at] ^ 0x55);
    write_file(file_, garbled);
    auto store = Store::open(*runtime_, options());
    if (!store.ok()) {
      EXPECT_EQ(store.error().reason, Reason::InvalidInput) << store.error().to_string();
      ++refusals;
      fs::remove(data_ / "store.db-wal");
      continue;
    }
    const ResourceId pods = (*store)->resource("/pods");
    EXPECT_EQ((*store)->revision(), 31);
    EXPECT_EQ((*store)->count(pods, ""), 30u);
    for (int i = 0; i < 30; ++i) {
      const EntryRef entry = (*store)->get(pods, "ns", "p" + std::to_string(i));
      ASSERT_TRUE(entry);
      EXPECT_EQ(data_of(*entry), "marker" + std::to_string(i));
    }
    EXPECT_TRUE((*store)->close().ok());
  }
  EXPECT_GT(refusals, 50);
}

TEST_F(StoreFileTest, FindsALostOrStaleRow) {
  make_store(20);
  const std::string whole = read_file(file_);
  for (const char* sql :
       {"DELETE FROM object WHERE id = 3",
        "INSERT INTO object SELECT 999, resource, create_revision, mod_revision, revision_offset, hash, "
        "key || 'x', attributes, object FROM object WHERE id = 3",
        "UPDATE meta SET revision = revision - 5", "UPDATE meta SET objects = 0, sum = 0",
        "UPDATE resource SET name = '/nodes'", "DELETE FROM resource", "DELETE FROM meta", "DROP TABLE object",
        "UPDATE object SET key = 'ns/q' WHERE id = 3"}) {
    write_file(file_, whole);
    run_sql(file_, sql);
    fs::remove(data_ / "store.db-wal");
    const Error error = refused();
    EXPECT_THAT(error.message, HasSubstr("damaged")) << sql;
  }
}

TEST_F(StoreFileTest, ATornLogEndLosesOnlyWhatWasNotWhole) {
  const fs::path killed = make_killed_store(30);
  StoreOptions wanted = options();
  wanted.directory = killed;
  // The reserve behind the last commit is zeros; cut into the last frame.
  const LogCheck check = check_log(killed / "store.db-wal");
  EXPECT_FALSE(check.is_damaged);
  fs::resize_file(killed / "store.db-wal", check.good_bytes - 100);
  auto store = open_or_fail(*runtime_, wanted);
  ASSERT_TRUE(store);
  EXPECT_EQ(store->count(store->resource("/pods"), ""), 29u);
  ASSERT_TRUE(store->close().ok());
}

TEST_F(StoreFileTest, RefusesALogThatIsDamagedInTheMiddle) {
  const fs::path killed = make_killed_store(30);
  const fs::path log = killed / "store.db-wal";
  const std::string whole = read_file(log);
  StoreOptions wanted = options();
  wanted.directory = killed;
  const std::uint64_t good = check_log(log).good_bytes;
  for (const std::size_t at :
       {std::size_t{5}, std::size_t{20}, std::size_t{32}, std::size_t{1000}, std::size_t{good / 2}}) {
    std::string garbled = whole;
    garbled[at] = static_cast<char>(garbled[at] ^ 0x55);
    write_file(log, garbled);
    const Error error = refused(wanted);
    EXPECT_THAT(error.message, AllOf(HasSubstr(log.string()), HasSubstr("damaged"), HasSubstr("backup"))) << at;
  }
  // Following the advice helps.
  write_file(log, whole.substr(0, check_log(log).good_bytes));
  auto store = open_or_fail(*runtime_, wanted);
  ASSERT_TRUE(store);
  ASSERT_TRUE(store->close().ok());
}

TEST_F(StoreFileTest, TwoProcessesCannotShareADirectory) {
  auto store = open_or_fail(*runtime_, options());
  auto second = Store::open(*runtime_, options());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message,
              AllOf(HasSubstr(data_.string()), HasSubstr("in use by process " + std::to_string(::getpid())),
                    HasSubstr("Stop it")));
  ASSERT_TRUE(store->close().ok());
  store.reset();
  store = open_or_fail(*runtime_, options());
  ASSERT_TRUE(store) << "the lock goes with its holder";
  ASSERT_TRUE(store->close().ok());
}

TEST_F(StoreFileTest, RefusesAFolderThatCannotBeWritten) {
  fs::create_directories(data_);
  ::chmod(data_.c_str(), 0500);
  ::chmod(directory_.path().c_str(), 0755);
  // Root may write everywhere, so the attempt is made by somebody else, in a process of its own.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    const auto lock = DirectoryLock::take(data_);
    const bool good = !lock.ok() && lock.error().message.find(data_.string()) != std::string::npos &&
                      lock.error().message.find("Permission denied") != std::string::npos &&
                      lock.error().message.find("choose another data directory") != std::string::npos;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ::chmod(data_.c_str(), 0700);
}

TEST_F(StoreFileTest, AnUnfinishedNewFileIsMadeAgain) {
  fs::create_directories(data_);
  write_file(data_ / "store.db.new", "left over by a kill");
  make_store(3);
  EXPECT_FALSE(fs::exists(data_ / "store.db.new"));
}

TEST_F(StoreFileTest, AttributesOfAnotherSchemeAreMadeAgain) {
  make_store(10);
  StoreOptions newer = options();
  newer.attributes_scheme = 2;
  int calls = 0;
  newer.reindex = [&calls](std::string_view resource, std::string_view object, AttributesWriter& out) {
    EXPECT_EQ(resource, "/pods");
    ++calls;
    out.reset("new-uid");
    out.add_label("data", "again");
    out.add_field("length", std::to_string(object.size()));
  };
  for (int round = 0; round < 2; ++round) {
    auto store = open_or_fail(*runtime_, newer);
    ASSERT_TRUE(store);
    EXPECT_EQ(calls, 10) << "only once";
    const EntryRef entry = store->get(store->resource("/pods"), "ns", "p3");
    EXPECT_EQ(entry->attributes().uid(), "new-uid");
    EXPECT_TRUE(entry->attributes().field("length"));
    EXPECT_EQ(entry->mod_revision(), 5);
    ASSERT_TRUE(TestWrite::update(store->resource("/pods"), "ns", "p" + std::to_string(round), "w").on(*store).ok());
    ASSERT_TRUE(store->close().ok());
  }
}

TEST(LogCheck, AnAbsentOrEmptyLogIsFine) {
  TemporaryDirectory directory;
  const fs::path log = directory.path() / "log";
  EXPECT_FALSE(check_log(log).is_damaged);
  write_file(log, "");
  EXPECT_FALSE(check_log(log).is_damaged);
  write_file(log, std::string(100'000, '\0'));
  EXPECT_FALSE(check_log(log).is_damaged);
  write_file(log, std::string(100'000, 'x'));
  EXPECT_TRUE(check_log(log).is_damaged);
}

}  // namespace
}  // namespace basalt::apiserver
