#include "node/container_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "node/testing/local_cluster.h"
#include "rt/sim_test_support.h"

namespace basalt::node {
namespace {

using testing::TemporaryFolder;
using namespace std::chrono_literals;

std::string read(const std::string& folder, std::int32_t run, const LogOptions& options = {},
                 ContainerLog* live = nullptr) {
  std::string text;
  const Done done = read_container_log(folder, run, live, options,
                                       [&](std::string_view bytes) {
                                         text += bytes;
                                         return true;
                                       },
                                       {});
  EXPECT_TRUE(done.ok());
  return text;
}

TEST(ContainerLog, TailSinceLimitAndTimestamps) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    const TemporaryFolder folder;
    ContainerLog log(runtime, folder.path(), 0, {});
    log.append(OutputStream::Out, "one\ntw");
    runtime.sleep_for(10s);
    const rt::WallTime middle = runtime.wall_now();
    log.append(OutputStream::Out, "o\n");
    log.append(OutputStream::Err, "three\nfour");
    log.close();
    EXPECT_EQ(read(folder.path(), 0), "one\ntwo\nthree\nfour");
    EXPECT_EQ(read(folder.path(), 0, {.tail_lines = 2}), "three\nfour");
    EXPECT_EQ(read(folder.path(), 0, {.tail_lines = 0}), "");
    EXPECT_EQ(read(folder.path(), 0, {.tail_lines = 100}), "one\ntwo\nthree\nfour");
    EXPECT_EQ(read(folder.path(), 0, {.since = middle}), "two\nthree\nfour");
    EXPECT_EQ(read(folder.path(), 0, {.tail_lines = 3, .limit_bytes = 6}), "two\nth");
    const std::string stamped = read(folder.path(), 0, {.timestamps = true, .tail_lines = 1});
    EXPECT_EQ(stamped, log_stamp(middle) + " four");
    EXPECT_EQ(log_stamp(middle).size(), 30u);
    EXPECT_EQ(log_end(folder.path(), 0, 7, 2), "ee\nfour");
    EXPECT_EQ(read(folder.path(), 1), "");  // a run without files
  });
}

TEST(ContainerLog, LongLinesAreCutAndPutTogetherAgain) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    const TemporaryFolder folder;
    ContainerLog log(runtime, folder.path(), 0, {});
    const std::string line(ContainerLog::kLineBytesMax * 2 + 100, 'x');
    log.append(OutputStream::Out, "before\n" + line + "\nafter\n");
    log.close();
    EXPECT_EQ(read(folder.path(), 0), "before\n" + line + "\nafter\n");
    EXPECT_EQ(read(folder.path(), 0, {.tail_lines = 2}), line + "\nafter\n");  // pieces count as one line
  });
}

TEST(ContainerLog, RotatesAndKeepsTwoRuns) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    const TemporaryFolder folder;
    {
      ContainerLog log(runtime, folder.path(), 0, {.file_bytes_max = 1000, .files_max = 3});
      for (int i = 0; i < 200; ++i) log.append(OutputStream::Out, "line " + std::to_string(i) + "\n");
      log.close();
      std::size_t files = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        ++files;
        EXPECT_LT(entry.file_size(), 1100u);
      }
      EXPECT_EQ(files, 3u);
      const std::string text = read(folder.path(), 0);
      EXPECT_TRUE(text.ends_with("line 198\nline 199\n"));
      EXPECT_EQ(text.find("line 1\n"), std::string::npos);
    }
    for (std::int32_t run = 1; run <= 2; ++run) {
      ContainerLog log(runtime, folder.path(), run, {});
      log.append(OutputStream::Out, "run " + std::to_string(run) + "\n");
      log.close();
    }
    EXPECT_EQ(read(folder.path(), 2), "run 2\n");
    EXPECT_EQ(read(folder.path(), 1), "run 1\n");
    EXPECT_EQ(read(folder.path(), 0), "");
  });
}

TEST(ContainerLog, FollowersGetEverythingOnceUnderEverySchedule) {
  rt::run_seeds(1, 30, [](rt::SimRuntime& runtime) {
    const TemporaryFolder folder;
    ContainerLog log(runtime, folder.path(), 0, {.file_bytes_max = 2000, .files_max = 100});
    std::string followed;
    rt::Thread follower(runtime, "follower", [&] { followed = read(folder.path(), 0, {.follow = true}, &log); });
    std::string written;
    for (int i = 0; i < 60; ++i) {
      const std::string text = "line " + std::to_string(i) + "\n";
      written += text;
      log.append(OutputStream::Out, text);
      if (i % 7 == 0) runtime.sleep_for(1ms);
      if (i % 11 == 0) runtime.yield();
    }
    log.append(OutputStream::Out, "end");
    log.close();
    follower.join();
    EXPECT_EQ(followed, written + "end");
  });
}

TEST(ContainerLog, AFollowerEndsWithItsTokenAndItsSink) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    const TemporaryFolder folder;
    ContainerLog log(runtime, folder.path(), 0, {});
    log.append(OutputStream::Out, "one\n");
    rt::StopSource stop(runtime);
    Done done = Ok{};
    rt::Thread follower(runtime, "follower", [&] {
      done = read_container_log(
          folder.path(), 0, &log, {.follow = true}, [](std::string_view) { return true; }, stop.token());
    });
    runtime.sleep_for(5s);
    stop.request_stop();
    follower.join();
    EXPECT_TRUE(!done.ok() && done.error().is(Reason::Cancelled));
    const Done refused =
        read_container_log(folder.path(), 0, &log, {.follow = true}, [](std::string_view) { return false; }, {});
    EXPECT_TRUE(refused.ok());
    log.close();
  });
}

}  // namespace
}  // namespace basalt::node
