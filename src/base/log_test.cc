#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace basalt {
namespace {

using std::chrono::system_clock;

// 2026-01-02 15:04:05.000007 UTC
system_clock::time_point fixed_time() {
  return system_clock::time_point(std::chrono::microseconds(1'767'366'245'000'007));
}

struct Fixture {
  std::shared_ptr<CollectingLogSink> sink = std::make_shared<CollectingLogSink>();
  Logger log{sink, LogLevel::Debug, fixed_time};

  [[nodiscard]] std::string last(LogFormat format) const { return format_log_record(sink->records().back(), format); }
};

TEST(Log, TextAndJsonLines) {
  const Fixture f;
  const std::string phase = "Running";
  f.log.info("job synced", {{"job", "default/a"}, {"phase", phase}, {"pods", 12}, {"ok", true}, {"ratio", 0.5}});
  EXPECT_EQ(f.last(LogFormat::Text),
            R"(I0102 15:04:05.000007 job synced job="default/a" phase="Running" pods=12 ok=true ratio=0.5)");
  EXPECT_EQ(f.last(LogFormat::Json),
            R"({"ts":"2026-01-02T15:04:05.000007Z","level":"info","msg":"job synced","job":"default/a",)"
            R"("phase":"Running","pods":12,"ok":true,"ratio":0.5})");
}

TEST(Log, ValuesOfEveryKind) {
  const Fixture f;
  const Error error = Error::make(Reason::NotFound, "no such job");
  f.log.warn("x", {{"error", error},
                   {"took", std::chrono::milliseconds(1500)},
                   {"large", std::numeric_limits<std::uint64_t>::max()},
                   {"negative", std::int64_t{-5}},
                   {"nan", std::numeric_limits<double>::quiet_NaN()},
                   {"view", std::string_view("v")},
                   {"empty", ""}});
  const LogRecord record = f.sink->records().back();
  EXPECT_EQ(record.field("error"), error.to_string());
  EXPECT_EQ(record.field("took"), "1.5s");
  EXPECT_EQ(record.field("large"), "18446744073709551615");
  EXPECT_EQ(record.field("negative"), "-5");
  EXPECT_EQ(record.field("absent"), "");
  EXPECT_NE(f.last(LogFormat::Json).find(R"("nan":"nan")"), std::string::npos) << "JSON has no NaN";
}

TEST(Log, NothingBreaksTheLine) {
  const Fixture f;
  f.log.error("first\nE0102 forged", {{"a b\n=", "x\ny\x1b[2J\"\\"}, {"bad", "\xff"}, {"", "z"}});
  const std::string text = f.last(LogFormat::Text);
  EXPECT_EQ(text, R"(E0102 15:04:05.000007 first\nE0102 forged a_b__="x\ny\x1b[2J\"\\" bad="\xff" _="z")");
  const std::string json = f.last(LogFormat::Json);
  EXPECT_EQ(json, R"({"ts":"2026-01-02T15:04:05.000007Z","level":"error","msg":"first\nE0102 forged",)"
                  R"("a_b__":"x\ny\u001b[2J\"\\","bad":"\ufffd","_":"z"})");
}

TEST(Log, ContextComesFirstAndTheCallWins) {
  const Fixture f;
  const Logger job = f.log.with({{"controller", "job"}, {"worker", 1}}).with({{"key", "ns/a"}});
  job.info("x", {{"worker", 2}, {"level", "high"}});
  EXPECT_EQ(f.last(LogFormat::Text), R"(I0102 15:04:05.000007 x controller="job" worker=2 key="ns/a" level="high")");
  EXPECT_NE(f.last(LogFormat::Json).find(R"("level":"info","msg":"x")"), std::string::npos);
  EXPECT_NE(f.last(LogFormat::Json).find(R"("level_":"high")"), std::string::npos) << "keys of ours are not doubled";
  f.log.info("y");
  EXPECT_TRUE(f.sink->records().back().fields.empty()) << "the parent handle is unchanged";
}

TEST(Log, LevelIsSharedAndChangesAtOnce) {
  const Fixture f;
  const Logger child = f.log.with({{"a", 1}});
  f.log.set_level(LogLevel::Warn);
  child.info("hidden");
  child.debug("hidden");
  child.warn("seen");
  EXPECT_FALSE(child.is_enabled(LogLevel::Info));
  EXPECT_EQ(f.sink->records().size(), 1);
  child.set_level(LogLevel::Off);
  f.log.error("hidden");
  f.log.log(LogLevel::Off, "hidden");
  EXPECT_EQ(f.sink->records().size(), 1);
}

TEST(Log, ADefaultLoggerDiscards) {
  const Logger log;
  log.error("x", {{"a", 1}});
  log.with({{"b", 2}}).error("y");
  log.set_level(LogLevel::Debug);
  log.flush();
  EXPECT_FALSE(log.is_enabled(LogLevel::Error));
  EXPECT_EQ(Logger(nullptr).level(), LogLevel::Off);
}

TEST(Log, FieldsAndValuesAreBounded) {
  const Fixture f;
  Logger log = f.log;
  for (int i = 0; i < 40; ++i) log = log.with({{"k" + std::to_string(i), i}});
  log.info(std::string(10'000, 'm'), {{"new", std::string(10'000, 'v')}, {"k0", std::string(10'000, 'w')}});
  const LogRecord record = f.sink->records().back();
  EXPECT_EQ(record.fields.size(), kLogFieldsMax + 1);
  EXPECT_EQ(record.field("dropped_fields"), "1");
  EXPECT_EQ(record.field("k0").size(), kLogValueBytesMax);
  EXPECT_EQ(record.message.size(), kLogValueBytesMax);
}

TEST(Log, CollectingSinkCountsBeyondItsLimit) {
  CollectingLogSink sink(2);
  Logger log(std::shared_ptr<LogSink>(&sink, [](LogSink*) {}), LogLevel::Debug, fixed_time);
  for (int i = 0; i < 5; ++i) log.info("x");
  EXPECT_EQ(sink.first_error(), "");
  log.error("bad", {{"n", 1}});
  log.error("worse");
  EXPECT_EQ(sink.records().size(), 2);
  EXPECT_EQ(sink.count(LogLevel::Info), 5);
  EXPECT_EQ(sink.count(LogLevel::Error), 2);
  EXPECT_EQ(sink.first_error(), "E0102 15:04:05.000007 bad n=1");
  sink.clear();
  EXPECT_EQ(sink.count(LogLevel::Error), 0);
}

TEST(Log, ThreadsShareALogger) {
  const Fixture f;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([log = f.log.with({{"thread", i}})] {
      for (int j = 0; j < 100; ++j) log.info("x", {{"j", j}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(f.sink->count(LogLevel::Info), 400);
}

TEST(Log, FileSinkAppendsLinesThatOnlyTheOwnerReads) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "basalt_log_test_XXXXXX";
  std::string pattern = folder.string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::string path = pattern + "/basalt.log";
  for (int run = 0; run < 2; ++run) {
    std::string problem;
    const std::shared_ptr<LogSink> sink = make_file_sink(path, LogFormat::Json, problem);
    ASSERT_NE(sink, nullptr) << problem;
    const Logger log(sink, LogLevel::Info, fixed_time);
    log.info("one", {{"run", run}});
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(),
            "{\"ts\":\"2026-01-02T15:04:05.000007Z\",\"level\":\"info\",\"msg\":\"one\",\"run\":0}\n"
            "{\"ts\":\"2026-01-02T15:04:05.000007Z\",\"level\":\"info\",\"msg\":\"one\",\"run\":1}\n");
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  std::string problem;
  EXPECT_EQ(make_file_sink(pattern, LogFormat::Text, problem), nullptr);
  EXPECT_NE(problem.find("cannot open the log file"), std::string::npos);
  std::filesystem::remove_all(pattern);
}

TEST(Log, StderrSinkWritesALine) {
  testing::internal::CaptureStderr();
  Logger(make_stderr_sink(LogFormat::Text), LogLevel::Info, fixed_time).info("hello");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "I0102 15:04:05.000007 hello\n");
}

TEST(Log, AClockThatThrowsLosesTheRecordOnly) {
  const auto sink = std::make_shared<CollectingLogSink>();
  const Logger log(sink, LogLevel::Info, []() -> system_clock::time_point { throw 1; });
  log.info("x");
  EXPECT_TRUE(sink->records().empty());
}

TEST(Log, LevelNames) {
  LogLevel level = LogLevel::Off;
  EXPECT_TRUE(log_level_from_string("WARNING", level));
  EXPECT_EQ(level, LogLevel::Warn);
  EXPECT_TRUE(log_level_from_string("debug", level));
  EXPECT_EQ(level, LogLevel::Debug);
  EXPECT_FALSE(log_level_from_string("loud", level));
  EXPECT_EQ(to_string(LogLevel::Error), "error");
}

}  // namespace
}  // namespace basalt
