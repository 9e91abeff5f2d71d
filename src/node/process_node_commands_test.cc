// Commands beside containers: real processes.
#include <gtest/gtest.h>

#include <atomic>
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
                  const rt::StopToken& stop = {}) {
    rt::Mutex mutex;
    std::string out;
    std::string err;
    const auto exit = agent_->node->run_command(
        {"default", pod, container, {"/bin/sh", "-c", script}},
        [&](OutputStream stream, std::string_view bytes) {
          rt::MutexLock lock(mutex);
          (stream == OutputStream::Out ? out : err) += bytes;
          has_output_ = true;
        },
        stop);
    if (!exit.ok()) return "error: " + exit.error().message;
    rt::MutexLock lock(mutex);
    return out + "|" + err + "|" + std::to_string(exit->code);
  }

  std::atomic<bool> has_output_{false};
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

}  // namespace
}  // namespace basalt::node
