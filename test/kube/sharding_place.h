#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "controllers/sharding/testing/sharding_fixture.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/stage.h"
#include "test/kube/activity.h"
#include "test/kube/kube_fixture.h"

// Where the scenarios of the sharding controller play in the kube lane: one real API server for all of them, the
// controller with the rights of deploy/controllers.yaml. The tests play the kubelets.

namespace basalt::test {

class ShardingPlace final : public sim::Place {
 public:
  explicit ShardingPlace(std::unique_ptr<RealKube> kube) : kube_(std::move(kube)), own_(connect(true)) {
    controllers::sharding::testing::client_of_the_controller() = own_.get();
  }
  ~ShardingPlace() override { controllers::sharding::testing::client_of_the_controller() = nullptr; }

  // Why it cannot be used; "" if it can.
  std::string prepare() {
    for (const char* what : {"deploy/namespace.yaml", "deploy/crds", "deploy/controllers.yaml"}) {
      const CommandResult done =
          kube_->kubectl({"apply", "--server-side", "--filename=" BASALT_SOURCE_DIR "/" + std::string(what)});
      if (done.exit != 0) return done.err;
    }
    const CommandResult ready =
        kube_->kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
    return ready.exit == 0 ? "" : ready.err;
  }

  [[nodiscard]] RealKube& kube() { return *kube_; }
  [[nodiscard]] rt::Runtime& runtime() override { return *runtime_; }
  // Several times the debounce. What needs longer is waited for.
  void let_pass(rt::Duration time) override { activity_.let_pass(time); }
  [[nodiscard]] std::unique_ptr<sim::Driver> open(const sim::Cluster::Options&) override {
    admin_ = connect(false);  // a test before may have taken the server away
    auto driver = std::make_unique<sim::Driver>(*runtime_, *admin_);
    wipe(*driver);
    return driver;
  }
  [[nodiscard]] std::unique_ptr<kube::Client> connect(bool as_controllers) {
    auto config =
        kube::load_client_config({.kubeconfig = kube_->kubeconfig().string()}, kube::ConfigEnvironment::of_process());
    BASALT_CHECK(config.ok());
    if (as_controllers) {
      config->impersonation.user = "system:serviceaccount:volcano-system:volcano-controllers";
      config->impersonation.groups = {"system:serviceaccounts", "system:serviceaccounts:volcano-system",
                                      "system:authenticated"};
    }
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    BASALT_CHECK(client.ok());
    return std::make_unique<ActiveClient>(std::move(*client), activity_);
  }

  // The one of this program; null if it cannot have one.
  static ShardingPlace*& current() {
    static ShardingPlace* place = nullptr;
    return place;
  }

 private:
  static void wipe(sim::Driver& driver) {
    namespace resources = sim::resources;
    for (const json::Value& pod : driver.list(resources::kPods, "default")) {
      if (pod.find_path({"metadata", "finalizers"}) != nullptr)
        (void)driver.try_patch(resources::kPods, "default", pod.string_at({"metadata", "name"}),
                               R"({"metadata":{"finalizers":null}})");
    }
    const auto wipe_all = [&](const kube::Resource& resource, const std::string& ns) {
      kube::Request request;
      request.verb = kube::Verb::DeleteCollection;
      request.resource = resource;
      request.ns = ns;
      request.grace_period_seconds = 0;
      BASALT_CHECK(driver.client().call(request, {}).ok());
      BASALT_CHECK(driver.wait_until([&] { return driver.list(resource, ns).empty(); }));
    };
    wipe_all(resources::kNodes, "");
    wipe_all(resources::kPods, "default");
    wipe_all(resources::kPodGroups, "default");
    wipe_all(resources::kNodeShards, "");
    for (const char* ns : {"default", "volcano-system"}) wipe_all(resources::kEvents, ns);
    wipe_all({"coordination.k8s.io", "v1", "leases"}, "volcano-system");
    for (const char* name : {"volcano-sharding-configmap", "volcano-sharding-status"})
      driver.remove(resources::kConfigMaps, "volcano-system", name);
  }

  const std::unique_ptr<RealKube> kube_;
  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  Activity activity_{*runtime_, std::chrono::milliseconds(700)};
  const std::unique_ptr<kube::Client> own_;
  std::unique_ptr<kube::Client> admin_;
};

}  // namespace basalt::test
