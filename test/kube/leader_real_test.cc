#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "test/kube/kube_fixture.h"
#include "test/kube/rest_proxy.h"

namespace basalt::test {
namespace {

using namespace std::chrono_literals;

// A process that takes part in the election, with its own way to the API server.
class Actor {
 public:
  Actor(const RealKube& kube, const std::string& name)
      : name_(name), log_((kube.folder() / (name + ".log")).string()), proxy_(port_of(kube.server_url())) {
    const std::string program = (std::filesystem::canonical("/proc/self/exe").parent_path() / "leader_actor").string();
    const std::string server = "https://127.0.0.1:" + std::to_string(proxy_.port());
    std::string config = kube.kubeconfig().string();
    std::vector<std::string> texts = {program, config, server, name, log_};
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, argv.data(), environ), 0) << program;
  }
  ~Actor() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  void signal(int number) { ::kill(pid_, number); }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  TcpProxy& proxy() { return proxy_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  struct Act {
    long long number = 0;
    long long time = 0;
  };
  [[nodiscard]] std::vector<Act> acts() const {
    std::vector<Act> all;
    std::ifstream file(log_);
    Act act;
    while (file >> act.number >> act.time) all.push_back(act);
    return all;
  }
  // Waits until it has acted `more` times from now on.
  void expect_acting(std::size_t more, std::chrono::seconds limit) const {
    const std::size_t wanted = acts().size() + more;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (acts().size() < wanted && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(20ms);
    EXPECT_GE(acts().size(), wanted) << name_;
  }

 private:
  const std::string name_;
  const std::string log_;
  TcpProxy proxy_;
  pid_t pid_ = -1;
};

TEST(LeaderReal, HandsOverAndNeverTwoActAtOnce) {
  if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
  auto started = RealKube::start();
  ASSERT_TRUE(started.kube) << started.error;
  const RealKube& kube = *started.kube;
  constexpr auto kHandOver = 60s;  // 6 s of lease, and a machine that may be busy

  Actor a(kube, "a");
  a.expect_acting(5, kHandOver);
  Actor b(kube, "b");
  std::this_thread::sleep_for(3s);
  EXPECT_TRUE(b.acts().empty());

  a.signal(SIGKILL);
  EXPECT_EQ(a.wait(), 128 + SIGKILL);
  b.expect_acting(5, kHandOver);

  Actor c(kube, "c");
  std::this_thread::sleep_for(3s);
  b.signal(SIGSTOP);
  c.expect_acting(5, kHandOver);
  const std::size_t b_acts = b.acts().size();
  b.signal(SIGCONT);
  EXPECT_EQ(b.wait(), 3) << "it notices that it lost the leadership";
  EXPECT_LE(b.acts().size(), b_acts + 1) << "only an answer that was on its way when it was stopped";

  Actor d(kube, "d");
  std::this_thread::sleep_for(3s);
  c.proxy().set_stalled(true);
  d.expect_acting(5, kHandOver);
  EXPECT_EQ(c.wait(), 3);

  Actor e(kube, "e");
  std::this_thread::sleep_for(3s);
  d.proxy().set_blocked(true);
  e.expect_acting(5, kHandOver);
  EXPECT_EQ(d.wait(), 3);

  Actor f(kube, "f");
  std::this_thread::sleep_for(3s);
  e.signal(SIGTERM);
  EXPECT_EQ(e.wait(), 0) << "a clean stop releases the lease";
  const auto released = std::chrono::steady_clock::now();
  f.expect_acting(1, kHandOver);
  EXPECT_LT(std::chrono::steady_clock::now() - released, 5s) << "nobody waited for it to run out";
  f.signal(SIGTERM);
  EXPECT_EQ(f.wait(), 0);

  // Every process led once: its numbers are one run, and it began after the one before had ended.
  std::map<long long, std::pair<std::string, long long>> by_number;
  for (const Actor* actor : {&a, &b, &c, &d, &e, &f}) {
    for (const Actor::Act& act : actor->acts()) {
      EXPECT_TRUE(by_number.emplace(act.number, std::pair(actor->name(), act.time)).second) << act.number;
    }
  }
  std::vector<std::string> runs;
  long long last_time = 0;
  for (const auto& [number, act] : by_number) {
    if (runs.empty() || runs.back() != act.first) runs.push_back(act.first);
    EXPECT_GE(act.second, last_time) << number;
    last_time = act.second;
  }
  EXPECT_EQ(runs, (std::vector<std::string>{"a", "b", "c", "d", "e", "f"}));
}

}  // namespace
}  // namespace basalt::test
