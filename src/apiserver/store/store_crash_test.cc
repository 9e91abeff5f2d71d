// Kills a process that writes, at any moment, again and again, and looks at what it left behind.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "apiserver/store/store.h"
#include "apiserver/store/store_test_support.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

using testing::data_of;
using testing::open_or_fail;
using testing::TemporaryDirectory;
using testing::TestWrite;

namespace fs = std::filesystem;

constexpr int kWriters = 16;
constexpr int kWritesPerWriter = 10'000 / kWriters;
constexpr const char* kDirectoryVariable = "BASALT_STORE_CRASH_DIRECTORY";
constexpr const char* kRoundVariable = "BASALT_STORE_CRASH_ROUND";

// What writer `writer` of a round does as its write number `number`: create three objects, update the first, delete the
// second, and so on with the next ones. So every kind of write is under way at all times.
struct PlannedWrite {
  WriteKind kind = WriteKind::Create;
  std::string name;
  std::string data;
};

PlannedWrite planned(int round, int writer, int number) {
  const int trio = number / 5;
  const auto name = [&](int which) {
    return "r" + std::to_string(round) + "-w" + std::to_string(writer) + "-" + std::to_string(trio * 3 + which);
  };
  const std::string data = "n" + std::to_string(number) + std::string(700, 'x');
  switch (number % 5) {
    case 3:
      return {WriteKind::Update, name(0), data};
    case 4:
      return {WriteKind::Delete, name(1), ""};
    default:
      return {WriteKind::Create, name(number % 5), data};
  }
}

// The objects that a writer leaves behind after `count` writes.
std::map<std::string, std::string> state_after(int round, int writer, int count) {
  std::map<std::string, std::string> state;
  for (int i = 0; i < count; ++i) {
    const PlannedWrite write = planned(round, writer, i);
    if (write.kind == WriteKind::Delete) {
      state.erase(write.name);
    } else {
      state[write.name] = write.data;
    }
  }
  return state;
}

StoreOptions options(const fs::path& directory) {
  StoreOptions options;
  options.durability = Durability::Full;
  options.directory = directory;
  options.log_bytes_max = 4U << 20;  // so that the log is folded now and then
  return options;
}

