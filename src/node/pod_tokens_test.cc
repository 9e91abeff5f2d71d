// A pod's service account on a process node: its token, how it is renewed, and what a program sees of it.
#include "node/pod_tokens.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include "kube/fault_client.h"
#include "node/testing/fake_runner.h"
#include "node/testing/process_test.h"
#include "rt/sim_test_support.h"

namespace basalt::node {
namespace {

using testing::Agent;
using testing::FakeRunner;
using testing::phase_of;
using testing::ProcessBook;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

sim::Cluster::Options with_tokens() {
  sim::Cluster::Options options;
  options.crds = {"jobs"};
  options.with_default_queue = false;
  options.server.rbac = true;
  options.server.token_key = "a key of the test";
  options.server.cluster_ca_pem = "an authority\n";
  return options;
}

constexpr std::string_view kTenMinutes = R"({apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: n1,
  automountServiceAccountToken: false, volumes: [{name: v, projected: {defaultMode: 0440, sources: [
    {serviceAccountToken: {path: deep/token, expirationSeconds: 600}}]}}],
  containers: [{name: c, image: x, command: [run, '100000000', '0'], volumeMounts: [{name: v, mountPath: /v}]}]}})";

std::string volume_file(sim::Cluster& cluster, const std::string& root, const std::string& path) {
  const auto pod = cluster.get(sim::resources::kPods, "default", "p");
  return root + "/nodes/n1/pods/" + std::string(pod->string_at({"metadata", "uid"})) + "/volumes/" + path;
}

TEST(PodTokens, AreRenewedBeforeTheyAreOverAndOutliveASilentServer) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    ProcessBook book;
    sim::Cluster cluster(runtime, with_tokens());
    kube::FaultClient faults(runtime, cluster.client());
    {
      Agent agent(runtime, faults, folder.path(), {}, {}, std::make_unique<FakeRunner>(runtime, book));
      cluster.apply(kTenMinutes);
      ASSERT_TRUE(cluster.wait_until([&] { return phase_of(cluster, "p") == "Running"; }));
      const std::string path = volume_file(cluster, folder.path(), "v/deep/token");
      const auto token = [&] { return read_file(path).value_or(""); };
      const auto is_good = [&] { return cluster.server().authenticate_token(token()).ok(); };
      const std::string first = token();
      EXPECT_TRUE(is_good());
      struct stat about{};
      ASSERT_EQ(::stat(path.c_str(), &about), 0);
      EXPECT_EQ(about.st_mode & 0777, 0440u);
      runtime.sleep_for(470s);
      EXPECT_EQ(token(), first);  // four fifths are not over
      runtime.sleep_for(20s);
      const std::string second = token();
      EXPECT_NE(second, first);
      EXPECT_TRUE(is_good());
      // The server is away when the next one is due, and comes back while the old one is still good.
      faults.set_away(true);
      runtime.sleep_for(500s);
      EXPECT_EQ(token(), second);
      faults.set_away(false);
      ASSERT_TRUE(cluster.wait_until([&] { return token() != second; }, 70s));
      EXPECT_TRUE(is_good());
    }
    cluster.stop();
  });
}

TEST(PodTokens, WhatCannotBeHadIsShownOnThePod) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    ProcessBook book;
    sim::Cluster::Options options = with_tokens();
    options.server.token_key.clear();  // a server that makes none
    sim::Cluster cluster(runtime, options);
    {
      Agent agent(runtime, cluster.client(), folder.path(), {}, {}, std::make_unique<FakeRunner>(runtime, book));
      cluster.apply(kTenMinutes);
      ASSERT_TRUE(cluster.wait_until([&] {
        return testing::container_status(cluster, "p").string_at({"state", "waiting", "reason"}) == "FailedMount";
      }));
      EXPECT_EQ(testing::container_status(cluster, "p").string_at({"state", "waiting", "message"}),
                "volume v: token of the service account: this server makes no tokens for service accounts");
    }
    cluster.stop();
  });
}

