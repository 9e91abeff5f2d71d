// Disks that are full, fail or lose power.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/store/fault_vfs_test_support.h"
#include "apiserver/store/store.h"
#include "apiserver/store/store_test_support.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

using testing::data_of;
using testing::FaultVfs;
using ::testing::HasSubstr;
using testing::object_text;
using testing::open_or_fail;
using testing::TemporaryDirectory;
using testing::TestWrite;

namespace fs = std::filesystem;

class DiskFault : public ::testing::Test {
 protected:
  StoreOptions options(const fs::path& directory, Durability durability = Durability::Full) {
    StoreOptions options;
    options.durability = durability;
    options.directory = directory;
    return options;
  }
  std::size_t count(Store& store) { return store.count(store.resource("/pods"), ""); }

  TemporaryDirectory directory_;
  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
};

std::string name_of(int number) { return "p" + std::to_string(number); }

// Writes until one fails; returns how many were acknowledged.
int fill(Store& store, int writes_max, Error& failure) {
  const ResourceId pods = store.resource("/pods");
  for (int i = 0; i < writes_max; ++i) {
    const auto entry = TestWrite::create(pods, "ns", name_of(i), std::string(2000, 'x')).on(store);
    if (!entry.ok()) {
      failure = entry.error();
      return i;
    }
  }
  return writes_max;
}

void expect_full(const Error& failure, const fs::path& directory) {
  EXPECT_EQ(failure.reason, Reason::ServiceUnavailable) << failure.to_string();
  EXPECT_THAT(failure.message, HasSubstr((directory / "store.db").string()));
  EXPECT_THAT(failure.message, HasSubstr("disk is full"));
  EXPECT_THAT(failure.message, HasSubstr("Free some space"));
  EXPECT_TRUE(failure.is_transient());
  EXPECT_FALSE(failure.outcome_is_unknown());
}

TEST_F(DiskFault, AFullFileFailsTheWriteAndNothingElse) {
  StoreOptions small = options(directory_.path());
  small.file_bytes_max = 256U << 10;
  auto store = open_or_fail(*runtime_, small);
  const ResourceId pods = store->resource("/pods");
  WatchQuery query;
  query.resource = pods;
  query.after = 1;
  auto watcher = store->watch(query).value();
  Error failure;
  const int written = fill(*store, 1000, failure);
  ASSERT_GT(written, 20);
  ASSERT_LT(written, 1000);
  expect_full(failure, directory_.path());
  EXPECT_EQ(count(*store), static_cast<std::size_t>(written));
  EXPECT_EQ(store->revision(), written + 1);
  EXPECT_EQ(store->get(pods, "ns", name_of(written)), nullptr);
  std::vector<Event> events;
  while (*watcher->poll(events, 1000) > 0) {}
  EXPECT_EQ(events.size(), static_cast<std::size_t>(written));
  EXPECT_FALSE(store->stats().is_read_only);
  EXPECT_EQ(store->stats().writes_failed, 1u);
  // Space that is freed is used again.
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(TestWrite::remove(pods, "ns", name_of(i)).on(*store).ok());
  const auto after = TestWrite::create(pods, "ns", "later", "y").on(*store);
  ASSERT_TRUE(after.ok()) << after.error().to_string();
  EXPECT_EQ((*after)->mod_revision(), written + 10);
  watcher.reset();
  ASSERT_TRUE(store->close().ok());
  store.reset();
  store = open_or_fail(*runtime_, options(directory_.path()));
  EXPECT_EQ(count(*store), static_cast<std::size_t>(written) - 8 + 1);
  EXPECT_EQ(store->revision(), written + 10);
  ASSERT_TRUE(store->close().ok());
}