// The process that is killed: this very program with a filter. Prints "writer number revision" for each write that
// the store acknowledged.
TEST(StoreCrash, DISABLED_Child) {
  const char* directory = std::getenv(kDirectoryVariable);
  ASSERT_NE(directory, nullptr) << "is started by StoreCrash.AcknowledgedWritesSurviveKills";
  const int round = std::atoi(std::getenv(kRoundVariable));
  const auto runtime = rt::make_real_runtime();
  auto store = open_or_fail(*runtime, options(directory));
  ASSERT_TRUE(store);
  const ResourceId pods = store->resource("/pods");
  std::vector<rt::Thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back(*runtime, "writer", [&, writer] {
      for (int number = 0; number < kWritesPerWriter; ++number) {
        const PlannedWrite plan = planned(round, writer, number);
        const auto entry =
            plan.kind == WriteKind::Create   ? TestWrite::create(pods, "ns", plan.name, plan.data).on(*store)
            : plan.kind == WriteKind::Update ? TestWrite::update(pods, "ns", plan.name, plan.data).on(*store)
                                             : TestWrite::remove(pods, "ns", plan.name).on(*store);
        std::array<char, 64> line{};
        const int size = entry.ok() ? std::snprintf(line.data(), line.size(), "%d %d %lld\n", writer, number,
                                                    static_cast<long long>((*entry)->mod_revision()))
                                    : std::snprintf(line.data(), line.size(), "failed\n");
        // One short line is written at once.
        if (::write(STDOUT_FILENO, line.data(), static_cast<std::size_t>(size)) != size) return;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(store->close().ok());
}

struct Acknowledged {
  std::array<int, kWriters> writes{};
  Revision revision = 0;
  bool failed = false;
};

// Starts the child, kills it after `lines_max` lines, and returns what it acknowledged.
Acknowledged run_child(const fs::path& directory, int round, int lines_max) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const std::string round_text = std::to_string(round);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::setenv(kDirectoryVariable, directory.c_str(), 1);
    ::setenv(kRoundVariable, round_text.c_str(), 1);
    ::unsetenv("GTEST_TOTAL_SHARDS");
    ::unsetenv("GTEST_SHARD_INDEX");
    ::execl("/proc/self/exe", "child", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
            "--gtest_filter=StoreCrash.DISABLED_Child", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  Acknowledged acknowledged;
  FILE* stream = ::fdopen(ends[0], "r");
  std::array<char, 256> line{};
  int lines = 0;
  // After the kill it goes on to read what the pipe holds: all of that was acknowledged, too.
  while (std::fgets(line.data(), line.size(), stream) != nullptr) {
    int writer = 0;
    int number = 0;
    long long revision = 0;
    if (std::sscanf(line.data(), "%d %d %lld", &writer, &number, &revision) == 3) {
      EXPECT_EQ(acknowledged.writes[static_cast<std::size_t>(writer)], number);
      acknowledged.writes[static_cast<std::size_t>(writer)] = number + 1;
      acknowledged.revision = std::max<Revision>(acknowledged.revision, revision);
      if (++lines == lines_max) ::kill(child, SIGKILL);
    } else if (std::string(line.data()).find("failed") == 0) {
      acknowledged.failed = true;
    }
  }
  std::fclose(stream);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return acknowledged;
}

TEST(StoreCrash, AcknowledgedWritesSurviveKills) {
  TemporaryDirectory directory;
  const auto runtime = rt::make_real_runtime();
  std::mt19937_64 random(std::random_device{}());
  std::map<std::string, std::string> settled;  // of earlier rounds
  Revision revision_before = 1;
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const bool finishes = round == kRounds - 1;
    const int lines_max = finishes ? 1'000'000 : 1 + static_cast<int>(random() % 3'000);
    const Acknowledged acknowledged = run_child(directory.path(), round, lines_max);
    EXPECT_FALSE(acknowledged.failed);
    auto store = open_or_fail(*runtime, options(directory.path()));
    ASSERT_TRUE(store);
    EXPECT_GE(store->revision(), acknowledged.revision);
    EXPECT_GE(store->revision(), revision_before);
    revision_before = store->revision();

    ListQuery query;
    query.resource = store->resource("/pods");
    const auto listing = store->list(query);
    ASSERT_TRUE(listing.ok());
    std::map<std::string, std::string> found;
    for (const EntryRef& entry : listing->entries) found[std::string(entry->name())] = data_of(*entry);
    for (const auto& [name, data] : settled) {
      EXPECT_EQ(found[name], data) << name << " of an earlier round";
      found.erase(name);
    }
    for (int writer = 0; writer < kWriters; ++writer) {
      const std::string prefix = "r" + std::to_string(round) + "-w" + std::to_string(writer) + "-";
      std::map<std::string, std::string> ours;
      for (auto it = found.begin(); it != found.end();) {
        it = it->first.starts_with(prefix) ? (ours.insert(*it), found.erase(it)) : std::next(it);
      }
      const int count = acknowledged.writes[static_cast<std::size_t>(writer)];
      if (finishes) {
        EXPECT_EQ(count, kWritesPerWriter);
      }
      // The write that was under way may be there or not.
      EXPECT_TRUE(ours == state_after(round, writer, count) || ours == state_after(round, writer, count + 1))
          << "writer " << writer << " with " << count << " acknowledged writes";
      settled.insert(ours.begin(), ours.end());
    }
    EXPECT_TRUE(found.empty()) << "nobody wrote " << found.begin()->first;
    EXPECT_TRUE(store->close().ok());
  }
}

}  // namespace
}  // namespace basalt::apiserver
