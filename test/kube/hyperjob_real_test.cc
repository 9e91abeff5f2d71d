#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "controllers/manager/controller_manager.h"
#include "federation/federation.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"

// Hyper jobs on two real API servers, a host and a member: the controller with the rights of deploy/karmada/rbac.yaml,
// the stand-in for Karmada in between. The member's jobs are played by the test.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;
const kube::Resource kHyperJobs{"training.volcano.sh", "v1alpha1", "hyperjobs"};
const kube::Resource kPolicies{"policy.karmada.io", "v1alpha1", "propagationpolicies"};
const kube::Resource kBindings{"work.karmada.io", "v1alpha2", "resourcebindings"};

std::string manifest(const std::string& name, int replicas, const std::string& clusters,
                     const std::string& image = "i") {
  return "apiVersion: training.volcano.sh/v1alpha1\nkind: HyperJob\nmetadata: {name: " + name +
         ", namespace: default}\nspec:\n  replicatedJobs:\n  - name: a\n    replicas: " + std::to_string(replicas) +
         "\n    clusterNames: " + clusters +
         "\n    templateSpec:\n      tasks:\n      - name: w\n        replicas: 1\n        template: {spec: "
         "{containers: "
         "[{name: c, image: " +
         image + "}]}}\n";
}

// One real API server with what it is to serve.
struct Side {
  std::unique_ptr<RealKube> kube;
  std::string error;

  void start(const std::vector<std::string>& manifests) {
    auto started = RealKube::start();
    error = started.error;
    kube = std::move(started.kube);
    if (!kube) return;
    for (const std::string& what : manifests) {
      const CommandResult done = kube->kubectl({"apply", "--server-side", "--filename=" BASALT_SOURCE_DIR "/" + what});
      if (done.exit != 0) error = done.err;
    }
    const CommandResult ready =
        kube->kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
    if (ready.exit != 0) error = ready.err;
  }
};

class HyperJobReal : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!RealKube::why_skip().empty()) return;
    host_side().start({"deploy/namespace.yaml", "deploy/crds", "deploy/karmada/stand-in", "deploy/karmada/rbac.yaml"});
    member_side().start({"deploy/namespace.yaml", "deploy/crds"});
  }
  static void TearDownTestSuite() {
    host_side().kube.reset();
    member_side().kube.reset();
  }
  static Side& host_side() {
    static Side side;
    return side;
  }
  static Side& member_side() {
    static Side side;
    return side;
  }

  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(host_side().kube && host_side().error.empty()) << host_side().error;
    ASSERT_TRUE(member_side().kube && member_side().error.empty()) << member_side().error;
    host_client_ = connect(host_side(), "");
    member_client_ = connect(member_side(), "");
    own_ = connect(host_side(), "volcano-hyperjob-controller");
    host_ = std::make_unique<sim::Driver>(*runtime_, *host_client_);
    member_ = std::make_unique<sim::Driver>(*runtime_, *member_client_);
    federation_ = std::make_unique<federation::Federation>(
        *runtime_, *host_client_, std::map<std::string, kube::Client*>{{"member1", member_client_.get()}}, Logger());
    federation_->start();
    controllers::ManagerOptions options;
    options.controllers = {"hyperjob-controller"};
    manager_ = std::make_unique<controllers::ControllerManager>(*runtime_, *own_, Logger(), metrics_, options);
    ASSERT_TRUE(manager_->start({}).ok());
  }
  void TearDown() override {
    if (manager_) manager_->stop();
    if (federation_) federation_->stop();
  }
  std::unique_ptr<kube::RestClient> connect(Side& side, const std::string& user) {
    auto config = kube::load_client_config({.kubeconfig = side.kube->kubeconfig().string()},
                                           kube::ConfigEnvironment::of_process());
    EXPECT_TRUE(config.ok());
    config->impersonation.user = user;
    if (!user.empty()) config->impersonation.groups = {"system:authenticated"};
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }
  void apply(const std::string& text) {
    const CommandResult done = host_side().kube->kubectl({"apply", "--filename=-"}, text);
    ASSERT_EQ(done.exit, 0) << done.err;
  }
  bool has_condition(const std::string& name, std::string_view type, std::string_view reason) {
    const auto found = host_->get(kHyperJobs, "default", name);
    const json::Value* conditions = found ? found->find_path({"status", "conditions"}) : nullptr;
    if (conditions == nullptr) return false;
    for (const json::Value& condition : conditions->as_array()) {
      if (condition.string_at({"type"}) == type && condition.string_at({"reason"}) == reason) return true;
    }
    return false;
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  kube::Metrics metrics_;
  std::unique_ptr<kube::RestClient> host_client_;
  std::unique_ptr<kube::RestClient> member_client_;
  std::unique_ptr<kube::RestClient> own_;
  std::unique_ptr<sim::Driver> host_;
  std::unique_ptr<sim::Driver> member_;
  std::unique_ptr<federation::Federation> federation_;
  std::unique_ptr<controllers::ControllerManager> manager_;
};

