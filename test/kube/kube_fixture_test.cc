#include "test/kube/kube_fixture.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

namespace basalt::test {
namespace {

using namespace std::chrono_literals;

// One cluster for the tests of this suite: each start costs three seconds. Each test uses names of its own.
class RealKubeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!RealKube::why_skip().empty()) return;
    auto started = RealKube::start();
    error_ = started.error;
    kube_ = std::move(started.kube);
  }
  static void TearDownTestSuite() { kube_.reset(); }

  void SetUp() override {
    if (const std::string reason = RealKube::why_skip(); !reason.empty()) GTEST_SKIP() << reason;
    ASSERT_NE(kube_, nullptr) << error_;
  }

  static void expect_kubectl(const std::vector<std::string>& args, const std::string& out) {
    const CommandResult result = kube_->kubectl(args);
    EXPECT_EQ(result.exit, 0) << result.err;
    EXPECT_EQ(result.out, out);
  }

  static inline std::unique_ptr<RealKube> kube_;
  static inline std::string error_;
};

// The port on which somebody else's server may listen later is no proof; the folder is.
bool disappears(const std::filesystem::path& folder) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (std::filesystem::exists(folder)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

TEST_F(RealKubeTest, ClientAndServerAreOfThePinnedVersion) {
  const CommandResult version = kube_->kubectl({"version"});
  ASSERT_EQ(version.exit, 0) << version.err;
  EXPECT_NE(version.out.find("Client Version: v1.36."), std::string::npos) << version.out;
  EXPECT_NE(version.out.find("Server Version: v1.36."), std::string::npos) << version.out;
}

TEST_F(RealKubeTest, DataOutlivesRestartAndCompaction) {
  expect_kubectl({"create", "namespace", "kept"}, "namespace/kept created\n");
  const std::string url = kube_->server_url();
  ASSERT_EQ(kube_->restart_apiserver(), "");
  EXPECT_EQ(kube_->server_url(), url);
  ASSERT_EQ(kube_->compact_etcd(), "");
  expect_kubectl({"get", "namespace", "kept", "--output=name"}, "namespace/kept\n");
}

TEST_F(RealKubeTest, CompactedRevisionIsGone) {
  const CommandResult old =
      kube_->kubectl({"create", "namespace", "old", "--output=jsonpath={.metadata.resourceVersion}"});
  ASSERT_EQ(old.exit, 0) << old.err;
  const std::string list = "/api/v1/namespaces?resourceVersionMatch=Exact&limit=1&resourceVersion=" + old.out;
  expect_kubectl({"create", "namespace", "newer"}, "namespace/newer created\n");
  EXPECT_EQ(kube_->kubectl({"get", "--raw", list}).exit, 0);

  ASSERT_EQ(kube_->compact_etcd(), "");
  ASSERT_EQ(kube_->restart_apiserver(), "");
  const CommandResult gone = kube_->kubectl({"get", "--raw", list});
  EXPECT_NE(gone.exit, 0) << gone.out;
  EXPECT_NE(gone.err.find("too old"), std::string::npos) << gone.err;
}

TEST_F(RealKubeTest, KilledServerRefusesAndComesBackWithItsData) {
  expect_kubectl({"create", "namespace", "survivor"}, "namespace/survivor created\n");
  ASSERT_EQ(kube_->kill_apiserver(), "");
  EXPECT_NE(kube_->kill_apiserver().find("not running"), std::string::npos);
  const CommandResult refused = kube_->kubectl({"get", "namespaces"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_NE(refused.err.find("refused"), std::string::npos) << refused.err;

  ASSERT_EQ(kube_->start_apiserver(), "");
  expect_kubectl({"get", "namespace", "survivor", "--output=name"}, "namespace/survivor\n");
}

TEST_F(RealKubeTest, PausedServerDoesNotAnswer) {
  ASSERT_EQ(kube_->pause_apiserver(), "");
  EXPECT_EQ(kube_->kubectl({"get", "namespaces", "--request-timeout=1s"}).exit, 1);
  ASSERT_EQ(kube_->resume_apiserver(), "");
  ASSERT_EQ(kube_->pause_etcd(), "");
  EXPECT_EQ(kube_->kubectl({"create", "namespace", "never", "--request-timeout=1s"}).exit, 1);
  ASSERT_EQ(kube_->resume_etcd(), "");
  expect_kubectl({"get", "namespace", "default", "--output=name"}, "namespace/default\n");
}

TEST_F(RealKubeTest, TokenUserHasTheRightsThatRbacGivesAndNoOthers) {
  const std::string config = "--kubeconfig=" + kube_->user_kubeconfig().string();
  EXPECT_EQ(kube_->kubectl({config, "get", "configmaps"}).exit, 1);
  // Not the role `view`: a controller that does not run here would fill it.
  expect_kubectl({"create", "role", "reader", "--verb=get,list", "--resource=configmaps"},
                 "role.rbac.authorization.k8s.io/reader created\n");
  expect_kubectl({"create", "rolebinding", "reader", "--role=reader", "--user=basalt-test"},
                 "rolebinding.rbac.authorization.k8s.io/reader created\n");
  // The authoriser learns of the binding through a watch.
  CommandResult allowed;
  for (const auto deadline = std::chrono::steady_clock::now() + 30s;
       allowed.exit != 0 && std::chrono::steady_clock::now() < deadline;) {
    allowed = kube_->kubectl({config, "get", "configmaps", "--output=name"});
  }
  EXPECT_EQ(allowed.exit, 0) << allowed.err;
  EXPECT_EQ(kube_->kubectl({config, "get", "secrets"}).exit, 1);
  EXPECT_FALSE(kube_->user_token().empty());
}

TEST_F(RealKubeTest, KubectlReadsStandardInput) {
  const std::string manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-input}, data: {key: value}}\n";
  const CommandResult applied = kube_->kubectl({"apply", "--filename=-"}, manifest);
  EXPECT_EQ(applied.exit, 0) << applied.err;
  EXPECT_EQ(applied.out, "configmap/from-input created\n");
}

TEST_F(RealKubeTest, WrongArgumentOfTheServerIsReported) {
  const auto started = RealKube::start({.apiserver_args = {"--no-such-flag"}, .etcd_args = {}});
  EXPECT_EQ(started.kube, nullptr);
  EXPECT_NE(started.error, "");
}

TEST_F(RealKubeTest, LeavesNothingBehind) {
  auto started = RealKube::start();
  ASSERT_NE(started.kube, nullptr) << started.error;
  const auto folder = started.kube->folder();
  EXPECT_TRUE(std::filesystem::exists(folder));
  // A stopped process cannot end in the orderly way; it must go nevertheless.
  ASSERT_EQ(started.kube->pause_apiserver(), "");
  started.kube.reset();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(RealKubeTest, LeavesNothingBehindWhenTheTestIsKilled) {
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t test = ::fork();
  if (test == 0) {
    const auto started = RealKube::start();
    const std::string text = started.kube == nullptr ? "" : started.kube->folder().string();
    const bool written = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::kill(::getpid(), written ? SIGKILL : SIGABRT);
  }
  ::close(ends[1]);
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
  ::close(ends[0]);
  ASSERT_EQ(::waitpid(test, nullptr, 0), test);
  ASSERT_GT(count, 0) << "the cluster did not start";
  EXPECT_TRUE(disappears(std::string(buffer.data(), static_cast<std::size_t>(count))));
}

}  // namespace
}  // namespace basalt::test
