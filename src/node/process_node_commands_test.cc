// Commands beside containers: real processes.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "node/process_node.h"
#include "node/testing/process_test.h"
#include "rt/mutex.h"

namespace basalt::node {
namespace {

using namespace std::chrono_literals;
using testing::phase_of;
using testing::shell_pod;

class CommandsTest : public testing::ProcessTest {
 protected:
  // What it printed, and how it ended: "out|err|code", or "error: ...".
  std::string run(const std::string& pod, const std::string& script, const std::string& container = "",
                  const rt::StopToken& stop = {}, const std::shared_ptr<CommandIo>& io = nullptr) {
    rt::Mutex mutex;
    std::string out;
    std::string err;
    const auto exit = agent_->node->run_command(
        {"default", pod, container, {"/bin/sh", "-c", script}, io},
        [&](OutputStream stream, std::string_view bytes) {
          rt::MutexLock lock(mutex);
          (stream == OutputStream::Out ? out : err) += bytes;
          has_output_ = true;
          if (on_output_) on_output_(out);
        },
        stop);
    if (!exit.ok()) return "error: " + exit.error().message;
    rt::MutexLock lock(mutex);
    return out + "|" + err + "|" + std::to_string(exit->code);
  }

  static std::shared_ptr<CommandIo> io_with(CommandIo::Options options) {
    return std::make_shared<CommandIo>(std::move(options));
  }
  // Only the exit code, and without on_output_.
  int run_quietly(const std::string& pod, const std::string& script) {
    const auto exit = agent_->node->run_command({"default", pod, "", {"/bin/sh", "-c", script}, nullptr}, nullptr, {});
    return exit.ok() ? exit->code : -1;
  }
  // A container in which nothing happens.
  void begin_with_pod() {
    begin();
    cluster_.apply(shell_pod("a", "sleep 1000"));
    ASSERT_TRUE(wait_phase("a", "Running"));
  }