TEST_F(HyperJobReal, RunsToItsEndAndStaysThere) {
  apply(manifest("h", 2, "[member1]"));
  for (const char* child : {"h-a-0", "h-a-1"}) {
    ASSERT_TRUE(member_->wait_until([&] { return member_->get(resources::kJobs, "default", child).has_value(); }, 120s))
        << child;
    member_->patch(resources::kJobs, "default", child, R"({"status":{"state":{"phase":"Completed"},"succeeded":1}})",
                   "status");
  }
  ASSERT_TRUE(host_->wait_until([&] { return has_condition("h", "Completed", "AllChildVCJobsCompleted"); }, 120s))
      << host_->get(kHyperJobs, "default", "h")->to_text();
  const auto hyper_job = *host_->get(kHyperJobs, "default", "h");
  EXPECT_EQ(hyper_job.find_path({"status", "splitCount"})->as_int(), 2);
  EXPECT_EQ(hyper_job.find_path({"status", "replicatedJobsStatus"})->as_array()[0].find("succeeded")->as_int(), 2);
  EXPECT_EQ(
      host_->get(kBindings, "default", "h-a-0-job")->find_path({"spec", "clusters"})->as_array()[0].string_at({"name"}),
      "member1");
  // A job that is over is not made again.
  host_->remove(resources::kJobs, "default", "h-a-0");
  EXPECT_TRUE(member_->wait_until([&] { return !member_->get(resources::kJobs, "default", "h-a-0"); }, 120s));
  apply(manifest("h", 3, "[member1]"));
  EXPECT_TRUE(host_->wait_until(
      [&] {
        const auto found = *host_->get(kHyperJobs, "default", "h");
        return found.find_path({"status", "observedGeneration"})->as_int() ==
               found.find_path({"metadata", "generation"})->as_int();
      },
      120s));
  EXPECT_FALSE(host_->get(resources::kJobs, "default", "h-a-0"));
  EXPECT_FALSE(host_->get(resources::kJobs, "default", "h-a-2"));
}

TEST_F(HyperJobReal, ScalesRepairsAndSaysWhatItCannotDo) {
  apply(manifest("s", 1, "[nowhere]"));
  EXPECT_TRUE(host_->wait_until([&] { return has_condition("s", "Stalled", "UnknownCluster"); }, 120s));
  apply(manifest("s", 2, "[member1]"));
  EXPECT_TRUE(
      member_->wait_until([&] { return member_->get(resources::kJobs, "default", "s-a-1").has_value(); }, 120s));
  EXPECT_TRUE(host_->wait_until([&] { return !has_condition("s", "Stalled", "UnknownCluster"); }, 120s));
  host_->patch(kPolicies, "default", "s-a-0", R"({"spec":{"placement":{"clusterAffinity":{"clusterNames":["x"]}}}})");
  EXPECT_TRUE(host_->wait_until(
      [&] {
        return host_->get(kPolicies, "default", "s-a-0")
                   ->find_path({"spec", "placement", "clusterAffinity", "clusterNames"})
                   ->to_text() == R"(["member1"])";
      },
      120s));
  apply(manifest("s", 2, "[member1]", "other"));
  EXPECT_TRUE(host_->wait_until([&] { return has_condition("s", "Stalled", "TemplateImmutable"); }, 120s));
  apply(manifest("s", 1, "[member1]"));
  EXPECT_TRUE(member_->wait_until([&] { return !member_->get(resources::kJobs, "default", "s-a-1"); }, 120s));
}

}  // namespace
}  // namespace basalt::test
