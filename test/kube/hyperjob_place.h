#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controllers/hyperjob/test_support.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/stage.h"
#include "test/kube/activity.h"
#include "test/kube/kube_fixture.h"
#include "test/kube/played_collector.h"

// Where the scenarios of hyper jobs play in the kube lane: a real API server as the host, with Karmada's kinds, the
// controller with the rights of deploy/karmada/rbac.yaml; and a second one as a member, for those who ask.

namespace basalt::test {

namespace hyper = sim::resources;
inline const kube::Resource kClusterPolicies{"policy.karmada.io", "v1alpha1", "clusterpropagationpolicies"};

class HyperJobDriver final : public sim::Driver {
 public:
  using Driver::Driver;

 protected:
  [[nodiscard]] std::optional<Kind> find_kind(std::string_view group, std::string_view version,
                                              std::string_view kind) const override {
    if (kind == "HyperJob") return Kind{hyper::kHyperJobs, true};
    if (kind == "PropagationPolicy") return Kind{hyper::kPolicies, true};
    if (kind == "ClusterPropagationPolicy") return Kind{kClusterPolicies, false};
    if (kind == "ResourceBinding") return Kind{hyper::kBindings, true};
    if (kind == "Cluster") return Kind{hyper::kClusters, false};
    return Driver::find_kind(group, version, kind);
  }
};

// One real API server with what it is to serve.
class RealSide {
 public:
  RealSide(rt::Runtime& runtime, const std::vector<std::string>& manifests) : runtime_(runtime) {
    auto started = RealKube::start({.apiserver_args = {"--delete-collection-workers=16"}});
    error_ = started.error;
    kube_ = std::move(started.kube);
    if (!kube_) return;
    for (const std::string& what : manifests) {
      const CommandResult done = kube_->kubectl({"apply", "--server-side", "--filename=" BASALT_SOURCE_DIR "/" + what});
      if (done.exit != 0) error_ = done.err;
    }
    const CommandResult ready =
        kube_->kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
    if (ready.exit != 0) error_ = ready.err;
  }
  [[nodiscard]] const std::string& error() const { return error_; }  // "" if it can be used
  [[nodiscard]] RealKube& kube() { return *kube_; }
  // As the administrator or as this user.
  [[nodiscard]] std::unique_ptr<kube::RestClient> connect(const std::string& user = {}) {
    auto config =
        kube::load_client_config({.kubeconfig = kube_->kubeconfig().string()}, kube::ConfigEnvironment::of_process());
    BASALT_CHECK(config.ok());
    config->impersonation.user = user;
    if (!user.empty()) config->impersonation.groups = {"system:authenticated"};
    auto client = kube::make_rest_client(runtime_, Logger(), *config);
    BASALT_CHECK(client.ok());
    return std::move(*client);
  }

 private:
  rt::Runtime& runtime_;
  std::unique_ptr<RealKube> kube_;
  std::string error_;
};

class HyperJobPlace final : public sim::Place {
 public:
  HyperJobPlace()
      : host_(*runtime_,
              {"deploy/namespace.yaml", "deploy/crds", "deploy/karmada/stand-in", "deploy/karmada/rbac.yaml"}) {
    if (!host_.error().empty()) return;
    admin_ = std::make_unique<ActiveClient>(host_.connect(), activity_);
    own_ = std::make_unique<ActiveClient>(host_.connect("volcano-hyperjob-controller"), activity_);
    controllers::hyperjob::client_of_the_controller() = own_.get();
    collector_client_ = std::make_unique<ActiveClient>(host_.connect(), activity_);
    collector_ = std::make_unique<PlayedCollector>(
        *runtime_, *collector_client_,
        PlayedCollector::Kinds{.owners = {hyper::kHyperJobs, hyper::kJobs},
                               .owned = {hyper::kJobs, hyper::kPolicies, hyper::kBindings}});
  }
  ~HyperJobPlace() override {
    collector_.reset();
    controllers::hyperjob::client_of_the_controller() = nullptr;
  }

  [[nodiscard]] const std::string& error() const { return host_.error(); }
  [[nodiscard]] RealSide& host() { return host_; }
  [[nodiscard]] kube::Client& own_client() { return *own_; }
  // The second server, started when it is first asked for.
  [[nodiscard]] RealSide& member() {
    if (!member_)
      member_ = std::make_unique<RealSide>(*runtime_, std::vector<std::string>{"deploy/namespace.yaml", "deploy/crds"});
    return *member_;
  }

  [[nodiscard]] rt::Runtime& runtime() override { return *runtime_; }
  void let_pass(rt::Duration time) override { activity_.let_pass(time); }
  [[nodiscard]] std::unique_ptr<sim::Driver> open(const sim::Cluster::Options&) override {
    auto driver = std::make_unique<HyperJobDriver>(*runtime_, *admin_);
    for (const kube::Resource& resource : {hyper::kHyperJobs, hyper::kJobs, hyper::kPolicies, hyper::kBindings})
      wipe(*driver, resource, "default");
    for (const kube::Resource& resource : {hyper::kClusters, kClusterPolicies}) wipe(*driver, resource, "");
    wipe(*driver, hyper::kEvents, "default");
    return driver;
  }
  // Deletes all of these, whatever holds them.
  static void wipe(sim::Driver& driver, const kube::Resource& resource, const std::string& ns) {
    kube::Request request;
    request.verb = kube::Verb::DeleteCollection;
    request.resource = resource;
    request.ns = ns;
    request.propagation = kube::Propagation::Background;
    BASALT_CHECK(driver.client().call(request, {}).ok());
    BASALT_CHECK(driver.wait_until([&] {
      const auto left = driver.list(resource, ns);
      for (const json::Value& object : left) {
        if (object.find_path({"metadata", "finalizers"}) != nullptr)
          (void)driver.try_patch(resource, ns, object.string_at({"metadata", "name"}),
                                 R"({"metadata":{"finalizers":null}})");
      }
      return left.empty();
    }));
  }

  // The one of this program; null if it cannot have one.
  static HyperJobPlace*& current() {
    static HyperJobPlace* place = nullptr;
    return place;
  }

 private:
  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  Activity activity_{*runtime_, std::chrono::milliseconds(500)};
  RealSide host_;
  std::unique_ptr<RealSide> member_;
  std::unique_ptr<kube::Client> admin_;
  std::unique_ptr<kube::Client> own_;
  std::unique_ptr<kube::Client> collector_client_;
  std::unique_ptr<PlayedCollector> collector_;
};

}  // namespace basalt::test