TEST_F(DiskFault, ARealFullDisk) {
  const fs::path mounted = directory_.path() / "small";
  fs::create_directories(mounted);
  if (::mount("tmpfs", mounted.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "needs the right to mount a file system";
  }
  {
    const fs::path data = mounted / "data";
    auto store = open_or_fail(*runtime_, options(data));
    ASSERT_TRUE(store);
    Error failure;
    const int written = fill(*store, 100'000, failure);
    EXPECT_GT(written, 20);
    expect_full(failure, data);
    EXPECT_EQ(count(*store), static_cast<std::size_t>(written));
    EXPECT_FALSE(store->stats().is_read_only);
    const auto again = TestWrite::create(store->resource("/pods"), "ns", "big", std::string(100'000, 'x')).on(*store);
    EXPECT_FALSE(again.ok());
    EXPECT_TRUE(::mount("tmpfs", mounted.c_str(), "tmpfs", MS_REMOUNT, "size=64m") == 0);
    const auto later = TestWrite::create(store->resource("/pods"), "ns", "later", std::string(100'000, 'x')).on(*store);
    EXPECT_TRUE(later.ok()) << later.error().to_string();
    EXPECT_TRUE(store->close().ok());
    store.reset();
    store = open_or_fail(*runtime_, options(data));
    EXPECT_EQ(count(*store), static_cast<std::size_t>(written) + 1);
    EXPECT_EQ(store->revision(), written + 2);
    EXPECT_TRUE(store->close().ok());
  }
  EXPECT_EQ(::umount(mounted.c_str()), 0);
}

TEST_F(DiskFault, AKillOnAFullDiskLosesNothing) {
  const fs::path mounted = directory_.path() / "small";
  fs::create_directories(mounted);
  if (::mount("tmpfs", mounted.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "needs the right to mount a file system";
  }
  const fs::path copy = directory_.path() / "copy";
  int written = 0;
  {
    auto store = open_or_fail(*runtime_, options(mounted / "data"));
    ASSERT_TRUE(store);
    Error failure;
    written = fill(*store, 100'000, failure);
    // The files as they are now are what a kill leaves behind.
    fs::copy(mounted / "data", copy, fs::copy_options::recursive);
    (void)store->close();
  }
  EXPECT_EQ(::umount(mounted.c_str()), 0);
  auto store = open_or_fail(*runtime_, options(copy));
  ASSERT_TRUE(store);
  EXPECT_EQ(count(*store), static_cast<std::size_t>(written));
  EXPECT_TRUE(store->close().ok());
}

TEST_F(DiskFault, AFailedSyncMakesTheStoreReadOnly) {
  FaultVfs vfs("fail-sync");
  StoreOptions faulty = options(directory_.path());
  faulty.sqlite_vfs = vfs.name();
  auto store = open_or_fail(*runtime_, faulty);
  const ResourceId pods = store->resource("/pods");
  ASSERT_TRUE(TestWrite::create(pods, "ns", "a", "1").on(*store).ok());
  vfs.set_hook([](FaultVfs::Operation operation, std::uint64_t) {
    return operation == FaultVfs::Operation::Sync ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  });
  const auto failed = TestWrite::create(pods, "ns", "b", "1").on(*store);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().reason, Reason::InternalError);
  EXPECT_TRUE(failed.error().outcome_is_unknown());
  EXPECT_THAT(failed.error().message, HasSubstr("store.db"));
  vfs.set_hook(nullptr);
  const auto refused = TestWrite::create(pods, "ns", "c", "1").on(*store);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, Reason::ServiceUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("read-only"));
  EXPECT_TRUE(store->stats().is_read_only);
  EXPECT_EQ(count(*store), 1u) << "what is not certain is not shown";
  EXPECT_TRUE(store->get(pods, "ns", "a"));
  (void)store->close();
  store.reset();
  store = open_or_fail(*runtime_, options(directory_.path()));
  ASSERT_TRUE(store);
  EXPECT_TRUE(store->get(store->resource("/pods"), "ns", "a"));
  EXPECT_FALSE(store->stats().is_read_only);
  EXPECT_TRUE(store->close().ok());
}

TEST_F(DiskFault, AFullDiskAtAnyPointOfACommit) {
  for (std::uint64_t point = 1; point <= 40; ++point) {
    TemporaryDirectory directory;
    FaultVfs vfs("full-disk");
    StoreOptions faulty = options(directory.path());
    faulty.sqlite_vfs = vfs.name();
    faulty.log_bytes_max = 100'000;
    auto store = open_or_fail(*runtime_, faulty);
    const ResourceId pods = store->resource("/pods");
    const std::uint64_t start = vfs.operations();
    vfs.set_hook([start, point](FaultVfs::Operation operation, std::uint64_t number) {
      return operation == FaultVfs::Operation::Write && number >= start + point && number < start + point + 3
                 ? SQLITE_FULL
                 : SQLITE_OK;
    });
    std::vector<std::string> acknowledged;
    for (int i = 0; i < 40; ++i) {
      const auto entry = TestWrite::create(pods, "ns", name_of(i), std::string(1500, 'x')).on(*store);
      if (entry.ok()) {
        acknowledged.push_back(name_of(i));
      } else {
        EXPECT_EQ(entry.error().reason, Reason::ServiceUnavailable);
        EXPECT_EQ(store->get(pods, "ns", name_of(i)), nullptr);
      }
    }
    EXPECT_LT(acknowledged.size(), 41u);
    EXPECT_GT(acknowledged.size(), 30u);
    EXPECT_EQ(store->revision(), static_cast<Revision>(acknowledged.size()) + 1);
    EXPECT_TRUE(store->close().ok());
    store.reset();
    store = open_or_fail(*runtime_, options(directory.path()));
    ASSERT_TRUE(store);
    EXPECT_EQ(count(*store), acknowledged.size());
    for (const std::string& name : acknowledged) EXPECT_TRUE(store->get(store->resource("/pods"), "ns", name));
    EXPECT_TRUE(store->close().ok());
  }
}

// Power goes at any write or sync, in the middle of commits and of folding the log: whatever was acknowledged before
// is there, the last write is there or not, and nothing else is.
TEST_F(DiskFault, LossOfPowerAtAnyPoint) {
  int images = 0;
  for (std::uint64_t seed = 1; seed <= 120 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    TemporaryDirectory directory;
    FaultVfs vfs("power");
    StoreOptions faulty = options(directory.path() / "before");
    faulty.sqlite_vfs = vfs.name();
    faulty.log_bytes_max = 60'000;
    auto store = open_or_fail(*runtime_, faulty);
    const ResourceId pods = store->resource("/pods");
    std::atomic<int> acknowledged{0};
    int acknowledged_at_loss = -1;
    const fs::path after = directory.path() / "after";
    const std::uint64_t point = vfs.operations() + 1 + random() % 120;
    const double keep = std::vector<double>{0, 0.5, 0.9, 1}[random() % 4];
    vfs.set_hook([&](FaultVfs::Operation, std::uint64_t number) {
      if (number == point) {
        acknowledged_at_loss = acknowledged.load();
        vfs.save_image(after, seed, keep);
      }
      return SQLITE_OK;
    });
    // Write number i updates or creates the object i % 7.
    constexpr int kWrites = 60;
    for (int i = 0; i < kWrites; ++i) {
      const std::string name = name_of(i % 7);
      const std::string data = std::to_string(i) + std::string(1000, 'x');
      const auto entry = i < 7 ? TestWrite::create(pods, "ns", name, data).on(*store)
                               : TestWrite::update(pods, "ns", name, data).on(*store);
      ASSERT_TRUE(entry.ok()) << entry.error().to_string();
      ++acknowledged;
    }
    ASSERT_TRUE(store->close().ok());
    store.reset();
    if (acknowledged_at_loss < 0) continue;
    ++images;
    store = open_or_fail(*runtime_, options(after));
    ASSERT_TRUE(store);
    const auto writes = static_cast<int>(store->revision()) - 1;
    EXPECT_TRUE(writes == acknowledged_at_loss || writes == acknowledged_at_loss + 1)
        << writes << " writes are there, " << acknowledged_at_loss << " were acknowledged";
    for (int i = std::max(0, writes - 7); i < writes; ++i) {
      const EntryRef entry = store->get(store->resource("/pods"), "ns", name_of(i % 7));
      ASSERT_TRUE(entry);
      EXPECT_EQ(*entry->object(), object_text(i + 2, std::to_string(i) + std::string(1000, 'x')));
    }
    EXPECT_EQ(count(*store), static_cast<std::size_t>(std::min(7, writes)));
    EXPECT_TRUE(store->close().ok());
  }
  EXPECT_GT(images, 60);
}

// Without syncs the last writes may go, but the file is never damaged and the revision never comes back.
TEST_F(DiskFault, LossOfPowerUnderAFastStore) {
  int shorter = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    TemporaryDirectory directory;
    FaultVfs vfs("power-fast");
    StoreOptions faulty = options(directory.path() / "before", Durability::Fast);
    faulty.sqlite_vfs = vfs.name();
    faulty.log_bytes_max = 60'000;
    auto store = open_or_fail(*runtime_, faulty);
    const ResourceId pods = store->resource("/pods");
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(TestWrite::create(pods, "ns", name_of(i), std::string(1000, 'x')).on(*store).ok());
    }
    const Revision seen = store->revision();
    const fs::path after = directory.path() / "after";
    vfs.save_image(after, seed, std::vector<double>{0, 0.5, 0.9, 1}[random() % 4]);
    ASSERT_TRUE(store->close().ok());
    store.reset();
    store = open_or_fail(*runtime_, options(after, seed % 2 == 0 ? Durability::Fast : Durability::Full));
    ASSERT_TRUE(store);
    EXPECT_GT(store->revision(), seen);
    shorter += count(*store) < 40 ? 1 : 0;
    EXPECT_TRUE(store->close().ok());
  }
  EXPECT_GT(shorter, 0) << "the test is to see lost writes";
}

}  // namespace
}  // namespace basalt::apiserver
