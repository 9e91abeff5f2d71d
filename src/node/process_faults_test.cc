// Real processes and what must not be left of them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/orphan_guard_linux.h"
#include "node/pod_volumes.h"
#include "node/testing/process_test.h"

namespace basalt::node {
namespace {

using testing::shell_pod;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

using ProcessFaults = testing::ProcessTest;

TEST_F(ProcessFaults, PodsDeletedWhileTheyStartLeaveNothing) {
  begin({.workers = 8});
  for (int i = 0; i < 30; ++i) {
    const std::string name = "p" + std::to_string(i);
    cluster_.apply(shell_pod(name, "sleep 1000"));
    // From at once to after it has begun.
    if (i % 3 == 1) runtime_->sleep_for(std::chrono::milliseconds(i / 3));
    if (i % 3 == 2) (void)wait_phase(name, "Running");
    cluster_.remove(sim::resources::kPods, "default", name, i % 2);
  }
  ASSERT_TRUE(cluster_.wait_until([&] { return cluster_.list(sim::resources::kPods).empty(); }, 20s));
  EXPECT_TRUE(cluster_.wait_until(
      [&] {
        std::error_code error;
        const std::filesystem::path pods = folder_.path() + "/nodes/n1/pods";
        return !std::filesystem::exists(pods, error) || std::filesystem::is_empty(pods, error);
      },
      20s));
  const std::string mark = "BASALT_HOST_ID=" + agent_->host->mark();
  EXPECT_TRUE(cluster_.wait_until([&] { return testing::count_marked(mark) == 0; }, 20s));
}

TEST_F(ProcessFaults, APodRecreatedUnderItsNameIsAnother) {
  begin();
  cluster_.apply(shell_pod("a", "echo first; sleep 1000"));
  ASSERT_TRUE(wait_phase("a", "Running"));
  cluster_.remove(sim::resources::kPods, "default", "a", 0);
  cluster_.apply(shell_pod("a", "echo second"));
  ASSERT_TRUE(wait_phase("a", "Succeeded"));
  EXPECT_EQ(log("a"), "second\n");
}

bool is_alive(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  return stat && stat->find(") Z ") == std::string::npos;
}

// Runs in a fork: an agent with one pod, until it is killed.
[[noreturn]] void be_an_agent(const std::string& folder) {
  const auto runtime = rt::make_real_runtime();
  sim::Cluster cluster(*runtime);
  testing::Agent agent(*runtime, cluster.client(), folder);
  // A child in the group, and one in a session of its own.
  cluster.apply(shell_pod("p", "cd " + folder +
                                   "; sleep 1000 & echo $! > child; setsid sleep 1000 & echo $! > escaped; " +
                                   "echo $$$$ > leader; mv leader ready; wait"));
  while (true) runtime->sleep_for(1h);
}

TEST(OrphanGuard, AKillOfTheAgentLeavesNoOrphans) {
  const TemporaryFolder folder;
  const pid_t agent = ::fork();
  ASSERT_GE(agent, 0);
  if (agent == 0) be_an_agent(folder.path());
  const auto runtime = rt::make_real_runtime();
  const auto wait_for = [&](const std::function<bool()>& holds) {
    for (int i = 0; i < 2000 && !holds(); ++i) runtime->sleep_for(10ms);
    return holds();
  };
  ASSERT_TRUE(wait_for([&] { return std::filesystem::exists(folder.path() + "/ready"); }));
  std::vector<pid_t> pids;
  for (const std::string_view name : {"ready", "child", "escaped"}) {
    const auto text = read_file(folder.path() + "/" + std::string(name));
    ASSERT_TRUE(text && !text->empty());
    pids.push_back(std::stoi(*text));
    EXPECT_TRUE(is_alive(pids.back())) << name;
  }
  ::kill(agent, SIGKILL);
  ASSERT_EQ(::waitpid(agent, nullptr, 0), agent);
  for (const pid_t pid : pids) EXPECT_TRUE(wait_for([&] { return !is_alive(pid); })) << pid;
}

TEST(OrphanGuard, EndsInPeace) {
  const std::string marker = "BASALT_TEST_MARK=" + std::to_string(::getpid());
  const auto runtime = rt::make_real_runtime();
  auto runner = make_linux_process_runner(*runtime, Logger(), Isolation::Never);
  ASSERT_TRUE(runner.ok());
  const auto started =
      (*runner)->start({.name = "sleeper",
                        .argv = {"sleep", "1000"},
                        .env = {{"PATH", "/usr/bin:/bin"}, {"BASALT_TEST_MARK", std::to_string(::getpid())}}},
                       {}, {});
  ASSERT_TRUE(started.ok());
  {
    auto guard = OrphanGuard::start(marker);
    ASSERT_TRUE(guard.ok());
    EXPECT_TRUE(is_alive((*guard)->pid()));
  }
  EXPECT_TRUE(is_alive(static_cast<pid_t>(started->pid)));
  (*runner)->stop();
  EXPECT_FALSE(is_alive(static_cast<pid_t>(started->pid)));
}

}  // namespace
}  // namespace basalt::node
