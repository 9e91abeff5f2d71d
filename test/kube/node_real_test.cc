// The node agent on a real API server that no node controller works for: nodes become Ready, lose the taint that the
// server gives to every new node, and run pods.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/log.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "node/process_host.h"
#include "node/process_node.h"
#include "node/simulated_nodes.h"
#include "rt/real_runtime.h"
#include "test/kube/kube_fixture.h"

namespace basalt::test {
namespace {

using namespace std::chrono_literals;

const kube::Resource kNodes{"", "v1", "nodes"};
const kube::Resource kPods{"", "v1", "pods"};

class NodeReal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    auto started = RealKube::start();
    ASSERT_TRUE(started.kube) << started.error;
    kube_ = std::move(started.kube);
    runtime_ = rt::make_real_runtime();
    auto config =
        kube::load_client_config({.kubeconfig = kube_->kubeconfig().string()}, kube::ConfigEnvironment::of_process());
    ASSERT_TRUE(config.ok()) << config.error().message;
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    ASSERT_TRUE(client.ok()) << client.error().message;
    client_ = std::move(*client);
  }

  json::Value get(const kube::Resource& resource, const std::string& ns, const std::string& name) {
    const auto answer =
        client_->call({.verb = kube::Verb::Get, .resource = resource, .ns = ns, .name = name}, rt::StopToken());
    if (!answer.ok()) return {};
    auto value = json::Value::parse(*answer->body);
    return value.ok() ? std::move(*value) : json::Value();
  }

  template <class Condition>
  bool eventually(Condition condition) {
    const rt::Instant deadline = runtime_->now() + 60s;
    while (runtime_->now() < deadline) {
      if (condition()) return true;
      runtime_->sleep_for(50ms);
    }
    return false;
  }

  // Ready, and open to pods that tolerate nothing.
  bool takes_pods(const std::string& name) {
    const json::Value node = get(kNodes, "", name);
    const json::Value* taints = node.find_path({"spec", "taints"});
    const json::Value* conditions = node.find_path({"status", "conditions"});
    if (conditions == nullptr || !conditions->is_array() || (taints != nullptr && !taints->is_null())) return false;
    for (const json::Value& one : conditions->as_array()) {
      if (one.string_at({"type"}) == "Ready") return one.string_at({"status"}) == "True";
    }
    return false;
  }

  std::unique_ptr<RealKube> kube_;
  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<kube::RestClient> client_;
};

TEST_F(NodeReal, SimulatedNodesTakePods) {
  node::SimulatedNodesOptions options;
  options.count = 3;
  options.node.capacity = node::machine_capacity(110);
  node::SimulatedNodes nodes(*runtime_, *client_, Logger(), options);
  nodes.start();
  for (const char* index : {"0", "1", "2"})
    EXPECT_TRUE(eventually([&] { return takes_pods(options.prefix + index); })) << index;
  nodes.stop();
}

TEST_F(NodeReal, AProcessNodeTakesPodsAndRunsThem) {
  const std::string root = (kube_->folder() / "node").string();
  auto host = node::ProcessHost::open(*runtime_, *client_, Logger(), {.root = root});
  ASSERT_TRUE(host.ok()) << host.error().message;
  (*host)->start();
  node::ProcessNodeOptions options;
  options.node.name = "worker";
  options.node.capacity = node::machine_capacity(110);
  options.lease_period = 10s;
  node::ProcessNode node(*runtime_, *client_, Logger(), **host, options);
  node.start();
  EXPECT_TRUE(eventually([&] { return takes_pods("worker"); }));
  const auto made =
      client_->call({.verb = kube::Verb::Create,
                     .resource = kPods,
                     .ns = "default",
                     .body = R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"worker",
          "automountServiceAccountToken":false,"restartPolicy":"Never",
          "containers":[{"name":"c","image":"none","command":["true"]}]}})"},
                    rt::StopToken());
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(eventually([&] { return get(kPods, "default", "p").string_at({"status", "phase"}) == "Succeeded"; }))
      << get(kPods, "default", "p").to_text();
  node.stop();
  (*host)->stop();
}

}  // namespace
}  // namespace basalt::test
