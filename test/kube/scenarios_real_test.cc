#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/scenario_rows.h"
#include "sim/stage.h"
#include "test/kube/activity.h"
#include "test/kube/kube_fixture.h"
#include "test/kube/left_out.h"
#include "test/kube/played_collector.h"
#include "test/kube/scenario_program.h"

// The scenarios of the controllers of jobs, queues, pod groups and of the collector, the very tests that lie beside the
// code (see CMakeLists.txt for the files), on a real API server: scheduler and kubelet are played by the tests, the
// garbage collector of Kubernetes by this file.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

std::unique_ptr<kube::Client> connect(rt::Runtime& runtime, const RealKube& kube, Activity& activity) {
  const auto config =
      kube::load_client_config({.kubeconfig = kube.kubeconfig().string()}, kube::ConfigEnvironment::of_process());
  BASALT_CHECK(config.ok());
  auto client = kube::make_rest_client(runtime, Logger(), *config);
  BASALT_CHECK(client.ok());
  return std::make_unique<ActiveClient>(std::move(*client), activity);
}

const std::vector<kube::Resource>& owned_kinds() {
  static const std::vector<kube::Resource> kinds = {
      resources::kPods,    resources::kPodGroups, resources::kServices,        resources::kConfigMaps,
      resources::kSecrets, resources::kClaims,    resources::kNetworkPolicies, resources::kJobs};
  return kinds;
}
const std::vector<kube::Resource>& owner_kinds() {
  static const std::vector<kube::Resource> kinds = {{"flow.volcano.sh", "v1alpha1", "jobflows"},
                                                    {"flow.volcano.sh", "v1alpha1", "jobtemplates"},
                                                    resources::kJobs,
                                                    resources::kPods,
                                                    resources::kReplicaSets,
                                                    resources::kStatefulSets,
                                                    resources::kDaemonSets,
                                                    resources::kBatchJobs};
  return kinds;
}

class RealPlace final : public sim::Place {
 public:
  explicit RealPlace(std::unique_ptr<RealKube> kube)
      : kube_(std::move(kube)),
        admin_(connect(*runtime_, *kube_, activity_)),
        collector_client_(connect(*runtime_, *kube_, activity_)) {
    collector_ = std::make_unique<PlayedCollector>(
        *runtime_, *collector_client_, PlayedCollector::Kinds{.owners = owner_kinds(), .owned = owned_kinds()});
  }
  ~RealPlace() override { collector_.reset(); }

  [[nodiscard]] rt::Runtime& runtime() override { return *runtime_; }
  void let_pass(rt::Duration time) override { activity_.let_pass(time); }
  [[nodiscard]] std::unique_ptr<sim::Driver> open(const sim::Cluster::Options& options) override {
    auto driver = std::make_unique<sim::Driver>(*runtime_, *admin_);
    for (const kube::Resource& resource : owner_kinds()) wipe(*driver, resource);
    for (const kube::Resource& resource : owned_kinds()) wipe(*driver, resource);
    for (const kube::Resource& resource : {resources::kCommands, resources::kQueues, resources::kEvents})
      wipe(*driver, resource);
    if (!options.with_default_queue) return driver;
    driver->apply(
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: root}, spec: {weight: 1}}");
    driver->apply(
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}, spec: {weight: 1, "
        "parent: root}}");
    for (const char* queue : {"root", "default"})
      driver->patch(resources::kQueues, "", queue, R"({"status":{"state":"Open"}})", "status");
    return driver;
  }

 private:
  static void wipe(sim::Driver& driver, const kube::Resource& resource) {
    for (const json::Value& object : driver.list(resource)) {
      if (is_of_the_server(object)) continue;
      const std::string_view ns = object.string_at({"metadata", "namespace"});
      const std::string_view name = object.string_at({"metadata", "name"});
      if (object.find_path({"metadata", "finalizers"}) != nullptr)
        (void)driver.try_patch(resource, ns, name, R"({"metadata":{"finalizers":null}})");
      driver.remove(resource, ns, name, 0);
    }
  }

  const std::unique_ptr<RealKube> kube_;
  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  Activity activity_{*runtime_, 1s};
  const std::unique_ptr<kube::Client> admin_;
  const std::unique_ptr<kube::Client> collector_client_;
  std::unique_ptr<PlayedCollector> collector_;
};

std::unique_ptr<sim::Place> open_cluster(std::string& error) {
  auto started = RealKube::start();
  error = started.error;
  if (!started.kube) return nullptr;
  const std::filesystem::path crds = std::filesystem::path(BASALT_SOURCE_DIR) / "deploy/crds";
  const CommandResult applied = started.kube->kubectl({"apply", "--server-side", "--filename=" + crds.string()});
  if (applied.exit != 0) error = applied.err;
  const CommandResult ready =
      started.kube->kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
  if (ready.exit != 0) error = ready.err;
  return std::make_unique<RealPlace>(std::move(started.kube));
}

}  // namespace
}  // namespace basalt::test

int main(int count, char** arguments) {
  return basalt::test::run_scenarios(
      count, arguments,
      {.open = basalt::test::open_cluster, .filter = basalt::sim::filter_without(basalt::test::kLeftOutInRealTime)});
}