  std::atomic<bool> has_output_{false};
  std::function<void(const std::string&)> on_output_;  // with all of it so far
};

TEST_F(CommandsTest, HaveTheContainersEnvironmentAndFolder) {
  begin();
  cluster_.apply(shell_pod("a", "touch here; sleep 1000"));
  ASSERT_TRUE(wait_phase("a", "Running"));
  ASSERT_TRUE(cluster_.wait_until([&] { return run("a", "ls here 2>/dev/null") == "here\n||0"; }));
  EXPECT_EQ(run("a", "echo out; echo err >&2; exit 3", "c"), "out\n|err\n|3");
  EXPECT_EQ(run("a", "kill -9 $$"), "||137");
  EXPECT_EQ(run("a", "cat"), "||0") << "there is no input";
  EXPECT_EQ(run("a", "true", "other"), "error: container other is not valid for pod a");
  EXPECT_EQ(run("b", "true"), "error: pods \"b\" not found");
  EXPECT_EQ(phase_of(cluster_, "a"), "Running") << "none of this is the container's";
}

TEST_F(CommandsTest, NeedAContainerThatRuns) {
  begin();
  cluster_.apply(shell_pod("a", "true"));
  ASSERT_TRUE(wait_phase("a", "Succeeded"));
  EXPECT_EQ(run("a", "true"), "error: container \"c\" in pod \"a\" is not running");
}

TEST_F(CommandsTest, EndWithTheirCallerTheirContainerAndTheNode) {
  begin();
  cluster_.apply(shell_pod("a", "while [ ! -e go ]; do sleep 0.02; done"));
  cluster_.apply(shell_pod("b", "sleep 1000"));
  ASSERT_TRUE(wait_phase("a", "Running"));
  ASSERT_TRUE(wait_phase("b", "Running"));
  rt::StopSource caller(*runtime_);
  std::string stopped;
  rt::Thread thread(*runtime_, "caller", [&] { stopped = run("b", "echo up; sleep 1000", "", caller.token()); });
  ASSERT_TRUE(cluster_.wait_until([&] { return has_output_.load(); }));
  caller.request_stop();
  thread.join();
  EXPECT_EQ(stopped, "up\n||137");
  // The command lets the container end, which then ends the command.
  EXPECT_EQ(run("a", "touch go; sleep 1000"), "||137");
  has_output_ = false;
  rt::Thread other(*runtime_, "caller", [&] { stopped = run("b", "echo up; sleep 1000"); });
  ASSERT_TRUE(cluster_.wait_until([&] { return has_output_.load(); }));
  end();
  other.join();
  EXPECT_EQ(stopped, "up\n||137");
}

TEST_F(CommandsTest, InputArrivesAndItsEndIsTold) {
  begin_with_pod();
  const auto io = io_with({.has_input = true, .has_terminal = false, .on_room = {}});
  io->add_input("one\n");
  // The rest comes in answer to the first line, and then the end.
  on_output_ = [&](const std::string& out) {
    if (out == "one\n") {
      io->add_input("two\n");
      io->end_input();
    }
  };
  EXPECT_EQ(run("a", "cat; echo end", "", {}, io), "one\ntwo\nend\n||0");
  EXPECT_TRUE(io->add_input("nobody is there")) << "dropped";
}

TEST_F(CommandsTest, MuchInputWaitsForASlowCommandAndIsComplete) {
  begin_with_pod();
  std::atomic<int> rooms{0};
  const auto io = io_with({.has_input = true, .has_terminal = false, .on_room = [&] { ++rooms; }});
  constexpr std::size_t kAll = 8 * CommandIo::kInputBytesMax;
  const std::string piece(64 * 1024, 'x');
  EXPECT_FALSE(io->add_input(std::string(CommandIo::kInputBytesMax, 'x')));  // before anybody reads
  rt::Thread client(*runtime_, "client", [&] {
    for (std::size_t sent = CommandIo::kInputBytesMax; sent < kAll; sent += piece.size()) {
      if (io->add_input(piece)) continue;
      EXPECT_TRUE(cluster_.wait_until([&] { return !io->is_full(); }));
    }
    io->end_input();
  });
  EXPECT_EQ(run("a", "echo begun; wc -c", "", {}, io), "begun\n" + std::to_string(kAll) + "\n||0");
  client.join();
  EXPECT_GT(rooms, 0);
}

TEST_F(CommandsTest, InputThatNobodyReadsIsDropped) {
  begin_with_pod();
  std::atomic<int> rooms{0};
  const auto io = io_with({.has_input = true, .has_terminal = false, .on_room = [&] { ++rooms; }});
  io->add_input(std::string(2 * CommandIo::kInputBytesMax, 'x'));
  std::string result;
  rt::Thread thread(*runtime_, "caller", [&] {
    result = run("a", "exec 0<&-; while [ ! -e go ]; do sleep 0.02; done; echo gone on", "", {}, io);
  });
  EXPECT_TRUE(cluster_.wait_until([&] {
    io->add_input("more");
    return rooms > 0 && !io->is_full();
  }));
  run("a", "touch go");
  thread.join();
  EXPECT_EQ(result, "gone on\n||0");
  // A command that ends does so whatever waits.
  const auto other = io_with({.has_input = true, .has_terminal = false, .on_room = {}});
  EXPECT_FALSE(other->add_input(std::string(2 * CommandIo::kInputBytesMax, 'x')));
  EXPECT_EQ(run("a", "exit 4", "", {}, other), "||4");
}

TEST_F(CommandsTest, HeldOutputStopsTheCommandUntilItIsReleased) {
  begin_with_pod();
  const auto io = io_with({});
  std::atomic<std::size_t> got{0};
  std::atomic<bool> must_hold{true};
  on_output_ = [&](const std::string& out) {
    got = out.size();
    if (must_hold) io->hold_output(true);
  };
  std::atomic<bool> is_done{false};
  std::string result;
  rt::Thread thread(*runtime_, "caller", [&] {
    result = run("a", "head -c 3000000 /dev/zero; touch done", "", {}, io);
    is_done = true;
  });
  ASSERT_TRUE(cluster_.wait_until([&] { return got > 0; }));
  EXPECT_EQ(run_quietly("a", "ls done 2>/dev/null"), 2) << "it waits";
  EXPECT_LT(got, 1'000'000u);
  must_hold = false;
  EXPECT_TRUE(cluster_.wait_until([&] {
    io->hold_output(false);
    return is_done.load();
  }));
  thread.join();
  EXPECT_EQ(result, std::string(3'000'000, '\0') + "||0");
}

TEST_F(CommandsTest, ATerminalIsOneForTheCommand) {
  begin_with_pod();
  const auto io = io_with({.has_input = true, .has_terminal = true, .on_room = {}});
  io->set_size({.columns = 91, .rows = 33});
  int step = 0;
  on_output_ = [&](const std::string& out) {
    const auto has = [&](const char* text) { return out.find(text) != std::string::npos; };
    if (step == 0 && has("ready")) {
      io->set_size({.columns = 50, .rows = 10});
      ++step;
    } else if (step == 1 && has("10 50")) {
      io->add_input("\x03");  // Ctrl-C
      ++step;
    } else if (step == 2 && has("interrupted")) {
      io->add_input("typed\r");
      ++step;
    } else if (step == 3 && has("got typed")) {
      io->end_input();
      ++step;
    }
  };
  const std::string said = run("a",
                               "trap 'told=1' INT; tty >/dev/null && echo $TERM && stty size; echo ready; "
                               "while [ \"$(stty size)\" != '10 50' ]; do sleep 0.02; done; stty size; "
                               "while [ -z \"$told\" ]; do sleep 0.02; done; echo interrupted; "
                               "read line; echo got $line >&2; cat; echo over",
                               "", {}, io);
  EXPECT_NE(said.find("xterm\r\n33 91\r\n"), std::string::npos) << said;
  EXPECT_NE(said.find("got typed\r\n"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("over\r\n||0")) << said;
}

// A shell with a terminal gives each job a group of its own; none may outlive it.
TEST_F(CommandsTest, JobsOfAShellEndWithIt) {
  begin_with_pod();
  const auto io = io_with({.has_input = true, .has_terminal = true, .on_room = {}});
  rt::StopSource caller(*runtime_);
  on_output_ = [&](const std::string& out) {
    if (out.find("begun") != std::string::npos) caller.request_stop();
  };
  const std::string script =
      "set -m; (trap '' HUP; echo $$ > shell; sh -c 'echo $$ > job; exec sleep 1000') & "
      "while [ ! -s job ]; do sleep 0.02; done; echo begun; wait";
  EXPECT_NE(run("a", script, "", caller.token(), io).find("||137"), std::string::npos);
  on_output_ = nullptr;
  EXPECT_TRUE(cluster_.wait_until(
      [&] { return run_quietly("a", "grep -q '^State:[[:space:]]*[^XZ]' /proc/$(cat job)/status") != 0; }));
}

}  // namespace
}  // namespace basalt::node