TEST(PodTokens, TheEnvironmentNamesTheServer) {
  const Environment env = service_environment("127.0.0.1", 6443);
  EXPECT_EQ(*find_variable(env, "KUBERNETES_SERVICE_HOST"), "127.0.0.1");
  EXPECT_EQ(*find_variable(env, "KUBERNETES_SERVICE_PORT"), "6443");
  EXPECT_EQ(*find_variable(env, "KUBERNETES_SERVICE_PORT_HTTPS"), "6443");
  EXPECT_EQ(*find_variable(env, "KUBERNETES_PORT_443_TCP"), "tcp://127.0.0.1:6443");
  EXPECT_EQ(*find_variable(env, "KUBERNETES_PORT_443_TCP_PORT"), "6443");
  EXPECT_EQ(*find_variable(service_environment("::1", 1), "KUBERNETES_PORT"), "tcp://[::1]:1");
  EXPECT_EQ(account_kubeconfig({}, "/f", "a"), "");
  const auto config = json::Value::parse(account_kubeconfig(env, "/f", "team"));
  ASSERT_TRUE(config.ok());
  const auto first = [&](std::string_view list) { return config->find(list)->as_array()[0]; };
  EXPECT_EQ(first("clusters").string_at({"cluster", "server"}), "https://127.0.0.1:6443");
  EXPECT_EQ(first("clusters").string_at({"cluster", "certificate-authority"}), "/f/ca.crt");
  EXPECT_EQ(first("users").string_at({"user", "tokenFile"}), "/f/token");
  EXPECT_EQ(first("contexts").string_at({"context", "namespace"}), "team");
}

class AccountIsolations : public ::testing::TestWithParam<Isolation> {};
INSTANTIATE_TEST_SUITE_P(All, AccountIsolations, ::testing::Values(Isolation::Auto, Isolation::User, Isolation::Never),
                         [](const auto& one) {
                           return one.param == Isolation::Auto ? "Auto"
                                                               : (one.param == Isolation::User ? "User" : "Never");
                         });

// Real processes: the files are at the place that every client library knows, or below $BASALT_ROOTFS without mounts.
TEST_P(AccountIsolations, AProgramFindsItsAccount) {
  const auto runtime = rt::make_real_runtime();
  auto runner = make_linux_process_runner(*runtime, Logger(), GetParam());
  if (!runner.ok()) {
    EXPECT_EQ(GetParam(), Isolation::User) << runner.error().message;
    return;  // this machine does not permit it
  }
  (*runner)->stop();
  TemporaryFolder folder;
  sim::Cluster cluster(*runtime, with_tokens());
  {
    ProcessNodeOptions options;
    options.cluster_environment = [] { return service_environment("127.0.0.1", 6443); };
    Agent agent(*runtime, cluster.client(), folder.path(), {.isolation = GetParam()}, std::move(options));
    const std::string place =
        (agent.host->runner().isolates() ? "" : "$BASALT_ROOTFS") + std::string(kAccountMountPath);
    cluster.apply(testing::shell_pod("p", "cat \"" + place + "/namespace\" \"" + place + "/ca.crt\"; test -s \"" +
                                              place + "/token\" && echo token; echo $KUBERNETES_SERVICE_PORT; " +
                                              "f=$(sed -n 's/.*\"tokenFile\": \"\\(.*\\)\".*/\\1/p' $KUBECONFIG); " +
                                              "cmp \"$f\" \"" + place + "/token\" && echo same"));
    ASSERT_TRUE(cluster.wait_until([&] { return phase_of(cluster, "p") == "Succeeded"; }, 20s))
        << testing::log_of(*agent.node, "p");
    EXPECT_EQ(testing::log_of(*agent.node, "p"), "defaultan authority\ntoken\n6443\nsame\n");
  }
  cluster.stop();
}

}  // namespace
}  // namespace basalt::node
